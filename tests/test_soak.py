"""The trend detector of `make soak` on made-up samples and on a run with a planted leak."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from repro.training.run_directory import KEEP, read_progress
from tests.soak import BOUNDS, Process, Run, Sample, SoakError, describe, find_growth, growth, soak
from tests.support.faulty_environments import FOLDER_VARIABLE, TASK

SECONDS = np.linspace(0.0, 3600.0, 400)
FAULTY = ("--config=paper_configs/impala/gymnasium.py:smoke", "--config.num_env_steps=1000000")


def samples(**changed: np.ndarray) -> list[Sample]:
    """An hour of 400 samples with nothing that grows but what is given."""
    flat = {"memory": 900.0, "descriptors": 20.0, "threads": 30.0, "processes": 3.0, "disk": 40.0, "tensorboard": 0.5}
    columns = {name: np.full_like(SECONDS, value) for name, value in flat.items()} | changed
    return [Sample(second, *(float(columns[name][i]) for name in BOUNDS)) for i, second in enumerate(SECONDS)]


def test_growth_of_a_line_is_what_it_grows_after_the_warm_up():
    """400 samples, the first 133 left out: 1 MiB a second for the seconds from sample 133 to the last."""
    assert growth(SECONDS, SECONDS) == pytest.approx(SECONDS[-1] - SECONDS[133])
    assert growth(SECONDS, -2.0 * SECONDS) == pytest.approx(-2.0 * (SECONDS[-1] - SECONDS[133]))


def test_too_few_samples_are_an_error():
    with pytest.raises(ValueError, match="28 samples are too few for 20 blocks"):
        growth(SECONDS[:28], SECONDS[:28])


@pytest.mark.parametrize("name", BOUNDS)
def test_a_leak_of_twice_the_bound_is_found_under_noise(name):
    rng = np.random.default_rng(1)
    base = np.array([getattr(sample, name) for sample in samples()])
    floor, share = BOUNDS[name]
    bound = max(floor, share * 2.0 * base[0])
    noisy = base + 3.0 * bound * SECONDS / SECONDS[-1] + rng.uniform(0.0, bound / 2.0, len(SECONDS))
    assert list(find_growth(samples(**{name: noisy}))) == [name]


def wave(rng: np.random.Generator) -> np.ndarray:
    """Memory that rises and is given back, each time after another while."""
    return 300.0 * (np.arange(len(SECONDS)) % 17) / 17.0 + rng.uniform(0.0, 20.0, len(SECONDS))


def wander(rng: np.random.Generator) -> np.ndarray:
    """Noise that is alike from sample to sample, with a std of 10 MiB."""
    values = [0.0]
    for shock in rng.normal(0.0, 10.0 * np.sqrt(1.0 - 0.95**2), len(SECONDS) - 1):
        values.append(0.95 * values[-1] + shock)
    return np.array(values)


NOISE = {
    "still": lambda rng: np.zeros_like(SECONDS),
    "peaks of checkpoints": lambda rng: 500.0 * (rng.uniform(size=len(SECONDS)) < 0.3),
    "wave": wave,
    "wander": wander,
    "a step": lambda rng: 400.0 * (rng.uniform(0.4, 0.9) * SECONDS[-1] < SECONDS),
    "a replay that fills": lambda rng: 800.0 * (1.0 - np.exp(-SECONDS / 400.0)) + rng.uniform(0.0, 20.0, len(SECONDS)),
    "falls": lambda rng: -0.1 * SECONDS,
}


@pytest.mark.parametrize("kind", NOISE)
def test_noise_is_no_growth(kind):
    for seed in range(50):
        assert find_growth(samples(memory=900.0 + NOISE[kind](np.random.default_rng(seed)))) == {}, seed


def test_a_mean_over_samples_would_take_noise_for_growth():
    """What the smallest sample of a block is for: checkpoints that become more frequent, as on a machine less busy."""
    more_and_more = np.random.default_rng(0).uniform(size=len(SECONDS)) < 0.05 + 0.7 * SECONDS / SECONDS[-1]
    assert find_growth(samples(memory=900.0 + 400.0 * more_and_more)) == {}
    slope = np.polyfit(SECONDS, 400.0 * more_and_more, 1)[0]
    assert slope * (SECONDS[-1] - SECONDS[133]) > BOUNDS["memory"][0]


def test_a_leak_in_steps_is_found():
    """As of a checkpoint that keeps what it wrote."""
    assert list(find_growth(samples(memory=900.0 + 20.0 * np.floor(SECONDS / 200.0)))) == ["memory"]


@pytest.mark.slow
def test_a_planted_leak_is_found_in_a_run(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(Path.cwd()))
    (tmp_path / "leak").touch()
    command = (*FAULTY, f"--config.env.task={TASK}", "--config.runtime.checkpoint_seconds=1")
    measured, work = soak(Run(command), tmp_path, seconds=10.0)
    found = find_growth(measured)
    assert {"memory", "descriptors"} <= found.keys()
    assert not {"processes", "disk"} & found.keys()
    last = read_progress(tmp_path / "run/progress.csv")[-1]
    assert (work.updates, work.games) == (last["updates"], last["games"])
    assert work.games > 0
    assert work.checkpoints > KEEP
    assert describe("x", measured, work).split()[2:5] == [f"{count:,}" for count in work]


def test_a_run_that_ends_before_its_time_is_an_error(tmp_path):
    with pytest.raises(SoakError, match=r"ended with code 2 before its time: .*no field 'learner\.rate'"):
        soak(Run((FAULTY[0], "--config.learner.rate=1")), tmp_path, seconds=5.0)


def test_samples_begin_when_the_replay_is_full(tmp_path, monkeypatch):
    """A run whose time begins before, on a slow machine, seems to leak."""
    process = object.__new__(Process)
    process.run_dir = tmp_path
    (tmp_path / "checkpoints").mkdir()
    for number in (1, 2):
        (tmp_path / "checkpoints" / f"checkpoint_{number}").mkdir()
    waits = iter(["num_env_frames\n", "num_env_frames\n3999\n", "num_env_frames\n3999\n4000\n"])

    def play(_: float) -> None:
        (tmp_path / "progress.csv").write_text(next(waits))

    monkeypatch.setattr(process, "check_alive", lambda: None)
    monkeypatch.setattr("tests.soak.time.sleep", play)
    process.wait_until_full(4000)
    assert next(waits, None) is None


def test_a_replay_that_never_fills_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.soak.START_SECONDS", 5.0)
    command = (*FAULTY, "--config.runtime.checkpoint_seconds=1")
    with pytest.raises(SoakError, match=r"no two checkpoints and 1,000,000 of its budget in 5 seconds"):
        soak(Run(command, fill=1_000_000), tmp_path, seconds=5.0)
