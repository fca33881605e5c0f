"""Wrong variants of the off-policy operators and of what papers build on them, each of which the tests must catch.

Run by `python -m tests.ops.mutations` from the repository's root. Every variant is one substitution in a temporary copy
of the package, against which the tests of that file run until the first failure. Exits with 1 if a variant survives.
It takes some minutes and is no part of the normal tests.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
Q_TARGETS, TRACES, RECURSION = "repro/ops/q_targets.py", "repro/ops/traces.py", "repro/ops/recursion.py"
RESCALING, ALPHA_UPDATE = "repro/ops/value_rescaling.py", "repro/papers/ctrace/alpha_update.py"
TRUST_REGION, ACER_LOSS = "repro/papers/acer/trust_region.py", "repro/papers/acer/loss.py"
ACER_AGENT, UNROLL_AGENT = "repro/papers/acer/agent.py", "repro/papers/acer/unroll_agent.py"
TESTS = {
    Q_TARGETS: "tests/ops/test_q_targets.py",
    TRACES: "tests/ops/test_traces.py",
    RECURSION: "tests/ops/test_recursion.py",
    RESCALING: "tests/ops/test_value_rescaling.py",
    ALPHA_UPDATE: "tests/papers/ctrace/test_alpha_update.py",
    TRUST_REGION: "tests/papers/acer/test_trust_region.py",
    ACER_LOSS: "tests/papers/acer/test_loss.py",
    ACER_AGENT: "tests/papers/acer/test_agent.py",
    UNROLL_AGENT: "tests/papers/acer/test_agent.py",
}


class Mutant(NamedTuple):
    name: str
    file: str
    old: str
    new: str


MUTANTS = [
    Mutant(
        "next target read one row late",
        RECURSION,
        "later(e, span), 0.0)",
        "later(e, span + 1), 0.0)",
    ),
    Mutant(
        "recursion reads past ends",
        RECURSION,
        "reads_next = goes_on & later(tf.ones_like(goes_on), 1)",
        "reads_next = later(tf.ones_like(goes_on), 1)",
    ),
    Mutant(
        "trace not discounted",
        Q_TARGETS,
        "backward_recursion(delta, discount_t * trace,",
        "backward_recursion(delta, trace,",
    ),
    Mutant(
        "discount squared",
        Q_TARGETS,
        "delta = r_t + discount_t * (",
        "delta = r_t + discount_t**2 * (",
    ),
    Mutant(
        "next value not subtracted",
        Q_TARGETS,
        "(expected_q_t - trace * q_t_a)",
        "expected_q_t",
    ),
    Mutant(
        "next value subtracted in full",
        Q_TARGETS,
        "trace * q_t_a)",
        "q_t_a)",
    ),
    Mutant(
        "lambda missing",
        Q_TARGETS,
        "lambda_ * c_t, 0.0)",
        "c_t, 0.0)",
    ),
    Mutant(
        "boundary rows read by the row before",
        Q_TARGETS,
        "return data, goes_on & recursion.later(~boundary, 1)",
        "return data, goes_on & recursion.later(tf.ones_like(boundary), 1)",
    ),
    Mutant(
        "boundary rows have a target",
        Q_TARGETS,
        'data["r_t"] = tf.where(boundary, 0.0, data["r_t"])',
        "pass",
    ),
    Mutant(
        "targets pass gradients",
        Q_TARGETS,
        "{name: tf.stop_gradient(tf.convert_to_tensor(x, tf.float32)) for",
        "{name: tf.convert_to_tensor(x, tf.float32) for",
    ),
    Mutant(
        "window one step too long",
        Q_TARGETS,
        "range(min(n, r_t.shape[0]) - 1)",
        "range(min(n, r_t.shape[0]))",
    ),
    Mutant(
        "ratios one row late",
        Q_TARGETS,
        "rho_t * recursion.later(targets, 1), expected_q_t)",
        "recursion.later(rho_t * targets, 1), expected_q_t)",
    ),
    Mutant(
        "bootstrap weighted by one ratio more",
        Q_TARGETS,
        "targets = r_t + discount_t * expected_q_t",
        "targets = r_t + discount_t * rho_t * expected_q_t",
    ),
    Mutant(
        "Retrace not truncated",
        TRACES,
        "tf.exp(tf.minimum(0.0, constant(log_rho)))",
        "tf.exp(constant(log_rho))",
    ),
    Mutant(
        "alpha and 1 - alpha exchanged in the trace",
        TRACES,
        "(1.0 - alpha) + alpha * retrace(log_rho)",
        "alpha + (1.0 - alpha) * retrace(log_rho)",
    ),
    Mutant(
        "alpha in the trace, not in the expectation",
        TRACES,
        "alpha * pi + (1.0 - alpha) * mu",
        "pi + 0.0 * (alpha + mu)",
    ),
    Mutant(
        "ACER's root missing",
        TRACES,
        "constant(log_rho) / action_dimension",
        "constant(log_rho)",
    ),
    Mutant(
        "greedy policy's ratio not safe",
        TRACES,
        "tf.where(tf.equal(pi_a, 0.0), tf.math.log(pi_a), ",
        "tf.where(tf.equal(mu_a, 1.0), tf.math.log(pi_a), ",
    ),
    Mutant(
        "inverse rescaling without epsilon",
        RESCALING,
        "b = 1.0 + 2.0 * epsilon",
        "b = 1.0",
    ),
    Mutant(
        "printed inverse, which cancels",
        RESCALING,
        "return y * ratio * (tf.abs(y) * ratio + 2.0)",
        "return tf.sign(y) * (tf.square(tf.abs(y) * ratio + 1.0) - 1.0)",
    ),
    Mutant(
        "N + 1 terms in the contraction estimate",
        ALPHA_UPDATE,
        "return 1.0 - (1.0 - gamma) * discounted_length",
        "return 1.0 - (1.0 - gamma) * (1.0 + gamma * discounted_length)",
    ),
    Mutant(
        "target of the whole sequence for every row",
        ALPHA_UPDATE,
        "tf.pow(gamma, num_steps)",
        "tf.pow(gamma, tf.reduce_max(num_steps, axis=0, keepdims=True) + tf.zeros_like(num_steps))",
    ),
    Mutant(
        "ends ignored in the pieces",
        ALPHA_UPDATE,
        "goes_on = tf.not_equal(discount_t, 0.0) & ~boundary",
        "goes_on = ~boundary",
    ),
    Mutant(
        "loss of the other sign",
        ALPHA_UPDATE,
        "return estimate - target",
        "return target - estimate",
    ),
    Mutant(
        "loss differentiates the estimate",
        ALPHA_UPDATE,
        "estimate, target = (tf.stop_gradient(tf.convert_to_tensor(x, tf.float32)) for x in (estimate, target))",
        "pass",
    ),
    Mutant(
        "loss not scaled by 1 / (1 - gamma)",
        ALPHA_UPDATE,
        "LOSS_SCALE / (1.0 - gamma) * ",
        "LOSS_SCALE * ",
    ),
    Mutant(
        "gradient pushed out of the trust region",
        TRUST_REGION,
        "return g - tf.maximum(0.0, step)",
        "return g + tf.maximum(0.0, step)",
    ),
    Mutant(
        "projected where the constraint holds",
        TRUST_REGION,
        "tf.maximum(0.0, step) * direction",
        "step * direction",
    ),
    Mutant(
        "trust region of width 0",
        TRUST_REGION,
        " - tf.math.divide_no_nan(delta, largest)",
        " - 0.0 * delta",
    ),
    Mutant(
        "width not scaled with k",
        TRUST_REGION,
        "tf.math.divide_no_nan(delta, largest)",
        "delta",
    ),
    Mutant(
        "projection not divided by |k|^2",
        TRUST_REGION,
        "step = tf.math.divide_no_nan(excess, tf.reduce_sum(tf.square(direction), axis=-1, keepdims=True))",
        "step = excess",
    ),
    Mutant(
        "surrogate of the other sign",
        TRUST_REGION,
        "return -tf.reduce_sum(z * phi",
        "return tf.reduce_sum(z * phi",
    ),
    Mutant(
        "ACER's Retrace not truncated",
        ACER_LOSS,
        "traces.retrace(log_rho)",
        "traces.importance_sampling(log_rho)",
    ),
    Mutant(
        "ACER's trace of this row's action",
        ACER_LOSS,
        "recursion.later(traces.retrace(log_rho), 1)",
        "traces.retrace(log_rho)",
    ),
    Mutant(
        "ACER's correction as Algorithm 2 prints it",
        ACER_LOSS,
        "* (q - value[..., tf.newaxis])",
        "* (tf.gather(q, actions, batch_dims=2) - value)[..., tf.newaxis]",
    ),
    Mutant(
        "correction where nothing was truncated",
        ACER_LOSS,
        "tf.math.expm1(tf.minimum(0.0, log_c - log_rho))",
        "tf.math.expm1(log_c - log_rho)",
    ),
    Mutant(
        "no correction",
        ACER_LOSS,
        "return truncated + correction",
        "return truncated + 0.0 * correction",
    ),
    Mutant(
        "policy gradient not truncated",
        ACER_LOSS,
        "tf.minimum(log_c, log_rho_a) - log_pi_a",
        "log_rho_a - log_pi_a",
    ),
    Mutant(
        "gradient with respect to log phi",
        ACER_LOSS,
        "tf.minimum(log_c, log_rho_a) - log_pi_a",
        "tf.minimum(log_c, log_rho_a)",
    ),
    Mutant(
        "policy gradient without baseline",
        ACER_LOSS,
        "(constant(q_ret) - value)",
        "constant(q_ret)",
    ),
    Mutant(
        "divergence of the other direction",
        ACER_LOSS,
        "return -tf.exp(tf.minimum(log_quotient, MAX_LOG_QUOTIENT))",
        "return 1.0 - log_quotient",
    ),
    Mutant(
        "quotients with tiny probabilities unbounded",
        ACER_LOSS,
        "MAX_LOG_QUOTIENT = 25.0",
        "MAX_LOG_QUOTIENT = 1e9",
    ),
    Mutant(
        "entropy penalised",
        ACER_LOSS,
        "-settings.entropy_cost * entropy",
        "settings.entropy_cost * entropy",
    ),
    Mutant(
        "boundary rows move the policy",
        ACER_LOSS,
        "z = tf.where(is_boundary[..., tf.newaxis], 0.0, z)",
        "pass",
    ),
    Mutant(
        "critic's square not halved",
        ACER_LOSS,
        "0.5 * tf.square(q_ret - q_a)",
        "tf.square(q_ret - q_a)",
    ),
    Mutant(
        "alpha and 1 - alpha exchanged in the average",
        UNROLL_AGENT,
        "alpha * average + (1.0 - alpha) * variable",
        "(1.0 - alpha) * average + alpha * variable",
    ),
    Mutant(
        "trust region around the policy itself",
        ACER_AGENT,
        "self._average_network(observation[:, :-1]",
        "self._network(observation[:, :-1]",
    ),
    Mutant(
        "on-policy gradient at the present weights",
        UNROLL_AGENT,
        "_assign(self.acting_variables, acting)",
        "_assign(self.acting_variables, present)",
    ),
    Mutant(
        "sum over unrolls",
        UNROLL_AGENT,
        "total / unrolls",
        "total + 0.0 * unrolls",
    ),
    Mutant(
        "mean over each replica's unrolls",
        UNROLL_AGENT,
        " * tf.distribute.get_strategy().num_replicas_in_sync",
        "",
    ),
    Mutant(
        "gamma missing",
        ACER_AGENT,
        "self._learning.discount * time_major(experience.discount)",
        "time_major(experience.discount)",
    ),
]


def copy_of_the_package(directory: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copy(ROOT / "pyproject.toml", directory)
    shutil.copytree(ROOT / "repro", directory / "repro", ignore=ignored)
    for name in ("ops", "papers/ctrace", "papers/acer", "support"):
        shutil.copytree(ROOT / "tests" / name, directory / "tests" / name, ignore=ignored)
    for name in ("__init__.py", "conftest.py", "papers/__init__.py"):
        shutil.copy(ROOT / "tests" / name, directory / "tests" / name)


def run_tests(directory: Path, tests: list[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-B", "-m", "pytest", "-x", "-p", "no:cacheprovider", "--tb=no", *tests]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)


def outcome(directory: Path, mutant: Mutant) -> str:
    """The first failing test, or an empty string if `mutant` survives."""
    path = directory / mutant.file
    source = path.read_text()
    assert source.count(mutant.old) == 1, (
        f"{mutant.name}: the text must occur once, not {source.count(mutant.old)} times"
    )
    path.write_text(source.replace(mutant.old, mutant.new))
    try:
        done = run_tests(directory, [TESTS[mutant.file]])
    finally:
        path.write_text(source)
    if done.returncode == 0:
        return ""
    failed = [line.split(" ")[1] for line in done.stdout.splitlines() if line.startswith("FAILED ")]
    # Anything else, such as a syntax error, would catch a mutant for the wrong reason.
    assert failed, f"{mutant.name}: the tests did not run\n{done.stdout}{done.stderr}"
    return failed[0].split("::")[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="run only the variants whose name contains this")
    only = parser.parse_args().only
    mutants = [mutant for mutant in MUTANTS if only in mutant.name]
    start, survivors = time.perf_counter(), 0
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        copy_of_the_package(directory)
        done = run_tests(directory, sorted({TESTS[mutant.file] for mutant in mutants}))
        if done.returncode != 0:
            print(f"The tests fail without any mutation:\n{done.stdout}{done.stderr}")
            return 1
        for mutant in mutants:
            caught_by = outcome(directory, mutant)
            survivors += not caught_by
            print(f"{mutant.name:48} {caught_by or 'SURVIVED'}", flush=True)
    print(f"{len(mutants) - survivors} of {len(mutants)} caught in {time.perf_counter() - start:.0f} s")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
