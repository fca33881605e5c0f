"""Run by `test_agent.py` in a process of its own: weights and eta after some updates of one device and of two."""

import sys

import numpy as np

from tests.papers.stac.small import make_agent
from tests.support import two_replicas
from tests.support.batches import random_batch

if __name__ == "__main__":
    devices = two_replicas.two_devices()
    parts = (
        lambda: make_agent(num_heads=3, clip_global_norm=2.0, kl_cost=5.0),
        random_batch,
        lambda agent: [*agent.trainable_variables, *agent._metaparameters.trainable_variables],
    )
    np.savez(sys.argv[1], **two_replicas.compare(devices, *parts))
