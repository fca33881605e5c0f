"""Every agent's golden values are those of its behaviour version, and each agent has its own."""

import dataclasses
import itertools
import json

import pytest
import tensorflow as tf

from repro.config import agents
from repro.evidence import behaviour, records, staleness
from tests import golden
from tests.golden import differences, sentence
from tests.support.forked_train import run_command

PAPERS = sorted({name.partition(".")[0] for name in golden.CASES})
TOGETHER = 4
"""Agents that one fork computes, which saves each of them the start of TensorFlow."""
GROUPS = [list(golden.CASES)[i : i + TOGETHER] for i in range(0, len(golden.CASES), TOGETHER)]


@pytest.mark.parametrize("names", GROUPS, ids=" ".join)
def test_agents_learn_as_their_golden_values_say(names, tmp_path):
    done = run_command(tmp_path, "tests.golden", f"--check={','.join(names)}", cwd=records.ROOT)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert list(said) == names
    assert not any(said.values()), "\n".join(filter(None, said.values()))


def test_a_behaviour_without_golden_values_is_no_error_of_the_program(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(golden, "CONFIGS_DIR", tmp_path)
    monkeypatch.setattr("sys.argv", ["tests.golden", "--check=impala.shallow"])
    with pytest.raises(SystemExit):
        golden.main()
    assert "impala.shallow has no golden values: python -m tests.golden --add" in capsys.readouterr().err


def test_the_sentence_names_the_agent_and_the_command():
    values = behaviour.load("impala", staleness.CONFIGS_DIR)["shallow"].values
    assert sentence("impala.shallow", values, values) is None
    changed = {**values, "entropy_loss": [-value for value in values["entropy_loss"]]}
    assert sentence("impala.shallow", changed, values).startswith(
        "impala.shallow learns otherwise than its golden values (entropy_loss)"
    )
    assert sentence("impala.shallow", changed, values).endswith("python -m tests.golden --raise=impala.shallow")
    slightly = {name: [value * (1 + 1e-4) for value in series] for name, series in values.items()}
    assert differences(slightly, values) == []
    assert differences({}, values) == sorted(values)


def test_what_is_rounding_alone_does_not_count():
    """It depends on the processor: AVX-512 or AVX2."""
    values = {"kl": [2e-8, -1e-8], "weights_moved": [0.5, 0.6]}
    assert differences({**values, "kl": [-3e-8, 5e-8]}, values) == []
    assert differences({**values, "kl": [2e-6, -1e-8]}, values) == ["kl"]
    for moved, found in (([0.4, 0.6], []), ([0.5, 0.7], ["weights_moved"])):
        assert differences({**values, "weights_moved": moved}, values, ["weights_moved"]) == found
    assert differences({**values, "weights_moved": [0.4, 0.6]}, values) == ["weights_moved"]


def test_without_the_entropy_bonus_they_are_others(monkeypatch):
    case = golden.CASES["impala.shallow"]
    assert case.config().loss.entropy_cost == 0.01
    other = dataclasses.replace(case, changes={**case.changes, "loss.entropy_cost": 0.0})
    monkeypatch.setitem(golden.CASES, "impala.shallow", other)
    values = behaviour.load("impala", staleness.CONFIGS_DIR)["shallow"].values
    assert {"loss", "gradient_norm", "weights_moved"} <= set(differences(golden.measure("impala.shallow"), values))


@pytest.mark.parametrize("paper", PAPERS)
def test_no_two_agents_have_the_same_values(paper):
    """Otherwise what tells them apart plays no part in them."""
    for one, other in itertools.combinations(behaviour.load(paper, staleness.CONFIGS_DIR).values(), 2):
        assert differences(one.values, other.values), (one.agents, other.agents)


def test_every_agent_that_trains_has_one_behaviour():
    configs = sorted(staleness.CONFIGS_DIR.glob("*/[a-z]*.py"))
    found = set()
    for path in configs:
        config = staleness.current_config(path.parent.name, path.stem, "desk")
        for agent in agents(config):
            names = behaviour.names_of(path.parent.name, path.stem, agent, staleness.CONFIGS_DIR)
            assert len(names) == ("study" not in config), (path, agent, names)
            found.update(f"{path.parent.name}.{name}" for name in names)
    assert found == set(golden.CASES)


def test_committed_files_are_as_the_program_writes_them():
    for paper in PAPERS:
        known = behaviour.load(paper, staleness.CONFIGS_DIR)
        assert behaviour.behaviour_path(staleness.CONFIGS_DIR, paper).read_text() == golden._text(known)
        for name, found in known.items():
            assert tuple(found.agents) == tuple(golden.CASES[f"{paper}.{name}"].agents)


def test_what_moves_by_rounding_alone_is_no_displacement():
    moved_far, moved_less, rounded = (tf.Variable([1.0, 1.0]) for _ in range(3))
    displacement = golden._displacement(tf.train.Checkpoint(a=moved_far, b=moved_less, c=rounded))
    moved_far.assign([1.0, 1.4])
    moved_less.assign([1.1, 1.0])
    rounded.assign([1.0, 1.0 + 2e-7])
    assert displacement() == pytest.approx(0.2, rel=1e-5)  # the geometric mean of 0.4 and 0.1
