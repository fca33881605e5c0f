"""The gradient that an optimiser was given, and slopes by finite differences, in float64."""

import numpy as np

from repro.networks import mlp


def first_gradient(optimizer):
    """Gradient of Adam's first step, from its first moment, which is a tenth of it."""
    moment = next(x for x in optimizer.variables if x.shape.rank == 1)
    return moment.numpy() / 0.1


def slopes(function, vector, indices, h=1e-5):
    """Central differences of a scalar function of a float64 vector in the entries `indices`."""
    steps = [h * np.eye(1, len(vector), i)[0] for i in indices]
    return np.array([(function(vector + step) - function(vector - step)) / (2 * h) for step in steps])


def network(vector, sizes, x):
    """Outputs of a multi-layer perceptron whose weights and biases lie in `vector`."""
    weights, start = [], 0
    for fan_in, fan_out in zip(sizes, sizes[1:]):
        weights.append(vector[start : start + fan_in * fan_out].reshape(fan_in, fan_out))
        start += fan_in * fan_out
        weights.append(vector[start : start + fan_out])
        start += fan_out
    assert start == len(vector)
    return mlp.apply_numpy(weights, x)


def spread(size, count=40):
    """Entries all over a vector, the first and the last among them."""
    return np.unique(np.linspace(0, size - 1, count).astype(int))


def ratio_and_kl(batch, mean, std=0.2):
    """rho and KL(mu || pi) of each step, pi normal around `mean`."""

    def log_density(m, s):
        return (-0.5 * ((batch.action - m) / s) ** 2 - np.log(s)).sum(1)

    rho = np.exp(log_density(mean, std) - log_density(batch.mean, batch.std))
    share = batch.std / std
    kl = (0.5 * (share**2 + ((batch.mean - mean) / std) ** 2 - 1) - np.log(share)).sum(1)
    return rho, kl
