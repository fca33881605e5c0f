"""The compiled train step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tf_agents.agents import tf_agent

from repro.memory import as_tensor
from repro.quiet import suppress_stderr
from repro.replay.frame_stacks import with_stacks


class NonFiniteLossError(RuntimeError):
    """The loss or the gradient became NaN or infinite."""


class RetracedError(RuntimeError):
    """The train step was traced again after its first call, which costs seconds each time."""


class LearnerOutput(NamedTuple):
    """What one update gives.

    scalars: the loss (summed over replicas, of all learners) and the agent's scalar extras (their means) by name.
    per_sequence: the agent's extras that have a value for each sequence of the batch, [B], by name.
    """

    scalars: dict[str, float]
    per_sequence: dict[str, np.ndarray]


class Learner:
    """Runs `agent.train` as one compiled function under a distribution strategy.

    Stacks of frames come as `Frames` and are stacked in that function, on the device that learns.

    Args:
        agent: built under the strategy's scope.
        strategy: one device, several (mirrored), or that of several learners (`devices.make_learners_strategy`).
        jit_compile: compile with XLA; only with one replica.
        train: function of the agent's to run in place of `agent.train`.

    Attributes:
        agent: as above.
    """

    def __init__(
        self,
        agent: tf_agent.TFAgent,
        strategy: tf.distribute.Strategy,
        jit_compile: bool = False,
        train: Callable[..., tf_agent.LossInfo] | None = None,
    ) -> None:
        self.agent = agent
        self._strategy = strategy
        self._jit_compile = jit_compile
        self._to_tensor = tf.convert_to_tensor if tf.config.list_logical_devices("GPU") else as_tensor
        self._names: list[str] = []
        replicas = strategy.num_replicas_in_sync
        self._local_replicas = 1 if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy) else replicas
        train_on = train or agent.train

        def train_on_stacks(trajectory: Any, *arguments: Any) -> tf_agent.LossInfo:
            return train_on(with_stacks(trajectory), *arguments)

        compiled = tf.function(train_on_stacks, jit_compile=True) if jit_compile else train_on_stacks

        def train_replica(*batch: Any) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
            loss_info = compiled(*batch)
            parts = {"loss": loss_info.loss * float(replicas) if replicas > 1 else loss_info.loss} | loss_info.extra
            scalars = {name: value for name, value in parts.items() if value.shape.rank == 0}
            self._names = list(scalars)
            stacked = tf.stack(list(scalars.values()))
            if replicas > 1:
                stacked = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, stacked)
            return stacked, {name: value for name, value in parts.items() if name not in scalars}

        @tf.function
        def step(*batch: Any) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
            stacked, per_sequence = strategy.run(train_replica, args=batch)
            parts = {name: strategy.experimental_local_results(value) for name, value in per_sequence.items()}
            joined = {name: tf.concat(values, axis=0) for name, values in parts.items()}
            return strategy.experimental_local_results(stacked)[0], joined

        self._trace = step
        self._step: Callable[..., tuple[tf.Tensor, dict[str, tf.Tensor]]] | None = None

    def with_train(self, train: Callable[..., tf_agent.LossInfo]) -> Learner:
        """A learner of the same agent, compiled likewise, that runs another function of the agent's."""
        return Learner(self.agent, self._strategy, self._jit_compile, train)

    def broadcast_variables(self, is_chief: bool) -> None:
        """Gives the variables of the chief's agent to all learners, each of which calls this at the same time.

        The sum over learners of the chief's values and zeros, which is exact: weights, optimizer and counters.

        Args:
            is_chief: whether this learner's values are taken.
        """
        root = tf.train.Checkpoint(agent=self.agent)  # which a view does not keep alive
        variables = [v for v in tf.train.TrackableView(root).descendants() if isinstance(v, tf.Variable)]

        def take() -> None:
            context = tf.distribute.get_replica_context()
            for variable in variables:
                value = tf.identity(variable) if is_chief else tf.zeros_like(variable)
                variable.assign(context.all_reduce(tf.distribute.ReduceOp.SUM, value))

        with suppress_stderr():
            tf.function(lambda: self._strategy.run(take))()

    def to_device(self, trajectory: Any) -> Any:
        """A batch, a nest of NumPy arrays [B, ...], as tensors on the learner's devices, split over their replicas.

        Each of several learners has a batch of its own, of equal size, and one device.
        On a CPU the tensors lie where aligned arrays do (`as_tensor`), which must not change before the step has ended.
        """
        replicas = self._local_replicas
        if replicas == 1:
            return tf.nest.map_structure(self._to_tensor, trajectory)

        def share(context: tf.distribute.ValueContext) -> Any:
            i = context.replica_id_in_sync_group
            return tf.nest.map_structure(lambda x: x[i * len(x) // replicas : (i + 1) * len(x) // replicas], trajectory)

        return self._strategy.experimental_distribute_values_from_function(share)

    def step(self, trajectory: Any, *arguments: Any) -> LearnerOutput:
        """One update.

        Args:
            trajectory: a batch as `to_device` gives it.
            arguments: of the train function behind the trajectory, as weights of its sequences, [B], as `to_device`
                gives them.

        Raises:
            NonFiniteLossError: the loss or an extra is not finite; the weights are spoilt by then.
            RetracedError: the batch's shapes or types differ from the first one's.
        """
        batch = (trajectory, *arguments)
        if self._step is None:
            with suppress_stderr():  # the first call compiles
                self._step = self._compile(batch)
                stacked, per_sequence = self._step(*batch)
        else:
            try:
                stacked, per_sequence = self._step(*batch)
            except TypeError as error:
                raise RetracedError("A batch changed its shape or type.") from error
        values = stacked.numpy()
        scalars = dict(zip(self._names, values.tolist()))
        if not np.isfinite(values).all():
            broken = ", ".join(f"{name}={value}" for name, value in scalars.items() if not np.isfinite(value))
            raise NonFiniteLossError(f"update {int(self.agent.train_step_counter.numpy())} gave {broken}")
        if self._trace.experimental_get_tracing_count() > 1:
            raise RetracedError("The train step was traced twice: a batch changed its shape or type.")
        return LearnerOutput(scalars, {name: value.numpy() for name, value in per_sequence.items()})

    def _compile(self, batch: tuple[Any, ...]) -> Callable[..., tuple[tf.Tensor, dict[str, tf.Tensor]]]:
        """The step for batches like this one. With one replica its calls need not look for it among several traces."""
        return self._trace if self._strategy.num_replicas_in_sync > 1 else self._trace.get_concrete_function(*batch)
