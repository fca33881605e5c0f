"""Run by `test_agent.py` in a process of its own: all weights after some updates of one device and of two."""

import sys

import numpy as np

from tests.papers.acer.small import make_agent
from tests.support import two_replicas
from tests.support.batches import random_batch


def weights_of(agent):
    return [*agent._network.variables, *agent._average_network.variables]


if __name__ == "__main__":
    devices = two_replicas.two_devices()
    np.savez(sys.argv[1], **two_replicas.compare(devices, lambda: make_agent(seed=3), random_batch, weights_of))
