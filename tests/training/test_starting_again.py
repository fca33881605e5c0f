"""Runs of several learners in which one is lost and that are told to stop in the meantime."""

from __future__ import annotations

import pytest

from tests.support.forked_train import run_program

LOST = """
import os, signal, sys, threading, types
from repro import cli, papers, train
from repro.training.learner_group import LearnerLostError
from repro.launch import ray_cluster

class Trainer:
    total_updates, frames_per_update, unit, progress_scalars = 10, 1, "steps", ()
    updates = saved_updates = frames = 0
    complete, can_save, saving = False, True, threading.Lock()
    has_checkpoint = True
    def __iter__(self):
        self.saved_updates = 3
        raise LearnerLostError("Learner 1 is gone.")
        yield
    def interrupt(self):
        heard.set()
    def close(self):
        stop_in("close")

def stop_in(name):
    if WHERE == name:
        os.kill(os.getpid(), signal.SIGTERM)
        heard.wait()

def start(*_):
    print("started again", file=sys.stderr)
    raise SystemExit(5)

class Experiment:
    evaluation = types.SimpleNamespace(episodes=1)
    def __init__(self, config):
        self.config = config
    def describe_evaluation(self, *_):
        return ""
    def build_trainer(self, *_):
        return Trainer()

heard, WHERE = threading.Event(), sys.argv.pop(1)
papers.find_experiment, os.execv, ray_cluster.leave = Experiment, start, lambda: stop_in("leave")
cli.run(train.main)
"""


@pytest.mark.parametrize(("where", "code"), [("nowhere", 5), ("close", 1), ("leave", 1)])
def test_a_stop_while_learners_start_again_is_heard_and_says_that_not_all_is_saved(tmp_path, where, code):
    flags = ["--config=paper_configs/impala/gymnasium.py:smoke", f"--run_dir={tmp_path}"]
    (tmp_path / "checkpoints/checkpoint_000000003").mkdir(parents=True)
    ended = run_program(tmp_path, LOST, where, *flags)
    assert ended.returncode == code, ended.stderr
    assert ("started again" in ended.stderr) == (code == 5)
    assert ("Stopped at the last checkpoint" in ended.stderr) == (code == 1)
