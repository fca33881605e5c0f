"""The command as a user meets it: errors in one sentence, a stop, and the same lineage after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf

from paper_configs.impala import gymnasium_population
from repro import cli
from repro.environments.dmlab_module import FOLDER_VARIABLE, MISSING
from repro.launch.lineage import PopulationError, read_lineage
from repro.launch.member import train_piece
from repro.launch.pieces import Piece
from repro.launch.population import Population
from repro.launch.recorded_job import Stopped
from repro.launch.workers import WorkerPool
from repro.training import devices
from tests.support.forked_train import run_command

CONFIG = "--config=paper_configs/impala/gymnasium_population.py:smoke"
SETTINGS = {
    "num_env_steps": 1280,  # four updates
    "runtime.schedule": "lockstep",
    "population.burn_in": 0,
    "population.interval": 640,
    "population.episodes": 1,
    "population.probability": 1.0,
    "population.threshold": 0.0,
}


def start(path, *arguments):
    settings = [f"--config.{name}={value}" for name, value in SETTINGS.items()]
    command = [sys.executable, "-m", "repro.population", CONFIG, f"--run_dir={path}", *settings, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(path, process, firsts=120.0):
    end = time.monotonic() + firsts
    while not path.exists() and time.monotonic() < end and process.poll() is None:
        time.sleep(0.02)
    assert path.exists(), process.stderr.read()


def weights(path, member):
    newest = max((path / f"member_{member:02d}/checkpoints").glob("checkpoint_*"))
    reader = tf.train.load_checkpoint(str(newest / "variables"))
    names = sorted(name for name in reader.get_variable_to_dtype_map() if "/_network/" in name)
    return np.concatenate([reader.get_tensor(name).ravel() for name in names])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--config=paper_configs/impala/gymnasium.py:smoke"], "gymnasium has no section 'population'"),
        ([CONFIG, "--config.population.size=1"], "population.size=1: evolution needs two members or more."),
        (
            [CONFIG, "--config.population.burn_in=20000"],
            "population.burn_in=20000: choose less than the budget, 20000.",
        ),
        ([CONFIG, "--config.population.sise=3"], "no field 'population.sise'; did you mean 'population.size'?"),
    ],
)
def test_input_that_cannot_be_used_is_one_sentence_and_exit_code_2(tmp_path, arguments, sentence):
    done = run_command(tmp_path, "repro.population", f"--run_dir={tmp_path / 'x'}", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("name", ["dmlab_population", "dmlab_30_population"])
def test_a_module_that_is_missing_is_named_before_a_member_begins(tmp_path, monkeypatch, name):
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    config, path = f"--config=paper_configs/impala/{name}.py:smoke", tmp_path / "x"
    done = run_command(tmp_path, "repro.population", config, f"--run_dir={path}")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"repro.population: {MISSING}\n")
    assert not path.exists()


def test_a_population_is_not_trained_as_one_run(tmp_path):
    done = run_command(tmp_path, "repro.train", CONFIG, f"--run_dir={tmp_path / 'x'}")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"repro.train: the configuration is of a population; train it with {cli.command('repro.population')}.\n"
    )
    assert not (tmp_path / "x").exists()


def test_what_is_asked_to_stop_begins_no_piece(tmp_path):
    piece = Piece(0, 0, tmp_path / "member", {}, 1, 0, 1, None, False)
    with WorkerPool(1) as pool:
        pool.stop()
        with pytest.raises(Stopped):
            list(pool([piece]))
    assert not piece.folder.exists()


class _Killer:
    """Ends the process in which it is unpickled."""

    def __reduce__(self):
        return os._exit, (9,)


def test_a_process_that_is_killed_is_a_sentence(tmp_path):
    with WorkerPool(1) as pool, pytest.raises(PopulationError, match="A member's process was killed"):
        list(pool([Piece(0, 0, tmp_path / "member", {"killer": _Killer()}, 1, 0, 1, None, False)]))


@pytest.mark.slow
def test_a_member_that_fails_is_a_sentence_and_the_others_are_asked_to_stop(tmp_path):
    """Its configuration is empty."""
    with WorkerPool(1) as pool:
        with pytest.raises(PopulationError, match=r"Member 3 failed with AttributeError: .*; see .*member/log.txt\."):
            list(pool([Piece(3, 0, tmp_path / "member", {}, 1, 0, 1, None, False)]))
        assert pool._stop.is_set()
    assert "Traceback" in (tmp_path / "member" / "log.txt").read_text()


@pytest.mark.slow
def test_a_kill_leaves_the_lineage_and_the_weights_as_they_would_have_been(tmp_path, monkeypatch):
    monkeypatch.setattr(devices, "configure_threads", lambda **_: 1)
    config = gymnasium_population.get_config("smoke")
    for name, value in SETTINGS.items():
        config.update_from_flattened_dict({name: value})
    whole = Population(config, 1, tmp_path / "whole")
    whole.train(lambda pieces: [(x.member, train_piece(x, lambda: False, print)) for x in pieces], lambda _: None)

    parts = tmp_path / "parts"
    first = start(parts)
    begins = f"Training 2 members of pbt on CartPole-v1, seed 1, for 1,280 steps each in {parts}, "
    assert first.stderr.readline() == f"{begins}1 at a time, from the beginning.\n"
    wait_for(parts / "member_01/piece.json", first)
    first.send_signal(signal.SIGKILL)
    first.communicate()

    second = start(parts, "--jobs=2")
    output, errors = second.communicate(timeout=240)
    assert second.returncode == 0, errors
    assert errors.startswith(f"{begins}2 at a time, from their last checkpoints.\n")
    assert f"--run_dir={parts / f'member_{whole.lineage.best:02d}'}" in output
    assert errors.count("member 0 ") == errors.count("member 1 ") > 0
    assert (parts / "lineage.svg").exists()
    (parts / "origin.json").touch()  # as where it is trained for a record, and evaluated by what has started it
    assert start(parts).communicate(timeout=240) == (f"{parts} is complete, see {parts / 'lineage.svg'}.\n", "")
    assert read_lineage(parts) == whole.lineage
    assert json.loads((parts / "complete.json").read_text()) == {"best": whole.lineage.best}
    for member in (0, 1):
        # Here TensorFlow has other threads, and adds in another order.
        np.testing.assert_allclose(weights(parts, member), weights(tmp_path / "whole", member), rtol=1e-3, atol=1e-5)
    hparams = whole.lineage.rounds[-1][0].hparams
    assert all(not np.isclose(hparams[name], whole.lineage.first[0][name]) for name in hparams)
