"""Run by `test_synchronous_learners.py` in two processes: each learns from half of each batch, the chief also from all.

It takes the learner's number, the addresses of both, the path of an npz file, and the network namespace that is its
machine, if there is one. It writes weights and scalars by agent to the file.
"""

import sys

import numpy as np
import tensorflow as tf

from repro.training import devices
from repro.training.learner import Learner
from tests.papers.stac import small
from tests.support.batches import random_batch
from tests.support.catch import Catch
from tests.support.network import enter
from tests.support.training import make_agent

BATCH, UPDATES, CLIP = 8, 4, 1.0
AGENTS = {
    "impala": lambda: make_agent(Catch(1, 0), seed=3, clip_global_norm=CLIP),
    "stacx": lambda: small.make_agent(
        num_heads=2, clip_global_norm=CLIP, kl_cost=5.0, outer=small.OUTER._replace(g_e=0.3)
    ),
}


def weights_of(agent):
    eta = agent._metaparameters.eta.values() if hasattr(agent, "_metaparameters") else ()
    return [*agent._network.trainable_variables, *eta]


def train(learner, share):
    """Some updates on a share of each batch; the scalars of all updates by name."""
    first, size = share
    scalars = []
    for i in range(UPDATES):
        batch = random_batch(learner.agent, BATCH, seed=i)
        part = tf.nest.map_structure(lambda x: x[first : first + size], batch)
        scalars.append(learner.step(learner.to_device(part)).scalars)
    return {name: [s[name] for s in scalars] for name in scalars[0]}


def results(name, agent, scalars):
    weights = {f"{name}_{i}": weight.numpy() for i, weight in enumerate(weights_of(agent))}
    return weights | {f"{name}_{scalar}": values for scalar, values in scalars.items()}


def learn_together(name, strategy, number):
    with strategy.scope():
        agent = AGENTS[name]()
    learner = Learner(agent, strategy)
    if number:  # another start than the chief's, of the optimizer and the counter, too
        root = tf.train.Checkpoint(agent=agent)  # which a view does not keep alive
        for variable in tf.train.TrackableView(root).descendants():
            if isinstance(variable, tf.Variable):
                variable.assign(variable + tf.ones_like(variable))
    learner.broadcast_variables(is_chief=number == 0)
    half = BATCH // 2
    found = results(name, agent, train(learner, (number * half, half)))
    return found | {f"{name}_updates": agent.train_step_counter.numpy()}


def learn_alone(name):
    agent = AGENTS[name]()
    scalars = train(Learner(agent, tf.distribute.OneDeviceStrategy("/cpu:0")), (0, BATCH))
    return {f"one_{key}": value for key, value in results(name, agent, scalars).items()}


def main():
    number, addresses, path, *namespace = int(sys.argv[1]), sys.argv[2].split(","), *sys.argv[3:]
    for name in namespace:
        enter(name)
    devices.configure_threads(deterministic=False, threads=1)
    strategy = devices.make_learners_strategy(number, addresses)
    found = {}
    for name in AGENTS:
        found |= learn_together(name, strategy, number)
    for name in AGENTS if number == 0 else ():
        found |= learn_alone(name)
    np.savez(path, **found)


if __name__ == "__main__":
    main()
