"""The names of C-trace's agents."""

from __future__ import annotations

import re
from typing import NamedTuple

import ml_collections

NAME = re.compile(
    r"(?P<one>double_dqn)"
    r"|n_step_(?P<n>[1-9]\d*)"
    r"|(?P<traces>retrace|ctrace(_gamma(?P<rate>[1-9]\d*))?)(_lambda(?P<hundredths>\d+))?"
)
"""`n_step_5`: n = 5; `ctrace_gamma7`: Gamma = gamma^7; `retrace_lambda97`: lambda = 0.97."""

RATE_STEPS = 10
"""k of Gamma = gamma^k where the name has none (Sections 4.1 and 4.2)."""


class Method(NamedTuple):
    """What an agent's name says.

    target: as `targets.target_of` names it.
    n: steps of an n-step return; 1 for Double DQN and for methods that do not read it.
    rate_steps: k of the rate gamma^k that C-trace aims for. Other methods only log how far they are from it: an n-step
        return from the rate of its own n, the others from that of `RATE_STEPS`.
    trace_lambda: factor of Retrace's and C-trace's traces.
    """

    target: str
    n: int
    rate_steps: int
    trace_lambda: float


def method_of(config: ml_collections.ConfigDict) -> Method:
    """What the configuration's agent is; lambda is `loss.trace_lambda` where the name has none.

    Raises:
        ValueError: an agent that the experiment does not have.
    """
    match = NAME.fullmatch(config.agent)
    if match is None or config.agent not in config.agents:
        names = [name for name in config.agents if NAME.fullmatch(name)]
        raise ValueError(f"agent={config.agent!r}: choose {', '.join(names)}.")
    trace_lambda = int(match["hundredths"]) / 100 if match["hundredths"] else config.loss.trace_lambda
    if match["one"]:
        return Method("double_dqn", 1, RATE_STEPS, trace_lambda)
    if match["n"]:
        return Method("n_step", int(match["n"]), int(match["n"]), trace_lambda)
    target = "retrace" if match["traces"] == "retrace" else "c_trace"
    return Method(target, 1, int(match["rate"] or RATE_STEPS), trace_lambda)
