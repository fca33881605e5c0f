"""Wrong variants of what a training run counts, publishes and restores."""

from tests.mutations.variant import Variant

WEIGHTS = "repro/acting/weights.py"
ACTOR = "repro/acting/actor.py"
ROLLOUT = "repro/acting/rollout.py"
TRAINING = "repro/training/unroll_trainer.py"
TRAINER = "repro/training/trainer.py"
EVALUATION = "repro/training/evaluation.py"
TEST_EVALUATION = "tests/training/test_evaluation.py"
MIXED = "repro/training/mixed_replay_trainer.py"
EXPERIMENT = "repro/training/unroll_experiment.py"
UNROLL_ACTORS = "repro/training/unroll_actors.py"
ACTOR_EXPERIMENT = "repro/training/actor_experiment.py"
TEST_WEIGHTS = "tests/acting/test_weights.py"
TEST_MIXED = "tests/training/test_mixed_replay_trainer.py"
TEST_REPLAY = "tests/papers/impala/test_replay.py"
TEST_ACTOR = "tests/acting/test_actor.py"
TEST_ROLLOUT = "tests/acting/test_rollout.py"
TEST_TRAINING = "tests/training/test_trainer.py"
SCHEDULER = "repro/launch/scheduler.py"
CAMPAIGN = "repro/launch/campaign.py"
PLAN = "repro/launch/plan.py"
TEST_SCHEDULER = "tests/launch/test_scheduler.py"
TEST_CAMPAIGN = "tests/launch/test_campaign.py"
TEST_PLAN = "tests/launch/test_plan.py"

RUN_DIRECTORY = "repro/training/run_directory.py"
TEST_RUN_DIRECTORY = "tests/training/test_run_directory.py"
TASK_RETURNS = "repro/training/task_returns.py"
TEST_TASK_RETURNS = "tests/training/test_task_returns.py"
TRAINING_JOB = "repro/launch/training_job.py"
TEST_TRAINING_JOB = "tests/launch/test_training_job.py"
TEST_MULTITASK = "tests/papers/impala/test_multitask.py"

SIZES = "repro/training/sizes.py"
TEST_SIZES = "tests/training/test_sizes.py"

INFERENCE = "repro/acting/inference.py"
TEST_SCHEDULES = "tests/acting/test_schedules.py"
LOCKSTEP = "repro/acting/lockstep_source.py"
TEST_LOCKSTEP = "tests/acting/test_lockstep_source.py"
TEST_INFERENCE = "tests/acting/test_inference.py"

LEARNER = "repro/training/learner.py"
TEST_PLACEMENT = "tests/training/test_placement.py"

TAKE = "\n            self._assign(latest.values)\n            self._taken"

VARIANTS = [
    Variant(
        "a budget that is no multiple of an update ends short",
        TRAINER,
        "self.total_updates = -(-run.budget // frames_per_update)",
        "self.total_updates = run.budget // frames_per_update",
        "tests/training/test_sequence_trainer.py::test_the_last_update_may_exceed_the_budget",
    ),
    Variant(
        "say: brackets are markup",
        "repro/cli.py",
        "markup=False, soft_wrap=True",
        "soft_wrap=True",
        "tests/test_cli.py::test_texts_are_shown_as_they_are",
    ),
    Variant(
        "weights: the delay is one too long",
        WEIGHTS,
        "deque(maxlen=delay + 1)",
        "deque(maxlen=delay + 2)",
        f"{TEST_WEIGHTS}::test_the_latest_snapshot_is_so_many_publications_old",
    ),
    Variant(
        "weights: the delay is not read",
        WEIGHTS,
        "self.latest = self._snapshots[0]",
        "self.latest = self._snapshots[-1]",
        f"{TEST_WEIGHTS}::test_the_latest_snapshot_is_so_many_publications_old",
    ),
    Variant(
        "weights: a second publication of the same ones counts",
        WEIGHTS,
        "self._snapshots.pop()",
        "pass",
        f"{TEST_WEIGHTS}::test_the_latest_snapshot_is_so_many_publications_old",
    ),
    Variant(
        "weights: the older ones are lost at a stop",
        TRAINING,
        'self._weights.set_state(state.get("weights", {}))',
        "pass",
        f"{TEST_WEIGHTS}::test_old_weights_are_to_the_bit_what_old_batches_are_also_after_a_stop",
        slow=True,
    ),
    Variant(
        "replay: lag of replayed unrolls from the new ones",
        MIXED,
        "replay_lags = self._gradient_steps - mixed.replayed_versions",
        "replay_lags = self._gradient_steps - np.array(batch.versions)",
        f"{TEST_MIXED}::test_new_and_replayed_unrolls_have_policy_lags_of_their_own",
        slow=True,
    ),
    Variant(
        "replay: lost at a stop",
        MIXED,
        'self._batches.set_state(state["batches"])',
        "pass",
        f"{TEST_MIXED}::test_2n_updates_equal_n_stop_resume_n_bit_for_bit",
        slow=True,
    ),
    Variant(
        "replay: other samples after a stop",
        MIXED,
        'unpack_rng(self._rng, state["rng"])',
        "pass",
        f"{TEST_MIXED}::test_2n_updates_equal_n_stop_resume_n_bit_for_bit",
        slow=True,
    ),
    Variant(
        "replay: replayed frames use up the budget",
        UNROLL_ACTORS,
        "return self.num_new * (",
        "return learner.batch_size * (",
        f"{TEST_REPLAY}::test_the_agents_of_table_2_with_replay_differ_from_those_without_in_the_replay_alone",
    ),
    Variant(
        "replay: batches of new unrolls keep their size",
        UNROLL_ACTORS,
        "actors, agent.collect_data_spec, to_device, self.num_new)",
        "actors, agent.collect_data_spec, to_device, self.config.learner.batch_size)",
        f"{TEST_REPLAY}::test_half_of_a_batch_is_replayed_with_the_state_that_its_unrolls_began_with",
        slow=True,
    ),
    Variant(
        "sweep: sampled, but the configuration's values learn",
        ACTOR_EXPERIMENT,
        "self.with_hparams(self.sample_hparams(seed)).make_agent(",
        "self.make_agent(",
        f"{TEST_REPLAY}::test_sampled_settings_are_those_that_the_agent_learns_with_and_the_record_s",
    ),
    Variant(
        "async: a resumed run begins with the seeds of the first process",
        "repro/acting/async_source.py",
        "        self._actors.begin_again()\n",
        "",
        "tests/acting/test_schedules.py::test_each_resume_without_games_begins_other_ones_and_samples_otherwise",
    ),
    Variant(
        "lockstep: a resumed run without games begins with the seeds of the first process",
        "repro/acting/lockstep_source.py",
        'if "counters" in state:',
        "if False:",
        "tests/acting/test_schedules.py::test_each_resume_without_games_begins_other_ones_and_samples_otherwise",
    ),
    Variant(
        "rollout: games that could not go on count",
        ROLLOUT,
        'finished[~info["lost"][finished]] if "lost" in info else finished',
        "finished",
        f"{TEST_ROLLOUT}::test_games_that_could_not_go_on_end_and_do_not_count",
    ),
    Variant(
        "async: new games begin where the first began",
        "repro/acting/async_source.py",
        'self._actors.set_counters({index: counters for index, counters in state.items() if index != "restarts"})',
        "pass",
        "tests/environments/test_dmlab.py::test_an_interrupted_run_repeats_no_episode",
        slow=True,
    ),
    Variant(
        "scheduler: a wide job takes the cores of earlier ones",
        SCHEDULER,
        "if self._place[other] > self._place[job])",
        "if other is not job)",
        f"{TEST_SCHEDULER}::test_a_wide_job_lets_later_ones_pass_and_takes_their_cores_when_they_are_enough",
        slow=True,
    ),
    Variant(
        "scheduler: what was stopped is lost",
        SCHEDULER,
        "bisect.insort(self._waiting, job, key=self._place.__getitem__)",
        "pass",
        f"{TEST_SCHEDULER}::test_a_pause_saves_all_and_begins_nothing_until_its_end",
        slow=True,
    ),
    Variant(
        "scheduler: what does not end when asked is waited for",
        SCHEDULER,
        "job.kill()",
        "job.stop()",
        f"{TEST_SCHEDULER}::test_what_does_not_end_when_asked_is_killed",
    ),
    Variant(
        "campaign: runs that would be stale begin",
        CAMPAIGN,
        "if name in self._refused",
        "if name in {}",
        f"{TEST_CAMPAIGN}::test_a_run_whose_agent_learns_otherwise_than_its_golden_values_is_refused",
    ),
    Variant(
        "campaign: blocks by what they answer, whatever they cost",
        PLAN,
        "gains[block] / hours[block]",
        "gains[block]",
        f"{TEST_PLAN}::test_within_a_stage_the_block_that_answers_most_per_core_hour_comes_first",
    ),
    Variant(
        "campaign: what a block adds is not counted again after others of its paper",
        PLAN,
        "if block.paper != best.paper",
        "if block != best",
        f"{TEST_PLAN}::test_a_block_is_judged_by_what_the_ones_before_left_to_answer",
    ),
    Variant(
        "run directory: a run that saved nothing is in the way",
        RUN_DIRECTORY,
        'if not has_saved(path) or not (path / "config.json").exists():',
        'if not (path / "config.json").exists():',
        f"{TEST_RUN_DIRECTORY}::test_a_run_that_saved_nothing_is_not_in_the_way",
    ),
    Variant(
        "run directory: a run with checkpoints is replaced",
        RUN_DIRECTORY,
        "return any(saved) or is_complete(path) or",
        "return is_complete(path) or",
        f"{TEST_RUN_DIRECTORY}::test_the_same_settings_resume_and_others_are_refused",
    ),
    Variant(
        "runtime: a snapshot follows the learner",
        WEIGHTS,
        "flat_call(read.get_concrete_function())",
        "lambda: (*variables, *acting)",
        f"{TEST_ACTOR}::test_a_snapshot_does_not_follow_the_learner",
    ),
    Variant(
        "placement: an update where TensorFlow computes by itself",
        LEARNER,
        "strategy.run(train_replica, args=batch)",
        "train_replica(*batch)",
        f"{TEST_PLACEMENT}::test_weights_slots_and_updates_are_on_the_device_of_the_strategy",
        slow=True,
    ),
    Variant(
        "placement: weights where TensorFlow has them by itself",
        ACTOR_EXPERIMENT,
        "        with strategy.scope():",
        "        with tf.device(None):",
        f"{TEST_PLACEMENT}::test_weights_slots_and_updates_are_on_the_device_of_the_strategy",
        slow=True,
    ),
    Variant(
        "placement: actors compute on the host",
        ROLLOUT,
        """        step = policy.action(time_step, policy_state, seed)
        with tf.device("/cpu:0"):  # a single copy from a GPU
""",
        """        with tf.device("/cpu:0"):
            step = policy.action(time_step, policy_state, seed)
""",
        f"{TEST_PLACEMENT}::test_actors_compute_where_tensorflow_does_by_itself",
        slow=True,
    ),
    Variant(
        "placement: a policy for all actors on the host",
        EXPERIMENT,
        "        shared = DynamicBatching(self.make_local_policy(environments[0]), weights, rows, seed)",
        """        with devices.tf.device("/cpu:0"):
            shared = DynamicBatching(self.make_local_policy(environments[0]), weights, rows, seed)""",
        f"{TEST_PLACEMENT}::test_actors_compute_where_tensorflow_does_by_itself",
        slow=True,
    ),
    Variant(
        "runtime: actors keep the first weights",
        INFERENCE,
        f"if latest is not self._taken and latest.version >= 0:{TAKE}, self",
        f"if self._taken is None:{TAKE}, self",
        f"{TEST_TRAINING}::test_async_runs_to_its_budget_with_groups_of_any_fit",
        slow=True,
    ),
    Variant(
        "A3C: a worker goes on before its unroll was learned from",
        "repro/acting/async_source.py",
        "shared = 0 if own_memory else self",
        "shared = self",
        f"{TEST_SCHEDULES}::test_a_worker_of_a3c_goes_on_from_weights_that_know_its_last_unroll",
    ),
    Variant(
        "A3C: weights are published when the worker has gone on",
        "repro/training/unroll_trainer.py",
        "        self._publish()  # first: an actor that waits for the batch's memory takes weights after that\n"
        "        self._source.release(batch)\n",
        "        self._source.release(batch)\n        __import__('time').sleep(0.01)\n        self._publish()\n",
        f"{TEST_SCHEDULES}::test_a_worker_of_a3c_goes_on_from_weights_that_know_its_last_unroll",
    ),
    Variant(
        "A3C: the gradient at the present weights",
        "repro/optimizers/gradients.py",
        "    _assign(variables, values)\n    result",
        "    result",
        f"{TEST_SCHEDULES}::test_a3c_applies_the_gradient_at_a_worker_s_weights_to_the_present_ones",
    ),
    Variant(
        "A3C: the worker's weights stay",
        "repro/optimizers/gradients.py",
        "    _assign(variables, present)\n",
        "",
        f"{TEST_SCHEDULES}::test_a3c_applies_the_gradient_at_a_worker_s_weights_to_the_present_ones",
    ),
    Variant(
        "A2C: unrolls that are left are lost in a checkpoint",
        "repro/acting/lockstep_source.py",
        'for i in range(len(state["left"])):',
        "for i in range(0):",
        f"{TEST_TRAINING}::test_lockstep_2n_updates_equal_n_stop_resume_n_bit_for_bit",
        slow=True,
    ),
    Variant(
        "A2C: actors take weights while a batch of the round is left",
        "repro/acting/lockstep_source.py",
        "return len(self._learning) < self._sizes.per_batch\n",
        "return len(self._learning) < 2 * self._sizes.per_batch\n",
        f"{TEST_SCHEDULES}::test_published_sizes_of_batched_a2c_split_into_batches",
    ),
    Variant(
        "lockstep: games count as soon as they end",
        LOCKSTEP,
        "place.actor.on_episode = ended.append",
        "pass",
        f"{TEST_LOCKSTEP}::test_the_log_is_the_same_however_often_the_run_is_saved",
        slow=True,
    ),
    Variant(
        "lockstep: games count when their round is played",
        LOCKSTEP,
        "self._rounds.append(_Round(played, self._take_ended()))",
        "self._rounds.append(_Round(played, []))\n            [self._on_episode(x) for x in self._take_ended()]",
        f"{TEST_LOCKSTEP}::test_the_log_is_the_same_however_often_the_run_is_saved",
        slow=True,
    ),
    Variant(
        "lockstep: games that wait are lost in a checkpoint",
        LOCKSTEP,
        'unpack_episodes(state["episodes"][str(i)])',
        "[]",
        f"{TEST_LOCKSTEP}::test_games_of_a_round_that_waits_are_saved_with_it",
        slow=True,
    ),
    Variant(
        "lockstep: games of an unroll that was lost at a stop are lost",
        LOCKSTEP,
        'state.get("ended", {}).items()',
        "{}.items()",
        f"{TEST_LOCKSTEP}::test_games_of_an_unroll_that_was_lost_at_a_stop_count_after_it",
        slow=True,
    ),
    Variant(
        "lockstep: games of an actor that replaced another count as soon as they end",
        ACTOR,
        "        self.on_episode = other.on_episode\n",
        "",
        f"{TEST_LOCKSTEP}::test_a_replaced_actor_leaves_the_games_that_it_had_finished",
        slow=True,
    ),
    Variant(
        "dynamic batching: answers in another order",
        INFERENCE,
        "        for request in requests:\n            part =",
        "        for request in reversed(requests):\n            part =",
        f"{TEST_INFERENCE}::test_those_who_wait_are_answered_together_and_each_gets_its_own",
    ),
    Variant(
        "dynamic batching: one call for each",
        INFERENCE,
        "requests, self._waiting = self._waiting, []",
        "requests, self._waiting = self._waiting[:1], self._waiting[1:]",
        f"{TEST_INFERENCE}::test_those_who_wait_are_answered_together_and_each_gets_its_own",
    ),
    Variant(
        "dynamic batching: the first weights answer all calls",
        INFERENCE,
        f"if latest is not self._taken:{TAKE} = latest",
        f"if self._taken is None:{TAKE} = latest",
        f"{TEST_INFERENCE}::test_new_weights_answer_the_next_call",
    ),
    Variant(
        "weights: of another process but with the same version they are not taken",
        INFERENCE,
        f"if latest is not self._taken and latest.version >= 0:{TAKE}, self",
        f"if latest.version != self.version:{TAKE}, self",
        f"{TEST_INFERENCE}::test_weights_of_another_process_with_the_same_version_are_taken",
    ),
    Variant(
        "rollout: the step that begins a game is one of it",
        ROLLOUT,
        "np.where(step_type == LAST, FIRST, following)",
        "following",
        f"{TEST_ACTOR}::test_next_step_type",
    ),
    Variant(
        "rollout: the step after an end is like others",
        ROLLOUT,
        "if finished.size or self._has_last or",
        "if finished.size or",
        f"{TEST_ROLLOUT}::test_steps_are_those_of_the_environment",
    ),
    Variant(
        "rollout: lost lives are missed",
        ROLLOUT,
        " or terminated.nonzero()[0].size:",
        ":",
        f"{TEST_ROLLOUT}::test_steps_are_those_of_the_environment",
    ),
    Variant(
        "rollout: a saved end is lost",
        ROLLOUT,
        "self._has_last = LAST in self.step_type",
        "self._has_last = False",
        f"{TEST_ROLLOUT}::test_it_goes_on_where_it_was_saved",
    ),
    Variant(
        "traced functions: arguments of another shape are taken",
        "repro/flat_call.py",
        "[tuple(leaf.shape) for leaf in leaves] != shapes or ",
        "",
        "tests/test_flat_call.py::test_other_leaves_than_those_of_the_trace_are_refused",
    ),
    Variant(
        "rollout: one seed for all calls of a policy",
        ROLLOUT,
        "self._seed[1] += 1",
        "self._seed[1] += 0",
        f"{TEST_ROLLOUT}::test_a_policy_has_a_new_seed_at_each_call_and_goes_on_where_it_was_saved",
    ),
    Variant(
        "actor: an observation is written in the row of its reward",
        ACTOR,
        "played.write(row + 1, observation",
        "played.write(row, observation",
        f"{TEST_ACTOR}::test_rows_hold_what_the_game_did",
    ),
    Variant(
        "runtime: lag of the newest unroll alone",
        TRAINING,
        "np.mean(batch.versions)",
        "np.max(batch.versions)",
        f"{TEST_TRAINING}::test_async_runs_to_its_budget_with_groups_of_any_fit",
        slow=True,
    ),
    Variant(
        "runtime: checkpoints without the optimiser",
        TRAINING,
        "tf.train.Checkpoint(agent=learner.agent)",
        "tf.train.Checkpoint(network=learner.agent._network, counter=learner.agent.train_step_counter)",
        f"{TEST_TRAINING}::test_lockstep_2n_updates_equal_n_stop_resume_n_bit_for_bit",
        slow=True,
    ),
    Variant(
        "several tasks: scores are not capped",
        TASK_RETURNS,
        "statistics.mean_capped)",
        "statistics.mean)",
        f"{TEST_TASK_RETURNS}::test_the_score_is_capped_above_and_not_below",
    ),
    Variant(
        "several tasks: a task without a game counts for nothing",
        TASK_RETURNS,
        "if not counted or any(math.isnan(value) for (value,) in counted.values()):",
        "counted = {task: value for task, value in counted.items() if not math.isnan(value[0])}\n    if not counted:",
        f"{TEST_TASK_RETURNS}::test_tasks_without_references_do_not_count_and_one_without_a_game_leaves_no_score",
    ),
    Variant(
        "several tasks: all games are of the first task",
        ROLLOUT,
        "int(task[i])",
        "0",
        "tests/environments/test_mixed.py::test_actions_and_returns_are_those_of_the_right_task",
    ),
    Variant(
        "several tasks: the log is lost at a restart",
        "repro/training/trainer.py",
        'self.task_returns.set_state(state["tasks"])',
        "pass",
        f"{TEST_TASK_RETURNS}::test_a_log_goes_on_with_the_games_of_each_task",
    ),
    Variant(
        "several tasks: the budget of one task",
        "repro/config.py",
        "amount * max(1, len(tasks(config)))",
        "amount",
        f"{TEST_MULTITASK}::test_budgets_are_of_each_task",
    ),
    Variant(
        "several tasks: a record counts the frames of all",
        TRAINING_JOB,
        "amount, column = complete[counted] // number,",
        "amount, column = complete[counted],",
        f"{TEST_TRAINING_JOB}::test_tasks_learned_together_have_a_record_each_with_their_own_returns_and_frames",
    ),
    Variant(
        "several tasks: the curve of all games",
        TRAINING_JOB,
        'return_of(task) if self._together else "mean_return"',
        '"mean_return"',
        f"{TEST_TRAINING_JOB}::test_tasks_learned_together_have_a_record_each_with_their_own_returns_and_frames",
    ),
    Variant(
        "several tasks: evaluations of some tasks are enough",
        TRAINING_JOB,
        "if whole and enough else None",
        "if enough else None",
        f"{TEST_TRAINING_JOB}::test_an_evaluation_of_some_tasks_few_episodes_older_weights_or_an_unfinished_run_is_made_again",
    ),
    Variant(
        "memory: TensorFlow keeps each of PPO's learning rates",
        "repro/papers/refer/ppo.py",
        "learning_rate.assign(np.float32(value_learning_rate))",
        "learning_rate.assign(value_learning_rate)",
        "tests/test_memory.py::test_numbers_that_change_with_each_update_are_not_kept",
        slow=True,
    ),
    Variant(
        "sizes: the policy lag has no bound",
        SIZES,
        "*(n // num_actors for n in bounds)",
        "ENVS",
        f"{TEST_SIZES}::test_batches_are_whole_and_the_lag_and_emulator_threads_are_bounded",
    ),
    Variant(
        "sizes: a batch is left with a rest",
        SIZES,
        "if n % share == 0 or share % n == 0",
        "if n",
        f"{TEST_SIZES}::test_batches_are_whole_and_the_lag_and_emulator_threads_are_bounded",
    ),
    Variant(
        "sizes: every actor has emulator threads for all cores",
        SIZES,
        "most_threads // num_actors",
        "most_threads",
        f"{TEST_SIZES}::test_batches_are_whole_and_the_lag_and_emulator_threads_are_bounded",
    ),
    Variant(
        "sizes: with a GPU cores idle while an actor waits for it",
        SIZES,
        "EMULATOR_THREADS_WITH_GPU if on_gpu else 1",
        "1",
        f"{TEST_SIZES}::test_emulators_use_the_cores_of_actors_that_wait_for_a_gpu",
    ),
    Variant(
        "sizes: processes leave no core to the learner",
        SIZES,
        "machine.cores - 1",
        "machine.cores",
        f"{TEST_SIZES}::test_what_else_counts",
    ),
    Variant(
        "sizes: a worker of A3C has less than a batch",
        SIZES,
        "batch_size if schedule == ",
        "1 if schedule == ",
        f"{TEST_SIZES}::test_batches_are_whole_and_the_lag_and_emulator_threads_are_bounded",
    ),
    Variant(
        "sizes: tasks take turns that leave some out",
        SIZES,
        "math.lcm(turns, num_learners)",
        "num_learners",
        f"{TEST_SIZES}::test_tasks_have_equal_shares",
    ),
    Variant(
        "sizes: learners share actors that leave some tasks out",
        SIZES,
        "math.lcm(turns, num_learners)",
        "max(turns, num_learners)",
        f"{TEST_SIZES}::test_tasks_have_equal_shares",
    ),
    Variant(
        "sizes: actors with all levels are as many as cores",
        SIZES,
        "*(n // (envs_per_actor or 1) for n in bounds)",
        "*bounds",
        f"{TEST_SIZES}::test_levels_are_bounded_by_the_cores",
    ),
    Variant(
        "sizes: actors in processes have as many environments as a GPU",
        SIZES,
        "machine.has_gpu and schedule != PROCESSES",
        "machine.has_gpu",
        f"{TEST_SIZES}::test_what_else_counts",
    ),
    Variant(
        "sizes: environments without an emulator have its threads",
        SIZES,
        'if env.get("name") == "atari" else',
        "if env else",
        f"{TEST_SIZES}::test_zeros_of_a_configuration_are_replaced",
    ),
    Variant(
        "sizes: an evaluation has one actor's share of the threads",
        "repro/environments/make.py",
        "config.runtime.env_threads = env_threads",
        "pass",
        "tests/environments/test_atari.py::test_an_evaluation_has_all_cores",
    ),
    Variant(
        "bfloat16: slower processors are not refused",
        "repro/training/devices.py",
        "if not is_fast_in_bfloat16():",
        "if False:",
        "tests/training/test_devices.py::test_bfloat16_is_refused_where_the_processor_is_slow_at_it",
    ),
    Variant(
        "sizes: a resume chooses again",
        SIZES,
        "if not _zeros(config) or not has_saved(run_dir):",
        "if True:",
        f"{TEST_SIZES}::test_a_resume_goes_on_with_the_sizes_of_the_run",
    ),
    Variant(
        "sizes: an agent's own field stays 0",
        SIZES,
        "(own if name in own else config.runtime)",
        "config.runtime",
        f"{TEST_SIZES}::test_an_agents_own_field_is_replaced_where_it_stands",
    ),
    Variant(
        "sizes: replayed unrolls are played",
        SIZES,
        "batch_size - replayed",
        "batch_size",
        f"{TEST_SIZES}::test_replayed_unrolls_are_not_played",
    ),
    Variant(
        "sizes: R2D2 leaves its number of environments open",
        SIZES,
        "if missing and",
        "if False and",
        f"{TEST_SIZES}::test_what_cannot_be_chosen_is_one_sentence",
    ),
    Variant(
        "checkpoints: only the first and the last",
        TRAINER,
        "now - saved > self._run.checkpoint_seconds",
        "saved - now > self._run.checkpoint_seconds",
        f"{TEST_TRAINING}::test_checkpoints_are_made_as_soon_as_one_can_be_and_is_due",
    ),
    Variant(
        "evaluation: as many episodes as the seed says",
        EVALUATION,
        "play(policy, environment, episodes, seed, show)",
        "play(policy, environment, seed, episodes, show)",
        f"{TEST_EVALUATION}::test_an_evaluation_plays_its_episodes_and_keeps_nine_digits_of_returns",
    ),
    Variant(
        "inference: the seed is the number of calls",
        INFERENCE,
        "return int(self._seed[1])",
        "return int(self._seed[0])",
        f"{TEST_INFERENCE}::test_calls_after_a_resume_have_other_numbers",
    ),
    Variant(
        "on-policy trainer: actors that outlive it",
        TRAINING,
        "        self._source.close()",
        "        pass",
        f"{TEST_TRAINING}::test_checkpoints_are_made_as_soon_as_one_can_be_and_is_due",
    ),
]
