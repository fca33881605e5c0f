"""Final returns of sampled hyper-parameters from high to low, as in IMPALA's Figures 5 and D.2."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from repro.report import figures

HEIGHT = 150
X_LABEL = "hyper-parameter combinations, best first"


def has_settings(records: Sequence[Mapping[str, Any]]) -> bool:
    """Returns whether there are several records and each has settings of its own, sampled by its seed."""
    return len(records) > 1 and all(record["config"].get("sweep", {}).get("sampled", False) for record in records)


def sort_returns(records: Sequence[Mapping[str, Any]]) -> np.ndarray:
    """Returns the final returns from high to low, [N].

    Args:
        records: one record per setting, at least one. A final return is the mean of its evaluation.
    """
    return np.sort([record["evaluation"]["mean"] for record in records])[::-1]


@figures.styled
def plot_stability(by_agent: Mapping[str, tuple[int, np.ndarray]], unit: str) -> Figure:
    """Plots the final returns of the agents of one task over their rank.

    Args:
        by_agent: agent to its index, for its colour, and its returns from `sort_returns`.
        unit: unit of the returns.
    """
    figure = figures.new_figure(len(by_agent), HEIGHT)
    axes = figure.add_subplot()
    for agent, (index, returns) in by_agent.items():
        ranks = np.arange(1, len(returns) + 1)
        axes.plot(ranks, returns, gid=agent, label=agent, lw=1.4, marker="o", ms=2.5, **figures.curve_style(index))
    axes.set(xlabel=X_LABEL, ylabel=unit)
    axes.locator_params(axis="x", integer=True)
    axes.grid(axis="y")
    figure.legend(loc="outside lower left", alignment="left")
    return figure


def describe(by_agent: Mapping[str, tuple[int, np.ndarray]], task: str) -> str:
    """Returns a description of the figure."""
    agents = "; ".join(
        f"{agent}: {len(returns)} combinations, {returns[0]:.4g} to {returns[-1]:.4g}, median {np.median(returns):.4g}"
        for agent, (_, returns) in by_agent.items()
    )
    return f"Final returns on {task} by hyper-parameter combination, from high to low. {agents}."
