"""The compiled train step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tf_agents.agents import tf_agent

from repro.flat_call import flat_call
from repro.memory import as_tensor
from repro.quiet import suppress_stderr
from repro.replay.frame_stacks import with_stacks


class NonFiniteLossError(RuntimeError):
    """The loss or the gradient became NaN or infinite."""


class RetracedError(RuntimeError):
    """The train step was traced again after its first call, which costs seconds each time."""


class LearnerOutput(NamedTuple):
    """Output of one gradient step.

    scalars: the loss, summed over the replicas of all learners, and the agent's scalar extras, averaged, by name.
    per_sequence: the agent's extras with one value for each sequence of the batch, [B], by name.
    """

    scalars: dict[str, float]
    per_sequence: dict[str, np.ndarray]


class Learner:
    """Runs `agent.train` as one compiled function under a distribution strategy.

    Frame stacks arrive as `Frames` and are assembled in that function, on the learning device.

    Args:
        agent: agent that was built under the strategy's scope.
        strategy: strategy of one device, several (mirrored), or several learners (`devices.make_learners_strategy`).
        jit_compile: whether to compile with XLA; only with one replica.
        train: method of the agent to run in place of `agent.train`.

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
        self._names: list[str] = []
        replicas = strategy.num_replicas_in_sync
        self._local_replicas = 1 if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy) else replicas
        train_on = train or agent.train

        def train_on_stacks(trajectory: Any, *arguments: Any) -> tf_agent.LossInfo:
            return train_on(with_stacks(trajectory), *arguments)

        compiled = tf.function(train_on_stacks, jit_compile=True, autograph=False) if jit_compile else train_on_stacks

        def split(loss_info: tf_agent.LossInfo) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
            """The scalars, in the order of `_names`, and the extras with one value for each sequence."""
            parts = {"loss": loss_info.loss * float(replicas) if replicas > 1 else loss_info.loss} | loss_info.extra
            scalars = {name: value for name, value in parts.items() if value.shape.rank == 0}
            self._names = list(scalars)
            per_sequence = {name: value for name, value in parts.items() if name not in scalars}
            return tf.stack(list(scalars.values())), per_sequence

        def train_replica(*batch: Any) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
            stacked, per_sequence = split(compiled(*batch))
            if replicas > 1:
                stacked = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, stacked)
            return stacked, per_sequence

        @tf.function(autograph=False)
        def step(*batch: Any) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
            stacked, per_sequence = strategy.run(train_replica, args=batch)
            parts = {name: strategy.experimental_local_results(value) for name, value in per_sequence.items()}
            joined = {name: tf.concat(values, axis=0) for name, values in parts.items()}
            return strategy.experimental_local_results(stacked)[0], joined

        @tf.function(jit_compile=jit_compile or None, autograph=False)
        def train_several(batches: Any, count: tf.Tensor) -> tf.Tensor:
            def train_next(i: tf.Tensor, rows: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
                scalars, _ = split(train_on_stacks(tf.nest.map_structure(lambda x: x[i], batches)))
                return i + 1, rows.write(i, scalars)

            rows = tf.TensorArray(tf.float32, tf.nest.flatten(batches)[0].shape[0])
            return tf.while_loop(lambda i, _: i < count, train_next, (0, rows))[1].stack()

        @tf.function(autograph=False)
        def steps(batches: Any, count: tf.Tensor) -> tf.Tensor:
            return strategy.run(train_several, args=(batches, count))

        self._step, self._steps = step, steps
        self._compiled: dict[Any, Callable[..., Any]] = {}  # `_step` and `_steps`, once called

    def with_train(self, train: Callable[..., tf_agent.LossInfo]) -> Learner:
        """Returns a learner of the same agent, compiled in the same way, that runs another method of the agent."""
        return Learner(self.agent, self._strategy, self._jit_compile, train)

    def broadcast_variables(self, is_chief: bool) -> None:
        """Copies the variables of the chief's agent to all learners; each of them calls this at the same time.

        Weights, optimizer and counters are the sums over learners of the chief's values and zeros, which is exact.

        Args:
            is_chief: whether this learner is the chief, whose values all take.
        """
        root = tf.train.Checkpoint(agent=self.agent)  # a view does not keep it alive
        variables = [v for v in tf.train.TrackableView(root).descendants() if isinstance(v, tf.Variable)]

        def take() -> None:
            context = tf.distribute.get_replica_context()
            for variable in variables:
                value = tf.identity(variable) if is_chief else tf.zeros_like(variable)
                variable.assign(context.all_reduce(tf.distribute.ReduceOp.SUM, value))

        with suppress_stderr():
            tf.function(lambda: self._strategy.run(take), autograph=False)()

    def to_device(self, trajectory: Any) -> Any:
        """Returns a batch, a nest of NumPy arrays [B, ...], as tensors on the learner's devices, split over replicas.

        Each of several learners has one device and a batch of its own, all of the same size. With one device the
        tensors share the memory of aligned arrays (`as_tensor`), which must not change before the step has ended; a GPU
        copies them from there during the step.
        """
        replicas = self._local_replicas
        if replicas == 1:
            return tf.nest.map_structure(as_tensor, trajectory)

        def share(context: tf.distribute.ValueContext) -> Any:
            i = context.replica_id_in_sync_group
            return tf.nest.map_structure(lambda x: x[i * len(x) // replicas : (i + 1) * len(x) // replicas], trajectory)

        return self._strategy.experimental_distribute_values_from_function(share)

    def step(self, trajectory: Any, *arguments: Any) -> LearnerOutput:
        """Makes one gradient step.

        Args:
            trajectory: a batch from `to_device`.
            arguments: further arguments of the train function, such as the weights of the sequences, [B], from
                `to_device`.

        Raises:
            NonFiniteLossError: the loss or another scalar is not finite; the weights have been updated nevertheless.
            RetracedError: the batch's shapes or types differ from the first one's.
        """
        stacked, per_sequence = self._call(self._step, trajectory, *arguments)
        scalars = self._finite_scalars(stacked.numpy(), 0)
        if self._step.experimental_get_tracing_count() > 1:
            raise RetracedError("The train step was traced twice: a batch changed its shape or type.")
        return LearnerOutput(scalars, {name: value.numpy() for name, value in per_sequence.items()})

    def steps(self, batches: Any, count: int) -> list[dict[str, float]]:
        """Makes gradient steps on the first `count` of several batches, one after the other, in one compiled call.

        For a small network a call costs more than the step itself. Several devices or learners can only use `step`.

        Args:
            batches: batches from `to_device`, [K, B, ...], of the same shapes at every call.
            count: number of gradient steps, 1 to K.

        Returns:
            the scalars of each step, by name.

        Raises:
            NonFiniteLossError, RetracedError: as for `step`.
        """
        rows = self._call(self._steps, batches, tf.constant(np.int32(count))).numpy()
        return [self._finite_scalars(rows[i], count - 1 - i) for i in range(count)]

    def _finite_scalars(self, values: np.ndarray, later: int) -> dict[str, float]:
        """Scalars of a gradient step by name, from their values in the order of `_names`.

        Args:
            values: float32 [len(_names)].
            later: number of gradient steps made after this one.

        Raises:
            NonFiniteLossError: a value is not finite.
        """
        scalars = dict(zip(self._names, values.tolist()))
        if not np.isfinite(values).all():
            broken = ", ".join(f"{name}={value}" for name, value in scalars.items() if not np.isfinite(value))
            step = int(self.agent.train_step_counter.numpy()) - later
            raise NonFiniteLossError(f"gradient step {step} gave {broken}")
        return scalars

    def _call(self, function: Any, *arguments: Any) -> Any:
        """Calls a `tf.function`, compiled for arguments like the first ones.

        With one replica, later calls skip the search for a matching trace (`flat_call`).

        Raises:
            RetracedError: the arguments' shapes or types differ from the first ones.
        """
        if (compiled := self._compiled.get(function)) is None:
            with suppress_stderr():
                is_alone = self._strategy.num_replicas_in_sync == 1
                compiled = _on_nests(function.get_concrete_function(*arguments)) if is_alone else function
                self._compiled[function] = compiled
                return compiled(*arguments)
        try:
            return compiled(*arguments)
        except TypeError as error:
            raise RetracedError("A batch changed its shape or type.") from error


def _on_nests(concrete: Any) -> Callable[..., Any]:
    """Wraps a traced function by `flat_call`; arguments that were None at tracing are None at each call."""
    call, outputs = flat_call(concrete), concrete.structured_outputs

    def call_nests(*arguments: Any) -> Any:
        leaves = (leaf for leaf in tf.nest.flatten(arguments) if leaf is not None)
        return tf.nest.pack_sequence_as(outputs, call(*leaves))

    return call_nests
