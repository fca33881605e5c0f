"""Prioritised replay: its sampling and weights in the loop against a naive twin, its gradients, and that it learns."""

import numpy as np
import pytest

from paper_configs.refer import figure_1_ddpg, figure_3_naf, figure_4_vracer
from repro.config import resolve_plain
from repro.papers.refer import loss, training
from repro.papers.refer.prioritised import Prioritised, importance_exponent, sample_minibatches
from repro.replay.prioritised import SAMPLERS, ErrorSampler, RankHeap
from repro.replay.refer import Minibatch, ReferMemory
from tests.papers.refer.gradients import first_gradient, network
from tests.papers.refer.small import A, B, S, agent_of, build, random_batch, scalars
from tests.papers.refer.test_training import _run, _run_on
from tests.papers.refer.test_vracer import _agent as vracer
from tests.replay.naive import random_episode

SETTINGS = Prioritised(alpha=0.5, initial_beta=0.4, annealing=0.1)


def make_exact(sampler):
    if isinstance(sampler, RankHeap):
        sampler.sort()
    else:
        sampler._left = 0


def new_agent(name):
    """Without the rules of ReF-ER, and without decay, which no weight concerns."""
    if name == "vracer":
        return vracer(rule="none")
    return agent_of(name, rule="none", **({"weight_decay": 0.0} if name == "ddpg" else {}))


class NaiveRanks:
    """All steps with their errors, None for those that were never sampled; sorted whenever it is sampled from."""

    def __init__(self):
        self.errors = {}

    def enter(self, serials):
        self.errors |= dict.fromkeys(serials)

    def leave(self, serials):
        for serial in serials:
            del self.errors[serial]

    def ordered(self):
        """Errors in the order of their probabilities' ranges, and the probabilities up to a factor, at alpha = 1/2."""
        errors = sorted(self.errors.values(), key=lambda error: -np.inf if error is None else -error)
        new = errors.count(None)
        return errors, np.r_[np.ones(new), np.arange(1, len(errors) - new + 1.0) ** -0.5]

    def sample(self, uniform, beta):
        """The error of one step from each range, at the points `uniform` of it, and its weight."""
        errors, probability = self.ordered()
        probability = probability / probability.sum()
        points = (np.arange(len(uniform)) + uniform) / len(uniform)
        places = [int(np.flatnonzero(np.cumsum(probability) > point)[0]) for point in points]
        weights = (len(errors) * probability) ** -beta
        return [errors[place] for place in places], weights[places] / weights.max()


class NaiveErrors(NaiveRanks):
    """All steps with their errors, in the order of their numbers."""

    def ordered(self):
        errors = [self.errors[serial] for serial in sorted(self.errors)]
        known = [(error**2 + 2.0**-23) ** 0.25 for error in errors if error is not None]
        largest = max(known, default=1.0)
        return errors, np.array([largest if e is None else (e**2 + 2.0**-23) ** 0.25 for e in errors])


@pytest.mark.parametrize(("agent", "exponent"), [("vracer_per", 0.625), ("naf_per", 0.625), ("ddpg_per", 0.5)])
def test_the_exponent_of_importance_weights_stays_with_ddpg(tmp_path, agent, exponent):
    """After 500 000 gradient steps."""
    settings = build(tmp_path, agent=agent)._settings.prioritised
    assert importance_exponent(500_000, settings) == pytest.approx(exponent)


@pytest.mark.parametrize(("by", "twin"), [("rank", NaiveRanks()), ("error", NaiveErrors())])
def test_k_1_samples_weighs_and_ranks_as_a_naive_twin_does(tmp_path, monkeypatch, by, twin):
    """The loop of 40 gradient steps, exact before each sampling; equal errors look the same."""
    run = build(tmp_path, agent="vracer_per", frames=40, steps_per_call=1, max_steps=30)
    memory, agent = run._memory, run._agent
    memory._sampler = SAMPLERS[by](8_192)
    add, sample, train = memory.add_episode, memory.sample_prioritised, agent.train
    known, calls, has_new = set(), [], []

    def adding(*arguments):
        add(*arguments)
        head = memory.get_state()["head"]
        present = set(range(head, head + len(memory)))
        twin.leave(known - present)
        twin.enter(present - known)
        known.clear()
        known.update(present)

    def sampling(rng, batch, alpha, beta):
        make_exact(memory._sampler)
        state = rng.bit_generator.state
        uniform = rng.random(batch)
        rng.bit_generator.state = state
        indices, weights = sample(rng, batch, alpha, beta)
        expected, expected_weights = twin.sample(uniform, beta)
        assert [twin.errors[serial] for serial in indices.tolist()] == expected
        np.testing.assert_allclose(weights, expected_weights, rtol=1e-5)
        calls.append((indices, weights, beta))
        has_new.append(None in expected and set(expected) != {None})
        return indices, weights

    def learning(batch, beta, c_max, rate, weight):
        np.testing.assert_array_equal(weight, calls[-1][1])
        learned = train(batch, beta, c_max, rate, weight)
        np.testing.assert_allclose(learned.td_error, learned.value - batch.v_tbc, rtol=1e-6, atol=1e-7)  # Eq. (9)
        twin.errors |= dict(zip(calls[-1][0].tolist(), np.abs(learned.td_error).tolist()))
        return learned

    monkeypatch.setattr(memory, "add_episode", adding)
    monkeypatch.setattr(memory, "sample_prioritised", sampling)
    monkeypatch.setattr(agent, "train", learning)
    list(run)
    assert len(calls) == 40
    np.testing.assert_allclose([beta for *_, beta in calls], 0.5 + 0.5 * 5e-7 * np.arange(40), rtol=1e-12)
    assert sum(has_new) > 5
    assert len(set(twin.errors.values())) > 500  # priorities were written
    memory.check_valid()


@pytest.mark.parametrize("agent", ["ddpg_per_proportional", "naf_per_proportional"])
def test_the_proportional_agents_differ_from_the_others_by_their_sampler_alone(tmp_path, agent):
    proportional, by_rank = (build(tmp_path, agent=name) for name in (agent, agent.removesuffix("_proportional")))
    assert isinstance(proportional._memory._sampler, ErrorSampler)
    assert isinstance(by_rank._memory._sampler, RankHeap)
    assert proportional._settings == by_rank._settings
    assert proportional._agent.steps_per_call == by_rank._agent.steps_per_call == 16


def test_priorities_are_written_after_eight_gradient_steps():
    for experiment in (figure_1_ddpg, figure_3_naf, figure_4_vracer):
        config = experiment.get_config("paper").to_dict()
        agents = [agent for agent in config["variants"] if "_per" in agent]
        assert {resolve_plain(config, agent)["learner"]["steps_per_call"] for agent in agents} == {8}


def test_exponents_reach_1_and_stay():
    found = [importance_exponent(step, SETTINGS) for step in (0, 1, 5, 10, 1000)]
    np.testing.assert_allclose(found, [0.4, 0.46, 0.7, 1.0, 1.0])


def test_minibatches_of_one_call_are_sampled_separately():
    """Each takes one step from every range of ranks, with the exponent of its own gradient step."""
    memory = ReferMemory(64, 3, 2, 32, discount=0.9, prioritised="rank")
    random = np.random.default_rng(0)
    for _ in range(2):
        memory.add_episode(**random_episode(random, 32), terminated=False)
    memory.set_priorities(np.arange(64), np.arange(64.0))  # step 63 has rank 1
    memory._sampler.sort()
    indices, weights = sample_minibatches(memory, random, 8, range(4, 7), SETTINGS)
    cumulative = np.cumsum(np.arange(1, 65) ** -0.5)
    for k, step in enumerate(range(4, 7)):
        ranks = 64 - indices[8 * k : 8 * k + 8]
        above = cumulative[ranks - 1] / cumulative[-1]
        assert np.all(above > np.arange(8) / 8)
        beta = 0.4 + 0.6 * 0.1 * step
        np.testing.assert_allclose(weights[8 * k : 8 * k + 8], (ranks / 64) ** (0.5 * beta), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vracer", "ddpg", "naf"])
def test_a_weight_multiplies_the_gradient_of_its_sample(name):
    """The gradient of a weighted minibatch is that of the same minibatch with samples repeated."""
    batch = random_batch(B, S, A)
    times = np.arange(B) % 3 + 1
    repeated = Minibatch(*(np.repeat(x, times, axis=0) for x in batch))
    found = []
    for one, weight in ((batch, times.astype(np.float32)), (repeated, None), (batch, None)):
        agent = new_agent(name)
        agent.train(one, *scalars(), weight)
        optimizers = [agent.optimizer] + ([agent.critic_optimizer] if name == "ddpg" else [])
        found.append(np.concatenate([first_gradient(optimizer) for optimizer in optimizers]))
    weighted, expected, plain = found
    expected *= times.sum() / B
    np.testing.assert_allclose(weighted, expected, rtol=1e-3, atol=1e-5 * np.abs(expected).max())
    assert not np.allclose(weighted, plain, rtol=1e-2)


def test_errors_of_ddpg_and_naf_are_those_of_their_targets():
    """Where every step ends an episode the error is Q(s, a) - r."""
    batch = random_batch(B, S, A)._replace(discount=np.zeros(B, np.float32))
    ddpg, naf = new_agent("ddpg"), new_agent("naf")
    with_action = np.concatenate([batch.state, batch.action], axis=1)
    q = network(ddpg.critic_weights.numpy(), (S + A, 8, 8, 1), with_action)[:, 0]
    np.testing.assert_allclose(ddpg.train(batch, *scalars()).td_error, q - batch.reward, rtol=1e-4, atol=1e-5)
    v, mean, entries = naf.forward(batch.state)
    q = loss.naf_q(v, entries, batch.action, mean)
    np.testing.assert_allclose(naf.train(batch, *scalars()).td_error, q - batch.reward, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("task", "agent"), [("HalfCheetah", "vracer_per"), ("InvertedPendulum", "ddpg_per")])
def test_resumed_run_continues_bit_identically(tmp_path, task, agent):
    run = {"task": task, "agent": agent, "frames": 640, "max_steps": 50}
    _, whole = _run(tmp_path / "whole", **run)
    stopped, first = _run(tmp_path / "cut", updates=17, **run)
    stopped.save()
    _, rest = _run_on(tmp_path / "cut", stopped, **run)
    np.testing.assert_array_equal(np.concatenate([first, rest]), whole)


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["ddpg_per", "naf_per"])
def test_it_learns_to_balance(tmp_path, agent):
    run, _ = _run(tmp_path, agent=agent, frames=8_000)
    assert run.summary()["evaluation"]["mean"] > 60  # of 200; random play falls after some 5 steps


@pytest.mark.slow
def test_with_the_sign_of_its_weights_turned_it_does_not(tmp_path, monkeypatch):
    right = training.sample_minibatches

    def wrong(*arguments):
        indices, weights = right(*arguments)
        return indices, -weights

    monkeypatch.setattr(training, "sample_minibatches", wrong)
    run, _ = _run(tmp_path, agent="ddpg_per", frames=4_000)
    assert run.summary()["evaluation"]["mean"] < 15
