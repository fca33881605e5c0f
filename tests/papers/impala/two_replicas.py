"""Run by `test_agent.py` in a separate process: the weights after some updates on one device and on two.

The names of a recurrent agent's weights begin with `recurrent_`.
"""

import sys

import numpy as np

from tests.support import two_replicas
from tests.support.batches import random_batch, recurrent_batch
from tests.support.catch import Catch
from tests.support.training import make_agent, make_recurrent_agent

if __name__ == "__main__":
    devices = two_replicas.two_devices()
    parts = (lambda: make_agent(Catch(1, 0), seed=3), random_batch, lambda agent: agent.trainable_variables)
    recurrent = two_replicas.compare(
        devices, lambda: make_recurrent_agent(seed=3), recurrent_batch, lambda agent: agent.trainable_variables
    )
    named = {f"recurrent_{name}": value for name, value in recurrent.items()}
    np.savez(sys.argv[1], **two_replicas.compare(devices, *parts), **named)
