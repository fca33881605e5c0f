"""The GPUs of this process."""

from __future__ import annotations

import tensorflow as tf


def visible_gpus() -> list[tf.config.PhysicalDevice]:
    """Returns the GPUs that this process may compute on, also before its first operation.

    Those that `CUDA_VISIBLE_DEVICES` or `tf.config.set_visible_devices` hides are left out, as in actors, which have
    none, and in synchronous learners, which have one each. One that is too old for TensorFlow counts: hide it.
    """
    return tf.config.get_visible_devices("GPU")
