"""The names of C-trace's agents."""

from __future__ import annotations

import re
from typing import NamedTuple

import ml_collections

NAME = re.compile(r"(?P<target>double_dqn|n_step|retrace|ctrace)(_(gamma)?(?P<n>\d+))?")
"""`double_dqn`, `retrace`; `n_step_5`: n = 5; `ctrace_gamma10`: Gamma = gamma^10. A name may leave the number out."""


class Method(NamedTuple):
    """target: as `targets.target_of` names it. n: steps of n_step, and exponent of C-trace's Gamma = gamma^n."""

    target: str
    n: int


def method_of(config: ml_collections.ConfigDict, default_n: int = 10) -> Method:
    """What the configuration's agent is; n is C-trace's 10 (Section 4) where the name has no number.

    Raises:
        ValueError: an agent that the experiment does not have.
    """
    match = NAME.fullmatch(config.agent)
    if match is None or config.agent not in config.agents:
        raise ValueError(f"agent={config.agent!r}: choose {', '.join(config.agents)}.")
    target = {"ctrace": "c_trace"}.get(match["target"], match["target"])
    return Method(target, int(match["n"] or default_n))
