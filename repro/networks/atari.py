"""Convolutional torsos for Atari frames and any other image: IMPALA's two (Figure 4), DQN's, and STAC's for control.

IMPALA's map uint8 [N, H, W, C] to float32 [N, 256], DQN's to [N, 512]. Weights: truncated normal of standard deviation
1 / sqrt(fan in), zero biases (assumed, see `initializers`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from repro.networks.initializers import TruncatedNormalFanIn, distinct_seeds
from repro.networks.max_pool import MaxPool

FEATURES = 256
NATURE_FEATURES = 512


class FrameConv2D(tf.keras.layers.Conv2D):
    """A convolution of frames scaled by 1/255: of uint8 [N, H, W, C] with values 0 to 255.

        y = conv(x, K / 255) + b = conv(x / 255, K) + b

    The scale is applied to the kernel, some thousand numbers instead of millions of pixels; K, and so its
    gradient and its initialisation, belong to frames in [0, 1].
    """

    def convolution_op(self, inputs: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        """Convolves the bytes, as float32, with the scaled kernel."""
        return super().convolution_op(tf.cast(inputs, kernel.dtype), kernel * (1.0 / 255.0))


class ResidualBlock(tf.keras.layers.Layer):
    """x + conv(ReLU(conv(ReLU(x)))) on float32 [N, H, W, channels]; both 3x3, padded to the same size.

    Args:
        channels: of the input and the output.
        seeds: two are taken, one for each kernel.
    """

    def __init__(self, channels: int, seeds: Iterator[int]) -> None:
        super().__init__()
        self._conv_1 = _conv(channels, 3, seeds, padding="same")
        self._conv_2 = _conv(channels, 3, seeds, padding="same")

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """float32 [N, H, W, channels] to the same shape."""
        return x + self._conv_2(tf.nn.relu(self._conv_1(tf.nn.relu(x))))


class Torso(tf.keras.layers.Layer):
    """Layers applied one after the other: the functions below give them.

    Args:
        layers: the first takes uint8 [N, H, W, C], the last gives float32 [N, F].
        name: of the layer.
    """

    def __init__(self, layers: Sequence[tf.keras.layers.Layer], name: str) -> None:
        super().__init__(name=name)
        self._layers = list(layers)

    def call(self, frames: tf.Tensor) -> tf.Tensor:
        """uint8 [N, H, W, C] to float32 [N, F]."""
        x = frames
        for layer in self._layers:
            x = layer(x)
        return x


def _conv(channels: int, size: int, seeds: Iterator[int], **kwargs: Any) -> tf.keras.layers.Conv2D:
    return tf.keras.layers.Conv2D(channels, size, kernel_initializer=TruncatedNormalFanIn(next(seeds)), **kwargs)


def _frame_conv(channels: int, size: int, seeds: Iterator[int], **kwargs: Any) -> FrameConv2D:
    return FrameConv2D(channels, size, kernel_initializer=TruncatedNormalFanIn(next(seeds)), **kwargs)


def _dense(units: int, seeds: Iterator[int]) -> tf.keras.layers.Dense:
    return tf.keras.layers.Dense(units, activation="relu", kernel_initializer=TruncatedNormalFanIn(next(seeds)))


def shallow_torso(seed: int) -> Torso:
    """The smaller network of Figure 4 (left) up to its core, the convolutions of A3C, without padding.

    Args:
        seed: integer >= 0 from which all weights are sampled.
    """
    seeds = distinct_seeds(seed)
    layers = [
        _frame_conv(16, 8, seeds, strides=4, activation="relu"),
        _conv(32, 4, seeds, strides=2, activation="relu"),
        tf.keras.layers.Flatten(),
        _dense(FEATURES, seeds),
    ]
    return Torso(layers, name="shallow_torso")


def deep_torso(seed: int) -> Torso:
    """The residual network of Figure 4 (right) up to its core: 15 convolutions in three sections.

    Zero padding keeps sizes; each pooling halves them, rounded up.

    Args:
        seed: integer >= 0 from which all weights are sampled.
    """
    seeds = distinct_seeds(seed)
    layers: list[tf.keras.layers.Layer] = []
    for channels in (16, 32, 32):
        conv = _conv if layers else _frame_conv
        layers += [
            conv(channels, 3, seeds, padding="same"),
            MaxPool(),
            ResidualBlock(channels, seeds),
            ResidualBlock(channels, seeds),
        ]
    layers += [tf.keras.layers.ReLU(), tf.keras.layers.Flatten(), _dense(FEATURES, seeds)]
    return Torso(layers, name="deep_torso")


def strided_torso(seed: int) -> Torso:
    """STAC's network of pixels of control tasks up to its LSTM (Table 2, Section 9.3): float32 [N, H/8 W/8 32].

    Three sections of a convolution of stride 2 and a residual block of two more. Zero padding; each stride halves the
    size, rounded up. There is no dense layer behind them in Table 2.

    Args:
        seed: integer >= 0 from which all weights are sampled.
    """
    seeds = distinct_seeds(seed)
    layers: list[tf.keras.layers.Layer] = []
    for _ in range(3):
        conv = _conv if layers else _frame_conv
        layers += [conv(32, 3, seeds, strides=2, padding="same"), ResidualBlock(32, seeds)]
    return Torso([*layers, tf.keras.layers.ReLU(), tf.keras.layers.Flatten()], name="strided_torso")


def nature_convolutions(seed: int) -> Torso:
    """The convolutions of Mnih et al. (2015), flattened: up to the LSTM of R2D2 (C-trace, Appendix E.1).

    Args:
        seed: integer >= 0 from which all weights are sampled.
    """
    return Torso(_nature_layers(distinct_seeds(seed)), name="nature_convolutions")


def nature_torso(seed: int) -> Torso:
    """The network of Mnih et al. (2015) up to its heads, as ACER uses it (Section 4), without padding.

    Args:
        seed: integer >= 0 from which all weights are sampled.
    """
    seeds = distinct_seeds(seed)
    return Torso([*_nature_layers(seeds), _dense(NATURE_FEATURES, seeds)], name="nature_torso")


def _nature_layers(seeds: Iterator[int]) -> list[tf.keras.layers.Layer]:
    return [
        _frame_conv(32, 8, seeds, strides=4, activation="relu"),
        _conv(64, 4, seeds, strides=2, activation="relu"),
        _conv(64, 3, seeds, strides=1, activation="relu"),
        tf.keras.layers.Flatten(),
    ]
