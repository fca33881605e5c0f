"""Numbers of IMPALA that follow from its sizes and definitions, computed with the code that trains."""

from __future__ import annotations

import numpy as np
import pytest

from paper_configs.impala import closed_form as closed_form_config
from repro.environments.dmlab_game import ACTIONS
from repro.papers.impala import closed_form
from tests.support.theorems import check_records

WORDS, FRAME, LSTM = 16, 72 * 96 * 3, 256


@pytest.fixture(scope="module")
def config():
    return closed_form_config.get_config("smoke")


def test_its_records_have_the_papers_statements(config, tmp_path):
    found = check_records(closed_form, config, tmp_path)
    assert found["shallow_parameters"] == 1_230_426
    assert found["deep_parameters"] == 1_628_010
    assert found["factor"] == 0.0 > found["other_factor"]


def test_without_its_instruction_channel_the_network_is_smaller(config):
    changed = config.shallow.copy_and_resolve_references()
    changed.env.instruction_length = 0
    assert closed_form.num_parameters(closed_form.make_agent(changed)) == 1_123_130


def test_bytes_are_those_of_the_parts_of_an_unroll(config):
    """Float32 and int32 entries have 4 bytes, frames 1 a channel."""
    agent = closed_form.make_agent(config.shallow)
    observation = FRAME + 4 * WORDS + 4 + 4  # instruction, last action and reward
    time_step = 4 + 4 + 4  # type, reward and discount
    step = observation + time_step + 4 + 4 * len(ACTIONS) + 4 * 2 * LSTM  # action, logits, state of the core
    weights = 4 * closed_form.num_parameters(agent)
    for length in (20, 100):
        expected = ((length + 1) * step + weights) / (2 * weights)
        assert closed_form.bytes_over_a3c(agent, length) == pytest.approx(expected, abs=0.001)
    assert closed_form.bytes_over_a3c(agent, 1000) > 1.0  # an unroll of so many steps is larger than a gradient


def test_a_factor_and_its_inverse_do_not_drift():
    assert closed_form.seen_factors(1.2, np.random.default_rng(0)) == [1 / 1.2, 1.2]
    assert closed_form.mean_logarithm([1.2, 1 / 1.2]) == 0.0
    assert closed_form.mean_logarithm([1.2, 0.8]) == pytest.approx(0.5 * np.log(0.96), abs=1e-8)
