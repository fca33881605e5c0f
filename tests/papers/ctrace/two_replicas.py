"""Run by `test_agent.py` in a separate process: all weights after some updates on one device and on two."""

import sys

import numpy as np

from tests.papers.ctrace.small import make_agent, random_batch
from tests.support import two_replicas


def weights_of(agent):
    return [*agent._network.variables, *agent._target_network.variables, agent._phi]


if __name__ == "__main__":
    devices = two_replicas.two_devices()
    np.savez(sys.argv[1], **two_replicas.compare(devices, lambda: make_agent(seed=3), random_batch, weights_of))
