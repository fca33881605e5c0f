"""Run by `test_agent.py` in a process of its own: the weights after some updates of one device and of two."""

import sys

import numpy as np

from tests.support import two_replicas
from tests.support.batches import random_batch
from tests.support.catch import Catch
from tests.support.training import make_agent

if __name__ == "__main__":
    devices = two_replicas.two_devices()
    parts = (lambda: make_agent(Catch(1, 0), seed=3), random_batch, lambda agent: agent.trainable_variables)
    np.savez(sys.argv[1], **two_replicas.compare(devices, *parts))
