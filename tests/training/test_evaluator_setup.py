"""A run with an evaluator: it learns the same, and the evaluator plays with the run's weights."""

from __future__ import annotations

import importlib
import sys
import time

import numpy as np
import pytest
import reverb
import tensorflow as tf
from tf_agents.trajectories.time_step import restart

from repro.acting.actor_processes import LocalProcess
from repro.acting.evaluator_process import OFFERED, PLAYED, Evaluator
from repro.acting.play import play
from repro.acting.remote import start_server
from repro.acting.remote_evaluator import seed_of
from repro.acting.supervision import Supervision
from repro.config import PROCESSES, resolve
from repro.papers import find_experiment
from repro.training import evaluator_setup
from repro.training.evaluator_setup import evaluator_episodes
from repro.training.experiment import RemoteActing
from repro.training.run_directory import RunDirectory
from repro.training.unroll_trainer import UnrollTrainer
from tests.golden import CASES
from tests.support.catch import Catch
from tests.support.catch_evaluator import ENVS, EPISODES, SEED
from tests.support.training import make_agent, make_loop, weights_of
from tests.support.waiting import IdleProcess, wait

UPDATES, WAITS, LONGEST_SECONDS = 40, (10, 20, 30), 120.0


class Launcher:
    home = port = None

    def __init__(self, folder):
        self._log = folder / "evaluator.txt"

    def start_evaluator(self, address):
        return LocalProcess([sys.executable, "-m", "tests.support.catch_evaluator", address], self._log)


def train(folder, evaluates):
    """A run in lockstep, which is the same each time; with an evaluator it waits for some of its results.

    Returns:
        all that it learned, counted and logged but for times; and the evaluations, with the weights after each update.
    """
    tf.random.set_seed(1)
    evaluator = server = None

    def make_evaluator(agent):
        nonlocal evaluator, server
        if evaluates:
            variables = agent.collect_policy.variables()
            evaluator = Evaluator(Launcher(folder), variables, (), Supervision(print, folder))
            server = start_server(evaluator.make_tables())
            evaluator.start(f"localhost:{server.port}")
        return evaluator

    loop, episodes, agent = make_loop(folder / "checkpoints", updates=UPDATES, make_evaluator=make_evaluator)
    logged, came, weights = [], [], {}
    end = time.monotonic() + LONGEST_SECONDS
    for update in loop:
        logged.append((update.updates, update.frames, update.scalars, update.lag, update.mean_return, update.games))
        came += update.evaluations
        weights[update.updates] = [variable.numpy() for variable in agent.collect_policy.variables()]
        while evaluates and update.updates in WAITS and not evaluator._evaluated:
            evaluator.look()
            assert time.monotonic() < end, (folder / "evaluator.txt").read_text()
            time.sleep(0.05)
    totals = {name: value for name, value in loop.summary().items() if name != "seconds"}
    state = loop._get_state() | {"games": episodes.get_state()}
    loop.close()
    if evaluates:
        evaluator.close()
        server.stop()
    random = tf.random.get_global_generator().state.numpy(), np.random.get_state()[1]  # noqa: NPY002 - nobody is to use it
    return (weights_of(agent), logged, totals, state, random), came, weights


@pytest.mark.slow
def test_a_run_is_the_same_with_and_without_an_evaluator_that_plays_with_its_weights(tmp_path):
    alone, none, _ = train(tmp_path / "alone", evaluates=False)
    together, came, weights = train(tmp_path / "together", evaluates=True)
    assert not none
    for a, b in zip(tf.nest.flatten(alone), tf.nest.flatten(together), strict=True):
        np.testing.assert_array_equal(a, b)
    assert len(came) >= 3
    assert came[-1].updates >= 20
    agent = make_agent(Catch(1, 0))
    for evaluated in came:
        assert evaluated.frames == 80 * evaluated.updates
        for variable, value in zip(agent.collect_policy.variables(), weights[evaluated.updates], strict=True):
            variable.assign(value)
        seed = seed_of(SEED, evaluated.updates)
        games = play(agent.policy, Catch(ENVS, seed), EPISODES, seed, print)
        assert evaluated.returns.tolist() == [[game.score for game in games]]


@pytest.mark.slow
def test_restarts_are_of_the_whole_run(tmp_path):
    class Replaced:
        restarts = 2

        def follow(self, updates, frames, total_updates):
            assert frames == 80 * updates
            assert total_updates in (2, 4)
            return ()

    alone, *_ = make_loop(tmp_path / "alone", updates=2)
    assert [update.evaluator_restarts for update in alone] == [0, 0]
    assert "evaluator_restarts" not in alone.summary()
    alone.close()
    for before in (0, 2):
        loop, *_ = make_loop(tmp_path / "together", updates=2 + before, make_evaluator=lambda agent: Replaced())
        assert loop.evaluator_restarts == before + 2
        assert [update.evaluator_restarts for update in loop] == [before + 2] * 2
        loop.close()


EXPERIMENTS = ("impala.gymnasium", "stac.gymnasium", "ctrace.gymnasium/r2d2_ctrace", "acer.atari", "acer.continuous")


def config_of(name, **runtime):
    """Of an experiment, or of an agent of it."""
    experiment, _, agent = name.partition("/")
    config = importlib.import_module(f"paper_configs.{experiment}").get_config("smoke")
    if agent:
        config.agent = agent
    config = resolve(config)
    config.runtime.update(runtime)
    return config


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_what_is_published_is_all_that_an_evaluation_reads(name):
    experiment = find_experiment(config_of(name, schedule=PROCESSES))
    assert isinstance(experiment, RemoteActing)
    (learner, environment), (own, other) = (experiment.make_evaluation_agent(2, seed) for seed in (1, 2))
    for variable in learner.variables:
        if variable.dtype.is_floating:
            variable.assign(variable + tf.random.stateless_normal(variable.shape, (1, 2), dtype=variable.dtype))
    rng = np.random.default_rng(1)
    time_steps = tf.nest.map_structure(
        lambda leaf: (100 * rng.random((100, *leaf.shape))).astype(leaf.dtype.as_numpy_dtype),
        learner.policy.time_step_spec,
    )._replace(step_type=tf.ones([100], tf.int32))

    def act(agent):
        state = agent.policy.get_initial_state(100)
        return tf.nest.map_structure(lambda x: x.numpy(), agent.policy.action(time_steps, state, seed=(3, 4)).action)

    assert (act(own) != act(learner)).any()
    variables = own.collect_policy.variables()
    for variable, value in zip(variables, learner.collect_policy.variables(), strict=True):
        variable.assign(value)
    np.testing.assert_array_equal(act(own), act(learner))
    environment.close()
    other.close()


class Idle:
    """Starts actors and evaluators that do nothing."""

    home = port = None

    def __init__(self):
        self.actors, self.evaluators = [], []

    def __call__(self, actor, start, address):
        self.actors.append((address, IdleProcess()))
        return self.actors[-1][1]

    def start_evaluator(self, address):
        self.evaluators.append((address, IdleProcess()))
        return self.evaluators[-1][1]


@pytest.mark.parametrize(
    ("name", "evaluates"), [(name, True) for name in EXPERIMENTS] + [("ctrace.gymnasium/r2d2_ctrace", False)]
)
def test_every_agent_with_actors_in_processes_has_an_evaluator_that_begins_and_ends_with_the_run(
    tmp_path, name, evaluates
):
    config, launcher = config_of(name, schedule=PROCESSES, evaluator_episodes=4 * evaluates), Idle()
    run = RunDirectory(tmp_path, config.to_dict(), 1)
    trainer = find_experiment(config).build_trainer(1, run, print, launcher)
    trainer._begin()
    if isinstance(trainer, UnrollTrainer):
        trainer._source._start()
    wait(lambda: launcher.actors, LONGEST_SECONDS)
    ((address, actor), *_), tables = launcher.actors, {OFFERED, PLAYED}
    assert (tables <= set(reverb.Client(address).server_info())) == evaluates
    trainer._follow()
    if evaluates:
        wait(lambda: launcher.evaluators, LONGEST_SECONDS)
        offered = reverb.Client(address).sample(OFFERED, 1, emit_timesteps=False)
        assert len(next(offered).data) == 1 + len(trainer._learner.agent.collect_policy.variables())
    assert [found for found, _ in launcher.evaluators] == [address] * evaluates
    trainer.close()
    assert actor.ended.is_set()
    assert all(process.ended.is_set() for _, process in launcher.evaluators)


def test_a_run_with_a_replay_on_reverb_goes_on_with_an_evaluator_and_without_the_one_that_it_had(tmp_path):
    saved = None
    for number, episodes in enumerate((0, 4, 0)):
        config = config_of("ctrace.gymnasium/r2d2_ctrace", schedule=PROCESSES, evaluator_episodes=episodes)
        run = RunDirectory(tmp_path / f"run_{number}", config.to_dict(), 1)
        trainer = find_experiment(config).build_trainer(1, run, print, Idle())
        trainer._replay.start(saved)
        assert len(trainer._replay) == 0
        saved = tmp_path / f"saved_{number}"
        trainer._replay.save(saved)
        trainer.close()


@pytest.mark.slow
def test_several_tasks_are_played_one_after_the_other_by_one_agent(monkeypatch):
    """As many episodes of each, in environments that play it alone."""
    config, called = CASES["impala.multitask"].config(), []
    config.runtime.update(schedule=PROCESSES, evaluator_episodes=4)
    config.evaluation.num_envs, config.evaluation.greedy = 3, True
    monkeypatch.setattr(evaluator_setup, "end_with", called.append)
    monkeypatch.setattr(evaluator_setup, "evaluate_offers", lambda *parts: called.append(parts))
    evaluator_setup.run_evaluator(find_experiment, config, 7, "localhost:1")
    address, (policy, _, make_environments, num_envs, episodes, seed, _) = called
    assert (address, num_envs, episodes, seed) == ("localhost:1", 2, 4, 7)
    assert len(make_environments) == 2
    rng = np.random.default_rng(1)
    frames = rng.integers(0, 255, (50, *policy.time_step_spec.observation.shape), np.uint8)
    time_steps = restart(frames, batch_size=50)
    actions = [policy.action(time_steps, (), seed=(seed, 0)).action.numpy() for seed in range(2)]
    np.testing.assert_array_equal(*actions)  # greedy, as is no actor's policy
    first_frames = []
    for make in make_environments:
        environment = make(1)
        games = play(policy, environment, 2, 1, print)
        assert [game.task for game in games] == [0, 0]
        first_frames.append(environment.reset()[0])
        assert environment.num_envs == 2
        environment.close()
    assert (first_frames[0] != first_frames[1]).any()


def test_an_evaluator_needs_actors_in_processes():
    assert evaluator_episodes(config_of("impala.gymnasium")) == 0
    assert evaluator_episodes(config_of("impala.gymnasium", schedule=PROCESSES, evaluator_episodes=5)) == 5
    assert evaluator_episodes(config_of("refer.gymnasium")) == 0
    with pytest.raises(
        ValueError, match=r"^runtime\.evaluator_episodes=5 needs actors in processes: choose .*, or give --cluster\.$"
    ):
        evaluator_episodes(config_of("impala.gymnasium", evaluator_episodes=5))
    with pytest.raises(ValueError, match=r"^runtime\.evaluator_episodes=-1: choose 0 or more\.$"):
        evaluator_episodes(config_of("impala.gymnasium", evaluator_episodes=-1))
