"""The rule of population-based training, Appendix E: hand cases and frequencies."""

from __future__ import annotations

import collections
import math

import numpy as np
import pytest

from paper_configs.impala import atari_population, dmlab_30, dmlab_30_population, dmlab_population
from repro.config import resolve, tasks, total_budget
from repro.evidence.records import plain_config
from repro.evidence.staleness import config_difference
from repro.papers.impala.population import (
    Candidate,
    compute_fitness,
    evolve,
    is_adopted,
    perturb,
    read_settings,
    sample_hparams,
)

SETTINGS = read_settings(atari_population.get_config("paper"))
HPARAMS = {"entropy_cost": 1e-3, "learning_rate": 2e-4, "rmsprop_epsilon": 1e-5, "clip_global_norm": 40.0}
FACTORS = (1.2, 1 / 1.2)
SECONDS = {
    "rooms_select_nonmatching_object": 12,
    "rooms_collect_good_objects_test": 60,
    "explore_goal_locations_small": 90,
}
"""Of an episode, in records of random play; no other has above 300."""


def candidates(*fitness, is_due=True):
    return [Candidate({"learning_rate": float(i + 1)}, value, is_due) for i, value in enumerate(fitness)]


def test_settings_are_those_of_the_appendix():
    assert (SETTINGS.size, SETTINGS.burn_in, SETTINGS.episodes) == (24, 20_000_000, 5_000)
    assert (SETTINGS.threshold, SETTINGS.probability, SETTINGS.factor) == (0.05, 0.33, 1.2)
    assert SETTINGS.evolves
    lab = read_settings(dmlab_population.get_config("paper"))
    assert lab == SETTINGS._replace(normaliser="dmlab30", clip_global_norm=())
    together = read_settings(dmlab_30_population.get_config("paper"))
    assert together == lab._replace(interval=together.interval)
    search = atari_population.get_config("paper")
    search.agent = "random_search"
    assert read_settings(resolve(search)) == SETTINGS._replace(evolves=False)


@pytest.mark.parametrize("scale", ["desk", "paper"])
def test_members_of_dmlab_30_are_its_deep_agents(scale):
    alone = dmlab_30.get_config(scale)
    alone.agent = "impala_deep"
    alone, member = plain_config(resolve(alone)), plain_config(resolve(dmlab_30_population.get_config(scale)))
    member.pop("population")
    assert set(config_difference(member, alone)) == {"agent", "experiment", "env.stagger_steps"}


@pytest.mark.parametrize("module", [dmlab_population, dmlab_30_population])
@pytest.mark.parametrize("scale", ["smoke", "desk", "paper"])
def test_the_longest_episodes_end_within_a_piece(module, scale):
    """Levels cannot be saved, so that a piece begins new episodes, and a level may end none."""
    config = resolve(module.get_config(scale))
    settings, runtime = read_settings(config), config.runtime
    frames = min(settings.interval, settings.burn_in) // (runtime.num_actors * runtime.envs_per_actor)
    assert frames > 60 * max(SECONDS.get(level, 300) for level in tasks(config) or (config.env.task,))
    assert settings.burn_in + settings.interval < total_budget(config)[1]


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("size", 1, "population.size=1: evolution needs two members or more."),
        ("interval", 0, "population.interval=0 must be 1 or more."),
        ("burn_in", -1, "population.burn_in=-1 must be 0 or more."),
        ("probability", 1.1, "population.probability=1.1: choose a number from 0 to 1."),
        ("factor", 0.8, "population.factor=0.8 must be finite and 1 or more"),
        ("factor", math.nan, "population.factor=nan must be finite and 1 or more"),
        ("factor", math.inf, "population.factor=inf must be finite and 1 or more"),
        ("learning_rate", (1e-3, 1e-4), r"population.learning_rate=\(0.001, 0.0001\): choose the two ends of a range"),
        (
            "entropy_cost",
            (0.0, 1e-4),
            r"population.entropy_cost=\(0.0, 0.0001\): choose the two ends of a range above 0",
        ),
        ("entropy_cost", (1e-4,), r"population.entropy_cost=\(0.0001,\): choose the two ends of a range"),
    ],
)
def test_an_impossible_value_names_its_field(field, value, sentence):
    config = atari_population.get_config("paper")
    config.population[field] = value
    with pytest.raises(ValueError, match=sentence):
        read_settings(config)


def test_a_field_too_few_or_too_many_is_named():
    config = atari_population.get_config("paper")
    del config.population.threshold
    config.population.limit = 1
    with pytest.raises(
        ValueError,
        match="^population.limit is not a field, population.threshold is missing: the fields of population are ",
    ):
        read_settings(config)


def test_first_values_are_log_uniform_or_of_a_list():
    """Half of the log-uniform values lie below the geometric mean; a list's values are as frequent as each other."""
    rng = np.random.default_rng(0)
    sampled = [sample_hparams(SETTINGS, rng) for _ in range(4000)]
    for name in ("entropy_cost", "learning_rate"):
        low, high = getattr(SETTINGS, name)
        values = np.array([hparams[name] for hparams in sampled])
        assert low <= values.min() < 1.05 * low
        assert high / 1.05 < values.max() <= high
        places = np.log(values / low) / np.log(high / low)
        assert np.histogram(places, 4, (0, 1))[0] == pytest.approx(np.full(4, 1000), abs=5 * math.sqrt(750))
    found = collections.Counter(hparams["rmsprop_epsilon"] for hparams in sampled)
    assert set(found) == set(SETTINGS.rmsprop_epsilon)
    assert list(found.values()) == pytest.approx([1000] * 4, abs=5 * math.sqrt(750))
    assert {hparams["clip_global_norm"] for hparams in sampled} == {40.0}


def test_what_has_no_first_values_is_not_adapted():
    settings = read_settings(dmlab_population.get_config("paper"))
    assert set(sample_hparams(settings, np.random.default_rng(0))) == {
        "entropy_cost",
        "learning_rate",
        "rmsprop_epsilon",
    }


def test_fitness_by_hand():
    """Scores of half a human's, of twice a human's and of random play less 30 %: (0.5 + 1 - 0.3) / 3."""
    references = {
        "a": {"random": 10.0, "human": 30.0},
        "b": {"random": 0.0, "human": 5.0},
        "c": {"random": 4.0, "human": 14.0},
        "d": {"random": 0.0, "human": 1.0},
    }
    assert compute_fitness({"a": 20.0, "b": 10.0, "c": 1.0}, references) == pytest.approx(0.4)
    assert compute_fitness({"a": 20.0, "b": 10.0}, {}) == 15.0  # as they are, and uncapped
    with pytest.raises(ValueError, match="population.normaliser has no reference scores for x, y."):
        compute_fitness({"y": 1.0, "x": 1.0, "a": 1.0}, references)


@pytest.mark.parametrize(
    ("own", "other", "expected"),
    [
        (0.50, 0.56, True),
        (0.50, 0.54, False),  # a share of 5 % would be 0.525
        (0.01, 0.05, False),  # five times as good, and not 0.05 better
        (0.25, 0.25 + 2**-5, False),
        (0.56, 0.50, False),
        (0.50, None, False),
        (-math.inf, -1.0, True),
        (-math.inf, -math.inf, False),
        (0.5, -math.inf, False),
    ],
)
def test_adoption_needs_an_absolute_difference(own, other, expected):
    assert is_adopted(own, other, 0.05) is expected


def test_adoption_needs_more_than_the_threshold():
    assert not is_adopted(0.25, 0.5, 0.25)
    assert is_adopted(0.25, 0.5, 0.2499)


def test_a_third_of_the_hyper_parameters_change_up_as_often_as_down_and_independently():
    rng = np.random.default_rng(1)
    n = 6000
    changed = collections.Counter()
    for _ in range(n):
        after = perturb(HPARAMS, 0.33, 1.2, rng)
        ratios = {name: after[name] / HPARAMS[name] for name in HPARAMS}
        for name, ratio in ratios.items():
            assert ratio == 1.0 or any(ratio == pytest.approx(factor) for factor in FACTORS)
            changed[name, round(ratio, 3)] += 1
        changed["both"] += ratios["entropy_cost"] != 1.0 and ratios["learning_rate"] != 1.0
        changed["one way"] += ratios["entropy_cost"] == ratios["learning_rate"] != 1.0
    for name in HPARAMS:
        for factor in FACTORS:
            assert changed[name, round(factor, 3)] == pytest.approx(0.165 * n, abs=5 * math.sqrt(0.14 * n))
    assert changed["both"] == pytest.approx(0.33**2 * n, abs=5 * math.sqrt(0.1 * n))
    assert changed["one way"] == pytest.approx(changed["both"] / 2, abs=5 * math.sqrt(0.05 * n))


def test_the_change_is_unbiased():
    """Up and down once is where it began, unlike Jaderberg et al.'s 1.2 and 0.8."""
    after = HPARAMS
    rng = np.random.default_rng(2)
    for _ in range(200):
        after = perturb(after, 1.0, 1.2, rng)
    steps = np.log(after["learning_rate"] / HPARAMS["learning_rate"]) / np.log(1.2)
    assert steps == pytest.approx(round(steps), abs=1e-6)
    assert round(steps) % 2 == 0


def test_evolution_by_hand():
    """Of two members the opponent is the other one: the worse adopts, the better keeps, and all of both change."""
    settings = SETTINGS._replace(probability=1.0)
    worse, better = evolve(candidates(0.2, 0.6), settings, np.random.default_rng(0))
    assert (worse.opponent, worse.parent, better.opponent, better.parent) == (1, 1, 0, None)
    assert worse.hparams["learning_rate"] / 2.0 in [pytest.approx(f) for f in FACTORS]
    assert better.hparams["learning_rate"] / 2.0 in [pytest.approx(f) for f in FACTORS]


def test_without_an_adoption_hyper_parameters_change_as_well():
    settings = SETTINGS._replace(probability=1.0)
    for i, member in enumerate(evolve(candidates(0.2, 0.22, 0.18), settings, np.random.default_rng(0))):
        assert member.parent is None
        assert member.hparams["learning_rate"] / (i + 1.0) in [pytest.approx(f) for f in FACTORS]


def test_a_member_that_is_not_due_stays_as_it_is_and_can_be_adopted():
    members = candidates(0.2, 0.9)
    members[1] = members[1]._replace(is_due=False)
    first, second = evolve(members, SETTINGS._replace(probability=1.0), np.random.default_rng(0))
    assert first.parent == 1
    assert second == (None, None, {"learning_rate": 2.0})


def test_opponents_are_the_others_each_as_often():
    rng = np.random.default_rng(3)
    found = collections.Counter()
    for _ in range(1000):
        found.update(enumerate(m.opponent for m in evolve(candidates(*[0.0] * 4), SETTINGS, rng)))
    assert set(found) == {(i, j) for i in range(4) for j in range(4) if i != j}
    assert list(found.values()) == pytest.approx([1000 / 3] * 12, abs=5 * math.sqrt(1000 * 2 / 9))


def test_what_is_adopted_are_the_hyper_parameters_from_before_the_comparison():
    """Member 0 adopts 1's, which adopts 2's at the same comparison, whatever their order."""
    settings = SETTINGS._replace(probability=0.0)
    for seed in range(40):
        after = evolve(candidates(0.1, 0.5, 0.9), settings, np.random.default_rng(seed))
        if (after[0].parent, after[1].parent) == (1, 2):
            assert [member.hparams["learning_rate"] for member in after] == [2.0, 3.0, 3.0]
            return
    pytest.fail("no such comparison")


def test_a_seed_gives_the_same_evolution():
    one, same, other = (
        evolve(candidates(0.1, 0.5, 0.9), SETTINGS, np.random.default_rng([seed, 1])) for seed in (1, 1, 2)
    )
    assert one == same
    assert one != other
