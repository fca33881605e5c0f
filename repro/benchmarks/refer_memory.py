"""The ReF-ER memory alone: microseconds for drawing, gathering and updating 256 steps, and what they depend on."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from repro.evaluation import records
from repro.replay.refer import ReferMemory

BATCH, STATES, ACTIONS, DISCOUNT = 256, 17, 6, 0.995
CASES = {
    "usual": (2**18, 1000, 0.3),
    "half as full": (2**17, 1000, 0.3),
    "episodes of 250": (2**18, 250, 0.3),
    "episodes of 4000": (2**18, 4000, 0.3),
    "ratios of 1": (2**18, 1000, 0.0),
    "ratios near 1": (2**18, 1000, 0.01),
}
"""Steps stored, steps of an episode, standard deviation of log rho. Near 1 is the worst case: traces are longest there,
while with ratios of exactly 1 the new value of a step cancels out of Eq. 8 and nothing has to be corrected."""


def measure(seconds: float, repeats: int) -> dict[str, Any]:
    """Median time of each operation, on one thread.

    Args:
        seconds: for each case.
        repeats: times that everything is measured; medians are reported.
    """
    results = []
    for _ in range(repeats):
        results.append({name: _times(*case, seconds) for name, case in CASES.items()})
    return {
        "what": "refer_memory",
        "unit": "microseconds",
        "rows": {
            f"{part}, {name}": float(np.median([result[name][part] for result in results]))
            for name in CASES
            for part in results[0][name]
        },
        "repeats": results,
        "hardware": records.hardware(),
        "versions": records.versions(),
    }


def _times(fill: int, length: int, deviation: float, seconds: float) -> dict[str, float]:
    random = np.random.default_rng(0)
    memory = ReferMemory(2**18, STATES, ACTIONS, length, discount=DISCOUNT)
    while len(memory) + length <= fill:
        memory.add_episode(
            states=random.normal(size=(length + 1, STATES)),
            actions=random.normal(size=(length, ACTIONS)),
            rewards=random.normal(size=length),
            means=random.normal(size=(length, ACTIONS)),
            deviations=np.ones((length, ACTIONS)),
            values=random.normal(size=length + 1),
            terminated=False,
        )
    memory.refresh_reward_scale()
    values = memory.get_state()["value"]  # serial numbers start at 0
    memory.update(np.arange(len(memory)), np.exp(random.normal(0.0, deviation, len(memory))), values)
    times: list[np.ndarray] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        rho = np.exp(random.normal(0.0, deviation, BATCH))
        noise = random.normal(0.0, 0.01, BATCH)
        c_max = 1.0 + 4.0 / (1.0 + 5e-7 * len(times))
        clock = [time.perf_counter()]
        indices = memory.draw(random, BATCH)
        clock.append(time.perf_counter())
        memory.gather(indices)
        clock.append(time.perf_counter())
        value = values[indices] + noise  # the network's part, not counted
        clock.append(time.perf_counter())
        memory.update(indices, rho, value)
        clock.append(time.perf_counter())
        memory.set_c_max(c_max)
        clock.append(time.perf_counter())
        times.append(np.diff(clock)[[0, 1, 3, 4]])
    draw, gather, update, c_max_change = (1e6 * np.median(times, axis=0)).tolist()
    whole = 1e6 * float(np.median(np.sum(times, axis=1)))
    return {"draw": draw, "gather": gather, "update": update, "set_c_max": c_max_change, "whole": whole}
