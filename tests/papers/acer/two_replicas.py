"""Run by `test_agent.py` in a process of its own: logical devices are set before TensorFlow starts.

Writes to the given path, as npz, all weights after some updates of one device and of two mirrored ones.
"""

import sys

import numpy as np
import tensorflow as tf

from repro.runtime.learner import Learner
from tests.papers.acer.small import make_agent, random_batch

BATCH, UPDATES = 8, 3


def train(strategy):
    with strategy.scope():
        agent = make_agent(seed=3)
    learner = Learner(agent, strategy)
    scalars = [learner.step(learner.place(random_batch(agent, BATCH, seed=i))) for i in range(UPDATES)]
    variables = [*agent._network.variables, *agent._average_network.variables]
    replicas = [[part.numpy() for part in strategy.experimental_local_results(v)] for v in variables]
    return replicas, [s["loss"] for s in scalars]


def main():
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    one, one_loss = train(tf.distribute.OneDeviceStrategy("/cpu:0"))
    two, two_loss = train(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]))
    arrays = {f"one_{i}": w[0] for i, w in enumerate(one)} | {f"two_{i}": np.stack(w) for i, w in enumerate(two)}
    np.savez(sys.argv[1], one_loss=one_loss, two_loss=two_loss, count=len(one), **arrays)


if __name__ == "__main__":
    main()
