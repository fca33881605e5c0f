"""Wrong variants of what actors in other processes send, and of what a learner counts of it."""

from tests.mutations.variant import Variant

SOURCE = "repro/acting/remote_source.py"
UNROLLS = "repro/acting/remote_unrolls.py"
PROCESSES = "repro/acting/actor_processes.py"
REMOTE = "repro/acting/remote.py"
RAY = "repro/launch/ray_actors.py"
JOIN = "repro/launch/ray_cluster.py"
STALENESS = "repro/evidence/staleness.py"
TEST = "tests/acting/test_remote_source.py"
TEST_REMOTE = "tests/acting/test_remote.py"
TEST_RAY = "tests/launch/test_ray_actors.py"
LEARNER = "repro/training/learner.py"
GROUP = "repro/training/learner_group.py"
LEARNERS = "repro/training/synchronous_learners.py"
DEVICES = "repro/training/devices.py"
TRAIN = "repro/train.py"
TEST_GROUP = "tests/training/test_learner_group.py"
TEST_LEARNERS = "tests/training/test_synchronous_learners.py"
TEST_DEVICES = "tests/training/test_devices.py"
TEST_AGAIN = "tests/training/test_starting_again.py"

VARIANTS = [
    Variant(
        "cluster: gradients at the newest weights in place of those that acted",
        SOURCE,
        "self._weights.acting_at(header.version)",
        "self._weights.acting_at(self._weights.latest.version)",
        f"{TEST}::test_batches_bring_what_a_gradient_at_the_weights_that_acted_needs",
    ),
    Variant(
        "cluster: weights are given up that an actor may still play with",
        SOURCE,
        "self._weights.forget_before(min(",
        "self._weights.forget_before(max(",
        f"{TEST}::test_an_unroll_whose_weights_were_given_up_is_passed_over_and_counted",
    ),
    Variant(
        "cluster: a group that comes twice is learned from twice",
        SOURCE,
        "if header.number < expected:",
        "if header.number < expected - 1000:",
        f"{TEST}::test_a_group_that_comes_twice_is_learned_from_once_and_one_that_never_came_is_counted",
    ),
    Variant(
        "cluster: a new start of an actor goes on counting where the one before ended",
        SOURCE,
        "origin = header.actor, header.start",
        "origin = header.actor, 0",
        f"{TEST}::test_a_group_that_comes_twice_is_learned_from_once_and_one_that_never_came_is_counted",
    ),
    Variant(
        "cluster: groups count as unrolls",
        SOURCE,
        'self._sizes.group * sum(int(state["missing"])',
        'sum(int(state["missing"])',
        f"{TEST}::test_a_group_that_comes_twice_is_learned_from_once_and_one_that_never_came_is_counted",
    ),
    Variant(
        "cluster: the learner's machine does not count",
        SOURCE,
        "({machine_number(home)} if home is not None else set())",
        "set()",
        f"{TEST}::test_machines_of_other_learners_count",
    ),
    Variant(
        "cluster: unrolls have the version of the group before",
        UNROLLS,
        "group.version, group.actor = found.version, found.actor",
        "group.actor = found.actor",
        f"{TEST}::test_groups_arrive_as_they_are_in_order_while_actors_wait_for_a_full_queue",
    ),
    Variant(
        "cluster: the queue has no bound",
        UNROLLS,
        "reverb.Table.queue(EXPERIENCE, max_groups,",
        "reverb.Table.queue(EXPERIENCE, 100 + max_groups,",
        f"{TEST}::test_groups_arrive_as_they_are_in_order_while_actors_wait_for_a_full_queue",
    ),
    Variant(
        "cluster: a resumed run plays the same games again",
        PROCESSES,
        'self._starts = [int(starts) for starts in state["starts"]]',
        'self._starts = [0 for _ in state["starts"]]',
        f"{TEST}::test_an_actor_that_ends_is_replaced_and_its_losses_are_counted",
    ),
    Variant(
        "cluster: what was lost before an interruption is not counted",
        PROCESSES,
        'self.broken_off = int(state["broken_off"])',
        "pass",
        f"{TEST}::test_an_actor_that_ends_is_replaced_and_its_losses_are_counted",
    ),
    Variant(
        "cluster: actors never get new weights",
        REMOTE,
        "if self._container is not None:",
        "if False:",
        f"{TEST}::test_batches_come_with_the_versions_of_their_weights_and_games_are_counted",
    ),
    Variant(
        "cluster: an actor gives up a machine that it cannot reach at once",
        "repro/acting/remote_actor.py",
        "except ConnectionRefusedError:",
        "except OSError:",
        f"{TEST_REMOTE}::test_a_machine_that_cannot_be_reached_is_waited_for",
    ),
    Variant(
        "cluster: actors look for the learner on their own machine",
        RAY,
        "reached = f\"{self.home}:{address.rsplit(':', 1)[1]}\"",
        "reached = address",
        f"{TEST_RAY}::test_an_actor_is_a_task_that_reaches_the_learner_by_its_address",
    ),
    Variant(
        "cluster: Ray's handlers take the place of those that save a run",
        JOIN,
        "signal.signal(number, handler)",
        "pass",
        f"{TEST_RAY}::test_without_a_cluster_one_begins_and_handlers_of_signals_stay",
    ),
    Variant(
        "cluster: records of other schedules are current without a cluster",
        STALENESS,
        '(CLUSTER_FIELDS if {"machines", "learners"} & record.keys() else ())',
        "CLUSTER_FIELDS",
        "tests/evidence/test_staleness.py::test_number_and_kind_of_actors_are_free_on_a_cluster_alone",
    ),
    Variant(
        "cluster: the first thread to leave brings the standard error back",
        "repro/quiet.py",
        "if not _saved:",
        "if True:",
        "tests/test_quiet.py",
    ),
    Variant(
        "cluster: unrolls of another learner's actors are learned from",
        SOURCE,
        "if not self._actors.is_known(header.actor, header.start):",
        "if header.actor < 0:",
        f"{TEST}::test_a_group_that_comes_twice_is_learned_from_once_and_one_that_never_came_is_counted",
    ),
    Variant(
        "cluster: an actor that waits for a core hangs",
        PROCESSES,
        "(i in self._reported or not process.may_wait)",
        "True",
        f"{TEST_REMOTE}::test_an_actor_that_waits_for_a_core_does_not_hang",
    ),
    Variant(
        "cluster: what an actor brought keeps its successor alive",
        PROCESSES,
        "if start is None or start == self._starts[i] - 1:",
        "if True:",
        f"{TEST_REMOTE}::test_an_actor_that_waits_for_a_core_does_not_hang",
    ),
    Variant(
        "cluster: a port may be that of another learner",
        RAY,
        "        _check_free(port)\n",
        "",
        f"{TEST_RAY}::test_a_port_that_another_learner_has_is_refused",
    ),
    Variant(
        "learners: the loss is that of a share of the batch",
        LEARNER,
        "loss_info.loss * float(replicas) if replicas > 1 else loss_info.loss",
        "loss_info.loss",
        f"{TEST_LEARNERS}::test_scalars_are_of_the_whole_batch_on_all_learners",
        slow=True,
    ),
    Variant(
        "learners: each begins with its own weights",
        LEARNER,
        "tf.identity(variable) if is_chief else tf.zeros_like(variable)",
        "tf.identity(variable)",
        f"{TEST_LEARNERS}::test_weights_are_those_of_one_learner_with_the_whole_batch",
        slow=True,
    ),
    Variant(
        "learners: a share of the batch is shared again",
        LEARNER,
        "1 if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy) else replicas",
        "replicas",
        f"{TEST_LEARNERS}::test_weights_are_those_of_one_learner_with_the_whole_batch",
        slow=True,
    ),
    Variant(
        "learners: all have the same actors",
        "repro/training/on_policy_experiment.py",
        "watched, learner * num_actors)",
        "watched, 0)",
        f"{TEST_LEARNERS}::test_each_learner_has_its_own_actors_and_their_share_of_the_batch",
    ),
    Variant(
        "learners: an update begins when one is ready",
        GROUP,
        "while len(found) < len(self._numbers):",
        "while not found:",
        f"{TEST_GROUP}::test_a_learner_that_says_nothing_hangs",
    ),
    Variant(
        "learners: one whose actor hangs hangs itself",
        GROUP,
        "return self._supervision.silent_seconds + START_SECONDS",
        "return self._supervision.silent_seconds",
        f"{TEST_GROUP}::test_a_learner_that_says_nothing_hangs",
    ),
    Variant(
        "learners: signs of life count as a share of the batch",
        GROUP,
        "if not isinstance(message, _Beat):",
        "if True:",
        f"{TEST_GROUP}::test_a_learner_that_lives_but_has_no_share_of_the_batch_hangs",
    ),
    Variant(
        "learners: signs of life are not looked for",
        GROUP,
        "if now - seen > NO_BEAT_SECONDS:",
        "if False:",
        f"{TEST_GROUP}::test_a_wait_for_a_learner_without_a_sign_of_life_ends",
    ),
    Variant(
        "learners: an update with one that gives no sign of life is waited for",
        GROUP,
        'self._break_off("a learner gives no sign of life")',
        "pass",
        f"{TEST_GROUP}::test_a_learner_without_a_sign_of_life_is_gone_also_in_an_update",
    ),
    Variant(
        "learners: no signs of life",
        GROUP,
        "for work in (self._read, self._beat):",
        "for work in (self._read,):",
        f"{TEST_GROUP}::test_a_learner_gives_signs_of_life_from_its_joining_on",
    ),
    Variant(
        "learners: one whose actors wait for cores hangs",
        GROUP,
        "limit = None if self._may_wait and not self._updates else self._limit",
        "limit = self._limit",
        f"{TEST_GROUP}::test_a_learner_may_wait_for_cores_before_its_first_share_alone",
    ),
    Variant(
        "learners: one that loads for long hangs",
        GROUP,
        "max(START_SECONDS, self._supervision.silent_seconds)",
        "START_SECONDS",
        f"{TEST_GROUP}::test_a_learner_has_as_long_to_join_as_an_actor_for_its_first_report",
    ),
    Variant(
        "learners: what one said before its end comes too late",
        GROUP,
        "self._heard_out[number].wait(timeout=REASON_SECONDS)",
        "pass",
        f"{TEST_GROUP}::test_what_a_learner_said_before_it_ended_counts",
    ),
    Variant(
        "learners: SIGTERM ends one before the chief has saved",
        "repro/learner.py",
        "signal.signal(number, lambda *_: None)",
        "pass",
        "tests/launch/test_signals.py::test_a_learner_is_ended_by_the_chief_alone",
        slow=True,
    ),
    Variant(
        "learners: actors of one that ignores signals ignore them, too",
        "repro/learner.py",
        "signal.signal(number, lambda *_: None)",
        "signal.signal(number, signal.SIG_IGN)",
        "tests/launch/test_signals.py::test_a_learner_is_ended_by_the_chief_alone",
        slow=True,
    ),
    Variant(
        "learners: a signal is lost while they wait for each other",
        DEVICES,
        "            signal.signal(number, handler)\n",
        "            pass\n",
        f"{TEST_DEVICES}::test_a_learner_that_waits_for_another_one_hears_of_signals",
        slow=True,
    ),
    Variant(
        "learners: they wait for each other with Python's lock held",
        DEVICES,
        "pywrap_tfe.TFE_EnableCollectiveOps = _meet",
        "pass",
        f"{TEST_DEVICES}::test_a_learner_that_waits_for_another_one_hears_of_signals",
        slow=True,
    ),
    Variant(
        "learners: a stop is not heard while all start again",
        TRAIN,
        "    if not stop.is_set():\n        os.execv(",
        "    if True:\n        os.execv(",
        TEST_AGAIN,
        slow=True,
    ),
    Variant(
        "learners: a stop while all start again says that all is saved",
        TRAIN,
        "    if lost:\n        sys.exit(1)\n",
        "",
        TEST_AGAIN,
        slow=True,
    ),
    Variant(
        "learners: the end is not heard of",
        GROUP,
        "end.shutdown(socket.SHUT_RDWR)",
        "pass",
        f"{TEST_GROUP}::test_learners_hear_of_the_end",
    ),
    Variant(
        "learners: a long wait for the chief's own actors is an update that hangs",
        GROUP,
        "        self._updating = False\n\n    def lost",
        "        pass\n\n    def lost",
        f"{TEST_GROUP}::test_an_update_that_does_not_end_is_broken_off",
    ),
    Variant(
        "learners: a wait for actors is an update that hangs",
        GROUP,
        "if not self._updating or updates != self._updates:",
        "if updates != self._updates:",
        f"{TEST_GROUP}::test_an_update_that_does_not_end_is_broken_off",
    ),
    Variant(
        "learners: the policy lag is that of the chief's share",
        LEARNERS,
        "batch.versions += ready.versions",
        "pass",
        f"{TEST_GROUP}::test_a_batch_and_the_totals_are_those_of_all_learners",
    ),
    Variant(
        "learners: after a resume all actors but the chief's play the same games again",
        LEARNERS,
        'self._group.states = dict(state["learners"])',
        "pass",
        f"{TEST_GROUP}::test_a_batch_and_the_totals_are_those_of_all_learners",
    ),
    Variant(
        "learners: a run from before there were several cannot go on",
        "repro/config.py",
        "or x != LATER[name][field]}",
        "or True}",
        "tests/training/test_run_directory.py::test_a_run_from_before_a_field_goes_on_with_the_value_that_it_had",
    ),
    Variant(
        "sequences: a lost life in a resumed game starts a game",
        "repro/replay/sequence_writer.py",
        "if step_type == StepType.FIRST and older is None else 0",
        "if step_type == StepType.FIRST else 0",
        "tests/replay/test_sequences.py::test_writer_that_begins_amid_a_game_has_whole_stacks",
    ),
]
