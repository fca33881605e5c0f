"""What the commands need of an experiment, whatever its paper."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, NoReturn, Protocol, runtime_checkable

import ml_collections
from tf_agents.agents import tf_agent
from tf_agents.policies import tf_policy

from repro.acting.actor_processes import Launcher
from repro.environments.batched import BatchedEnvironment
from repro.training.learner_group import ChiefLink
from repro.training.run_directory import RunDirectory
from repro.training.trainer import Trainer

Warn = Callable[[str], None]
"""Called with one line, as when a broken checkpoint is passed over."""


class Evaluation(NamedTuple):
    """The evaluation after training that `repro.evaluate` makes by default.

    episodes: number of episodes played in all.
    num_envs: largest number of environments side by side.
    unit: unit of the returns.
    """

    episodes: int
    num_envs: int
    unit: str


class TrainedPolicy(NamedTuple):
    """The policy of a run's checkpoint, with environments to evaluate it in.

    policy: policy for evaluations.
    environment: environments of whole games.
    updates: number of updates behind the checkpoint.
    """

    policy: tf_policy.TFPolicy
    environment: BatchedEnvironment
    updates: int


class Experiment(Protocol):
    """Builds the parts of a run from its configuration; `make_experiment` of a module in `experiments/` returns it.

    Attributes:
        config: configuration with the agent's own fields in place (`repro.config.resolve`).
    """

    @property
    def config(self) -> ml_collections.ConfigDict: ...

    @property
    def evaluation(self) -> Evaluation: ...

    def describe_evaluation(self, episodes: int, when: str) -> str:
        """Returns the protocol of an evaluation in one line, for records, given its time in training."""

    def make_environment(self, num_envs: int, seed: int) -> BatchedEnvironment:
        """Returns environments for training.

        Raises:
            ValueError: a field has an impossible value; the message names it.
        """

    def build_trainer(self, seed: int, run: RunDirectory, warn: Warn) -> Trainer:
        """Returns a run, restored from its last checkpoint if it has one.

        Args:
            seed: seed from which all seeds of the run are derived.
            run: folder of the run, for checkpoints.
            warn: see `Warn`.

        Raises:
            ValueError: a field has an impossible value; the message names it.
            CheckpointError: no checkpoint is whole.
        """

    def load_policy(self, checkpoints: Path, num_envs: int, seed: int, warn: Warn) -> TrainedPolicy:
        """Returns the policy of a run's newest whole checkpoint, and environments to evaluate it in.

        Args:
            checkpoints: folder of the run's checkpoints.
            num_envs: number of environments side by side.
            seed: seed of the environments.
            warn: see `Warn`.

        Raises:
            CheckpointError: the run has no checkpoint yet, or none is whole.
        """


FindExperiment = Callable[[ml_collections.ConfigDict], Experiment]
"""Returns the experiment that a configuration describes."""


@runtime_checkable
class RemoteActing(Protocol):
    """An experiment whose actors can be processes of their own, with `runtime.schedule=processes`.

    Attributes:
        SCHEDULES: values of `runtime.schedule` that the experiment supports.
    """

    SCHEDULES: tuple[str, ...]

    @property
    def config(self) -> ml_collections.ConfigDict: ...

    @property
    def evaluation(self) -> Evaluation: ...

    def make_evaluation_agent(self, num_envs: int, seed: int) -> tuple[tf_agent.TFAgent, BatchedEnvironment]:
        """Returns an agent with new weights, whose `policy` evaluates, and environments as `load_policy` does.

        Args:
            num_envs: number of environments side by side.
            seed: seed of the environments.
        """

    def build_trainer(self, seed: int, run: RunDirectory, warn: Warn, launch: Launcher | None = None) -> Trainer:
        """See `Experiment.build_trainer`; `launch` starts actors in processes; None for this machine."""

    def run_remote_actor(self, seed: int, index: int, start: int, address: str) -> None:
        """Plays as one actor until the learner is gone.

        Args:
            seed: seed of the run.
            index: number of the actor, from 0.
            start: how often it was started before; another start plays other games.
            address: address of the learner's server.

        Raises:
            ValueError: the run has no such actor.
        """


@runtime_checkable
class RemoteStoring(Protocol):
    """An experiment whose replay can be in a process of its own, with `runtime.replay_gb` above 0."""

    def run_remote_replay(self, folder: Path, address: str, key: str) -> NoReturn:
        """Serves the replay until the learner is gone.

        Args:
            folder: folder for temporary files of this process alone.
            address, key: see `Launcher.start_replay`.
        """


@runtime_checkable
class SynchronousLearning(Protocol):
    """An experiment that can be learned by several processes together, `runtime.num_learners` of them."""

    @property
    def config(self) -> ml_collections.ConfigDict: ...

    def run_learner(self, seed: int, chief: ChiefLink, launcher: Launcher, gpu: int) -> NoReturn:
        """Learns with the chief until it is gone.

        Args:
            seed: seed of the run.
            chief: connection to the chief.
            launcher: starts this learner's actors.
            gpu: number of this learner's GPU, where there are GPUs.
        """
