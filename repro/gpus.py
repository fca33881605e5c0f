"""The GPUs of this process."""

from __future__ import annotations

import tensorflow as tf


def visible_gpus() -> list[tf.config.PhysicalDevice]:
    """Returns the GPUs that this process may use; it may be called before the first operation of TensorFlow.

    GPUs hidden by `CUDA_VISIBLE_DEVICES` or `tf.config.set_visible_devices` are left out; actors therefore have none,
    and synchronous learners one each. A GPU that is too old for TensorFlow is included and has to be hidden.
    """
    return tf.config.get_visible_devices("GPU")
