"""Wrong variants of what a run does when actors fail or hang, when it is asked to end, and when it resumes."""

from tests.mutations.variant import Variant

SUPERVISION = "repro/acting/supervision.py"
ACTOR = "repro/acting/actor.py"
ACTOR_POOL = "repro/acting/actor_pool.py"
PROCESSES = "repro/acting/actor_processes.py"
ASYNC = "repro/acting/async_source.py"
LOCKSTEP = "repro/acting/lockstep_source.py"
TRAINER = "repro/training/trainer.py"
CHECKPOINT = "repro/training/checkpoint.py"
PROGRESS = "repro/training/progress.py"
STOPPING = "repro/training/stopping.py"
RUN_DIRECTORY = "repro/training/run_directory.py"
CONTROL, REFER, PPO = (f"repro/papers/refer/{name}.py" for name in ("control_trainer", "training", "ppo_training"))
STEP_WATCH = "repro/training/step_watch.py"

TEST = "tests/acting/test_supervision.py"
TEST_REMOTE = "tests/acting/test_remote.py"
TEST_POOL = "tests/acting/test_actor_pool.py"
TEST_CHECKPOINT = "tests/training/test_checkpoint.py"
TEST_PROGRESS = "tests/training/test_progress.py"
TEST_STOPPING = "tests/training/test_stopping.py"
TEST_RUN_DIRECTORY = "tests/training/test_run_directory.py"
TEST_STEP_WATCH = "tests/training/test_step_watch.py"
TEST_REFER, TEST_PPO = "tests/papers/refer/test_training.py", "tests/papers/refer/test_ppo_training.py"

VARIANTS = [
    Variant(
        "faults: an environment of ReF-ER that always fails is replaced a hundred times",
        CONTROL,
        "if self._failures >= MAX_FAILURES:",
        "if self._failures >= 100 * MAX_FAILURES:",
        f"{TEST_REFER}::test_a_run_whose_environment_always_fails_is_saved_without_it_and_goes_on",
        slow=True,
    ),
    Variant(
        "faults: a run of ReF-ER whose environment always fails is not saved",
        TRAINER,
        "except (ActorPoolError, EnvironmentFailedError):",
        "except ActorPoolError:",
        f"{TEST_PPO}::test_a_run_whose_environment_always_fails_is_saved_without_it_and_goes_on",
    ),
    Variant(
        "faults: an environment of ReF-ER that always fails is saved",
        CONTROL,
        "if self._failures < MAX_FAILURES:",
        "if True:",
        f"{TEST_PPO}::test_a_run_whose_environment_always_fails_is_saved_without_it_and_goes_on",
    ),
    Variant(
        "faults: the environment that a resume of ReF-ER begins in place of a broken one is not counted",
        CONTROL,
        "            self._begin_with(self._remake(self.actor_restarts + 1))\n            self._replaced += 1\n",
        "            self._begin_with(self._remake(self.actor_restarts + 1))\n",
        f"{TEST_PPO}::test_a_run_whose_environment_always_fails_is_saved_without_it_and_goes_on",
    ),
    Variant(
        "faults: an episode of ReF-ER that was lost goes on after a resume",
        REFER,
        'if "environment" in state:',
        "if True:",
        f"{TEST_REFER}::test_a_run_whose_environment_always_fails_is_saved_without_it_and_goes_on",
    ),
    Variant(
        "faults: ReF-ER loses an episode that ended before its environment failed",
        REFER,
        "            finally:\n                self._store_finished()\n",
        "            finally:\n                pass\n",
        f"{TEST_REFER}::test_a_run_whose_environment_always_fails_is_saved_without_it_and_goes_on",
    ),
    Variant(
        "faults: gradient steps beside an environment that failed are made twice",
        REFER,
        "self.updates += 1  # the saved state includes its gradient steps",
        "pass",
        f"{TEST_REFER}::test_a_run_whose_environment_always_fails_is_saved_without_it_and_goes_on",
    ),
    Variant(
        "faults: an environment of ReF-ER that never begins a second episode is replaced for ever",
        CONTROL,
        "        info = self._roll().info\n        self._failures = 0\n",
        "        self._failures = 0\n        info = self._roll().info\n",
        f"{TEST_REFER}::test_environments_that_never_begin_a_second_episode_end_the_run",
        slow=True,
    ),
    Variant(
        "faults: an episode of ReF-ER goes on in another environment",
        REFER,
        "                self._episode = self._new_episode()\n                self._agent.begin_episode()\n",
        "                pass\n",
        f"{TEST_REFER}::test_an_environment_that_fails_is_replaced_and_its_episode_is_lost",
        slow=True,
    ),
    Variant(
        "faults: PPO looks beyond the step at which its environment failed",
        PPO,
        "last[max(0, t - 1) : t] = True",
        "pass",
        f"{TEST_PPO}::test_a_rollout_in_which_the_environment_fails_is_whole_and_the_episode_before_is_cut",
        slow=True,
    ),
    Variant(
        "faults: an actor that always fails is replaced for ever",
        SUPERVISION,
        "if place.failures >= MAX_FAILURES:",
        "if place.failures >= 1000 * MAX_FAILURES:",
        f"{TEST}::test_failures_in_a_row_end_the_run_and_an_unroll_between_them_does_not",
    ),
    Variant(
        "faults: all failures of a run count as in a row",
        SUPERVISION,
        "place.began, place.failures, place.fault = None, 0, None",
        "place.began, place.fault = None, None",
        f"{TEST}::test_failures_in_a_row_end_the_run_and_an_unroll_between_them_does_not",
    ),
    Variant(
        "faults: all restarts of an actor play the same games",
        SUPERVISION,
        "self._remake(place.index, self._before[place.index] + place.restarts + 1)",
        "self._remake(place.index, 1)",
        f"{TEST}::test_failures_in_a_row_end_the_run_and_an_unroll_between_them_does_not",
    ),
    Variant(
        "faults: what a thread brings that lost its place counts",
        SUPERVISION,
        "                if self._is_current(place):\n                    return True",
        "                return True",
        f"{TEST}::test_an_actor_that_hangs_loses_its_place_and_what_it_brings_is_refused",
    ),
    Variant(
        "faults: an environment is closed under a thread that hangs in it",
        SUPERVISION,
        "if not place.actor.abandoned:  #",
        "if True:  #",
        f"{TEST}::test_an_actor_that_hangs_loses_its_place_and_what_it_brings_is_refused",
    ),
    Variant(
        "faults: the environment of an actor that failed too often is not freed",
        SUPERVISION,
        "place.began = None  # the thread has left the environment, so that `close` closes it",
        "pass",
        f"{TEST}::test_after_too_many_failures_the_environment_is_freed_unless_a_thread_hangs_in_it",
    ),
    Variant(
        "faults: at the end an environment is closed under a thread that hangs in it",
        SUPERVISION,
        "if place.began is None and not place.actor.abandoned:",
        "if place.began is None:",
        f"{TEST}::test_after_too_many_failures_the_environment_is_freed_unless_a_thread_hangs_in_it",
    ),
    Variant(
        "faults: an actor that waits for the learner hangs",
        SUPERVISION,
        "place.began, place.failures, place.fault = None, 0, None",
        "place.failures, place.fault = 0, None",
        f"{TEST}::test_an_actor_between_unrolls_does_not_hang",
    ),
    Variant(
        "faults: a pause of the process counts as silence",
        SUPERVISION,
        "min(now - self._looked, self._most)",
        "now - self._looked",
        f"{TEST}::test_time_in_which_nobody_looked_hardly_counts",
    ),
    Variant(
        "faults: one absence of the learner is as long as an actor may be silent",
        SUPERVISION,
        "min(AWAY_SECONDS, silent_seconds / 2)",
        "AWAY_SECONDS",
        f"{TEST}::test_one_absence_of_the_learner_makes_no_actor_silent",
    ),
    Variant(
        "faults: restarts after a resume play the games of those before",
        SUPERVISION,
        "self._remake(place.index, self._before[place.index] + ",
        "self._remake(place.index, ",
        f"{TEST}::test_restarts_after_a_resume_have_other_numbers",
    ),
    Variant(
        "faults: durations follow the machine's clock",
        SUPERVISION,
        "now = time.monotonic()",
        "now = time.time()",
        f"{TEST}::test_an_actor_that_hangs_loses_its_place_and_what_it_brings_is_refused",
    ),
    Variant(
        "faults: an actor that was made too late plays",
        SUPERVISION,
        "if not self._is_current(place):  # another thread has the place by now",
        "if False:",
        f"{TEST}::test_an_actor_that_was_made_too_late_plays_nothing",
    ),
    Variant(
        "faults: new games follow those of the actor before",
        SUPERVISION,
        "group.new_games = place.restarts > restarts",
        "group.new_games = False",
        f"{TEST}::test_an_actor_that_fails_is_replaced_counted_and_named",
    ),
    Variant(
        "faults: writers go on with the steps of another actor",
        ACTOR_POOL,
        "if group.new_games:",
        "if False:",
        f"{TEST_POOL}::test_steps_of_new_games_do_not_follow_those_of_the_actor_before",
    ),
    Variant(
        "faults: in lockstep another actor plays with the newest weights",
        ACTOR,
        "self._inference.take_weights(other._inference)",
        "self.sync_weights()",
        f"{TEST}::test_in_lockstep_an_unroll_is_played_again_under_its_own_weights",
        slow=True,
    ),
    Variant(
        "faults: a run whose actors failed is not saved",
        TRAINER,
        "                if self.saved_updates < self.updates:\n                    self.save()\n",
        "",
        f"{TEST}::test_after_repeated_failure_the_run_is_saved_and_goes_on_later",
        slow=True,
    ),
    Variant(
        "faults: restarts are counted from the last resume",
        TRAINER,
        'self._restarts_before = state["actor_restarts"]',
        "self._restarts_before = 0",
        f"{TEST}::test_a_run_goes_on_after_failures_and_says_how_many",
        slow=True,
    ),
    Variant(
        "faults: in lockstep a run that is to end waits for an actor that hangs",
        LOCKSTEP,
        "if self._patient_until is not None and time.monotonic() > self._patient_until:",
        "if self._patient_until is not None and time.monotonic() > self._patient_until + 1000:",
        f"{TEST}::test_a_wait_for_a_hung_actor_is_interrupted_and_saved",
        slow=True,
    ),
    Variant(
        "faults: a run that is to end gives up unrolls that end soon",
        LOCKSTEP,
        "self._patient_until = time.monotonic() + PATIENCE_SECONDS",
        "self._patient_until = time.monotonic()",
        f"{TEST}::test_an_interrupt_in_lockstep_waits_for_an_unroll_that_ends_soon",
        slow=True,
    ),
    Variant(
        "faults: in lockstep unrolls of new games follow those that were restored",
        LOCKSTEP,
        "group.new_games |= self._begins_games",
        "pass",
        f"{TEST}::test_in_lockstep_what_was_played_is_kept_where_an_actor_cannot_finish",
        slow=True,
    ),
    Variant(
        "faults: in lockstep an unroll that waits is no more of new games",
        LOCKSTEP,
        'bool(state["new_games"])',
        "False",
        f"{TEST}::test_an_unroll_that_waits_keeps_that_its_games_are_new",
        slow=True,
    ),
    Variant(
        "faults: an actor in a process is killed while it starts",
        PROCESSES,
        "silent_seconds if i in self._reported else max(silent_seconds, START_SECONDS)",
        "silent_seconds",
        f"{TEST_REMOTE}::test_an_actor_has_time_to_start_however_short_its_silence_may_be",
    ),
    Variant(
        "faults: Ctrl-C reaches actors in processes",
        PROCESSES,
        ", start_new_session=True",
        "",
        f"{TEST_REMOTE}::test_starts_are_counted_over_the_whole_run_and_ctrl_c_does_not_reach_actors",
    ),
    Variant(
        "faults: a thread that hangs keeps the memory of its unrolls",
        ASYNC,
        "self._memory_of(place.index).put(self._make_group())",
        "pass",
        f"{TEST}::test_another_thread_has_memory_in_place_of_that_of_one_that_hangs",
    ),
    Variant(
        "faults: a damaged checkpoint counts as saved",
        CHECKPOINT,
        "if final.exists() and not find_damage(final):",
        "if final.exists():",
        f"{TEST_CHECKPOINT}::test_a_broken_checkpoint_is_written_again_and_a_whole_one_is_not",
    ),
    Variant(
        "faults: a checkpoint that is being written is cut",
        STOPPING,
        "not self._trainer.saving.acquire(timeout=SAVE_SECONDS)",
        "self._trainer.saving.locked()",
        f"{TEST_STOPPING}::test_a_checkpoint_that_is_being_written_is_finished_whatever_signals_follow",
    ),
    Variant(
        "faults: a checkpoint that hangs keeps the process for ever",
        STOPPING,
        "acquire(timeout=SAVE_SECONDS)",
        "acquire()",
        f"{TEST_STOPPING}::test_a_checkpoint_that_hangs_is_not_waited_for_for_ever",
        slow=True,
    ),
    Variant(
        "faults: what a checkpoint has counts as lost",
        PROGRESS,
        "(last_logged - first_update) * frames_per_update",
        "last_logged * frames_per_update",
        f"{TEST_PROGRESS}::test_what_was_logged_after_the_restored_checkpoint_is_lost",
    ),
    Variant(
        "faults: what is lost at a signal counts as saved",
        STOPPING,
        "self._trainer.saved_updates < self._trainer.updates",
        "False",
        f"{TEST_STOPPING}::test_a_main_thread_that_hangs_is_ended",
    ),
    Variant(
        "faults: a signal before the run is built is not heard",
        STOPPING,
        "        if self.is_set():\n            trainer.interrupt()\n",
        "",
        f"{TEST_STOPPING}::test_a_signal_before_there_is_a_trainer_is_told_to_it",
        slow=True,
    ),
    Variant(
        "faults: a run goes on with another number of actors",
        "repro/config.py",
        "MACHINE_FIELDS = (\n",
        'MACHINE_FIELDS = (\n    "runtime.num_actors",\n',
        f"{TEST_RUN_DIRECTORY}::test_fields_that_change_no_algorithm_may_change",
    ),
    Variant(
        "faults: a run goes on with fields that it does not keep",
        RUN_DIRECTORY,
        "        if differences:",
        "        if False:",
        f"{TEST_RUN_DIRECTORY}::test_fields_that_change_no_algorithm_may_change",
    ),
    Variant(
        "faults: what was evaluated before the end of a run is recorded",
        "repro/launch/training_job.py",
        """or not is_newest(self._trained_dir / CHECKPOINTS, played.pop("updates", -1)):""",
        """or played.pop("updates", -1) < 0:""",
        "tests/launch/test_training_job.py::"
        "test_an_evaluation_of_some_tasks_few_episodes_older_weights_or_an_unfinished_run_is_made_again",
    ),
    Variant(
        "faults: a step that the learner makes hangs at once",
        STEP_WATCH,
        "elif now - since > self._silent_seconds:",
        "else:",
        f"{TEST_STEP_WATCH}::test_what_takes_long_between_two_steps_or_in_many_goes_on",
    ),
    Variant(
        "faults: what replaces an environment that hangs has no time",
        STEP_WATCH,
        "            self.changes += 2  # the step in its place has as long\n",
        "",
        f"{TEST_STEP_WATCH}::test_a_step_that_hangs_is_ended_and_what_comes_in_its_place_has_as_long",
    ),
    Variant(
        "faults: a step is ended in place of the one before that hung",
        STEP_WATCH,
        "if self.changes == self._hung:",
        "if self.changes % 2:",
        f"{TEST_STEP_WATCH}::test_a_step_is_not_ended_in_place_of_the_one_before_that_hung",
    ),
    Variant(
        "faults: a step is ended that is not there any more",
        STEP_WATCH,
        "        self._stop.set()\n",
        "",
        f"{TEST_STEP_WATCH}::test_after_the_end_nothing_is_ended",
    ),
]
