"""Run by `test_continuous_agent.py` in a process of its own: logical devices are set before TensorFlow starts.

Writes to the given path, as npz, all weights after some updates of one device and of two mirrored ones, for a method
that draws no samples: those are other ones on every replica. For ACER it writes the weights on two replicas alone,
and what each of them drew.
"""

import sys

import numpy as np
import tensorflow as tf

from repro.runtime.learner import Learner
from tests.papers.acer.continuous_small import make_agent, random_batch

BATCH, UPDATES = 8, 3


def train(strategy, method):
    with strategy.scope():
        agent = make_agent(method, seed=3)
    learner = Learner(agent, strategy)
    scalars = [learner.step(learner.place(random_batch(agent, BATCH, seed=i))) for i in range(UPDATES)]
    variables = [*agent._network.trainable_variables, *agent._average_policy]
    replicas = [[np.array(part) for part in strategy.experimental_local_results(v)] for v in variables]
    return agent, replicas, [s["loss"] for s in scalars]


def main():
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    two_devices = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    _, one, one_loss = train(tf.distribute.OneDeviceStrategy("/cpu:0"), "trust_tis")
    _, two, two_loss = train(two_devices, "trust_tis")
    agent, acer, _ = train(two_devices, "acer")
    draws = two_devices.experimental_local_results(two_devices.run(agent._draw, [tf.zeros([2, 2, 2])]))
    arrays = {f"one_{i}": w[0] for i, w in enumerate(one)} | {f"two_{i}": np.stack(w) for i, w in enumerate(two)}
    arrays |= {f"acer_{i}": np.stack(w) for i, w in enumerate(acer)}
    np.savez(sys.argv[1], one_loss=one_loss, two_loss=two_loss, count=len(one), draws=np.stack(draws), **arrays)


if __name__ == "__main__":
    main()
