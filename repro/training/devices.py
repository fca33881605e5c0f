"""How a process uses its processors: threads, strategy, compilation."""

from __future__ import annotations

import os

import tensorflow as tf


def configure_threads(deterministic: bool, threads: int = 0) -> int:
    """Sets TensorFlow's threads; call before the first operation.

    Args:
        deterministic: make every operation give the same bits for the same input.
        threads: for one operation and for operations side by side; 0: as many as this process has cores.

    Returns:
        the number of threads.
    """
    threads = threads or len(os.sched_getaffinity(0))
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    for gpu in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(gpu, True)
    if deterministic:
        tf.config.experimental.enable_op_determinism()
    return threads


def configure_actor() -> None:
    """Sets up a process that only plays: one thread, and no GPU; call before the first operation."""
    tf.config.set_visible_devices([], "GPU")
    configure_threads(deterministic=False, threads=1)


def make_strategy() -> tf.distribute.Strategy:
    """One device, or all GPUs of this machine with mirrored variables."""
    gpus = tf.config.list_logical_devices("GPU")
    if len(gpus) > 1:
        return tf.distribute.MirroredStrategy()
    return tf.distribute.OneDeviceStrategy("/gpu:0" if gpus else "/cpu:0")


def use_xla(compile_: str, strategy: tf.distribute.Strategy) -> bool:
    """Whether the train step of a convolutional agent is compiled with XLA.

    `auto` means XLA on one GPU and the plain graph elsewhere: on CPUs XLA's convolutions are several times
    slower than oneDNN's, and it cannot compile the exchange between replicas.

    Raises:
        ValueError: `compile_` is not auto, xla or graph, or asks XLA for several replicas.
    """
    if compile_ not in ("auto", "xla", "graph"):
        raise ValueError(f"runtime.compile={compile_!r}: choose auto, xla or graph.")
    several = strategy.num_replicas_in_sync > 1
    if compile_ == "xla" and several:
        raise ValueError("runtime.compile=xla works with one device; use auto or graph with several.")
    on_gpu = bool(tf.config.list_logical_devices("GPU"))
    return compile_ == "xla" or (compile_ == "auto" and on_gpu and not several)


def check_batch_size(batch_size: int, strategy: tf.distribute.Strategy) -> None:
    """Raises ValueError where the replicas cannot share a batch equally."""
    if batch_size % strategy.num_replicas_in_sync:
        raise ValueError(
            f"learner.batch_size={batch_size} cannot be shared by {strategy.num_replicas_in_sync} GPUs "
            "equally: show it one with CUDA_VISIBLE_DEVICES=0, or raise it."
        )
