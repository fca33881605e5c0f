"""The seeds of a run: each number of the run's sequence has a single use."""

import pytest

from repro.training.seeds import RunSeeds, make_run_seeds

A, B, C, D, E, F = 1835504127, 1731038949, 1320224556, 182557857, 321059914, 1226144109
"""Of the run's seed 1."""


@pytest.mark.parametrize(
    ("replay_second", "expected"), [(False, RunSeeds(A, [B, D], [C, E], F)), (True, RunSeeds(A, [C, E], [D, F], B))]
)
def test_they_stay_what_they_were(replay_second, expected):
    """Or recorded runs could not be made again."""
    assert make_run_seeds(1, 2, replay_second) == expected
    assert make_run_seeds(2, 2, replay_second) != expected


def test_a_run_without_actors_has_two():
    assert make_run_seeds(1, 0) == make_run_seeds(1, 0, replay_second=True) == RunSeeds(A, [], [], B)
