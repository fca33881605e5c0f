"""Configs: the published settings, a source on every line, scales that change only what they say."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import numpy as np
import pytest

from paper_configs.impala import atari_deep, atari_shallow, dmlab_figure5, dmlab_table2
from paper_configs.refer import figure_4_vracer, figure_7_sensitivity, figure_8_sensitivity
from repro.config import agents, flatten, resolve_plain
from repro.evidence.records import plain_config
from repro.evidence.staleness import config_difference

FOLDER = Path(__file__).resolve().parents[1] / "paper_configs"
EXPERIMENTS = sorted(
    f"{path.parent.name}.{path.stem}" for path in FOLDER.glob("*/*.py") if not path.stem.startswith("_")
)

TABLE_F1 = {
    "env.width": 84,
    "env.height": 84,
    "env.grey": True,
    "env.frame_skip": 4,
    "env.max_pool": 2,
    "env.stack": 4,
    "env.life_loss_ends": True,
    "env.reward_clip": 1.0,
    "learner.unroll_length": 20,
    "learner.batch_size": 32,
    "loss.discount": 0.99,
    "loss.baseline_cost": 0.5,
    "loss.entropy_cost": 0.01,
    "learner.rmsprop_momentum": 0.0,
    "learner.rmsprop_epsilon": 0.01,
    "learner.learning_rate": 6e-4,
    "learner.final_learning_rate": 0.0,
    "learner.clip_global_norm": 40.0,
    "num_env_frames": 200_000_000,
}


TABLE_C3 = {
    "env.width": 96,
    "env.height": 72,
    "env.frame_skip": 4,
    "env.reward_clip": "unit",
    "learner.unroll_length": 100,
    "learner.batch_size": 32,
    "loss.discount": 0.99,
    "loss.baseline_cost": 0.5,
    "learner.rmsprop_momentum": 0.0,
}


def test_deepmind_lab_has_the_settings_of_table_c3_and_of_the_sweep():
    config = flatten(dmlab_table2.get_config("paper"))
    assert {name: config[name] for name in TABLE_C3} == TABLE_C3
    swept = {"loss.entropy_cost": 2.5e-4, "learner.learning_rate": 4.8e-4, "learner.rmsprop_epsilon": 0.1}
    assert {name: config[name] for name in swept} == swept  # the released code's
    for name, (low, high) in {"loss.entropy_cost": (5e-5, 1e-2), "learner.learning_rate": (5e-6, 5e-3)}.items():
        assert low < config[name] < high


def test_the_agents_of_figure_5_differ_in_their_schedule_alone():
    config = dmlab_figure5.get_config("paper")
    assert config.sweep.sampled
    impala, a2c, a3c = (flatten(resolve_plain(config.to_dict(), agent)) for agent in ("impala", "a2c", "a3c"))
    own = {"agent", "loss.correction"} | {f"runtime.{name}" for name in ("num_actors", "envs_per_actor", "schedule")}
    assert {name for name in impala if impala[name] != a2c[name]} == own | {"runtime.lockstep_lag"}
    assert {name for name in impala if impala[name] != a3c[name]} == own | {"learner.batch_size"}
    assert (a2c["runtime.num_actors"], a2c["runtime.envs_per_actor"], a3c["runtime.num_actors"]) == (1, 32, 32)


@pytest.mark.parametrize("module", [atari_shallow, atari_deep])
def test_paper_scale_has_the_settings_of_table_f1(module):
    config = module.get_config("paper")
    for name, value in TABLE_F1.items():
        found = config
        for part in name.split("."):
            found = found[part]
        assert found == value, name


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.parametrize("scale", ["smoke", "desk", "paper"])
def test_every_experiment_has_every_scale_and_its_own_name(name, scale):
    config = importlib.import_module(f"paper_configs.{name}").get_config(scale)
    assert (config.paper, config.experiment) == tuple(name.split("."))
    assert config.scale == scale
    assert config.agent in agents(config)
    if "evaluation" in config:
        assert config.evaluation.episodes % config.evaluation.num_envs == 0
    else:  # it is made of training's last episodes
        assert 0 < config.get("window_steps", config.get("window_frames")) <= 1_000_000


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_unknown_scale_is_an_error(name):
    with pytest.raises(ValueError, match="Unknown scale 'huge': choose one of smoke, desk, paper"):
        importlib.import_module(f"paper_configs.{name}").get_config("huge")


@pytest.mark.parametrize("name", ["atari_shallow", "dmlab_table2"])
def test_every_published_field_names_its_source(name):
    text = (FOLDER / "impala" / f"{name}.py").read_text()
    body = text[: text.index("return apply_scale")]
    fields = [line for line in body.splitlines() if re.match(r"\s+config\.\w+\.\w+ = ", line)]
    assert len(fields) > 40
    source = re.compile(r"# .*(Table|Section|Figure|Appendix|Remark|assumed: |games|threads|checkpoints|V-trace|`)")
    runtime = [line for line in fields if "config.runtime." in line or "config.env." in line]
    assert [line for line in fields if line not in runtime and not source.search(line)] == []
    assert [line for line in runtime if "  # " not in line] == []


@pytest.mark.parametrize(("name", "fields"), [("dmlab_30", 11), ("atari_57", 6)])
def test_every_field_of_tasks_together_that_differs_names_its_source(name, fields):
    text = (FOLDER / "impala" / f"{name}.py").read_text()
    body = text[text.index("config.scale = scale") : text.index("return apply_scale")]
    lines = [line for line in body.splitlines() if re.match(r"\s+config\.[\w.]+ = ", line)]
    assert len(lines) == fields
    assert [line for line in lines if not re.search(r"# .*(Table|Section|Appendix|assumed: |names)", line)] == []


def test_desk_differs_from_the_paper_only_where_the_readme_says():
    paper, desk = (plain_config(atari_shallow.get_config(scale)) for scale in ("paper", "desk"))
    assert set(config_difference(desk, paper)) == {
        "scale",
        "num_env_frames",
        "learner.batch_size",
        "learner.rmsprop_epsilon",
        "runtime.envs_per_actor",
    }


def test_deep_differs_from_shallow_only_in_the_network():
    shallow, deep = (plain_config(m.get_config("paper")) for m in (atari_shallow, atari_deep))
    assert set(config_difference(deep, shallow)) == {"experiment", "agent", "network.torso"}


@pytest.mark.parametrize("module", [figure_7_sensitivity, figure_8_sensitivity])
def test_each_sensitivity_agent_varies_fields_that_figure_4_has(module):
    """One hyper-parameter each: another value of the same type, halved or doubled where it is a number."""
    published, config = (flatten(plain_config(m.get_config("paper"))) for m in (figure_4_vracer, module))
    assert set(config_difference(config, published)) - {"agent", "experiment"} == {
        name for name in config if name.startswith("variants.")
    }
    for agent, own in plain_config(module.get_config("paper").variants).items():
        for name, value in flatten(own).items():
            before = published[name]
            assert type(value) is type(before)
            if not isinstance(value, str):
                factor = 0.5 if "half" in agent else 2.0
                np.testing.assert_allclose(value, factor * np.array(before), err_msg=f"{agent} {name}")
            assert value != before
