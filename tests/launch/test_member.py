"""Pieces of a population as real runs: CartPole, in lockstep, with a few updates."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from paper_configs.impala import gymnasium_population
from repro.acting.supervision import Interrupted
from repro.config import resolve
from repro.launch.member import RESULT, train_piece
from repro.launch.pieces import Piece
from repro.launch.population import apply_hparams
from repro.training import devices
from repro.training.learner import NonFiniteLossError
from repro.training.run_directory import RunDirectory, copy_checkpoint, read_progress, read_settings
from repro.training.trainer import Trainer
from repro.training.unroll_trainer import UnrollTrainer
from tests.papers.impala.test_multitask import small_config

STEPS = 4 * 40
"""Of one update: 4 games, unrolls of 40 steps."""
FIRST = {"learning_rate": 1e-3, "rmsprop_epsilon": 0.1, "entropy_cost": 1e-2, "clip_global_norm": 0.0}


def make_config(updates):
    config = gymnasium_population.get_config("smoke")
    config.num_env_steps = updates * STEPS
    config.learner.batch_size = config.runtime.envs_per_actor = 4
    config.learner.unroll_length = 40
    config.runtime.schedule = "lockstep"
    config.population.interval = 2 * STEPS
    return resolve(config).to_dict()


def make_piece(folder, number=0, start=0, end=1, parent=None, seed=7, updates=3, collects_from_none=False, **hparams):
    config = apply_hparams(make_config(updates), {**FIRST, **hparams})
    return Piece(0, number, folder, config, seed, start, end * STEPS, parent, collects_from_none)


def train(piece, stop=lambda: False):
    return train_piece(piece, stop, print)


def read(folder: Path) -> tuple[dict[str, np.ndarray], list[np.ndarray]]:
    """Of the newest checkpoint: weights by name, and the slots of RMSProp in their order."""
    newest = max(folder.glob("checkpoints/checkpoint_*"))
    reader = tf.train.load_checkpoint(str(newest / "variables"))
    names = [name for name in reader.get_variable_to_dtype_map() if name.endswith("VARIABLE_VALUE")]
    slots = sorted((name for name in names if "/_variables/" in name), key=lambda name: int(name.split("/")[3]))
    return {x: reader.get_tensor(x) for x in names if "/_network/" in x}, [reader.get_tensor(x) for x in slots]


def moved(folder: Path, begun: Path) -> np.ndarray:
    """How far each weight is from the first piece's."""
    (now, _), (before, _) = read(folder), read(begun)
    return np.concatenate([(now[name] - before[name]).ravel() for name in sorted(now)])


@pytest.fixture(autouse=True, scope="module")
def _threads_stay():
    """TensorFlow has begun in this process, and its threads cannot be changed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(devices, "configure_threads", lambda **_: 1)
        yield


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A member's folder after its first piece, of one update, and the result."""
    folder = tmp_path_factory.mktemp("begun") / "member"
    return folder, train(make_piece(folder))


@pytest.fixture(scope="module")
def continued(begun, tmp_path_factory):
    """A member's folder after a second piece with the same hyper-parameters, and the result."""
    folder = tmp_path_factory.mktemp("continued") / "member"
    shutil.copytree(begun[0], folder)
    return folder, train(make_piece(folder, number=1, start=1, end=2))


def test_a_piece_ends_at_its_boundary_and_is_not_trained_twice(begun, monkeypatch):
    folder, result = begun
    assert result.updates == 1
    assert result.episodes > 0
    assert [path.name for path in folder.glob("checkpoints/*")] == ["checkpoint_000000001"]
    monkeypatch.setattr(Trainer, "__iter__", None)
    assert train(make_piece(folder)) == result
    (folder / RESULT).unlink()
    assert train(make_piece(folder)) == result  # read from the checkpoint


def test_a_piece_that_waits_for_its_folder_is_stopped(tmp_path):
    piece = make_piece(tmp_path / "member")
    other = RunDirectory(piece.folder, piece.config, piece.seed)
    try:
        assert train(piece, stop=lambda: True) is None
    finally:
        other.release()


@pytest.mark.slow
def test_a_changed_learning_rate_reaches_the_compiled_step(begun, continued, tmp_path):
    """One update with the same games moves each weight 1.2 times as far, whatever was compiled before."""
    shutil.copytree(begun[0], tmp_path / "member")
    piece = make_piece(tmp_path / "member", number=1, start=1, end=2, learning_rate=1.2e-3, collects_from_none=True)
    result = train(piece)
    base = moved(continued[0], begun[0])
    np.testing.assert_allclose(moved(piece.folder, begun[0]), 1.2 * base, rtol=1e-2, atol=1e-3 * np.abs(base).max())
    assert np.abs(base).max() > 1e-4
    learner = read_settings(piece.folder)["config"]["learner"]
    assert (learner["learning_rate"], learner["final_learning_rate"]) == (1.2e-3, 1.2e-3)
    # The same games end, and only those of this piece count.
    first, both = begun[1], continued[1]
    assert result.episodes == both.episodes - first.episodes > 0
    summed = first.mean_returns[0] * first.episodes + result.mean_returns[0] * result.episodes
    assert both.mean_returns[0] * both.episodes == pytest.approx(summed)


def test_a_changed_epsilon_and_entropy_cost_reach_the_compiled_step(begun, continued, tmp_path):
    """An epsilon a million times as large stops the weights; the entropy loss of one and the same batch is 3 times."""
    shutil.copytree(begun[0], tmp_path / "member")
    piece = make_piece(tmp_path / "member", number=1, start=1, end=2, rmsprop_epsilon=1e8, entropy_cost=3e-2)
    train(piece)
    assert np.abs(moved(piece.folder, begun[0])).max() < 0.1 * np.abs(moved(continued[0], begun[0])).max()
    now, before = (read_progress(folder / "progress.csv")[-1] for folder in (piece.folder, continued[0]))
    assert now["entropy_loss"] == pytest.approx(3 * before["entropy_loss"], rel=1e-5)


def test_a_changed_clip_reaches_the_compiled_step(begun, continued, tmp_path):
    """Gradients of a millionth of their size hardly move the weights."""
    shutil.copytree(begun[0], tmp_path / "member")
    train(make_piece(tmp_path / "member", number=1, start=1, end=2, clip_global_norm=1e-6))
    assert np.abs(moved(tmp_path / "member", begun[0])).max() < 1e-3 * np.abs(moved(continued[0], begun[0])).max()


@pytest.mark.slow
def test_a_member_that_diverged_goes_on_with_the_weights_and_the_optimizer_of_its_parent(begun, tmp_path, monkeypatch):
    """It loses the updates of the piece; its own games go on. A rate of 0 keeps the weights where they are."""
    child, parent, copy = (tmp_path / name for name in ("child", "parent", "copy"))
    shutil.copytree(begun[0], child)
    with monkeypatch.context() as patch:
        patch.setattr(UnrollTrainer, "_update", diverge)
        diverged = train(make_piece(child, number=1, start=1, end=2))
    assert diverged == (2, 0, [], True)
    train(make_piece(parent, seed=8))
    copy_checkpoint(parent, copy)

    result = train(make_piece(child, number=2, start=2, end=3, parent=copy, learning_rate=0.0))

    assert (result.updates, result.diverged) == (3, False)
    summary = json.loads((child / "complete.json").read_text())
    assert (summary["num_env_steps"], summary["gradient_steps"]) == (2 * STEPS, 2)  # the second update was not made
    (weights, slots), (of_parent, slots_of_parent), (own, own_slots) = read(child), read(parent), read(begun[0])
    for name, value in weights.items():
        np.testing.assert_array_equal(value, of_parent[name])
    assert any(np.any(value != own[name]) for name, value in weights.items())
    squares = slice(len(weights))  # those of the means of squares come first, and at most 1 % of one is forgotten
    assert all(np.all(a >= 0.98 * b) for a, b in zip(slots[squares], slots_of_parent[squares]))
    assert any(np.any(a < 0.98 * b) for a, b in zip(slots[squares], own_slots[squares]))


def test_a_piece_that_is_stopped_adopts_once(begun, continued, tmp_path):
    """Its first update is saved, and the weights that it adopted again would be those before."""
    member, copy = tmp_path / "member", tmp_path / "copy"
    shutil.copytree(begun[0], member)
    copy_checkpoint(begun[0], copy)
    piece = make_piece(member, number=1, start=1, end=3, parent=copy)
    assert train(piece, stop=lambda: True) is None
    (stopped, _), (one_update, _) = read(member), read(continued[0])
    for name, value in stopped.items():
        np.testing.assert_array_equal(value, one_update[name])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(UnrollTrainer, "_update", lambda trainer: ({"loss": 0.0}, 0.0))  # learns nothing more
        assert train(piece).updates == 3
    for name, value in read(member)[0].items():
        np.testing.assert_array_equal(value, one_update[name])


def diverge(_):
    raise NonFiniteLossError("update 2 gave loss=nan")


@pytest.mark.slow
def test_a_piece_of_several_tasks_gives_the_mean_return_of_each(tmp_path):
    """Its games end after 100 steps; balls are served and lost without FIRE in pong alone."""
    config = small_config("pong", "breakout")
    config.population = gymnasium_population.get_config("smoke").population
    plain = apply_hparams(resolve(config).to_dict(), FIRST)
    result = train(Piece(0, 0, tmp_path / "member", plain, 7, 0, 7 * 256, None, False))
    assert (result.updates, result.episodes) == (7, 4)  # of 16 steps each, with two environments a game
    assert result.mean_returns[0] < 0 <= result.mean_returns[1]
    again = train(Piece(0, 1, tmp_path / "member", plain, 7, 7, 8 * 256, None, True))
    assert (again.updates, again.mean_returns) == (8, [])  # no game of both has ended since


def test_an_interval_below_two_updates_is_an_error_of_the_first_piece(tmp_path):
    piece = make_piece(tmp_path / "member")
    piece.config["population"]["interval"] = 2 * STEPS - 1
    with pytest.raises(ValueError, match="population.interval=319 is too short for updates of 160 steps: choose 320"):
        train(piece)


def test_a_member_that_waits_for_its_actors_is_stopped_and_saved(begun, tmp_path, monkeypatch):
    """Its second update waits until it is interrupted; the first is saved."""
    shutil.copytree(begun[0], tmp_path / "member")
    waiting, interrupted, update = threading.Event(), threading.Event(), UnrollTrainer._update

    def wait(trainer):
        if trainer.updates < 2:
            return update(trainer)
        waiting.set()
        assert interrupted.wait(60), "the wait was not interrupted"
        raise Interrupted

    monkeypatch.setattr(UnrollTrainer, "_update", wait)
    monkeypatch.setattr(UnrollTrainer, "interrupt", lambda trainer: interrupted.set())
    assert train(make_piece(tmp_path / "member", number=1, start=1, end=3), stop=waiting.is_set) is None
    assert max(path.name for path in tmp_path.glob("member/checkpoints/*")) == "checkpoint_000000002"
