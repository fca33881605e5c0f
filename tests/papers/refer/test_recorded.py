"""Log columns that records keep, against what the agents of each config log."""

import pytest

from paper_configs.refer import (
    figure_1_ddpg,
    figure_3_naf,
    figure_4_vracer,
    figure_7_sensitivity,
    figure_8_sensitivity,
    gymnasium,
    recurrent,
)
from repro.config import resolve
from repro.papers.refer.ddpg import Ddpg
from repro.papers.refer.naf import Naf
from repro.papers.refer.recurrent_vracer import RecurrentVRacer
from repro.papers.refer.vracer import VRacer

CONFIGS = [
    figure_1_ddpg,
    figure_3_naf,
    figure_4_vracer,
    figure_7_sensitivity,
    figure_8_sensitivity,
    gymnasium,
    recurrent,
]
OWN = {"vracer": "std", "recurrent_vracer": "std", "ddpg": "value", "naf": "value"}
LOGGED = {"vracer": VRacer.NAMES, "recurrent_vracer": RecurrentVRacer.NAMES, "ddpg": Ddpg.NAMES, "naf": Naf.NAMES}
OF_THE_LOOP = ("beta", "far_policy_fraction", "c_max")


@pytest.mark.parametrize("module", CONFIGS, ids=lambda module: module.__name__.rpartition(".")[2])
def test_records_keep_the_columns_that_each_agent_logs(module):
    """A column that an agent does not log is left out of its records without a word."""
    for agent in module.get_config("smoke").variants:
        config = module.get_config("smoke")
        config.agent = agent
        config = resolve(config)
        if config.algorithm == "refer.replay":
            method = config.learner.method
            assert set(config.recorded) <= {*LOGGED[method], *OF_THE_LOOP}, agent
            assert OWN[method] in config.recorded, agent
