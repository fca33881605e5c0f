"""Run by `test_continuous_agent.py` in a separate process: weights after some updates on one device and on two.

They are compared for a method that needs no samples, because samples differ between replicas. For ACER it only writes
the weights on two replicas, and the samples of each.
"""

import sys

import numpy as np
import tensorflow as tf

from tests.papers.acer.continuous_small import make_agent, random_batch
from tests.support import two_replicas


def weights_of(agent):
    return [*agent._network.trainable_variables, *agent._average_policy]


if __name__ == "__main__":
    devices = two_replicas.two_devices()
    found = two_replicas.compare(devices, lambda: make_agent("trust_tis", seed=3), random_batch, weights_of)
    agent, acer, _ = two_replicas.train(devices, lambda: make_agent("acer", seed=3), random_batch, weights_of)
    samples = devices.experimental_local_results(devices.run(agent._sample, [tf.zeros([2, 2, 2])]))
    np.savez(sys.argv[1], samples=np.stack(samples), **found, **{f"acer_{i}": w for i, w in enumerate(acer)})
