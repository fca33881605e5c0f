"""Wrong variants of what a training run counts, publishes and restores."""

from tests.mutations.variant import Variant

WEIGHTS = "repro/acting/weights.py"
ACTOR = "repro/acting/actor.py"
TRAINING = "repro/training/on_policy_trainer.py"
TEST_ACTOR = "tests/acting/test_actor.py"
TEST_TRAINING = "tests/training/test_trainer.py"

VARIANTS = [
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
]
