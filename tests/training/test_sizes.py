"""Sizes that follow from the machine: how they are chosen, whole batches, and what a resumed run continues with."""

from __future__ import annotations

import contextlib
import importlib
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from repro.acting.batches import GroupSizes
from repro.config import resolve
from repro.environments.mixed import share_of
from repro.evidence.staleness import config_difference
from repro.papers import find_experiment
from repro.training import devices
from repro.training.run_directory import RunDirectory, RunDirectoryError, changed_settings, read_settings
from repro.training.sizes import (
    BATCHES,
    EMULATOR_THREADS_WITH_GPU,
    LEVELS_PER_CORE,
    MIN_ENVS,
    Machine,
    choose_sizes,
    fill_in,
    take_saved,
)
from tests.support.forked_train import run_command

CORES = (1, 2, 3, 16, 64)
MACHINES = [Machine(cores, has_gpu) for cores in CORES for has_gpu in (False, True)]
CPU = Machine(2, has_gpu=False)


def config_of(name: str, scale: str = "desk", **runtime):
    config = importlib.import_module(f"paper_configs.{name}").get_config(scale)
    for field, value in runtime.items():
        config.runtime[field] = value
    return config


def save(path: Path, config) -> None:
    """What a run leaves behind that has saved something."""
    RunDirectory(path, config.to_dict(), seed=1).release()
    (path / "checkpoints/checkpoint_000000001").mkdir(parents=True)


@pytest.mark.parametrize(
    ("cores", "has_gpu", "sizes"),
    [
        (1, False, (1, 32, 1, 1)),
        (2, False, (2, 32, 2, 1)),
        (16, False, (8, 16, 16, 2)),
        (64, False, (8, 16, 64, 8)),
        (1, True, (2, 64, 1, 1)),
        (2, True, (2, 64, 2, 2)),
        (16, True, (4, 32, 16, 8)),
        (64, True, (4, 32, 64, 32)),
    ],
)
def test_the_papers_batch_of_32_games(cores, has_gpu, sizes):
    assert choose_sizes(Machine(cores, has_gpu), batch_size=32, schedule="async") == sizes


@pytest.mark.parametrize(
    ("machine", "needs", "actors", "envs"),
    [
        (CPU, {"batch_size": 8, "schedule": "async"}, 2, 16),
        (CPU, {"batch_size": 24, "schedule": "lockstep"}, 2, 24),
        (CPU, {"batch_size": 1, "schedule": "lockstep"}, 2, 8),
        (CPU, {"batch_size": 32, "schedule": "async", "env_name": "dmlab"}, 2, 16),
        (Machine(16, False), {"batch_size": 16, "schedule": "async", "env_name": "gymnasium"}, 1, 32),
        (Machine(16, False), {"batch_size": 16, "schedule": "processes", "env_name": "gymnasium"}, 15, 4),
        (Machine(1, False), {"batch_size": 32, "schedule": "processes"}, 1, 32),
        (Machine(64, False), {"batch_size": 32, "schedule": "processes"}, 63, 2),
        (Machine(64, False), {"batch_size": 1, "schedule": "processes"}, 16, 1),
        (Machine(16, False), {"batch_size": 32, "schedule": "a3c"}, 8, 32),
        (Machine(16, False), {"batch_size": 32, "schedule": "async", "num_tasks": 57}, 2, 57),
        (CPU, {"batch_size": 32, "schedule": "async", "env_name": "dmlab", "num_tasks": 30}, 1, 30),
        (Machine(4, False), {"batch_size": 32, "schedule": "a3c", "env_name": "dmlab"}, 2, 32),
        (Machine(16, False), {"batch_size": 32, "schedule": "a3c", "num_tasks": 2}, 8, 32),
        (Machine(1, True), {"batch_size": 32, "schedule": "processes"}, 1, 32),
        (Machine(64, False), {"batch_size": 32, "schedule": "processes", "num_tasks": 57, "envs_per_actor": 1}, 57, 1),
        (Machine(16, False), {"batch_size": 32, "schedule": "processes", "num_learners": 2}, 14, 8),
        (Machine(16, False), {"batch_size": 32, "schedule": "async", "num_tasks": 30, "envs_per_actor": 10}, 6, 10),
        (Machine(16, False), {"batch_size": 32, "schedule": "async", "num_tasks": 30, "envs_per_actor": 1}, 30, 1),
        (Machine(16, False), {"batch_size": 32, "schedule": "async", "num_actors": 3}, 3, 32),
        (Machine(16, False), {"batch_size": 32, "schedule": "async", "envs_per_actor": 48}, 2, 48),
        (Machine(16, False), {"batch_size": 32, "schedule": "async", "num_actors": 5, "envs_per_actor": 7}, 5, 7),
    ],
)
def test_what_else_counts(machine, needs, actors, envs):
    sizes = choose_sizes(machine, **needs)
    assert (sizes.num_actors, sizes.envs_per_actor) == (actors, envs)


@pytest.mark.parametrize("schedule", ["async", "lockstep", "processes", "a3c"])
@pytest.mark.parametrize("batch_size", [1, 2, 7, 8, 24, 31, 32, 50, 64, 256])
def test_batches_are_whole_and_the_lag_and_emulator_threads_are_bounded(schedule, batch_size):
    for machine in MACHINES:
        sizes = choose_sizes(machine, batch_size=batch_size, schedule=schedule)
        assert min(sizes) >= 1
        groups = GroupSizes(sizes.envs_per_actor, batch_size)
        assert 1 in (groups.per_actor, groups.per_batch)  # one divides the other
        assert sizes.env_threads <= sizes.envs_per_actor
        waiting = EMULATOR_THREADS_WITH_GPU if machine.has_gpu and schedule != "processes" else 1
        assert sizes.env_threads == 1 or sizes.num_actors * sizes.env_threads <= machine.cores * waiting
        if schedule == "a3c":
            assert groups.per_batch == 1
        else:
            assert sizes.num_actors * sizes.envs_per_actor <= max(BATCHES * batch_size, MIN_ENVS)


def test_emulators_use_the_cores_of_actors_that_wait_for_a_gpu():
    needs = {"batch_size": 32, "schedule": "async"}
    assert choose_sizes(Machine(16, False), **needs).env_threads == 16 // 8
    assert choose_sizes(Machine(16, True), **needs).env_threads == 2 * 16 // 4
    assert choose_sizes(Machine(16, True), **{**needs, "schedule": "processes"}).env_threads == 1  # actors use no GPU


@pytest.mark.parametrize("envs_per_actor", [0, 1, 3, 10, 30, 60])
@pytest.mark.parametrize("num_learners", [1, 2, 3, 4])
def test_tasks_have_equal_shares(envs_per_actor, num_learners):
    sizes = {"batch_size": 24, "num_tasks": 30, "envs_per_actor": envs_per_actor, "num_learners": num_learners}
    for machine in MACHINES:
        for schedule in ("async", "processes"):
            actors, envs, *_ = choose_sizes(machine, schedule=schedule, **sizes)
            assert actors % num_learners == 0
            assert all(share_of(30, envs, (index, actors)).num_envs for index in range(actors))


@pytest.mark.parametrize("schedule", ["async", "lockstep", "processes", "a3c"])
@pytest.mark.parametrize("num_tasks", [0, 2, 30])
def test_levels_are_bounded_by_the_cores(schedule, num_tasks):
    """But for one actor, which needs a level of each task, and with A3C a batch."""
    min_rows = max(num_tasks, 30 if schedule == "a3c" else 1)
    for machine in MACHINES:
        needs = {"batch_size": 30, "schedule": schedule, "env_name": "dmlab", "num_tasks": num_tasks}
        actors, envs, *_ = choose_sizes(machine, **needs)
        assert actors * envs <= max(LEVELS_PER_CORE * machine.cores, min_rows)


def test_batches_of_a3c_with_too_many_environments_for_all_tasks_are_refused(tmp_path):
    config = config_of("impala.atari_57", "paper", num_actors=0, envs_per_actor=0, schedule="a3c")
    config.learner.batch_size = 32
    with pytest.raises(
        ValueError, match=r"with runtime.schedule=a3c .* whole batches of 32 .* all 57 .* takes 1824 env"
    ):
        fill_in(config, tmp_path, lambda: CPU)


def test_a_batch_of_a3c_that_gpus_cannot_share_is_refused(tmp_path, monkeypatch):
    """A share without an unroll has no mean."""
    strategy = SimpleNamespace(scope=contextlib.nullcontext, num_replicas_in_sync=2)
    monkeypatch.setattr(devices, "make_strategy", lambda: strategy)
    config = config_of("impala.gymnasium", "smoke", schedule="a3c", num_actors=2, envs_per_actor=1)
    config.learner.batch_size = 1
    run = RunDirectory(tmp_path / "run", config.to_dict(), seed=1)
    with pytest.raises(ValueError, match=r"learner\.batch_size=1 must be a multiple of the number of GPUs, 2: "):
        find_experiment(config).build_trainer(1, run, print)


@pytest.mark.parametrize(
    ("name", "message", "sizes"),
    [
        ("impala.atari_shallow", "2 actors of 16 games, 1 emulator thread each", (2, 16, None, 1)),
        ("acer.atari", "2 actors of 8 games, 1 emulator thread each", (2, 8, None, 1)),
        ("stac.atari", "2 actors of 16 games, 1 emulator thread each", (2, 16, None, 1)),
        ("impala.gymnasium", "1 actor of 32 environments, 2 TensorFlow threads", (1, 32, 2, 0)),
        ("acer.continuous", "1 actor of 16 environments, 2 TensorFlow threads", (1, 16, 2, None)),
        ("stac.dm_control_features", "1 actor of 24 environments, 2 TensorFlow threads", (1, 24, 2, None)),
    ],
)
def test_zeros_of_a_configuration_are_replaced(tmp_path, name, message, sizes):
    config = config_of(name, num_actors=0, envs_per_actor=0)
    if "threads" in config.runtime:
        config.runtime.threads = 0
    assert fill_in(config, tmp_path, lambda: CPU) == f"Chosen for 2 cores: {message}."
    runtime = resolve(config).runtime
    assert tuple(runtime.get(x) for x in ("num_actors", "envs_per_actor", "threads", "env_threads")) == sizes


def test_replayed_unrolls_are_not_played(tmp_path):
    config = config_of("impala.atari_shallow", "paper", envs_per_actor=0)
    config.replay.fraction = 0.75
    fill_in(config, tmp_path, lambda: CPU)
    assert config.runtime.envs_per_actor == 16  # of batches of 8


def test_an_agents_own_field_is_replaced_where_it_stands(tmp_path):
    config = config_of("refer.figure_4_vracer")
    config.agent = "acer"
    config.variants.acer.runtime.num_actors = 0
    assert fill_in(config, tmp_path, lambda: Machine(1, True)) is not None
    assert config.variants.acer.runtime.num_actors == 1
    assert "num_actors" not in config.runtime


@pytest.mark.parametrize("name", ["impala.atari_shallow", "impala.gymnasium", "ctrace.dqn", "ctrace.tabular_fig1"])
def test_configurations_without_a_question_stay_as_they_are(tmp_path, name):
    config = config_of(name)
    before = config.to_dict()
    assert fill_in(config, tmp_path, pytest.fail) is None
    assert config.to_dict() == before


@pytest.mark.parametrize("field", ["num_actors", "envs_per_actor"])
def test_what_cannot_be_chosen_is_one_sentence(tmp_path, field):
    with pytest.raises(
        ValueError, match=rf"runtime\.{field}=0: exploration and learning of agent ctrace depend on its number of env"
    ):
        fill_in(config_of("ctrace.r2d2", **{field: 0}), tmp_path, lambda: CPU)
    with pytest.raises(ValueError, match=rf"runtime\.{field}=-1: choose 1 or more, or 0 to have it chosen"):
        fill_in(config_of("impala.atari_shallow", **{field: -1}), tmp_path, lambda: CPU)


@pytest.mark.parametrize("num_learners", [0, -1])
def test_sizes_for_no_learner_are_one_sentence(tmp_path, num_learners):
    config = config_of("impala.atari_shallow", num_actors=0, schedule="processes", num_learners=num_learners)
    with pytest.raises(ValueError, match=rf"^runtime\.num_learners={num_learners}: choose 1 or more\.$"):
        fill_in(config, tmp_path, lambda: CPU)


def test_a_resume_goes_on_with_the_sizes_of_the_run(tmp_path):
    """On another machine, whether the sizes are 0 again or the ones that were chosen."""
    asked = {"num_actors": 0, "envs_per_actor": 0}
    config = config_of("impala.atari_shallow", **asked)
    fill_in(config, tmp_path, lambda: CPU)
    save(tmp_path, config)
    again = config_of("impala.atari_shallow", **asked)
    assert changed_settings(tmp_path, again.to_dict(), seed=1) == []
    message = fill_in(again, tmp_path, pytest.fail)
    assert message == f"Sizes of the run in {tmp_path}: 2 actors of 16 games, 1 emulator thread each."
    assert again.to_dict() == config.to_dict() == read_settings(tmp_path)["config"]
    other = config_of("impala.atari_shallow", num_actors=3, envs_per_actor=0)
    fill_in(other, tmp_path, pytest.fail)
    with pytest.raises(RunDirectoryError, match=r"other settings \(runtime\.num_actors: 2 there, 3 here\)"):
        RunDirectory(tmp_path, other.to_dict(), seed=1)


def test_a_folder_in_which_nothing_was_saved_has_no_sizes(tmp_path):
    config = config_of("impala.atari_shallow")
    RunDirectory(tmp_path, config.to_dict(), seed=1).release()
    again = config_of("impala.atari_shallow", num_actors=0)
    assert not take_saved(again, tmp_path)
    assert again.runtime.num_actors == 0


def test_a_record_of_chosen_sizes_is_not_stale():
    config = config_of("impala.atari_shallow", num_actors=0, envs_per_actor=0).to_dict()
    record = config | {"runtime": config["runtime"] | {"num_actors": 4, "envs_per_actor": 8, "env_threads": 2}}
    assert config_difference(record, config) == {}
    fixed = config | {"runtime": config["runtime"] | {"num_actors": 2}}
    assert config_difference(record, fixed) == {"runtime.num_actors": (4, 2)}
    assert list(config_difference({"loss": {"num_actors": 4}}, {"loss": {"num_actors": 0}})) == ["loss.num_actors"]


def test_a_run_says_and_keeps_what_was_chosen(tmp_path):
    run_dir = tmp_path / "run"
    zeros = [f"--config.runtime.{name}=0" for name in ("num_actors", "envs_per_actor", "threads")]
    arguments = ["--config=paper_configs/impala/gymnasium.py:smoke", "--config.num_env_steps=2000", *zeros]
    trained = run_command(tmp_path, "repro.train", f"--run_dir={run_dir}", *arguments)
    assert trained.returncode == 0, trained.stderr
    machine = devices.find_machine()
    sizes = choose_sizes(machine, batch_size=16, schedule="async", env_name="gymnasium")
    message = trained.stderr.splitlines()[0]
    assert message.startswith(f"Chosen for {machine.cores} core")
    assert f": {sizes.num_actors} actor" in message
    runtime = json.loads((run_dir / "config.json").read_text())["config"]["runtime"]
    assert {name: runtime[name] for name in ("num_actors", "envs_per_actor", "threads")} == {
        "num_actors": sizes.num_actors,
        "envs_per_actor": sizes.envs_per_actor,
        "threads": sizes.threads,
    }
