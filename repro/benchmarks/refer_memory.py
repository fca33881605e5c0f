"""Benchmark of the ReF-ER memory: microseconds for sampling, gathering and updating 256 steps in different cases."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from repro.evidence import records
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
"""Stored steps, steps of an episode, and std of log rho in each case.

Ratios near 1 are the worst case, because traces are longest there. With ratios of exactly 1 the new value of a step
cancels out of Eq. 8 and nothing has to be corrected."""


PARTS = ("sample", "gather", "update", "set_c_max", "whole")
RATIOS = {
    "episodes of 1000 over 250": ("usual", "episodes of 250"),
    "episodes of 4000 over 1000": ("episodes of 4000", "usual"),
    "full over half as full": ("usual", "half as full"),
}
"""Ratios of the cost of a whole minibatch in one case to that in another."""
CALLS, COLD = 150, 30
"""Minibatches of a case in one turn, and how many of the first ones are left out because of cold caches."""


def measure(seconds: float, repeats: int) -> dict[str, Any]:
    """Measures the median time of each operation on one thread; cases take turns, so that all have the same load.

    Args:
        seconds: length of the measurement of each case in seconds.
        repeats: how often everything is measured; medians are reported.
    """
    results, ratios = [], []
    for repeat in range(repeats):
        order = np.roll(list(CASES), repeat)  # the place of a memory's pages makes a difference of some percent
        cases = {str(name): _Case(*CASES[name]) for name in order}
        turns: list[dict[str, np.ndarray]] = []
        end = time.perf_counter() + seconds * len(cases)
        while not turns or time.perf_counter() < end:
            turns.append({name: case.take_turn() for name, case in cases.items()})
        medians = {name: np.median([turn[name] for turn in turns], axis=0).tolist() for name in cases}
        results.append({name: dict(zip(PARTS, values)) for name, values in medians.items()})
        ratios += [{name: turn[a][-1] / turn[b][-1] for name, (a, b) in RATIOS.items()} for turn in turns]
    return {
        "what": "refer_memory",
        "unit": "microseconds",
        "rows": {
            f"{part}, {name}": float(np.median([result[name][part] for result in results]))
            for name in CASES
            for part in PARTS
        },
        "ratios": {name: float(np.median([turn[name] for turn in ratios])) for name in RATIOS},
        "repeats": results,
        "hardware": records.hardware(),
        "versions": records.versions(),
    }


class _Case:
    """Case of the benchmark with a memory that is filled; arguments as in `CASES`."""

    def __init__(self, fill: int, length: int, std: float) -> None:
        self._random = random = np.random.default_rng(0)
        self._std = std
        self._memory = memory = ReferMemory(2**18, STATES, ACTIONS, length, discount=DISCOUNT)
        while len(memory) + length <= fill:
            memory.add_episode(
                states=random.normal(size=(length + 1, STATES)),
                actions=random.normal(size=(length, ACTIONS)),
                rewards=random.normal(size=length),
                means=random.normal(size=(length, ACTIONS)),
                stds=np.ones((length, ACTIONS)),
                values=random.normal(size=length + 1),
                terminated=False,
            )
        memory.refresh_reward_scale()
        self._values = memory.get_state()["value"]  # serial numbers start at 0
        memory.update(np.arange(len(memory)), np.exp(random.normal(0.0, std, len(memory))), self._values)
        self._minibatches = 0

    def take_turn(self) -> np.ndarray:
        """Returns median times in microseconds, [5], in the order of `PARTS`."""
        times = np.array([self._time_minibatch() for _ in range(CALLS)][COLD:])
        return 1e6 * np.append(np.median(times, axis=0), np.median(times.sum(axis=1)))

    def _time_minibatch(self) -> np.ndarray:
        memory, random = self._memory, self._random
        rho = np.exp(random.normal(0.0, self._std, BATCH))
        noise = random.normal(0.0, 0.01, BATCH)
        c_max = 1.0 + 4.0 / (1.0 + 5e-7 * self._minibatches)
        self._minibatches += 1
        clock = [time.perf_counter()]
        indices = memory.sample(random, BATCH)
        clock.append(time.perf_counter())
        memory.gather(indices)
        clock.append(time.perf_counter())
        value = self._values[indices] + noise  # stands for the network's work, which is not timed
        clock.append(time.perf_counter())
        memory.update(indices, rho, value)
        clock.append(time.perf_counter())
        memory.set_c_max(c_max)
        clock.append(time.perf_counter())
        return np.diff(clock)[[0, 1, 3, 4]]
