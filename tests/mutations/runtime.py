"""Wrong variants of what a training run counts, publishes and restores."""

from tests.mutations.variant import Variant

WEIGHTS = "repro/acting/weights.py"
ACTOR = "repro/acting/actor.py"
ROLLOUT = "repro/acting/rollout.py"
TRAINING = "repro/training/on_policy_trainer.py"
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

VARIANTS = [
    Variant(
        "scheduler: a wide job takes the cores of earlier ones",
        SCHEDULER,
        "if self._place[other] > self._place[job])",
        "if other is not job)",
        f"{TEST_SCHEDULER}::test_a_wide_job_lets_later_ones_pass_and_takes_their_cores_when_they_are_enough",
    ),
    Variant(
        "scheduler: what was stopped is lost",
        SCHEDULER,
        "bisect.insort(self._waiting, job, key=self._place.__getitem__)",
        "pass",
        f"{TEST_SCHEDULER}::test_a_pause_saves_all_and_begins_nothing_until_its_end",
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
        "gains[block][1] / hours[block]",
        "gains[block][1]",
        f"{TEST_PLAN}::test_within_a_stage_the_block_that_answers_most_per_core_hour_comes_first",
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
        "return any(saved) or (path",
        "return (path",
        f"{TEST_RUN_DIRECTORY}::test_the_same_settings_resume_and_others_are_refused",
    ),
    Variant(
        "runtime: a snapshot follows the learner",
        WEIGHTS,
        "v.read_value() for v in",
        "v for v in",
        f"{TEST_ACTOR}::test_a_snapshot_does_not_follow_the_learner",
    ),
    Variant(
        "runtime: actors keep the first weights",
        ACTOR,
        "version != self._version:",
        "version * self._version < 0:",
        f"{TEST_TRAINING}::test_async_runs_to_its_budget_with_groups_of_any_fit",
        slow=True,
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
        "if not counted or any(map(math.isnan, counted.values())):",
        "counted = {task: value for task, value in counted.items() if not math.isnan(value)}\n    if not counted:",
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
        f"{TEST_TRAINING_JOB}::test_an_evaluation_of_some_tasks_or_few_episodes_is_made_again",
    ),
]
