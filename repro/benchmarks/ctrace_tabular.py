"""Benchmark of C-trace's tabular study on one core: trajectories, and every method's sampled targets on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from paper_configs.ctrace import tabular_fig5, tabular_fig6
from repro.benchmarks.measuring import timing
from repro.papers.ctrace import tabular_tradeoffs
from repro.tabular import simulation

UNIT = "environment_steps_per_second"


def measure(seconds: float, repeats: int) -> dict[str, Any]:
    """Measures Figure 6's MDP of 20 states with all methods of Figure 5, 5000 trajectories of 100 steps at paper scale.

    Args:
        seconds: length of each measurement in seconds.
        repeats: how often everything is measured.
    """
    config = tabular_fig6.get_config("paper")
    config.methods = tabular_fig5.get_config("paper").methods
    problem = tabular_tradeoffs.make_problem(config, 1, "b", 0)
    methods = tabular_tradeoffs.methods(config)
    rng = np.random.default_rng(0)
    steps = config.variance.trajectories * config.variance.steps

    def simulate() -> simulation.Trajectories:
        return simulation.simulate(problem.mdp, problem.mu, config.variance.trajectories, config.variance.steps, rng)

    def targets(trajectories: simulation.Trajectories) -> None:
        zeros = np.zeros_like(problem.pi)
        simulation.sampled_targets(problem.mdp, trajectories, problem.pi, problem.mu, methods, zeros)

    def counted(body: Callable[[], Any]) -> list[Callable[[], int]]:
        return [lambda: (body(), steps)[1]]

    with timing.one_core():
        trajectories = simulate()
        results = []
        for _ in range(repeats):
            parts = {
                "simulation": timing.rate(counted(simulate), seconds),
                "targets": timing.rate(counted(lambda: targets(trajectories)), seconds),
            }
            results.append({"parts": parts, "whole": timing.rate(counted(lambda: targets(simulate())), seconds)})
        result = timing.summarise("ctrace_tabular", UNIT, results)  # inside the block, to record one core as hardware
    return {**result, "methods": len(methods), "seconds_per_study": steps / result["whole"]}
