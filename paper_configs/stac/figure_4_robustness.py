"""Robustness of STACX to hyper-parameters on Atari, beside that of IMPALA (Figure 4 of arXiv 2002.12928).

Settings and sources are those of `atari.py`; each agent changes one setting. The paper prints the five values only for
(c), and names two of its five games, James Bond and Chopper Command.
"""

import math
from typing import Any

import ml_collections

from paper_configs.stac import atari

STARTS = (0.99, 0.992, 0.995, 0.997, 0.999)  # initial metaparameters, after the sigmoid; Figure 4(c)
GAMMAS = STARTS  # gamma of the outer loss or of IMPALA's; assumed: those of (c), as the values of (a) are not printed
VALUE_COSTS = (0.15, 0.2, 0.25, 0.3, 0.35)  # g_v; assumed: the values of (b) are not printed


def get_config(scale: str = "desk") -> ml_collections.ConfigDict:
    """Returns the published settings; `smoke` and `desk` are as in `atari.py`."""
    config = atari.get_config(scale)
    config.experiment = "figure_4_robustness"
    config.variants = ml_collections.ConfigDict(variants())  # agents, each with the fields that it changes
    config.agent = "stacx_gamma_995"  # the published value
    config.env.task = "jamesbond"  # Figure 4
    return config


def variants() -> dict[str, dict[str, Any]]:
    """Returns agents, each with the fields that it changes: `stacx_gamma_992`, `impala_g_v_15`, `stacx_start_999` ...

    Numbers in names are thousandths, those of g_v hundredths.
    """
    of_figure_2 = atari.variants()
    agents: dict[str, dict[str, Any]] = {}
    for name in ("impala", "stacx"):
        own = of_figure_2[name]
        agents |= {f"{name}_gamma_{1000 * gamma:.0f}": own | {"loss": {"discount": gamma}} for gamma in GAMMAS}
        agents |= {f"{name}_g_v_{100 * cost:.0f}": own | {"loss": {"value_cost": cost}} for cost in VALUE_COSTS}
    for start in STARTS:
        eta, name = math.log(start / (1 - start)), f"{1000 * start:.0f}"
        meta = of_figure_2["stacx"]["meta"]
        agents[f"stacx_start_{name}"] = of_figure_2["stacx"] | {"meta": meta | {"initial": eta}}
        agents[f"stacx_start_gamma_{name}"] = of_figure_2["stacx"] | {"meta": meta | {"initial_gamma": eta}}
    return agents
