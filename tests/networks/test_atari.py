"""The torsos against their descriptions written as loops, and their sizes against sums by hand."""

import functools

import ml_collections
import numpy as np
import pytest
import tensorflow as tf

from repro.networks.atari import FrameConv2D, deep_torso, nature_torso, shallow_torso, strided_torso
from repro.networks.torsos import MIN_SIZES, TORSOS, make_torso


def frames(shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, size=shape, dtype=np.uint8)


def conv(x, kernel, bias, stride, same):
    """Convolution of [N, H, W, C] by the double loop of its definition, float64."""
    size = kernel.shape[0]
    if same:  # only used with stride 1 and odd sizes
        x = np.pad(x, [(0, 0), (size // 2, size // 2), (size // 2, size // 2), (0, 0)])
    height, width = ((n - size) // stride + 1 for n in x.shape[1:3])
    out = np.empty((x.shape[0], height, width, kernel.shape[-1]))
    for i in range(height):
        for j in range(width):
            patch = x[:, i * stride : i * stride + size, j * stride : j * stride + size]
            out[:, i, j] = np.einsum("nhwc,hwco->no", patch, kernel) + bias
    return out


def max_pool(x):
    """3x3, stride 2, output rounded up; what lies outside the image is never the largest."""
    height, width = (-(-n // 2) for n in x.shape[1:3])
    out = np.empty((x.shape[0], height, width, x.shape[3]))
    for i in range(height):
        for j in range(width):
            # TensorFlow's SAME: an even side is padded at its end, an odd side at both.
            top, left = 2 * i - x.shape[1] % 2, 2 * j - x.shape[2] % 2
            window = x[:, max(top, 0) : top + 3, max(left, 0) : left + 3]
            out[:, i, j] = window.max(axis=(1, 2))
    return out


def relu(x):
    return np.maximum(x, 0.0)


def perturbed(torso, x):
    """Builds the torso and moves every variable, so that biases are not zero; float64 copies in order."""
    torso(x)
    rng = np.random.default_rng(5)
    for variable in torso.trainable_variables:
        variable.assign_add(0.05 * rng.normal(size=variable.shape))
    return [variable.numpy().astype(np.float64) for variable in torso.trainable_variables]


def test_shallow_is_figure_4_left():
    x = frames((2, 37, 44, 3))
    torso = shallow_torso(1)
    k1, b1, k2, b2, w, b = perturbed(torso, x)
    y = relu(conv(x / 255.0, k1, b1, 4, same=False))
    y = relu(conv(y, k2, b2, 2, same=False))
    expected = relu(y.reshape(2, -1) @ w + b)
    assert (expected > 0).any()
    assert (expected == 0).any()
    np.testing.assert_allclose(torso(x), expected, rtol=1e-4, atol=1e-4)


def test_nature_is_the_network_of_dqn():
    x = frames((2, 37, 44, 3))
    torso = nature_torso(1)
    k1, b1, k2, b2, k3, b3, w, b = perturbed(torso, x)
    y = relu(conv(x / 255.0, k1, b1, 4, same=False))
    y = relu(conv(y, k2, b2, 2, same=False))
    y = relu(conv(y, k3, b3, 1, same=False))
    expected = relu(y.reshape(2, -1) @ w + b)
    assert (expected > 0).any()
    assert (expected == 0).any()
    np.testing.assert_allclose(torso(x), expected, rtol=1e-4, atol=1e-4)


def test_deep_is_figure_4_right():
    x = frames((2, 13, 18, 2))
    torso = deep_torso(1)
    *weights, w, b = perturbed(torso, x)
    pairs = iter(zip(weights[::2], weights[1::2]))
    y = x / 255.0
    for _ in range(3):
        y = max_pool(conv(y, *next(pairs), 1, same=True))
        for _ in range(2):
            inner = conv(relu(y), *next(pairs), 1, same=True)
            y = y + conv(relu(inner), *next(pairs), 1, same=True)
    assert next(pairs, None) is None  # 15 convolutions, all used
    expected = relu(relu(y).reshape(2, -1) @ w + b)
    assert (expected > 0).any()
    np.testing.assert_allclose(torso(x), expected, rtol=1e-3, atol=1e-3)


def test_strided_has_a_stride_of_2_and_one_residual_block_a_section():
    """Padding on the right and below alone, as TensorFlow's SAME has it for even sizes and strides of 2."""
    x = frames((2, 16, 8, 3))
    torso = strided_torso(1)
    weights = perturbed(torso, x)
    y = x / 255.0
    for _ in range(3):
        k, b, k1, b1, k2, b2 = (weights.pop(0) for _ in range(6))
        y = conv(np.pad(y, [(0, 0), (0, 1), (0, 1), (0, 0)]), k, b, 2, same=False)
        y = y + conv(relu(conv(relu(y), k1, b1, 1, same=True)), k2, b2, 1, same=True)
    assert not weights
    found = torso(x)
    assert found.shape == (2, 2 * 1 * 32)
    np.testing.assert_allclose(found, relu(y).reshape(2, -1), rtol=1e-4, atol=1e-5)


def test_frames_are_scaled_by_255_through_the_kernel():
    x = frames((3, 9, 9, 2))
    layer = FrameConv2D(4, 3, strides=2)
    got = layer(x)
    plain = conv(x / 255.0, layer.kernel.numpy().astype(np.float64), 0.0, 2, same=False)
    np.testing.assert_allclose(got, plain, rtol=1e-5, atol=1e-6)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(x))
    corner = x[:, :7:2, :7:2].sum(axis=(0, 1, 2)) / 255.0  # what the kernel's first element met, by channel
    np.testing.assert_allclose(tape.gradient(loss, layer.kernel)[0, 0, :, 0], corner, rtol=1e-5)


def conv_count(size, channels_in, channels_out):
    return size * size * channels_in * channels_out + channels_out


SHALLOW_CONVS = {c: conv_count(8, c, 16) + conv_count(4, 16, 32) for c in (3, 4)}
NATURE_CONVS = conv_count(8, 4, 32) + conv_count(4, 32, 64) + conv_count(3, 64, 64)
DEEP_CONVS = {
    c: (conv_count(3, c, 16) + 4 * conv_count(3, 16, 16))
    + (conv_count(3, 16, 32) + 4 * conv_count(3, 32, 32))
    + 5 * conv_count(3, 32, 32)
    for c in (3, 4)
}


@pytest.mark.parametrize(
    ("make", "shape", "count"),
    [
        # Without padding 84 -> 20 -> 9; 72 x 96 -> 17 x 23 -> 7 x 10.
        (shallow_torso, (84, 84, 4), SHALLOW_CONVS[4] + (9 * 9 * 32 + 1) * 256),
        (shallow_torso, (72, 96, 3), SHALLOW_CONVS[3] + (7 * 10 * 32 + 1) * 256),
        # Halved three times and rounded up, 84 -> 42 -> 21 -> 11; 72 x 96 -> 9 x 12.
        (deep_torso, (84, 84, 4), DEEP_CONVS[4] + (11 * 11 * 32 + 1) * 256),
        (deep_torso, (72, 96, 3), DEEP_CONVS[3] + (9 * 12 * 32 + 1) * 256),
        # 84 -> 20 -> 9 -> 7.
        (nature_torso, (84, 84, 4), NATURE_CONVS + (7 * 7 * 64 + 1) * 512),
    ],
)
def test_parameter_counts(make, shape, count):
    torso = make(0)
    features = torso(frames((1, *shape)))
    assert features.shape == (1, 512 if make is nature_torso else 256)
    assert features.dtype == tf.float32
    assert torso.count_params() == count


def test_parameter_counts_in_digits():
    assert SHALLOW_CONVS[4] + (9 * 9 * 32 + 1) * 256 == 676_144
    assert DEEP_CONVS[4] + (11 * 11 * 32 + 1) * 256 == 1_089_232
    assert NATURE_CONVS + (7 * 7 * 64 + 1) * 512 == 1_684_128


@pytest.mark.parametrize("make", [shallow_torso, deep_torso, strided_torso, nature_torso])
def test_weights_follow_from_the_seed_alone(make):
    x = frames((1, 36, 36, 4))

    def weights(seed, global_seed):
        tf.random.set_seed(global_seed)
        torso = make(seed)
        torso(x)
        return torso.get_weights()

    first, again, other = weights(1, 10), weights(1, 11), weights(2, 10)
    for a, b, c in zip(first, again, other):
        np.testing.assert_array_equal(a, b)
        if a.ndim == 1:
            assert not a.any()  # a bias
        else:
            assert not np.array_equal(a, c)
    kernels = [a for a in first if a.ndim > 1]
    for i, a in enumerate(kernels):  # no two layers share their numbers
        for b in kernels[:i]:
            n = min(a.size, b.size, 50)
            assert abs(np.corrcoef(a.ravel()[:n], b.ravel()[:n])[0, 1]) < 0.9


@pytest.mark.parametrize("make", [shallow_torso, deep_torso, strided_torso, nature_torso])
def test_eager_graph_and_xla_agree(make):
    x = frames((2, 36, 40, 4))
    torso = make(3)
    eager = torso(x)
    for jit_compile in (False, True):
        compiled = tf.function(torso, jit_compile=jit_compile, autograph=False)(x)
        np.testing.assert_allclose(compiled, eager, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", TORSOS)
def test_images_that_are_too_small_for_the_convolutions_are_refused(name):
    network, min_size = ml_collections.ConfigDict({"torso": name}), MIN_SIZES.get(name, 1)
    spec = {"frame": tf.TensorSpec([min_size, min_size, 4], tf.uint8)}
    torso = make_torso(network, 0, TORSOS, spec, reads_entries=True)
    assert np.isfinite(torso(frames((1, min_size, min_size, 4)))).all()
    if min_size > 1:
        for height, width in ((min_size - 1, min_size), (min_size, min_size - 1)):
            convolutions = [layer for layer in TORSOS[name](0)._layers if isinstance(layer, tf.keras.layers.Conv2D)]
            shape = (1, height, width, 4)
            left = functools.reduce(lambda shape, layer: layer.compute_output_shape(shape), convolutions, shape)
            assert min(left) <= 0
            sentence = rf"^network\.torso={name} .* got {height} x {width}: choose larger"
            with pytest.raises(ValueError, match=sentence):
                make_torso(network, 0, TORSOS, tf.TensorSpec([height, width, 4], tf.uint8))
