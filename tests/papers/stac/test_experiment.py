"""Effect of every field of a config on the agent, and runs that resume bit for bit."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from paper_configs.impala import atari_deep
from paper_configs.stac import atari, dm_control_features, figure_4_robustness, gymnasium, rwrl
from repro.config import flatten, resolve_plain, without_later
from repro.papers import find_experiment
from repro.papers.stac.loss import Hyperparameters
from repro.papers.stac.metagradient import Metaparameters


def test_gamma_begins_as_the_others_do_or_apart():
    """Figure 4(c), top and bottom."""
    config = gymnasium.get_config("smoke")
    config.meta.initial = 3.3
    together = find_experiment(config).make_metaparameters().eta
    assert [float(eta[0]) for eta in together.values()] == pytest.approx([3.3] * 6)
    config.meta.initial_gamma = 5.5
    apart = find_experiment(config).make_metaparameters().eta
    assert {name: float(eta[0]) for name, eta in apart.items()} == pytest.approx(
        {name: 5.5 if name == "gamma" else 3.3 for name in together}
    )


def test_metaparameters_on_the_command_line_stand_in_one_text():
    config = gymnasium.get_config("smoke")
    config.variants.stac.meta.tuned = ("gamma,g_e", "lambda")
    assert list(find_experiment(config).make_metaparameters().eta) == ["gamma", "g_e", "lambda"]


SIX = ("gamma", "lambda", "alpha", "g_v", "g_p", "g_e")
SETS = {  # Figure 2(b); what comes just before the full set is assumed
    "": SIX,
    "_gamma": ("gamma",),
    "_gamma_lambda": ("gamma", "lambda"),
    "_no_alpha": ("gamma", "lambda", "g_v", "g_p", "g_e"),
}
AGENTS = {  # heads, tuned metaparameters, and other fields in which an agent differs from STAC
    "impala": (1, (), {}),
    "impala_aux": (3, (), {}),
    "impala_gamma_99": (1, (), {"loss.discount": 0.99}),
    "stac_untuned": (1, SIX, {"meta.learning_rate": 0.0}),
    "stacx_untuned": (3, SIX, {"meta.learning_rate": 0.0}),
    **{f"stac{name}": (1, tuned, {}) for name, tuned in SETS.items()},
    **{f"stacx{name}": (3, tuned, {}) for name, tuned in SETS.items()},
    "stacx_two_alphas": (3, ("gamma", "lambda", "alpha_rho", "alpha_c", "g_v", "g_p", "g_e"), {}),
    "stacx_truncation": (3, (*SIX, "truncation"), {}),
    **{f"stacx_heads_{heads}": (heads, SIX, {}) for heads in (2, 5, 8)},
    **{f"stacx_kl_{100 * cost:.0f}": (3, SIX, {"meta.kl_cost": cost}) for cost in (0.0, 0.3, 2.0)},
    **{f"stacx_{acting}_ensemble": (3, SIX, {"network.acting": acting}) for acting in ("random", "average")},
    "stac_gamma_lambda_embedding": (1, ("gamma", "lambda"), {"network.gamma_embedding": "shared"}),
    **{f"stacx_{how}_embedding": (3, SIX, {"network.gamma_embedding": how}) for how in ("shared", "separate")},
}


def test_agents_on_atari_have_the_heads_and_metaparameters_of_the_paper():
    """Figure 2, Sections 4.1, 4.3, 9.3 and 9.5."""
    config = atari.get_config("paper").to_dict()
    assert set(config["variants"]) == set(AGENTS)
    stac = flatten(resolve_plain(config, "stac"))
    assert (stac["meta.tuned"], stac["meta.learning_rate"], stac["meta.kl_cost"]) == (SIX, 1e-3, 1.0)
    for agent, (heads, tuned, others) in AGENTS.items():
        expected = stac | {"agent": agent, "network.num_heads": heads, "meta.tuned": tuned} | others
        found = flatten(resolve_plain(config, agent))
        assert found | {"recorded": expected["recorded"]} == expected, agent
        assert {f"{name}_{head}" for name in tuned for head in range(1, heads + 1)} <= set(found["recorded"]), agent


@pytest.mark.parametrize(("scale", "others"), [("paper", {"learner.rmsprop_epsilon"}), ("desk", set())])
def test_games_evaluation_actors_and_learner_on_atari_are_impalas(scale, others):
    """Section 4.1 has the ALE setup of IMPALA, Section 9.3 most of its settings; Table 3 has another epsilon."""
    own, impalas = (flatten(module.get_config(scale)) for module in (atari, atari_deep))
    assert {name for name in own if name.startswith("env.")} == {name for name in impalas if name.startswith("env.")}
    sections = ("env.", "evaluation.", "runtime.", "learner.", "num_env_frames")
    assert {name for name in own if name.startswith(sections) and own[name] != impalas[name]} == others


def test_agents_of_figure_4_differ_in_one_hyper_parameter():
    def made(module, agent):
        config = module.get_config("paper")
        config.agent = agent
        experiment = find_experiment(config)
        return experiment.outer, experiment.make_metaparameters()

    for name, num_heads in (("impala", 1), ("stacx", 3)):
        outer, metaparameters = made(atari, name)
        for agent, changed in (
            (f"{name}_gamma_992", {"gamma": 0.992}),
            (f"{name}_g_v_15", {"g_v": 0.15}),
            (f"{name}_gamma_995", {}),
            (f"{name}_g_v_25", {}),
        ):
            found, own = made(figure_4_robustness, agent)
            assert found == outer._replace(**changed)
            assert list(own.eta) == list(metaparameters.eta)
            assert all(eta.shape == (num_heads,) for eta in own.eta.values())
    for agent, moved in (("stacx_start_997", set(own.eta)), ("stacx_start_gamma_997", {"gamma"})):
        found, own = made(figure_4_robustness, agent)
        assert found == outer
        starts = {name: 1 / (1 + np.exp(-float(eta[2]))) for name, eta in own.eta.items()}
        assert starts == pytest.approx({name: 0.997 if name in moved else 0.99005 for name in own.eta}, abs=1e-5)
    assert len(figure_4_robustness.variants()) == 2 * 10 + 2 * 5


class Folder:
    """A run's folder, as far as training knows it."""

    def __init__(self, path):
        self.path, self.checkpoints, self.actors = path, path / "checkpoints", path / "actors"


def distinct_config():
    """No two numbers of loss, metaparameters and learner are equal."""
    config = gymnasium.get_config("smoke")
    config.agent = "stacx_average_ensemble"
    loss = {"discount": 0.91, "lambda_": 0.92, "alpha": 0.93, "truncation": 1.1}
    config.loss.update(loss | {"value_cost": 0.21, "policy_cost": 1.3, "entropy_cost": 0.02})
    config.meta.update({"initial": 3.1, "initial_gamma": 3.2, "kl_cost": 0.7, "learning_rate": 0.003})
    config.meta.update({"beta_1": 0.81, "beta_2": 0.82, "epsilon": 0.004})
    config.learner.update({"learning_rate": 0.05, "final_learning_rate": 0.01, "clip_global_norm": 41.0})
    config.learner.update({"rmsprop_decay": 0.83, "rmsprop_momentum": 0.1, "rmsprop_epsilon": 0.2})
    config.network.update({"head_units": 9, "gamma_embedding": "separate", "gamma_embedding_units": 5})
    config.evaluation.greedy = True
    return config


def made_from(config):
    experiment = find_experiment(config)
    environment = experiment.make_environment(1, 0)
    agent = experiment.make_agent(environment, 0)
    environment.close()
    return agent


def test_every_field_reaches_its_place_in_the_agent():
    agent = made_from(distinct_config())
    outer = Hyperparameters(0.91, 0.92, 0.93, 0.93, 1.1, 0.21, 1.3, 0.02)
    assert agent._outer == outer
    zeta = agent._metaparameters.hyperparameters()
    eta = {name: 3.2 if name == "gamma" else 3.1 for name in ("gamma", "lambda", "alpha", "g_v", "g_p", "g_e")}
    value_alone = outer._replace(g_p=0.0, g_e=0.0)
    expected = Metaparameters(tuple(eta), outer, 3, eta, [value_alone]).hyperparameters()
    for name, value in zeta._asdict().items():
        np.testing.assert_array_equal(value, getattr(expected, name), err_msg=name)
        assert float(value[3]) == pytest.approx(getattr(value_alone, name)), name
    for name, value in agent._metaparameters.eta.items():
        np.testing.assert_array_equal(value, np.full(3, eta[name], np.float32), err_msg=name)
    meta = agent._meta_optimizer
    assert [float(meta.learning_rate), meta.beta_1, meta.beta_2, meta.epsilon] == pytest.approx(
        [0.003, 0.81, 0.82, 0.004]
    )
    assert meta._epsilon_is_corrected
    inner = agent._optimizer
    assert [inner.decay, inner.momentum, inner.epsilon] == [0.83, 0.1, 0.2]
    schedule = inner._learning_rate
    assert [float(schedule(0)), float(schedule(10**9))] == pytest.approx([0.05, 0.01])
    assert [agent._kl_cost, agent._clip_global_norm] == [0.7, 41.0]
    network = agent._network
    assert (network.num_heads, network.acting) == (3, "average")
    assert network._policies[0].layers[0].units == network._values[3].layers[0].units == 9
    assert network._embedding.shape == (4, 5)
    assert agent.policy._greedy
    assert not agent.collect_policy._greedy


def test_without_an_embedding_settings_are_those_of_older_runs():
    """Its fields have the values that runs without them imply, in every configuration."""
    for module in (atari, dm_control_features, figure_4_robustness, gymnasium, rwrl):
        network = module.get_config("desk").network.to_dict()
        assert {"gamma_embedding", "gamma_embedding_units"} <= set(network) - set(
            without_later({"network": network})["network"]
        )


@pytest.mark.parametrize("tuned", [(), ("lambda", "g_e")])
def test_an_embedding_of_a_gamma_that_is_not_tuned_is_an_error(tuned):
    config = gymnasium.get_config("smoke")
    config.variants.stac.meta.tuned = tuned
    config.network.gamma_embedding = "shared"
    with pytest.raises(ValueError, match="network.gamma_embedding=shared, but gamma is not tuned: add it to"):
        find_experiment(config)


@pytest.mark.parametrize("field", ["acting", "gamma_embedding"])
def test_an_unknown_choice_of_the_network_names_its_field(field):
    config = gymnasium.get_config("smoke")
    config.network[field] = "all"
    with pytest.raises(ValueError, match=rf"^network\.{field}='all': choose (first, random|none, shared), "):
        find_experiment(config)


def small_config(updates, mode):
    config = gymnasium.get_config("smoke")
    config.agent = "stac" if mode == "xla" else "stacx"  # XLA takes long for three heads
    config.network.gamma_embedding = "separate"
    config.num_env_steps = updates * 4 * 10
    config.network.units, config.network.head_units = (8,), 8
    config.learner.unroll_length, config.learner.batch_size = 10, 4
    config.runtime.update({"envs_per_actor": 4, "schedule": "lockstep", "compile": mode})
    config.meta.update({"learning_rate": 0.05, "initial": 1.0, "initial_gamma": 1.0})
    return config


def state_of(trainer):
    """eta by name, and the slots of both optimisers: the numbers that later updates depend on."""
    agent = trainer._learner.agent
    variables = [*agent._network.variables, *agent._optimizer.variables, *agent._meta_optimizer.variables]
    eta = {name: value.numpy() for name, value in agent._metaparameters.eta.items()}
    return eta, [variable.numpy() for variable in variables]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["graph", "xla"])
def test_a_run_resumes_to_the_bit(tmp_path, mode):
    """Metaparameters and the moments of their Adam too, which the updates after the stop would differ without.

    The second run has what the first one saved on its way; that saving changes nothing is seen in `test_dm_control.py`.
    """

    def trainer_in(folder):
        return find_experiment(small_config(16, mode)).build_trainer(3, Folder(tmp_path / folder), print)

    whole = trainer_in("whole")
    for update in whole:
        if update.updates == 8:
            whole.save()
            shutil.copytree(tmp_path / "whole", tmp_path / "halves")
            stopped_eta, stopped = state_of(whole)
    whole.close()
    second = trainer_in("halves")
    assert second.updates == 8
    resumed_eta, resumed = state_of(second)
    for name, eta in resumed_eta.items():
        assert np.abs(eta - 1.0).max() > 1e-3, name
        np.testing.assert_array_equal(eta, stopped_eta[name], err_msg=name)
    for a, b in zip(stopped, resumed, strict=True):
        np.testing.assert_array_equal(a, b)
    assert int(second._learner.agent._meta_optimizer.iterations) == 8
    list(second)
    second.close()
    (whole_eta, whole_state), (eta, state) = state_of(whole), state_of(second)
    for name in whole_eta:
        np.testing.assert_array_equal(eta[name], whole_eta[name], err_msg=name)
        assert np.abs(eta[name] - resumed_eta[name]).max() > 1e-3, name
    for a, b in zip(whole_state, state, strict=True):
        np.testing.assert_array_equal(a, b)
