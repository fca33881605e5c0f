"""Run by `test_agent.py` in a separate process: all weights after some updates on one device and on two.

`one_<i>` and `two_<i>` are weights after off-policy updates, `acting_one_<i>` and `acting_two_<i>` after an on-policy
update.
"""

import sys

import numpy as np
import tensorflow as tf

from repro.training.learner import Learner
from tests.papers.acer.small import make_agent
from tests.support import two_replicas
from tests.support.batches import random_batch


def weights_of(agent):
    return [*agent._network.variables, *agent._average_network.variables]


def on_policy(strategy):
    """Each weight on each replica after an update at weights that are not the present ones, [replicas, ...]."""
    with strategy.scope():
        agent = make_agent(seed=3)
    learner = Learner(agent, strategy, train=agent.train_on_policy)
    acting = tuple(tf.constant(1.1 * v.numpy() + 0.01) for v in agent.acting_variables)
    learner.step(learner.to_device(random_batch(agent, two_replicas.BATCH, seed=0)), acting)
    return [np.stack([np.array(w) for w in strategy.experimental_local_results(v)]) for v in weights_of(agent)]


if __name__ == "__main__":
    devices = two_replicas.two_devices()
    found = two_replicas.compare(devices, lambda: make_agent(seed=3), random_batch, weights_of)
    for name, strategy in {"one": tf.distribute.OneDeviceStrategy("/cpu:0"), "two": devices}.items():
        found |= {f"acting_{name}_{i}": weights for i, weights in enumerate(on_policy(strategy))}
    np.savez(sys.argv[1], **found)
