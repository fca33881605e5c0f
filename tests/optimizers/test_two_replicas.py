"""Two replicas, each with half of the batch, must make the update of one device with the whole batch."""

import numpy as np
import pytest

from tests.optimizers import two_replicas
from tests.support import two_replicas as support


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    return support.run("tests.optimizers.two_replicas", tmp_path_factory.mktemp("two_replicas"))


def test_gradients_are_summed_before_the_clip(result):
    inputs, targets, start = two_replicas.data()
    gradients = 2 * np.einsum("bi,bo->bio", inputs[0], inputs[0] @ start - targets[0])  # one for each row
    bias_gradients = 2 * (inputs[0] @ start - targets[0])
    whole, bias = gradients.sum(0), bias_gradients.sum(0)
    norm = np.sqrt((whole**2).sum() + (bias**2).sum())
    assert norm > two_replicas.CLIP  # the clip acts
    np.testing.assert_allclose(result["two_norms"], [norm, norm], rtol=1e-5)
    for replica in range(2):
        np.testing.assert_allclose(result["two_clipped"][replica], whole * two_replicas.CLIP / norm, rtol=1e-4)
    np.testing.assert_allclose(result["one_norm"], norm, rtol=1e-5)
    np.testing.assert_allclose(result["one_clipped"], whole * two_replicas.CLIP / norm, rtol=1e-4)


def test_clipping_each_half_first_would_be_seen():
    inputs, targets, start = two_replicas.data()
    halves = [2 * x.T @ (x @ start - y) for x, y in zip(np.split(inputs[0], 2), np.split(targets[0], 2))]
    clipped_first = sum(h * min(1, two_replicas.CLIP / np.linalg.norm(h)) for h in halves)
    assert abs(np.linalg.norm(clipped_first) - two_replicas.CLIP) > 0.1


def test_training_equals_one_device_and_replicas_agree(result):
    for name in ("weights", "bias"):
        two = result[f"two_{name}"]
        np.testing.assert_array_equal(two[0], two[1])
        np.testing.assert_allclose(two[0], result[f"one_{name}"], atol=1e-5, rtol=0)
    _, _, start = two_replicas.data()
    assert np.abs(result["one_weights"] - start).max() > 0.05  # it moved
    assert result["iterations"] == two_replicas.STEPS
