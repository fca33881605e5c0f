"""V-trace alone: microseconds a call, and its share of IMPALA's train step on the shallow network."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from paper_configs.impala import atari_shallow
from repro.benchmarks import impala_atari, timing
from repro.evaluation import records
from repro.ops import v_targets
from repro.runtime import devices

SHAPES = [(20, 32), (20, 256), (100, 32), (100, 256)]


def measure(seconds: float, repeats: int) -> dict[str, Any]:
    """Time of one V-trace call for sequences [T, B] as a compiled graph.

    Args:
        seconds: for each measurement.
        repeats: times that everything is measured; medians are reported.
    """
    devices.configure_threads(deterministic=False)
    config = atari_shallow.get_config("paper")
    results = []
    for _ in range(repeats):
        learner = timing.rate([impala_atari.learner_body(config)], seconds)
        step = config.learner.unroll_length * config.learner.batch_size / learner
        calls = {f"T={t} B={b}": 1.0 / timing.rate([_body(t, b)], seconds) for t, b in SHAPES}
        results.append({"calls": calls, "train_step": step})
    microseconds = {name: 1e6 * float(np.median([r["calls"][name] for r in results])) for name in results[0]["calls"]}
    step = 1e6 * float(np.median([r["train_step"] for r in results]))
    return {
        "what": "operators",
        "unit": "microseconds",
        "vtrace": microseconds,
        "train_step T=20 B=32": step,
        "share": microseconds["T=20 B=32"] / step,
        "repeats": results,
        "hardware": records.hardware(),
        "versions": records.versions(),
    }


def _body(length: int, batch: int) -> Any:
    random = np.random.default_rng(0)
    log_rho, r_t, v_tm1, v_t = (tf.constant(random.normal(size=(length, batch)), tf.float32) for _ in range(4))
    discount_t = tf.fill([length, batch], 0.99)
    operator = tf.function(v_targets.vtrace)

    def body() -> int:
        operator(log_rho, discount_t, r_t, v_tm1, v_t).targets.numpy()
        return 1

    return body
