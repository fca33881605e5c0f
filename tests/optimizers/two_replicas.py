"""Run by `test_two_replicas.py` in a separate process, since logical devices must be set before TensorFlow starts.

It takes the path of an npz file, and writes to it the results of two replicas and of one device for the same gradients.
"""

import sys

import numpy as np
import tensorflow as tf

from repro.optimizers.gradients import reduce_and_clip
from repro.optimizers.rmsprop_tf1 import RMSPropTF1
from repro.optimizers.schedules import LinearOnFrames
from tests.support.two_replicas import two_devices

STEPS, BATCH, CLIP = 20, 8, 1.5


def data():
    rng = np.random.default_rng(3)
    inputs = rng.normal(size=(STEPS, BATCH, 5)).astype(np.float32)
    targets = rng.normal(size=(STEPS, BATCH, 2)).astype(np.float32)
    start = rng.normal(size=(5, 2)).astype(np.float32)
    return inputs, targets, start


def make(start):
    variables = [tf.Variable(start), tf.Variable(tf.zeros([2]))]
    optimizer = RMSPropTF1(LinearOnFrames(0.1, 0.0, 40, 1), momentum=0.5)
    optimizer.build(variables)
    return variables, optimizer


def update(variables, optimizer, inputs, targets):
    """One update on this replica's part of the batch; the loss is a sum."""
    weights, bias = variables
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum((inputs @ weights + bias - targets) ** 2)
    clipped, norm = reduce_and_clip(tape.gradient(loss, variables), CLIP)
    optimizer.apply_gradients(zip(clipped, variables), skip_gradients_aggregation=True)
    return clipped, norm


def run_one(out):
    inputs, targets, start = data()
    variables, optimizer = make(start)
    step = tf.function(lambda x, y: update(variables, optimizer, x, y), autograph=False)
    for t in range(STEPS):
        clipped, norm = step(inputs[t], targets[t])
        if t == 0:
            out["one_clipped"], out["one_norm"] = clipped[0].numpy(), norm.numpy()
    out["one_weights"], out["one_bias"] = (variable.numpy() for variable in variables)


def run_two(out, strategy, checkpoint_path):
    inputs, targets, start = data()
    with strategy.scope():
        variables, optimizer = make(start)
        checkpoint = tf.train.Checkpoint(variables=variables, optimizer=optimizer)

    @tf.function(autograph=False)
    def step(x, y):
        return strategy.run(lambda a, b: update(variables, optimizer, a, b), args=(x, y))

    def halves(array):
        return strategy.experimental_distribute_values_from_function(
            lambda context: tf.constant(np.split(array, 2)[context.replica_id_in_sync_group])
        )

    for t in range(STEPS):
        if t == STEPS // 2:
            path = checkpoint.write(checkpoint_path)
            for variable in [*variables, *optimizer.variables]:
                variable.assign(tf.zeros_like(variable))
            checkpoint.read(path).assert_consumed()
        clipped, norm = step(halves(inputs[t]), halves(targets[t]))
        if t == 0:
            out["two_clipped"] = np.stack([v.numpy() for v in strategy.experimental_local_results(clipped[0])])
            out["two_norms"] = np.stack([v.numpy() for v in strategy.experimental_local_results(norm)])
    weights, bias = (np.stack([part.numpy() for part in strategy.experimental_local_results(v)]) for v in variables)
    out["two_weights"], out["two_bias"] = weights, bias
    out["iterations"] = optimizer.iterations.numpy()


def main():
    strategy, out = two_devices(), {}
    run_one(out)
    run_two(out, strategy, sys.argv[1] + ".checkpoint")
    np.savez(sys.argv[1], **out)


if __name__ == "__main__":
    main()
