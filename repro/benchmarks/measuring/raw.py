"""Work that an agent cannot avoid: its environments' steps, and the matrix products and convolutions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework.attr_value_pb2 import NameAttrList
from tensorflow.python.framework.func_graph import FuncGraph
from tf_agents.agents import tf_agent
from tf_agents.policies import tf_policy
from tf_agents.trajectories import time_step as ts

from repro.benchmarks.measuring import timing
from repro.environments.atari import AtariEnvironment
from repro.gpus import visible_gpus
from repro.memory import as_tensor
from repro.replay.frame_stacks import with_stacks
from repro.training.graph_cost import needed

PRODUCTS = ("MatMul", "Einsum", "Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter")
"""Types of operations that count as products."""
LOOPS = ("While", "StatelessWhile")
MAXIMUM_ITERATIONS = 1
"""Index of a TensorFlow loop's input with the maximum of iterations, which is below 0 if there is none."""


def measure(
    emulation: Sequence[Callable[[], int]],
    policies: Sequence[tf_policy.TFPolicy],
    num_envs: int,
    learner: Callable[[], int],
    seconds: float,
) -> dict[str, float]:
    """Measures work that no TensorFlow implementation can avoid, in agent steps per second; see `timing.rate`.

    Args:
        emulation: body of each actor that steps its environments, from `emulation_bodies` for Atari games.
        policies: policy of each actor.
        num_envs: number of environments of an actor.
        learner: body from `learner_products`.
        seconds: length of each measurement in seconds.
    """
    inference = [inference_products(policy, num_envs) for policy in policies]
    return {
        "emulation": timing.rate(emulation, seconds),
        "products of inference": timing.rate(inference, seconds),
        "products of learner": timing.rate([learner], seconds),
    }


def emulation_bodies(environments: Sequence[AtariEnvironment]) -> list[Callable[[], int]]:
    """Returns a body for each environment that steps only ALE, whose threads emulate, scale and stack frames."""

    def body(environment: AtariEnvironment, random: np.random.Generator) -> int:
        actions = random.integers(environment.num_actions, size=environment.num_envs, dtype=np.int32)
        environment.step_emulators(actions)
        return environment.num_envs

    for environment in environments:
        environment.reset()
    return [functools.partial(body, x, np.random.default_rng(i)) for i, x in enumerate(environments)]


def inference_products(policy: tf_policy.TFPolicy, num_envs: int) -> Callable[[], int]:
    """Returns a body of the products of one policy call, which counts agent steps."""

    @tf.function(autograph=False)
    def act(observation: Any) -> Any:
        step_type = tf.zeros([num_envs], tf.int32)
        time_step = ts.TimeStep(step_type, tf.zeros([num_envs]), tf.ones([num_envs]), observation)
        return policy.action(time_step, policy.get_initial_state(num_envs), tf.zeros([2], tf.int32))

    spec = policy.time_step_spec.observation
    batched = tf.nest.map_structure(lambda leaf: tf.TensorSpec([num_envs, *leaf.shape], leaf.dtype), spec)
    return one_call(products(act.get_concrete_function(batched).graph), num_envs)


def learner_products(agent: tf_agent.TFAgent, batch: Any, units: int) -> Callable[[], int]:
    """Returns a body of the products of one train step, forward and backward.

    Args:
        agent: agent that learns.
        batch: batch that it learns from, a nest of NumPy arrays [B, ...].
        units: number of agent steps that are new in a batch, which the body returns.
    """
    stacked = with_stacks(tf.nest.map_structure(as_tensor, batch))
    graph = tf.function(agent.train, autograph=False).get_concrete_function(stacked).graph
    return one_call(products(graph), units)


def products(graph: FuncGraph) -> list[Callable[[], tf.Tensor]]:
    """Returns the `PRODUCTS` that a graph's results need, each on random numbers of the shapes that it has there.

    Products inside of a function count for each of its calls, and those of a loop as often as it may run.

    Raises:
        ValueError: how often a product is made, or its shape, is not known before the graph runs.
    """
    rng = tf.random.Generator.from_seed(0)
    return [_product(op, rng) for op in _needed_products(graph)]


def _needed_products(graph: FuncGraph) -> list[tf.Operation]:
    """Returns the operations of `products`, each as often as it is made."""
    found: list[tf.Operation] = []
    for op in needed(graph):
        if op.type in PRODUCTS:
            found.append(op)
            continue
        attributes = [op.get_attr(name) for name in op.node_def.attr]
        functions = [value for value in tf.nest.flatten(attributes) if isinstance(value, NameAttrList)]
        inside = [_needed_products(graph._get_function(function.name).graph) for function in functions]  # noqa: SLF001
        if op.type in LOOPS and any(inside):
            rounds = tf.get_static_value(op.inputs[MAXIMUM_ITERATIONS])
            if rounds is None or rounds < 0:
                raise ValueError(f"products: {op.name} is a loop without a number of rounds.")
            inside = inside * int(rounds)
        elif len(functions) > 1 and any(inside):
            raise ValueError(f"products: {op.name} is a branch, of which it is not known which one is taken.")
        found += [product for products_of_one in inside for product in products_of_one]
    return found


def _product(op: tf.Operation, rng: tf.random.Generator) -> Callable[[], tf.Tensor]:
    """Returns one of the `PRODUCTS` on random numbers."""
    factors = [x for x in op.inputs if x.dtype.is_floating]  # the others are shapes
    if not all(x.shape.is_fully_defined() for x in (*factors, op.outputs[0])):
        raise ValueError(f"products: {op.name} has a shape that is not known.")
    one, other = (tf.cast(rng.normal(x.shape), x.dtype) for x in factors)
    names = {"MatMul": ("transpose_a", "transpose_b"), "Einsum": ("equation",)}.get(op.type, ("strides", "padding"))
    how = {name: op.get_attr(name) for name in names}
    shape = op.outputs[0].shape.as_list()
    if op.type == "MatMul":
        how |= {"a": one, "b": other}
    elif op.type == "Einsum":
        how |= {"inputs": (one, other)}
    elif op.type == "Conv2D":
        how |= {"input": one, "filter": other}
    elif op.type == "Conv2DBackpropInput":
        how |= {"input_sizes": shape, "filter": one, "out_backprop": other}
    else:
        how |= {"input": one, "filter_sizes": shape, "out_backprop": other}
    return functools.partial(getattr(tf.raw_ops, op.type), **how)


def one_call(found: Sequence[Callable[[], tf.Tensor]], units: int) -> Callable[[], int]:
    """Returns a body that makes all products in one call of a compiled function, and on a GPU waits for their end."""
    compiled = tf.function(lambda: [product() for product in found], autograph=False).get_concrete_function()
    on_gpu = bool(visible_gpus())

    def body() -> int:
        compiled()
        if on_gpu:
            tf.test.experimental.sync_devices()
        return units

    return body
