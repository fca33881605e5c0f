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
        "unrolls = games + self._missing * self._sizes.group",
        "unrolls = games + self._missing",
        f"{TEST}::test_a_group_that_comes_twice_is_learned_from_once_and_one_that_never_came_is_counted",
    ),
    Variant(
        "cluster: the learner's machine does not count",
        SOURCE,
        "len(self._machines | {machine_number(home)})",
        "len(self._machines)",
        f"{TEST}::test_an_actor_that_ends_is_replaced_and_its_losses_are_counted",
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
        '(CLUSTER_FIELDS if "machines" in record else ())',
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
        "if start is None or start == self._starts[actor] - 1:",
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
        "sequences: a lost life in a resumed game starts a game",
        "repro/replay/sequence_writer.py",
        "starts = step_type == StepType.FIRST and not (row == 0 and images is not None and images[:OLDER].any())",
        "starts = step_type == StepType.FIRST",
        "tests/replay/test_sequences.py::test_writer_that_begins_amid_a_game_has_whole_stacks",
    ),
]
