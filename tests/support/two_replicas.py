"""Comparison of the update of two mirrored replicas with that of one device with the whole batch.

Logical devices must be set before TensorFlow starts, so a module that compares runs in a separate process and writes
its results to an npz file with a given path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from repro.training.learner import Learner
from tests.support.forked_train import run_command

BATCH, UPDATES = 8, 3


def run(module: str, folder: Path) -> Any:
    """Runs a module in a separate process and returns the results that it wrote."""
    path = folder / "result.npz"
    done = run_command(folder, module, str(path))
    assert done.returncode == 0, done.stderr[-3000:]
    return np.load(path)


def two_devices() -> tf.distribute.Strategy:
    """Returns a strategy of two replicas; call it first in the separate process."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def train(
    strategy: tf.distribute.Strategy,
    make_agent: Callable[[], Any],
    random_batch: Callable[..., Any],
    weights_of: Callable[[Any], Sequence[tf.Variable]],
) -> tuple[Any, list[np.ndarray], dict[str, list[float]]]:
    """Returns an agent after some updates, its weights on each replica, [replicas, ...], and its scalars by name."""
    with strategy.scope():
        agent = make_agent()
    learner = Learner(agent, strategy)
    scalars = [learner.step(learner.to_device(random_batch(agent, BATCH, seed=i))).scalars for i in range(UPDATES)]
    replicas = [np.stack([np.array(w) for w in strategy.experimental_local_results(v)]) for v in weights_of(agent)]
    return agent, replicas, {name: [s[name] for s in scalars] for name in scalars[0]}


def compare(strategy: tf.distribute.Strategy, *parts: Callable) -> dict[str, Any]:
    """Trains on one device and on two replicas and returns the results by name.

    They are the scalars `one_<scalar>` and `two_<scalar>`, such as `one_loss`, the `count` of weights, and the weights
    `one_<i>`, [...], and `two_<i>`, [2, ...].

    Args:
        strategy: strategy of two replicas.
        parts: functions as for `train`.
    """
    _, one, one_scalars = train(tf.distribute.OneDeviceStrategy("/cpu:0"), *parts)
    _, two, two_scalars = train(strategy, *parts)
    arrays = {f"one_{i}": w[0] for i, w in enumerate(one)} | {f"two_{i}": w for i, w in enumerate(two)}
    scalars = {f"one_{name}": x for name, x in one_scalars.items()}
    scalars |= {f"two_{name}": x for name, x in two_scalars.items()}
    return {"count": len(one)} | scalars | arrays


def assert_same_updates(result: Any, *, loss_rtol: float, rtol: float = 1e-7) -> None:
    """Checks that scalars, including the loss, and the weights on both replicas are equal to those of one device."""
    names = [name.removeprefix("one_") for name in result if name.startswith("one_")]
    scalars = [name for name in names if not name.isdecimal()]
    assert "loss" in scalars
    for name in scalars:
        np.testing.assert_allclose(
            result[f"one_{name}"], result[f"two_{name}"], rtol=loss_rtol, atol=1e-6, err_msg=name
        )
    for i in range(result["count"]):
        for replica in result[f"two_{i}"]:
            np.testing.assert_allclose(result[f"one_{i}"], replica, rtol=rtol, atol=1e-5)
