"""Wrong variants of population-based training."""

from tests.mutations.variant import Variant

RULE = "repro/papers/impala/population.py"
TEST_RULE = "tests/papers/impala/test_population.py"
ENGINE = "repro/launch/population.py"
LINEAGE = "repro/launch/lineage.py"
TEST_ENGINE = "tests/launch/test_population.py"
MEMBER = "repro/launch/member.py"
TEST_MEMBER = "tests/launch/test_member.py"
FIGURE = "repro/report/lineages.py"
TEST_FIGURE = "tests/report/test_lineages.py"

VARIANTS = [
    Variant(
        "PBT: the threshold is a share",
        RULE,
        "other - own > threshold",
        "other - own > threshold * abs(own)",
        f"{TEST_RULE}::test_adoption_needs_an_absolute_difference",
    ),
    Variant(
        "PBT: adopted at the threshold",
        RULE,
        "other - own > threshold",
        "other - own >= threshold",
        f"{TEST_RULE}::test_adoption_needs_more_than_the_threshold",
    ),
    Variant(
        "PBT: the worse is adopted",
        RULE,
        "other - own > threshold",
        "own - other > threshold",
        f"{TEST_RULE}::test_adoption_needs_an_absolute_difference",
    ),
    Variant(
        "PBT: a member is its own opponent",
        RULE,
        "opponent += opponent >= i",
        "opponent += 0",
        f"{TEST_RULE}::test_opponents_are_the_others_each_as_often",
    ),
    Variant(
        "PBT: 1.2 or 0.8",
        RULE,
        "1.0 / factor",
        "2.0 - factor",
        f"{TEST_RULE}::test_the_change_is_unbiased",
    ),
    Variant(
        "PBT: up and down with the probability each",
        RULE,
        "rng.uniform() < probability",
        "rng.uniform() < 2 * probability",
        f"{TEST_RULE}::test_a_third_of_the_hyper_parameters_change_up_as_often_as_down_and_independently",
    ),
    Variant(
        "PBT: perturbed only where weights are adopted",
        RULE,
        "perturb(hparams, settings.probability,",
        "perturb(hparams, settings.probability * (parent is not None),",
        f"{TEST_RULE}::test_without_an_adoption_hyper_parameters_change_as_well",
    ),
    Variant(
        "PBT: weights without their hyper-parameters",
        RULE,
        "member.hparams if parent is None else other.hparams",
        "member.hparams",
        f"{TEST_RULE}::test_what_is_adopted_are_the_hyper_parameters_from_before_the_comparison",
    ),
    Variant(
        "PBT: fitness without a cap",
        RULE,
        "statistics.mean_capped",
        "statistics.mean",
        f"{TEST_RULE}::test_fitness_by_hand",
    ),
    Variant(
        "PBT: first values uniform",
        RULE,
        "log_uniform(rng, *values)",
        "float(rng.uniform(*values))",
        f"{TEST_RULE}::test_first_values_are_log_uniform_or_of_a_list",
    ),
    Variant(
        "PBT: the learning rate is annealed",
        RULE,
        '("learner.learning_rate", FINAL_LEARNING_RATE)',
        '("learner.learning_rate",)',
        f"{TEST_ENGINE}::test_the_learning_rate_is_not_annealed",
    ),
    Variant(
        "PBT: evolution in the burn-in",
        ENGINE,
        "if frames <= self.settings.burn_in:",
        "if frames < 0:",
        f"{TEST_ENGINE}::test_nothing_evolves_in_the_burn_in_nor_at_the_end",
    ),
    Variant(
        "PBT: returns count in two comparisons",
        ENGINE,
        "collects_from_none=burned_in or before is not None and before.due",
        "collects_from_none=burned_in",
        f"{TEST_ENGINE}::test_returns_of_the_burn_in_and_of_compared_pieces_do_not_count_again",
    ),
    Variant(
        "PBT: returns of the burn-in count",
        ENGINE,
        "collects_from_none=burned_in or before",
        "collects_from_none=before",
        f"{TEST_ENGINE}::test_returns_of_the_burn_in_and_of_compared_pieces_do_not_count_again",
    ),
    Variant(
        "PBT: first hyper-parameters for ever",
        ENGINE,
        "for i, hparams in enumerate(self.lineage.hparams):",
        "for i, hparams in enumerate(self.lineage.first):",
        f"{TEST_ENGINE}::test_the_weights_go_from_parent_to_child_and_each_skill_is_what_its_descent_gives",
    ),
    Variant(
        "PBT: random numbers of a comparison depend on the process",
        ENGINE,
        "np.random.default_rng([self._seed, number])",
        "np.random.default_rng()",
        f"{TEST_ENGINE}::test_a_population_that_is_stopped_goes_on_as_it_would_have",
    ),
    Variant(
        "PBT: weights of the parent as they are later",
        ENGINE,
        'return self.run.path / PARENTS / f"piece_{number:04d}" / f"member_{parent:02d}"',
        'return max((member_folder(self.run.path, parent) / "checkpoints").iterdir(), default=self.run.path / PARENTS)',
        f"{TEST_ENGINE}::test_the_weights_go_from_parent_to_child_and_each_skill_is_what_its_descent_gives",
    ),
    Variant(
        "PBT: own fitness after an adoption",
        LINEAGE,
        "before[member if parent is None else parent].fitness",
        "before[member].fitness",
        f"{TEST_ENGINE}::test_returns_of_the_burn_in_and_of_compared_pieces_do_not_count_again",
    ),
    Variant(
        "PBT: adopted weights are not read",
        MEMBER,
        "trainer.adopt(piece.parent, piece.start)",
        "trainer.updates = piece.start",
        f"{TEST_MEMBER}::test_a_member_that_diverged_goes_on_with_the_weights_and_the_optimizer_of_its_parent",
        slow=True,
    ),
    Variant(
        "PBT: an adoption is made again when a piece resumes",
        MEMBER,
        "if trainer.updates > piece.start:",
        "if trainer.updates < 0:",
        f"{TEST_MEMBER}::test_a_piece_that_is_stopped_adopts_once",
        slow=True,
    ),
    Variant(
        "PBT: of members at the cap the first is best",
        LINEAGE,
        "-math.inf if m.mean_return is None else m.mean_return)",
        "0.0)",
        f"{TEST_ENGINE}::test_of_members_with_the_same_fitness_the_one_with_the_highest_return_is_best",
    ),
    Variant(
        "PBT: updates that were not made count as frames",
        "repro/training/trainer.py",
        "self.skipped_updates += updates - self.updates",
        "pass",
        f"{TEST_MEMBER}::test_a_member_that_diverged_goes_on_with_the_weights_and_the_optimizer_of_its_parent",
        slow=True,
    ),
    Variant(
        "PBT: a broken copy of a checkpoint stays",
        "repro/training/run_directory.py",
        "if target.exists() and not find_damage(target):",
        "if target.exists():",
        f"{TEST_ENGINE}::test_a_copy_that_is_broken_is_made_again_and_a_whole_one_is_not",
    ),
    Variant(
        "PBT: a member that waits for its actors hears of no signal",
        MEMBER,
        "                trainer.interrupt()\n",
        "                pass\n",
        f"{TEST_MEMBER}::test_a_member_that_waits_for_its_actors_is_stopped_and_saved",
        slow=True,
    ),
    Variant(
        "PBT: descent without adoptions",
        FIGURE,
        "member = member if parent is None else parent",
        "pass",
        f"{TEST_FIGURE}::test_the_descent_goes_from_parent_to_parent",
    ),
]
