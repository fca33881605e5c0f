"""The committed values fit the reference runs, and bands are refused if they would not."""

import pytest

from repro.regression import reference_values
from repro.regression.bands import MIN_SEEDS, make_band
from repro.regression.reference_runs import RUNS, ReferenceRun
from repro.regression.reference_values import ReferenceValues, ReferenceValuesError, bands_of

RUN = RUNS[0]


RANDOM_LEVELS = {
    "Catch-v0": -0.55,
    "MemoryCatch-v0": -5.5,
    "Homing-v0": 0.0,
    "CartPole-v1": 25.0,
    "InvertedPendulum": 8.0,
    "InvertedDoublePendulum": 52.0,
}
"""Above the mean return of a random policy."""


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_every_run_has_bands_of_its_present_settings(run):
    references = reference_values.read()
    assert references[run.name].num_seeds >= 12
    bands = bands_of(run, references)
    assert set(bands) == set(references[run.name].values)
    task = run.make_config().env.task.split("/")[-1]
    if task in RANDOM_LEVELS:  # the others are too short to learn to play
        assert bands["return, last third"].low > RANDOM_LEVELS[task]


def test_few_seeds_lie_outside_the_band_of_the_others():
    out = total = 0
    for reference in reference_values.read().values():
        for name, values in reference.values.items():
            for i, value in enumerate(values):
                out += bool(make_band(name, values[:i] + values[i + 1 :]).side(value))
                total += 1
    assert total > 6_000
    assert 0.001 < out / total < 0.03  # of a normal measure 1.1 %


def test_files_round_trip(tmp_path):
    path = tmp_path / "values.json"
    assert reference_values.read(path) == {}
    values = {"a": ReferenceValues("f", 1.5, {"return": [1.0, 2.0], "loss": [0.5, 0.25]})}
    reference_values.write(values, path)
    assert reference_values.read(path) == values
    assert len(path.read_text().splitlines()) == 10


@pytest.mark.parametrize(
    ("references", "message"),
    [
        ({}, "has no reference values"),
        (
            {RUN.name: ReferenceValues("other", 1.0, {"x": [1.0] * 20})},
            f"The settings of {RUN.name} have changed since its reference values",
        ),
        (
            {RUN.name: ReferenceValues(RUN.fingerprint(), 1.0, {"x": [1.0]})},
            f"has reference values of 1 of {MIN_SEEDS} seeds",
        ),
        (
            {RUN.name: ReferenceValues(RUN.fingerprint(), 1.0, {"x": [float("nan")] * 20})},
            "has a value that is not finite",
        ),
    ],
)
def test_bands_are_refused_with_the_command_that_makes_them(references, message):
    with pytest.raises(ReferenceValuesError, match=message) as error:
        bands_of(RUN, references)
    assert f"python -m repro.regression --make_bands --again --only={RUN.name}" in str(error.value)


def test_a_field_that_is_not_there_is_an_error():
    run = ReferenceRun("x", "impala.gymnasium", "impala", {"learner": {"learning_rat": 1.0}})
    with pytest.raises(ValueError, match="no field 'learner.learning_rat'"):
        run.make_config()


def test_a_fingerprint_is_of_all_settings():
    other = RUN._replace(fields={**RUN.fields, "num_env_steps": 1})
    assert other.fingerprint() != RUN.fingerprint()
    assert RUN._replace(episodes=7).fingerprint() != RUN.fingerprint()
