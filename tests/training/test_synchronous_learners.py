"""Two learners in separate processes make the updates of one with the whole batch; impossible numbers are refused."""

from __future__ import annotations

import re

import numpy as np
import pytest

from paper_configs.impala import atari_shallow
from repro.acting.supervision import ActorPoolError, Supervision
from repro.papers import find_experiment
from tests.machines import learn_together
from tests.support.network import machines, refusal
from tests.training import two_learners


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What the chief and the other learner found, on machines of their own where there can be such."""
    folder = tmp_path_factory.mktemp("learners")
    if refusal() is not None:
        return learn_together(None, folder)
    with machines(2) as made:
        return learn_together(made, folder)


@pytest.mark.parametrize("agent", two_learners.AGENTS)
def test_weights_are_those_of_one_learner_with_the_whole_batch(results, agent):
    chief, other = results
    count = sum(name.removeprefix(f"one_{agent}_").isdecimal() for name in chief.files)
    assert count > 4
    for i in range(count):
        np.testing.assert_array_equal(chief[f"{agent}_{i}"], other[f"{agent}_{i}"])
        np.testing.assert_allclose(chief[f"{agent}_{i}"], chief[f"one_{agent}_{i}"], atol=1e-5, rtol=0)
    assert min(chief[f"one_{agent}_gradient_norm"]) > two_learners.CLIP  # the clip acts


@pytest.mark.parametrize("agent", two_learners.AGENTS)
def test_scalars_are_of_the_whole_batch_on_all_learners(results, agent):
    chief, other = results
    for name in ("loss", "gradient_norm", "entropy", "policy_gradient_loss", "baseline_loss", "entropy_loss"):
        np.testing.assert_array_equal(chief[f"{agent}_{name}"], other[f"{agent}_{name}"])
        np.testing.assert_allclose(chief[f"{agent}_{name}"], chief[f"one_{agent}_{name}"], rtol=1e-5)


@pytest.mark.parametrize("agent", two_learners.AGENTS)
def test_counters_are_the_chiefs(results, agent):
    assert [found[f"{agent}_updates"] for found in results] == [two_learners.UPDATES] * 2


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"num_learners": 0}, "runtime.num_learners=0: choose 1 or more."),
        ({"num_learners": 3}, "runtime.num_learners=3 must divide learner.batch_size=32."),
        ({"num_learners": 4}, "runtime.num_learners=4 must divide runtime.num_actors=2."),
        ({"schedule": "async"}, "runtime.num_learners=2 needs runtime.schedule=processes, got 'async'."),
        ({"schedule": "lockstep"}, "runtime.num_learners=2 needs runtime.schedule=processes, got 'lockstep'."),
        (
            {"compile": "xla"},
            "runtime.num_learners=2 cannot be combined with runtime.compile=xla: choose auto or graph.",
        ),
        (
            {"weights_delay": 1},
            "runtime.num_learners=2 cannot be combined with a replay or with runtime.weights_delay: choose "
            "replay.fraction=0 and runtime.weights_delay=0.",
        ),
    ],
)
def test_numbers_of_learners_that_cannot_be_are_one_sentence(settings, sentence):
    config = atari_shallow.get_config("smoke")
    config.runtime.update({"schedule": "processes", "num_learners": 2} | settings)
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        find_experiment(config).num_learners


def test_several_learners_have_no_replay():
    config = atari_shallow.get_config("smoke")
    config.replay.fraction = 0.5
    config.runtime.update({"schedule": "processes", "num_learners": 2})
    with pytest.raises(ValueError, match="cannot be combined with a replay"):
        find_experiment(config).num_learners


def test_each_learner_has_its_own_actors_and_their_share_of_the_batch(tmp_path):
    config = atari_shallow.get_config("smoke")
    config.runtime.update({"schedule": "processes", "num_learners": 2, "num_actors": 6})
    experiment, started = find_experiment(config), []

    def launch(actor, start, address):
        started.append((actor, start))
        raise ActorPoolError("enough")

    for learner in range(2):
        actors = experiment._make_actors(launch, Supervision(print, tmp_path), learner)
        actors.start("localhost:1")
        assert [actors.is_known(actor, 0) for actor in range(6)] == [actor // 3 == learner for actor in range(6)]
        actors.close()
    assert sorted(started) == [(actor, 0) for actor in range(6)]
    assert experiment.frames_per_update == 32 * 20 * 4
