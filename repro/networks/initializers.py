"""Weight initialisation, reproducible from integer seeds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf


def distinct_seeds(seed: int) -> Iterator[int]:
    """Yields an endless stream of seeds in [0, 2^31) derived from `seed`, an integer >= 0: one for each initialiser.

    Equal seeds give equal streams; no global state is read or changed.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    while True:
        yield int(rng.integers(2**31))


class TruncatedNormalFanIn(tf.keras.initializers.Initializer):
    """Normal truncated at two stds, with a std of 1 / sqrt(fan in) before truncation.

    fan in = product of all dimensions but the last. This is the default of Sonnet 1 for convolutions and linear layers
    (assumed: IMPALA's paper does not specify it, and its released code uses these layers). Keras' `LecunNormal`
    rescales by 1.137 to restore the variance that truncation removes; Sonnet does not.

    Args:
        seed: integer >= 0; the same seed and shape give the same values.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __call__(self, shape: tf.TensorShape, dtype: tf.DType = tf.float32, **kwargs: Any) -> tf.Tensor:
        fan_in = int(np.prod(shape[:-1]))
        return tf.random.stateless_truncated_normal(
            shape, seed=[self.seed, 0], stddev=fan_in**-0.5, dtype=dtype, alg="philox"
        )

    def get_config(self) -> dict[str, Any]:
        return {"seed": self.seed}


class GlorotUniform(tf.keras.initializers.Initializer):
    """Uniform on +-sqrt(6 / (fan in + fan out)) of a matrix [fan in, fan out].

    TensorFlow 1's default for variables, hence that of the LSTM cell in the paper's released code (assumed).

    Args:
        seed: integer >= 0; the same seed and shape give the same values.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __call__(self, shape: tf.TensorShape, dtype: tf.DType = tf.float32, **kwargs: Any) -> tf.Tensor:
        limit = (6.0 / (shape[0] + shape[1])) ** 0.5
        return tf.random.stateless_uniform(
            shape, seed=[self.seed, 0], minval=-limit, maxval=limit, dtype=dtype, alg="philox"
        )

    def get_config(self) -> dict[str, Any]:
        return {"seed": self.seed}
