"""A learner that waits for another one that does not come, and machines without support for bfloat16."""

from __future__ import annotations

import ml_collections
import pytest
import tensorflow as tf

from repro.training import devices
from repro.training.devices import NOT_MET
from tests.support.forked_train import run_program

WAIT = """
import os, signal, socket, sys, threading, time
from repro.training import devices
from repro.training.learner_group import free_port

HANDLERS = {signal.SIGTERM: lambda *_: os._exit(7), signal.SIGINT: signal.SIG_IGN}
for number, handler in HANDLERS.items():
    signal.signal(number, handler)
addresses = [f"localhost:{free_port()}" for _ in range(2)]

def ask():
    while socket.socket().connect_ex(("localhost", int(addresses[0].split(":")[1]))):
        time.sleep(0.1)  # until TensorFlow's server is there
    time.sleep(1.0)
    while True:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.5)

"""
MEET = "devices.make_learners_strategy(0, addresses)"


@pytest.fixture
def run(tmp_path):
    return lambda code: run_program(tmp_path, WAIT + code)


def test_a_learner_that_finds_no_other_one_ends_with_a_sentence(run):
    ended = run(f"devices.MEETING_SECONDS = 1.0\n{MEET}")
    assert ended.returncode == 1, ended.stderr
    assert ended.stderr.endswith(f"{NOT_MET}\n")


def test_a_learner_that_waits_for_another_one_hears_of_signals(run):
    """TensorFlow's server has a handler of its own, and its wait for the others lets no thread of Python run."""
    ended = run(f"devices.MEETING_SECONDS = 60.0\nthreading.Thread(target=ask, daemon=True).start()\n{MEET}")
    assert ended.returncode == 7, ended.stderr


def test_a_server_that_cannot_start_is_an_error_and_handlers_of_signals_stay(run):
    ended = run(
        f"""
taken = socket.create_server(("", 0))
addresses[0] = f"localhost:{{taken.getsockname()[1]}}"
try:
    {MEET}
except devices.tf.errors.OpError as error:
    print(type(error).__name__)
    sys.exit(0 if all(signal.getsignal(x) is HANDLERS[x] for x in HANDLERS) else 1)
"""
    )
    assert (ended.returncode, ended.stdout) == (0, "UnknownError\n"), ended.stderr


def test_products_of_float32_are_not_rounded_on_a_gpu_and_an_actor_sees_none(monkeypatch):
    hidden, enabled = [], tf.config.experimental.tensor_float_32_execution_enabled()
    monkeypatch.setattr(tf.config, "set_visible_devices", lambda *arguments: hidden.append(arguments))
    for name in ("intra", "inter"):  # once TensorFlow runs they cannot be set
        monkeypatch.setattr(tf.config.threading, f"set_{name}_op_parallelism_threads", lambda threads: None)
    try:
        for configure in (lambda: devices.configure_threads(deterministic=False), devices.configure_actor):
            tf.config.experimental.enable_tensor_float_32_execution(True)
            configure()
            assert not tf.config.experimental.tensor_float_32_execution_enabled()
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(enabled)
    assert hidden == [([], "GPU")]


@pytest.mark.parametrize("visible", [[], ["GPU:0"]])
def test_a_gpu_that_is_hidden_does_not_count(monkeypatch, visible):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["GPU:0"])
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: ["GPU:0"])
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: visible)
    strategy = tf.distribute.get_strategy()
    assert devices.find_machine().has_gpu == devices.use_xla("auto", strategy) == bool(visible)


def compute(dtype: str) -> ml_collections.ConfigDict:
    return ml_collections.ConfigDict({"network": {"compute_dtype": dtype}})


@pytest.fixture
def processor(tmp_path, monkeypatch):
    """Sets the instructions of a processor, on a machine without a GPU."""
    monkeypatch.setattr(devices, "visible_gpus", list)
    monkeypatch.setattr(devices, "CPU_INFO", tmp_path / "cpuinfo")
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS", raising=False)
    return (tmp_path / "cpuinfo").write_text


@pytest.mark.parametrize("flag", ["avx512_bf16", "amx_bf16"])
def test_a_processor_for_bfloat16_is_told_by_its_flags(processor, monkeypatch, flag):
    messages = []
    processor(f"model name\t: x\nflags\t\t: fpu avx512f {flag} sse2\n")
    devices.check_compute_dtype(compute("bfloat16"), messages.append)
    assert messages == ["The torso computes in bfloat16, in place of float32 (network.compute_dtype)."]
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    with pytest.raises(ValueError, match="this process has neither"):
        devices.check_compute_dtype(compute("bfloat16"), messages.append)


def test_bfloat16_is_refused_where_the_processor_is_slow_at_it(processor):
    messages = []
    sentence = "network.compute_dtype=bfloat16 needs an NVIDIA GPU of the Ampere generation or newer, or a processor"
    for write in (lambda: None, lambda: processor("flags\t\t: fpu avx512f avx512_bf1 sse2\n")):  # no file, no flag
        write()
        with pytest.raises(ValueError, match=sentence):
            devices.check_compute_dtype(compute("bfloat16"), messages.append)


@pytest.mark.parametrize(
    ("capability", "is_refused"), [((7, 5), True), ((8, 0), False), ((9, 0), False), (None, False)]
)
def test_a_gpu_for_bfloat16_is_told_by_its_capability(processor, monkeypatch, capability, is_refused):
    messages, details = [], {} if capability is None else {"compute_capability": capability}
    processor("flags\t\t: fpu\n")
    monkeypatch.setattr(devices, "visible_gpus", lambda: ["the first", "another"])
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda gpu: details)
    if is_refused:
        with pytest.raises(ValueError, match="needs an NVIDIA GPU of the Ampere generation or newer"):
            devices.check_compute_dtype(compute("bfloat16"), messages.append)
    else:
        devices.check_compute_dtype(compute("bfloat16"), messages.append)
    assert len(messages) == (not is_refused)


def test_nothing_is_said_of_float32(processor):
    for config in (compute("float32"), ml_collections.ConfigDict({"network": {}}), ml_collections.ConfigDict()):
        devices.check_compute_dtype(config, pytest.fail)
