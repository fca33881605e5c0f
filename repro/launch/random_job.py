"""A job that records the returns of random play, the baseline of all scores."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import ml_collections
import numpy as np
from rich.console import Console

from repro import cli
from repro.config import budget, frames_per_step, of_task
from repro.environments.names import task_name
from repro.evidence import random_player, records
from repro.evidence.statistics import summarize_returns
from repro.launch.recorded_job import RecordedJob, Stopped
from repro.launch.recording import budget_fields, circumstances, identity_fields, utc_now

EPISODES, NUM_ENVS = 100, 20
SEED_OFFSET = 2_000_000
"""Offset of seeds, so that the games differ from those of training and evaluation."""


class RandomJob(RecordedJob):
    """Plays an experiment's task with actions sampled uniformly from all actions, and records the returns.

    TensorFlow computes on the CPU, because a later study in the same process could not hide the GPUs any more.

    Args:
        config: configuration of the experiment at its scale; its `env` is played as in an evaluation.
        task: task that replaces `config.env.task`.
        seed: seed of the games and the actions.
        results_dir: root of the records.

    Raises:
        ValueError: the task is unknown.
    """

    def __init__(self, config: ml_collections.ConfigDict, task: str, seed: int, results_dir: Path) -> None:
        config = of_task(config, task_name(config.env.name, task))
        self.label = f"{config.experiment} {random_player.AGENT} {config.env.task} seed {seed}"
        names = (config.paper, config.experiment, config.env.task, random_player.AGENT)
        super().__init__(config, seed, [records.record_path(results_dir, *names, seed)])
        self._returns: list[float] = []

    def run(self, cores: list[int], quiet: bool) -> None:
        """Plays the games and writes the record; see `RecordedJob.run`. An interrupted job starts over."""
        from repro.acting.play import play
        from repro.acting.rollout import Episode
        from repro.acting.uniform_policy import UniformPolicy
        from repro.environments.make import make_evaluation_environment
        from repro.training import devices
        from repro.training.evaluation import describe_games, score_unit

        os.sched_setaffinity(0, cores)  # applies to this thread and the emulators' threads that it starts
        devices.hide_gpus()
        started, began, commit = utc_now(), time.monotonic(), self.find_commit()
        seed = SEED_OFFSET + self.seed
        frames = 0

        def count(game: Episode) -> None:
            nonlocal frames
            frames += game.frames
            self._returns.append(game.score)

        self._returns.clear()
        with contextlib.closing(make_evaluation_environment(self.config, NUM_ENVS, seed)) as environment:
            policy = UniformPolicy(environment.time_step_spec, environment.action_spec)
            try:
                games = play(policy, environment, EPISODES, seed, count, self._check_stop)
            except KeyboardInterrupt:
                raise Stopped from None
        seconds = time.monotonic() - began
        if not quiet:
            cli.say(Console(), f"{self.label}: {EPISODES} episodes in {seconds:.0f} s")
        env = self.config.env
        protocol = describe_games(env, EPISODES, "actions sampled uniformly")
        record = identity_fields(self._played_config(), random_player.AGENT, self.seed, "random") | {
            **budget_fields(budget(self.config)[0], frames, seconds),
            "agent_steps": frames // frames_per_step(self.config),
            "gradient_steps": 0,
            "curve": [],
            **circumstances(len(cores), env.name),
            "evaluation": summarize_returns(score_unit(env), protocol, np.array([game.score for game in games])),
            "git_commit": commit,
            "started": started,
            "finished": utc_now(),
        }
        records.write_record(self.record_paths[0], record)

    def share_done(self) -> float:
        return len(self._returns) / EPISODES

    def _played_config(self) -> ml_collections.ConfigDict:
        """Returns the part of the configuration that random play reads."""
        names = ("paper", "experiment", "scale", "env")
        fields = {name: self.config[name] for name in names}
        return ml_collections.ConfigDict(fields | {"agent": random_player.AGENT})
