"""How a process uses its processors: threads, strategy, compilation."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import ml_collections
import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import context
from tensorflow.python.framework.errors_impl import exception_type_from_error_code
from tensorflow.tsl.protobuf.coordination_config_pb2 import CoordinatedJob

from repro.gpus import visible_gpus
from repro.memory import stop_tensor_leak
from repro.quiet import suppress_stderr
from repro.training.sizes import Machine

MEETING_SECONDS = 60.0
"""Longest wait of learners for each other, once all of them are known to be running."""
NOT_MET = (
    f"The learners did not connect to each other within {MEETING_SECONDS:g} seconds: one of them has ended (see its "
    "log in the run's folder actors), or a port is closed. The run ends; the same command resumes it from its last "
    "checkpoint, if there is one."
)
SIGNALS_SECONDS = 0.05
"""Longest time for which TensorFlow's handler of SIGTERM, which ignores it, replaces that of this process."""
HEARTBEAT_SECONDS = 365 * 24 * 3600
"""Timeout after which TensorFlow's service for learners ends a learner that it has not heard from. It is out of reach,
since the service measures it by the time of day, which jumps when a machine sleeps; `LearnerGroup` watches learners
itself."""

CPU_INFO = Path("/proc/cpuinfo")
BFLOAT16_CAPABILITY = (8, 0)
"""Compute capability of the first GPUs that multiply in bfloat16, NVIDIA's Ampere."""
BFLOAT16_FLAGS = frozenset({"avx512_bf16", "amx_bf16"})
"""Instructions of a processor for products in bfloat16, as Linux names them."""


def configure_threads(deterministic: bool, threads: int = 0) -> int:
    """Sets TensorFlow's numbers of threads, and stops a leak of eager tensors; call before the first operation.

    Products of float32 are computed in float32 on a GPU, too; by default TensorFlow would silently round their factors
    to 11 significant bits (TF32).

    Args:
        deterministic: whether every operation on a CPU gives the same bits for the same input. It has no effect where
            there are GPUs: there some operations have no such form under XLA, such as the gradient of max pooling.
        threads: number of threads within an operation, and for operations side by side; 0 for the number of this
            process's cores.

    Returns:
        the number of threads.
    """
    threads = threads or len(os.sched_getaffinity(0))
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    gpus = visible_gpus()
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
    tf.config.experimental.enable_tensor_float_32_execution(False)
    if deterministic and not gpus:
        tf.config.experimental.enable_op_determinism()
    stop_tensor_leak()
    return threads


def find_machine() -> Machine:
    """Returns what this process may use; call before the first operation."""
    return Machine(len(os.sched_getaffinity(0)), bool(visible_gpus()))


def hide_gpus() -> None:
    """Makes this process compute on CPUs only; call before the first operation."""
    tf.config.set_visible_devices([], "GPU")


def configure_actor() -> None:
    """Sets up a process that only plays: one thread, and no GPU; call before the first operation."""
    hide_gpus()
    configure_threads(deterministic=False, threads=1)


def make_strategy() -> tf.distribute.Strategy:
    """Returns the strategy of one device, or of all GPUs of this machine with mirrored variables."""
    gpus = visible_gpus()
    if len(gpus) > 1:
        return tf.distribute.MirroredStrategy()
    return tf.distribute.OneDeviceStrategy("/gpu:0" if gpus else "/cpu:0")


def make_learners_strategy(
    learner: int, addresses: Sequence[str], gpu: int = 0
) -> tf.distribute.MultiWorkerMirroredStrategy:
    """Returns the strategy of synchronous learners, one process and device each; call before the first operation.

    Waits until all learners have called it, at most `MEETING_SECONDS`, after which this process ends. Gradients are
    exchanged by gRPC on CPUs and by NCCL on GPUs. To be called in the main thread, whose signal handlers stay.

    Args:
        learner: number of this learner, from 0, the chief.
        addresses: addresses of all learners, host and port.
        gpu: number of this learner's GPU, where there are GPUs.
    """
    gpus = visible_gpus()
    if gpus:
        tf.config.set_visible_devices(gpus[gpu], "GPU")
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": list(addresses)}),
        task_type="worker",
        task_id=learner,
        num_accelerators={"GPU": 1} if gpus else {},
        rpc_layer="grpc",
    )
    context.context().configure_coordination_service(
        service_type="standalone",
        service_leader="/job:worker/replica:0/task:0",
        coordinated_jobs=[CoordinatedJob(name="worker", num_tasks=len(addresses))],
        heartbeat_timeout_in_ms=1000 * HEARTBEAT_SECONDS,
    )
    try:
        with _meeting_without_lock(), suppress_stderr():
            return tf.distribute.MultiWorkerMirroredStrategy(resolver)
    except _NotMetError:
        print(NOT_MET, file=sys.stderr, flush=True)
        os._exit(1)  # a thread still waits in TensorFlow


class _NotMetError(Exception):
    """A learner did not find the others."""


@contextlib.contextmanager
def _meeting_without_lock() -> Iterator[None]:
    """Makes TensorFlow wait for other learners in `_meet`, since its own function holds Python's lock meanwhile."""
    own = pywrap_tfe.TFE_EnableCollectiveOps
    pywrap_tfe.TFE_EnableCollectiveOps = _meet
    try:
        yield
    finally:
        pywrap_tfe.TFE_EnableCollectiveOps = own


def _meet(handle: object, server_def: bytes) -> None:
    """Starts TensorFlow's server and waits for those of all learners, while other threads and signal handlers go on.

    Args:
        handle: handle of TensorFlow's context.
        server_def: definition of the server, serialized.

    Raises:
        _NotMetError: a server was not there in time.
        tf.errors.OpError: the server could not be started.
    """
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    future = ThreadPoolExecutor(1).submit(_enable_collective_ops, handle, server_def)
    deadline = time.monotonic() + MEETING_SECONDS
    while not future.done():
        if time.monotonic() > deadline:
            raise _NotMetError
        wait([future], timeout=SIGNALS_SECONDS)
        for number, handler in handlers.items():  # TensorFlow's server takes SIGTERM for itself
            signal.signal(number, handler)
    future.result()


def _enable_collective_ops(handle: object, server_def: bytes) -> None:
    """Does what TensorFlow's own function for Python does, without holding Python's lock."""
    library = ctypes.CDLL(str(Path(tf.sysconfig.get_lib()) / "libtensorflow_cc.so.2"))
    library.TF_NewStatus.restype, library.TF_Message.restype = ctypes.c_void_p, ctypes.c_char_p
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    status = ctypes.c_void_p(library.TF_NewStatus())
    own_context, size = ctypes.c_void_p(get_pointer(handle, None)), ctypes.c_size_t(len(server_def))
    library.TFE_EnableCollectiveOps(own_context, server_def, size, status)
    code, message = library.TF_GetCode(status), library.TF_Message(status).decode(errors="replace")
    library.TF_DeleteStatus(status)
    if code:
        raise exception_type_from_error_code(code)(None, None, message)


def check_gpus(num_learners: int) -> None:
    """Raises ValueError where this machine has GPUs, but not one for each of the learners on it."""
    gpus = len(visible_gpus())
    if 0 < gpus < num_learners:
        raise ValueError(
            f"runtime.num_learners={num_learners}: each learner needs a GPU of its own, and this machine has {gpus}: "
            f"choose at most {gpus}, or set CUDA_VISIBLE_DEVICES= to train on its cores."
        )


def check_compute_dtype(config: ml_collections.ConfigDict, say: Callable[[str], None]) -> None:
    """Reports that a run's torso computes in bfloat16, where it does, and checks that this machine is fast at it.

    Other machines are slower in bfloat16 than in float32, and sum up in bfloat16. Only learners are checked.

    Args:
        config: resolved configuration.
        say: called with one line.

    Raises:
        ValueError: the type is bfloat16, and there is neither a GPU nor a processor with instructions for it.
    """
    if config.get("network", {}).get("compute_dtype", "float32") != "bfloat16":
        return
    if not is_fast_in_bfloat16():
        raise ValueError(
            "network.compute_dtype=bfloat16 needs an NVIDIA GPU of the Ampere generation or newer, or a processor with "
            "AVX512-BF16 or AMX and TensorFlow's oneDNN; this process has neither: choose float32."
        )
    say("The torso computes in bfloat16, in place of float32 (network.compute_dtype).")


def is_fast_in_bfloat16() -> bool:
    """Whether this machine has what `network.compute_dtype=bfloat16` needs."""
    return has_bfloat16_gpu() or has_bfloat16_instructions()


def has_bfloat16_gpu() -> bool:
    """Whether the first GPU multiplies in bfloat16; False without one."""
    details = [tf.config.experimental.get_device_details(gpu) for gpu in visible_gpus()[:1]]
    return any(found.get("compute_capability", BFLOAT16_CAPABILITY) >= BFLOAT16_CAPABILITY for found in details)


def has_bfloat16_instructions() -> bool:
    """Whether TensorFlow multiplies in bfloat16 on this processor; False where the system does not say."""
    if os.environ.get("TF_ENABLE_ONEDNN_OPTS", "1").lower() in ("0", "false"):
        return False
    try:
        return not BFLOAT16_FLAGS.isdisjoint(CPU_INFO.read_text().split())
    except OSError:
        return False


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
        raise ValueError("runtime.compile=xla works with one device only: choose auto or graph.")
    return compile_ == "xla" or (compile_ == "auto" and bool(visible_gpus()) and not several)


def check_batch_size(batch_size: int, strategy: tf.distribute.Strategy) -> None:
    """Raises ValueError where the replicas cannot share a batch equally."""
    if batch_size % strategy.num_replicas_in_sync:
        raise ValueError(
            f"learner.batch_size={batch_size} must be a multiple of the number of GPUs, "
            f"{strategy.num_replicas_in_sync}: choose one, or set CUDA_VISIBLE_DEVICES=0 to use a single GPU."
        )
