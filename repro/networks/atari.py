"""Convolutional torsos for Atari frames and any other image: IMPALA's two (Figure 4), DQN's, and STAC's for control.

IMPALA's torsos map uint8 [N, H, W, C] to float32 [N, 256], DQN's to [N, 512], or to its flattened convolutions. Weights
begin as a truncated normal of std 1 / sqrt(fan in), biases at 0 (assumed, see `initializers`).

Weights and features are float32. Everything between them, gradients too, is computed in `compute_dtype`: float32, or
bfloat16, whose numbers have 8 significant bits. With either type, convolutions and matrix products are summed in
float32 on devices made for it (`devices.check_compute_dtype`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from repro.networks.initializers import TruncatedNormalFanIn, distinct_seeds
from repro.networks.max_pool import MaxPool

FEATURES = 256
NATURE_FEATURES = 512


class Conv2D(tf.keras.layers.Conv2D):
    """Keras' convolution with float32 weights, computed in a chosen type: [N, H, W, C] to [N, H', W', filters].

    Args:
        filters, kernel_size: as for Keras.
        compute_dtype: type of input, products and output, float32 or bfloat16.
        kwargs: further arguments for Keras.
    """

    def __init__(self, filters: int, kernel_size: int, compute_dtype: tf.DType = tf.float32, **kwargs: Any) -> None:
        super().__init__(filters, kernel_size, autocast=False, **kwargs)
        self._product_dtype = compute_dtype

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """activation(conv(x, K) + b)."""
        return self.activation(_add_bias(self.convolution_op(inputs, self.kernel), self.bias))

    def convolution_op(self, inputs: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        """Casts input and kernel to `compute_dtype` and convolves them."""
        return super().convolution_op(tf.cast(inputs, self._product_dtype), tf.cast(kernel, self._product_dtype))


class FrameConv2D(Conv2D):
    """A convolution of frames, uint8 [N, H, W, C] with values 0 to 255, scaled by 1/255.

        y = conv(x, K / 255) + b = conv(x / 255, K) + b

    The scale is applied to the kernel, some thousand numbers instead of millions of pixels. K, and so its gradient and
    its initialisation, are those for frames in [0, 1]. Bytes are exact in bfloat16.
    """

    def convolution_op(self, inputs: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        """Convolves the bytes with the scaled kernel."""
        return super().convolution_op(inputs, kernel * (1.0 / 255.0))


class Dense(tf.keras.layers.Dense):
    """Keras' dense layer with float32 weights, computed in a chosen type: [N, F] to [N, units].

    Args:
        units: as for Keras.
        compute_dtype: type of input, products and output, float32 or bfloat16.
        kwargs: further arguments for Keras.
    """

    def __init__(self, units: int, compute_dtype: tf.DType = tf.float32, **kwargs: Any) -> None:
        super().__init__(units, autocast=False, **kwargs)
        self._product_dtype = compute_dtype

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """activation(x W + b)."""
        return self.activation(_add_bias(tf.matmul(inputs, tf.cast(self.kernel, self._product_dtype)), self.bias))


def _add_bias(x: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """x + b in the type of x, for x [N, ..., C] and float32 b [C].

    On CPUs TensorFlow sums the gradient of `bias_add` in bfloat16, where a sum of some hundred terms stops growing;
    it sums the gradient of a plain addition in float32.
    """
    return tf.nn.bias_add(x, bias) if x.dtype == bias.dtype else x + tf.cast(bias, x.dtype)


class ResidualBlock(tf.keras.layers.Layer):
    """x + conv(ReLU(conv(ReLU(x)))) on [N, H, W, channels]; both 3x3, padded to the same size.

    Args:
        channels: number of channels of input and output.
        seeds: source of two seeds, one for each kernel.
        compute_dtype: type of input, products and output, float32 or bfloat16.
    """

    def __init__(self, channels: int, seeds: Iterator[int], compute_dtype: tf.DType = tf.float32) -> None:
        super().__init__(autocast=False)
        self._conv_1 = _conv(Conv2D, channels, 3, seeds, compute_dtype, padding="same")
        self._conv_2 = _conv(Conv2D, channels, 3, seeds, compute_dtype, padding="same")

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """[N, H, W, channels] to the same shape."""
        return x + self._conv_2(tf.nn.relu(self._conv_1(tf.nn.relu(x))))


class Torso(tf.keras.layers.Layer):
    """A sequence of layers with float32 features, as the functions below build it.

    Args:
        layers: layers to apply in order, from uint8 [N, H, W, C] to float32 or bfloat16 [N, F].
        name: name of the torso.
    """

    def __init__(self, layers: Sequence[tf.keras.layers.Layer], name: str) -> None:
        super().__init__(name=name)
        self._layers = list(layers)

    def call(self, frames: tf.Tensor) -> tf.Tensor:
        """uint8 [N, H, W, C] to float32 [N, F]."""
        x = frames
        for layer in self._layers:
            x = layer(x)
        return tf.cast(x, tf.float32)


def _conv(
    layer: type[Conv2D], channels: int, size: int, seeds: Iterator[int], compute_dtype: tf.DType, **kwargs: Any
) -> Conv2D:
    return layer(channels, size, compute_dtype, kernel_initializer=TruncatedNormalFanIn(next(seeds)), **kwargs)


def _dense(units: int, seeds: Iterator[int], compute_dtype: tf.DType) -> Dense:
    return Dense(units, compute_dtype, activation="relu", kernel_initializer=TruncatedNormalFanIn(next(seeds)))


def shallow_torso(seed: int, compute_dtype: tf.DType = tf.float32) -> Torso:
    """The smaller network of Figure 4 (left) up to its core: A3C's convolutions, without padding.

    Args:
        seed: integer >= 0 from which all weights are sampled.
        compute_dtype: float32 or bfloat16.
    """
    seeds = distinct_seeds(seed)
    layers = [
        _conv(FrameConv2D, 16, 8, seeds, compute_dtype, strides=4, activation="relu"),
        _conv(Conv2D, 32, 4, seeds, compute_dtype, strides=2, activation="relu"),
        tf.keras.layers.Flatten(autocast=False),
        _dense(FEATURES, seeds, compute_dtype),
    ]
    return Torso(layers, name="shallow_torso")


def deep_torso(seed: int, compute_dtype: tf.DType = tf.float32) -> Torso:
    """The residual network of Figure 4 (right) up to its core: 15 convolutions in three sections.

    Zero padding keeps sizes; each pooling halves them, rounded up.

    Args:
        seed: integer >= 0 from which all weights are sampled.
        compute_dtype: float32 or bfloat16.
    """
    seeds = distinct_seeds(seed)
    layers: list[tf.keras.layers.Layer] = []
    for channels in (16, 32, 32):
        conv = Conv2D if layers else FrameConv2D
        layers += [
            _conv(conv, channels, 3, seeds, compute_dtype, padding="same"),
            MaxPool(autocast=False),
            ResidualBlock(channels, seeds, compute_dtype),
            ResidualBlock(channels, seeds, compute_dtype),
        ]
    layers += [
        tf.keras.layers.ReLU(autocast=False),
        tf.keras.layers.Flatten(autocast=False),
        _dense(FEATURES, seeds, compute_dtype),
    ]
    return Torso(layers, name="deep_torso")


def strided_torso(seed: int, compute_dtype: tf.DType = tf.float32) -> Torso:
    """STAC's network for pixels of control tasks up to its LSTM (Table 2, Section 9.3): float32 [N, H/8 W/8 32].

    Three sections, each a convolution of stride 2 and a residual block of two more. Zero padding; each stride halves
    the size, rounded up. Table 2 has no dense layer behind them.

    Args:
        seed: integer >= 0 from which all weights are sampled.
        compute_dtype: float32 or bfloat16.
    """
    seeds = distinct_seeds(seed)
    layers: list[tf.keras.layers.Layer] = []
    for _ in range(3):
        conv = Conv2D if layers else FrameConv2D
        layers += [
            _conv(conv, 32, 3, seeds, compute_dtype, strides=2, padding="same"),
            ResidualBlock(32, seeds, compute_dtype),
        ]
    return Torso(
        [*layers, tf.keras.layers.ReLU(autocast=False), tf.keras.layers.Flatten(autocast=False)], name="strided_torso"
    )


def nature_convolutions(seed: int, compute_dtype: tf.DType = tf.float32) -> Torso:
    """The convolutions of Mnih et al. (2015), flattened: R2D2's network up to its LSTM (C-trace, Appendix E.1).

    Args:
        seed: integer >= 0 from which all weights are sampled.
        compute_dtype: float32 or bfloat16.
    """
    return Torso(_nature_layers(distinct_seeds(seed), compute_dtype), name="nature_convolutions")


def nature_torso(seed: int, compute_dtype: tf.DType = tf.float32) -> Torso:
    """The network of Mnih et al. (2015) up to its heads, as ACER uses it (Section 4), without padding.

    Args:
        seed: integer >= 0 from which all weights are sampled.
        compute_dtype: float32 or bfloat16.
    """
    seeds = distinct_seeds(seed)
    return Torso(
        [*_nature_layers(seeds, compute_dtype), _dense(NATURE_FEATURES, seeds, compute_dtype)], name="nature_torso"
    )


def _nature_layers(seeds: Iterator[int], compute_dtype: tf.DType) -> list[tf.keras.layers.Layer]:
    return [
        _conv(FrameConv2D, 32, 8, seeds, compute_dtype, strides=4, activation="relu"),
        _conv(Conv2D, 64, 4, seeds, compute_dtype, strides=2, activation="relu"),
        _conv(Conv2D, 64, 3, seeds, compute_dtype, strides=1, activation="relu"),
        tf.keras.layers.Flatten(autocast=False),
    ]
