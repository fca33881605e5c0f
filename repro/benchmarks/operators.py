"""Benchmark of operators: microseconds per call, and V-trace's share of IMPALA's train step on the shallow network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from paper_configs.impala import atari_shallow
from repro.benchmarks.measuring import actor_learner, timing
from repro.evidence import records
from repro.ops import q_targets, traces, v_targets
from repro.papers.ctrace import alpha_update
from repro.papers.impala.experiments.discrete import DiscreteExperiment
from repro.training import devices

GAMMA = 0.99
SHAPES = [(20, 32), (20, 256), (100, 32), (100, 256)]
ACTION_VALUE_SHAPES = [(16, 32), (80, 64)]
"""Lengths and batch sizes of C-trace's DQN and R2D2 agents (Appendix E)."""


def measure(seconds: float, repeats: int) -> dict[str, Any]:
    """Measures the time of one call of a compiled graph for sequences [T, B].

    Args:
        seconds: length of each measurement of V-trace and of the train step in seconds. The operators of action values,
            which are compared with nothing, get a quarter each.
        repeats: how often everything is measured; medians are reported.
    """
    devices.configure_threads(deterministic=False)
    config = atari_shallow.get_config("paper")
    results = []
    for _ in range(repeats):
        learner = timing.rate([actor_learner.unroll_learner_body(DiscreteExperiment(config))], seconds)
        step = config.learner.unroll_length * config.learner.batch_size / learner
        calls = _calls({"vtrace": _vtrace}, SHAPES, seconds)
        calls |= _calls(ACTION_VALUES, ACTION_VALUE_SHAPES, seconds / 4)
        results.append({"calls": calls, "train_step": step})
    microseconds = {
        operator: {shape: 1e6 * float(np.median([r["calls"][operator][shape] for r in results])) for shape in times}
        for operator, times in results[0]["calls"].items()
    }
    step = 1e6 * float(np.median([r["train_step"] for r in results]))
    return {
        "what": "operators",
        "unit": "microseconds",
        **microseconds,
        "train_step T=20 B=32": step,
        "share": microseconds["vtrace"]["T=20 B=32"] / step,
        "repeats": results,
        "hardware": records.hardware(),
        "versions": records.versions(),
    }


def _calls(
    operators: dict[str, Callable[..., tf.Tensor]], shapes: list[tuple[int, int]], seconds: float
) -> dict[str, dict[str, float]]:
    """Returns the seconds of a call by operator and shape."""
    return {
        name: {f"T={t} B={b}": 1.0 / timing.rate([_body(operator, t, b)], seconds) for t, b in shapes}
        for name, operator in operators.items()
    }


def _body(operator: Callable[..., tf.Tensor], length: int, batch: int) -> Callable[[], int]:
    random = np.random.default_rng(0)
    log_rho, r_t, v_tm1, v_t = (tf.constant(random.normal(size=(length, batch)), tf.float32) for _ in range(4))
    discount_t = tf.fill([length, batch], GAMMA)
    compiled = tf.function(operator, autograph=False)

    def body() -> int:
        compiled(log_rho, discount_t, r_t, v_tm1, v_t).numpy()
        return 1

    return body


def _vtrace(log_rho: tf.Tensor, discount_t: tf.Tensor, r_t: tf.Tensor, v_tm1: tf.Tensor, v_t: tf.Tensor) -> tf.Tensor:
    return v_targets.vtrace(log_rho, discount_t, r_t, v_tm1, v_t).targets


def _retrace(
    log_rho_t: tf.Tensor, discount_t: tf.Tensor, r_t: tf.Tensor, q_t_a: tf.Tensor, expected_q_t: tf.Tensor
) -> tf.Tensor:
    return q_targets.multistep_q(r_t, discount_t, traces.retrace(log_rho_t), expected_q_t, q_t_a)


def _n_step(
    log_rho_t: tf.Tensor, discount_t: tf.Tensor, r_t: tf.Tensor, q_t_a: tf.Tensor, expected_q_t: tf.Tensor
) -> tf.Tensor:
    del log_rho_t, q_t_a
    return q_targets.n_step_uncorrected(r_t, discount_t, expected_q_t, n=10)


def _alpha_loss(
    log_rho_t: tf.Tensor, discount_t: tf.Tensor, r_t: tf.Tensor, q_t_a: tf.Tensor, expected_q_t: tf.Tensor
) -> tf.Tensor:
    del r_t, q_t_a, expected_q_t
    phi = tf.constant(0.0)
    estimate = alpha_update.contraction_estimate(log_rho_t, discount_t, tf.sigmoid(phi), gamma=GAMMA)
    target = alpha_update.contraction_target(discount_t, gamma=GAMMA, target_rate=GAMMA**10)
    return alpha_update.alpha_loss(phi, estimate, target, gamma=GAMMA)


ACTION_VALUES = {"retrace": _retrace, "n_step_uncorrected n=10": _n_step, "alpha_loss": _alpha_loss}
