"""The loop: it learns, repeats and resumes bit for bit, and counts like the paper, with overlap as without."""

import re
import threading
import time

import numpy as np
import pytest
from tf_agents.trajectories import time_step as ts

from paper_configs.refer import figure_7_sensitivity, figure_8_sensitivity
from repro import machine_memory
from repro.acting.supervision import EnvironmentFailedError
from repro.config import agents, resolve
from repro.environments.mujoco import make_mujoco
from repro.papers import find_experiment
from repro.papers.refer import loss
from repro.papers.refer.training import REWARD_SCALE_EVERY
from repro.replay.refer import ReferMemory
from repro.training.learner import NonFiniteLossError
from repro.training.run_directory import RunDirectory
from repro.training.step_watch import StepWatch
from tests.papers.refer.small import build, interrupt_at, small_config
from tests.support.waiting import wait


def _run(path, updates=None, **changes):
    training = build(path, **changes)
    trail = []
    for update in training:
        trail.append((update.frames, update.mean_return, *update.scalars.values()))
        if updates and len(trail) == updates:
            break
    return training, np.array(trail)


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["serial", "overlap"])
def test_it_learns_to_balance(tmp_path, schedule):
    training, _ = _run(tmp_path, schedule=schedule)
    assert training.summary()["evaluation"]["mean"] > 60  # of 200; random play falls after some 5 steps


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["vracer_er", "vracer_refer1", "vracer_refer2"])
def test_without_one_of_the_rules_it_learns_too(tmp_path, agent):
    """The best mean of the last 100 episodes; plain replay loses it again when such a run goes on."""
    _, trail = _run(tmp_path, agent=agent)
    assert np.nanmax(trail[:, 1]) > 60


@pytest.mark.slow
@pytest.mark.parametrize("form", ["quadratic", "gaussian"])
def test_with_an_advantage_it_learns_too(tmp_path, form):
    training, _ = _run(tmp_path, advantage=form)
    assert training.summary()["evaluation"]["mean"] > 60


@pytest.mark.slow
def test_with_the_sign_of_its_policy_gradient_turned_it_does_not(tmp_path, monkeypatch):
    right = loss.off_policy_gradient_loss
    monkeypatch.setattr(loss, "off_policy_gradient_loss", lambda *arguments: -right(*arguments))
    training, _ = _run(tmp_path)
    assert training.summary()["evaluation"]["mean"] < 15


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["vracer_refer", "ddpg_er", "naf_refer", "lstm_refer"])
def test_same_seed_same_bits(tmp_path, agent):
    _, first = _run(tmp_path / "a", updates=20, agent=agent)
    _, again = _run(tmp_path / "b", updates=20, agent=agent)
    _, other = _run(tmp_path / "c", updates=20, agent=agent, seed=2)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize(
    ("task", "agent", "schedule"),
    [
        ("InvertedPendulum", "vracer_refer", "serial"),
        pytest.param("InvertedPendulum", "vracer_refer", "overlap", marks=pytest.mark.slow),
        pytest.param("HalfCheetah", "vracer_refer", "serial", marks=pytest.mark.slow),
        pytest.param("HalfCheetah", "ddpg_er", "serial", marks=pytest.mark.slow),  # its noise remembers the step before
        pytest.param("InvertedPendulum", "ddpg_refer", "serial", marks=pytest.mark.slow),
        ("HalfCheetah", "naf_refer", "serial"),
        pytest.param("Hopper", "lstm_refer", "serial", marks=pytest.mark.slow),  # it remembers the episode
        pytest.param("Hopper", "lstm_refer", "overlap", marks=pytest.mark.slow),
    ],
)
def test_resumed_run_continues_bit_identically(tmp_path, task, agent, schedule):
    run = {"task": task, "agent": agent, "frames": 640, "max_steps": 50, "schedule": schedule}
    _, whole = _run(tmp_path / "whole", **run)
    stopped, first = _run(tmp_path / "cut", updates=17, **run)
    stopped.save()
    resumed, rest = _run_on(tmp_path / "cut", stopped, **run)
    np.testing.assert_array_equal(np.concatenate([first, rest]), whole)
    assert resumed.complete


def _run_on(path, stopped, **changes):
    stopped._environment.close()
    training = build_again(path, **changes)
    return training, np.array([(u.frames, u.mean_return, *u.scalars.values()) for u in training])


def build_again(path, **changes):
    """Another process's view of the folder: the lock of this one must not keep it out."""

    class Folder:
        actors, checkpoints = path / "actors", path / "checkpoints"

    return find_experiment(small_config(**changes)).build_trainer(1, Folder(), print)


def test_each_environment_step_has_its_gradient_step(tmp_path):
    training, trail = _run(tmp_path, frames=320)
    np.testing.assert_array_equal(trail[:, 0], np.arange(16, 321, 16))
    assert int(training._agent.optimizer.iterations) == 320
    summary = training.summary()
    assert summary["gradient_steps"] == summary["num_env_steps"] == 320


class InTurn:
    """A thread's place, in which what is submitted is done when it is waited for."""

    def submit(self, function, *arguments):
        self.exception = lambda: function(*arguments)
        return self

    def shutdown(self):
        """There is no thread."""


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["vracer_refer", "ddpg_er", "lstm_refer"])
def test_with_overlap_what_is_done_at_the_same_time_does_not_meet(tmp_path, agent):
    """The bits are those of gradient steps, then environment steps with the weights of before, in one thread."""
    run = {"agent": agent, "frames": 640, "max_steps": 50, "schedule": "overlap"}
    threads, trail = _run(tmp_path / "threads", **run)
    in_turn = build(tmp_path / "in_turn", **run)
    in_turn._player = InTurn()
    expected = [(u.frames, u.mean_return, *u.scalars.values()) for u in in_turn]
    np.testing.assert_array_equal(trail, expected)
    memory, others = threads._memory.get_state(), in_turn._memory.get_state()
    assert len(memory["episode_length"]) > 20
    for name, values in memory.items():
        np.testing.assert_array_equal(values, others[name])


def test_with_overlap_an_episode_enters_the_memory_after_the_gradient_steps_beside_it(tmp_path, monkeypatch):
    training = build(tmp_path, task="HalfCheetah", max_steps=50, frames=320, schedule="overlap")
    learn, seen = training._learn, []
    monkeypatch.setattr(training, "_learn", lambda: seen.append(training._memory.num_seen) or learn())
    stored = [training._memory.num_seen for _ in training]
    np.testing.assert_array_equal(stored, 1_000 + np.arange(16, 321, 16) // 50 * 50)
    assert seen == [1_000, *stored[:-1]]


def test_with_overlap_the_environment_is_stepped_while_the_agent_learns(tmp_path, monkeypatch):
    training = build(tmp_path, frames=32, schedule="overlap")
    played, train, play = threading.Event(), training._agent.train, training._play
    monkeypatch.setattr(training, "_play", lambda steps: play(steps) or (steps > 1 and played.set()))
    waits = []
    monkeypatch.setattr(
        training._agent, "train", lambda *arguments: waits.append(played.wait(60.0)) or train(*arguments)
    )
    next(iter(training))
    assert waits == [True]


@pytest.mark.parametrize(
    ("schedule", "agent", "at"),
    [("serial", "lstm_refer", 40), ("overlap", "vracer_refer", 40), ("serial", "vracer_refer", 50)],
)
def test_an_environment_that_fails_is_replaced_and_its_episode_is_lost(
    tmp_path, monkeypatch, capsys, schedule, agent, at
):
    """In the midst of an episode of 50 steps, or where the next one was to begin."""
    training = build(tmp_path, frames=160, schedule=schedule, agent=agent, task="HalfCheetah", max_steps=50)
    begun, stored, seen = [], [], []
    begin, add, step = training._agent.begin_episode, training._memory.add_episode, training._environment.step
    monkeypatch.setattr(training._agent, "begin_episode", lambda: begun.append(1) or begin())
    monkeypatch.setattr(
        training._memory, "add_episode", lambda states, *rest: stored.append(states) or add(states, *rest)
    )

    def fail(actions):
        if training.updates >= 5 and training._episode.length == at:
            raise OSError("the simulator is gone")
        seen.append(step(actions))
        return seen[-1]

    monkeypatch.setattr(training._environment, "step", fail)
    updates = list(training)
    training.close()
    assert [update.frames for update in updates] == list(range(16, 161, 16))
    assert [update.actor_restarts for update in updates[4:8]] == [0, int(at == 40), 1, 1]
    assert training.summary()["actor_restarts"] == 1
    assert len(begun) == len(stored) + 1
    assert all(len(states) == 51 for states in stored)  # none is a piece of one episode with a piece of another
    assert not any((states == seen[-1][0]).all(axis=1).any() for states in stored)
    line = "The environment was restarted (restart 1 by this process): OSError: the simulator is gone; see "
    assert capsys.readouterr().out.count(line) == 1
    assert "OSError" in (tmp_path / "actors/actor_0.txt").read_text()


def loop_for_ever():
    while True:
        pass


@pytest.mark.parametrize("hang", [threading.Event().wait, lambda: time.sleep(1e6), loop_for_ever])
def test_an_environment_that_hangs_is_replaced(tmp_path, monkeypatch, capsys, hang):
    """In a wait of a thread, in one of the system, and in a loop of Python's."""
    training = build(tmp_path, frames=160, task="HalfCheetah", max_steps=50)
    training._watch = StepWatch(0.5)
    step, hangs = training._environment.step, [hang]

    def hang_once(actions):
        if training.updates >= 1 and hangs:
            hangs.pop()()
        return step(actions)

    monkeypatch.setattr(training._environment, "step", hang_once)
    updates = list(training)
    training.close()
    assert updates[-1].actor_restarts == 1
    line = "The environment was restarted (restart 1 by this process): StepHungError: no step for 0.5 seconds; see "
    assert capsys.readouterr().out.count(line) == 1


def test_a_line_that_waits_for_the_terminal_is_not_taken_for_a_step_that_hangs(tmp_path, monkeypatch):
    training, said = build(tmp_path, frames=160, task="HalfCheetah", max_steps=50), []
    training._watch = StepWatch(0.5)
    training._supervision = training._supervision._replace(warn=lambda line: time.sleep(1.5) or said.append(line))
    step, faults = training._environment.step, [OSError("the simulator is gone")]

    def fail_once(actions):
        if faults:
            raise faults.pop()
        return step(actions)

    monkeypatch.setattr(training._environment, "step", fail_once)
    updates = list(training)
    training.close()
    assert updates[-1].actor_restarts == len(said) == 1


def test_environments_that_never_begin_a_second_episode_end_the_run(tmp_path, monkeypatch):
    """Or the memory, which stores none of their episodes, would be filled for ever."""
    training = build(tmp_path, frames=160, task="HalfCheetah", max_steps=50)
    environment, calls = type(training._environment), []
    step = environment.step

    def fail(self, actions):
        calls.append(1)
        if len(calls) > 500:
            pytest.fail("it goes on for ever")
        if training._episode.length == 50:
            raise OSError("there is no second episode")
        return step(self, actions)

    monkeypatch.setattr(environment, "step", fail)
    with pytest.raises(EnvironmentFailedError, match="3 times in a row, .* OSError: there is no second"):
        next(iter(training))
    assert training.episodes.games == 3
    assert training._watch.changes % 2 == 0, "a step that is over is watched"
    training.close()


def test_environments_that_take_another_s_place_have_seeds_of_their_own(tmp_path):
    experiment = find_experiment(small_config(task="HalfCheetah"))
    first, _ = experiment.make_environment_and_rng(1)
    others = [experiment.remake_environment(seed, restart) for seed, restart in ((1, 1), (1, 2), (2, 1))]
    begins = {environment.reset()[0].tobytes() for environment in (first, *others)}
    assert len(begins) == 4


@pytest.mark.parametrize(("schedule", "updates"), [("serial", 3), ("overlap", 4)])
def test_a_run_whose_environment_always_fails_is_saved_without_it_and_goes_on(tmp_path, monkeypatch, schedule, updates):
    """In the fourth update, after the end of an episode; with overlap the gradient steps beside it are made."""
    run = {"task": "HalfCheetah", "max_steps": 50, "frames": 320, "schedule": schedule}
    training = build(tmp_path, **run)
    environment, first_state = type(training._environment), training._rollout.observation
    step = environment.step

    def fail(self, actions):
        if training.episodes.games == 21 and training._episode.length == 2:
            _raise_error()
        return step(self, actions)

    monkeypatch.setattr(environment, "step", fail)
    monkeypatch.setattr(environment, "get_state", lambda self: _raise_error() if training.updates >= 3 else {})
    sentence = "The environment failed 3 times in a row, the last time with OSError: the simulator is gone"
    with pytest.raises(EnvironmentFailedError, match=sentence):
        list(training)
    training.close()
    monkeypatch.undo()
    assert training.saved_updates == training.updates == updates
    assert training.episodes.games == 21
    assert int(training._agent.optimizer.iterations) == training.gradient_steps

    resumed = build_again(tmp_path, **run)
    assert (resumed.updates, resumed.episodes.games, resumed.actor_restarts) == (updates, 21, 3)
    assert resumed._episode.length == 0
    assert not np.array_equal(resumed._rollout.observation, first_state)
    memory = resumed._memory.get_state()
    assert list(memory["episode_length"]) == 21 * [50]
    for name, values in training._memory.get_state().items():
        np.testing.assert_array_equal(memory[name], values)
    np.testing.assert_array_equal(resumed._agent.weights, training._agent.weights)
    assert [update.updates for update in resumed] == list(range(updates + 1, 21))
    assert set(resumed._memory.get_state()["episode_length"]) == {50}  # none has a piece of the one that was lost
    assert resumed.summary()["actor_restarts"] == 3
    resumed.close()


def test_gradient_steps_that_fail_beside_an_environment_that_fails_are_not_saved(tmp_path, monkeypatch):
    training = build(tmp_path, frames=320, schedule="overlap")
    updates = iter(training)
    next(updates)
    next(updates)
    monkeypatch.setattr(type(training._environment), "step", _raise_error)
    monkeypatch.setattr(training._agent, "train", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        next(updates)
    training.close()
    assert (training.saved_updates, training.updates) == (1, 2)


def test_gradient_steps_that_fail_leave_no_environment_that_is_stepped(tmp_path, monkeypatch):
    threads = set(threading.enumerate())
    training = build(tmp_path, frames=320, schedule="overlap")
    play, failed, ended = training._play, threading.Event(), []

    def play_on(steps):
        if steps > 1:
            assert failed.wait(60.0)
            time.sleep(0.2)
        play(steps)
        ended.append(steps)

    def fail(*arguments):
        failed.set()
        raise ZeroDivisionError

    monkeypatch.setattr(training, "_play", play_on)
    monkeypatch.setattr(training._agent, "train", fail)
    with pytest.raises(ZeroDivisionError):
        next(iter(training))
    assert ended[-1] == 16
    training.close()
    wait(lambda: set(threading.enumerate()) <= threads, seconds=10.0)


def test_an_unknown_schedule_is_one_sentence(tmp_path):
    with pytest.raises(ValueError, match="runtime.schedule='async': choose serial or overlap"):
        build(tmp_path, schedule="async")


def test_memory_without_a_layer_is_one_sentence(tmp_path):
    config = small_config(agent="lstm_refer")
    config.network.lstm_units = ()
    with pytest.raises(
        ValueError, match=r"^network\.lstm_units=\(\): choose the number of units of one layer or more\.$"
    ):
        find_experiment(config).build_trainer(1, RunDirectory(tmp_path, config.to_dict(), 1), print)


@pytest.mark.parametrize(
    ("field", "value", "chosen"),
    [
        ("learner.method", "sac", "vracer, recurrent_vracer, ddpg, naf."),
        ("refer.rule", "refer1", "refer, refer_1, refer_2, none."),
        ("refer.value_target", "old", "current, stored."),
        ("refer.max_log_ratio", 28.0, "a number above 0 and at most 27."),
        ("refer.max_log_ratio", 0.0, "a number above 0 and at most 27."),
        ("network.advantage", "cubic", "none, quadratic, gaussian."),
    ],
)
def test_a_choice_that_there_is_not_is_one_sentence_before_anything_is_played(tmp_path, field, value, chosen):
    config = small_config()
    section, name = field.split(".")
    config[section][name] = value
    with pytest.raises(ValueError, match=f"^{re.escape(f'{field}={value!r}: choose {chosen}')}$"):
        find_experiment(config).build_trainer(1, RunDirectory(tmp_path, config.to_dict(), 1), print)


def _raise_error(*_):
    raise OSError("the simulator is gone")


@pytest.mark.parametrize("time_steps", [0.5, 2.0])
def test_f_environment_steps_have_one_gradient_step(tmp_path, monkeypatch, time_steps):
    """Rates follow the time steps t, of which there are F for each gradient step."""
    training = build(tmp_path, frames=320, time_steps=time_steps)
    rates, played, train, play = [], [], training._agent.train, training._play_step
    monkeypatch.setattr(training._agent, "train", lambda *arguments: rates.extend(arguments[3]) or train(*arguments))
    monkeypatch.setattr(training, "_play_step", lambda: played.append(1) or play())
    trail = [update.frames for update in training]
    per_update = int(16 * time_steps)
    np.testing.assert_array_equal(trail, np.arange(per_update, 321, per_update))
    summary = training.summary()
    assert summary["num_env_steps"] == len(played) - before_learning(training) == 320
    assert summary["gradient_steps"] == len(rates) == int(training._agent.optimizer.iterations) == 320 / time_steps
    np.testing.assert_allclose(rates, 1e-3 / (1 + 5e-7 * time_steps * np.arange(len(rates))), rtol=1e-12)


def before_learning(training):
    """Steps that were played until the memory held N_start, from its first serial number on."""
    memory, played = training._memory.get_state(), 0
    assert memory["head"] == 0
    for length in memory["episode_length"]:
        played += int(length)
        if played >= 1_000:
            return played
    raise AssertionError("the memory never held N_start steps")


def test_a_call_must_take_whole_environment_steps(tmp_path):
    with pytest.raises(ValueError, match="time_steps_per_gradient=0.3 times learner.steps_per_call=16 must be a whole"):
        build(tmp_path, time_steps=0.3)


def test_a_call_may_take_environment_steps_that_are_whole_but_for_rounding(tmp_path):
    assert 1.1 * 50 != 55
    assert build(tmp_path, time_steps=1.1, steps_per_call=50).frames_per_update == 55


@pytest.mark.parametrize("time_steps", [1.0, 2.0])
def test_the_reward_scale_follows_every_thousand_gradient_steps(tmp_path, monkeypatch, time_steps):
    """Here every 40: before the first one, and at the end of the calls of 16 that make step 40, 80, 120 and 160."""
    assert REWARD_SCALE_EVERY == 1_000
    monkeypatch.setattr("repro.papers.refer.training.REWARD_SCALE_EVERY", 40)
    training = build(tmp_path, frames=int(160 * time_steps), time_steps=time_steps)
    memory, agent, found = training._memory, training._agent, []
    refresh = memory.refresh_reward_scale

    def noting():
        refresh()
        rewards = memory.get_state()["reward"].astype(np.float64)
        assert memory.reward_scale == pytest.approx(np.sqrt(np.mean(rewards**2)) + 1e-7, rel=1e-12)
        found.append(int(agent.optimizer.iterations))

    monkeypatch.setattr(memory, "refresh_reward_scale", noting)
    list(training)
    assert found == [0, 48, 80, 128, 160]


@pytest.mark.parametrize(("compile_", "with_xla"), [("xla", True), ("graph", False)])
def test_gradient_steps_are_compiled_as_the_configuration_says(compile_, with_xla):
    config = small_config()
    config.runtime.compile = compile_
    assert find_experiment(config).use_xla == with_xla


@pytest.mark.parametrize("scale", ["smoke", "paper"])
def test_agents_of_figures_7_and_8_have_their_own_values(scale):
    seven, eight = figure_7_sensitivity.get_config(scale), figure_8_sensitivity.get_config(scale)
    seven.agent, eight.agent = "vracer_twice_eta", "vracer_half_s"
    own = resolve(seven)
    assert (own.learner.learning_rate, own.refer.beta_step_size, own.refer.c) == (2e-4, 2e-4, 4.0)
    assert seven.learner.learning_rate == 1e-4
    for seven.agent in agents(seven):
        own = resolve(seven).memory
        assert own.start_steps == {"smoke": 2_000, "paper": min(own.capacity, 2**18)}[scale]
    environment = make_mujoco(eight.env, 1, 0)
    agent = find_experiment(eight).make_agent(environment, np.random.default_rng(0))
    assert (agent._settings.units, agent._settings.variant.rule) == ((64, 64), "refer")
    environment.close()


@pytest.mark.slow
def test_endings_reach_the_memory_as_what_they_are(tmp_path):
    falls, _ = _run(tmp_path / "falls", frames=160)
    memory = falls._memory
    state = memory.get_state()
    assert state["episode_terminated"].mean() > 0.9  # an untrained pendulum falls
    assert (state["episode_last_value"][state["episode_terminated"]] == 0).all()
    cuts, _ = _run(tmp_path / "cuts", task="HalfCheetah", max_steps=50, frames=160)
    state = cuts._memory.get_state()
    assert not state["episode_terminated"].any()  # a cheetah never falls
    assert (state["episode_length"] == 50).all()
    memory.check_valid()


@pytest.mark.parametrize("agent", ["vracer_refer", "ddpg_refer", "naf_er", "lstm_refer"])
def test_the_value_of_a_cut_episodes_last_state_follows_the_network(tmp_path, monkeypatch, agent):
    """Wherever the last step of a cut episode was sampled, V(s_T) is that of the weights before the gradient steps.

    The targets of these gradient steps have it already.
    """
    training = build(tmp_path, agent=agent, task="HalfCheetah", max_steps=50, frames=64, steps_per_call=4)
    memory, seen, targets = training._memory, [], []
    refresh, train = training._refresh_last_values, training._agent.train

    def learning(batch, *arguments):
        np.testing.assert_array_equal(batch.q_ret, targets[-1])
        return train(batch, *arguments)

    def refreshing(indices):
        before = memory.get_state()["episode_last_value"]
        refresh(indices)
        after = memory.get_state()
        sampled = np.unique(indices[(indices + 1) % 50 == 0]) // 50  # all episodes have 50 steps and none has left
        ended = np.isin(np.arange(len(before)), sampled)
        states = after["episode_last_state"][ended]
        if agent == "lstm_refer":
            windows = memory.gather_windows(50 * sampled + 49, 4).states
            states = np.concatenate([windows[:, 1:], states[:, None]], axis=1)
        expected = training._agent.forward(states)[0]
        np.testing.assert_allclose(after["episode_last_value"][ended], expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(after["episode_last_value"][~ended], before[~ended])
        seen.append((ended.sum(), np.abs(after["episode_last_value"] - before).max()))
        targets.append(memory.gather(indices).q_ret)
        memory.check_valid()

    monkeypatch.setattr(training, "_refresh_last_values", refreshing)
    monkeypatch.setattr(training._agent, "train", learning)
    list(training)
    counts, changes = zip(*seen)
    assert sum(counts) > 20
    assert max(changes) > 1e-3  # it is not what was stored


def test_the_value_of_last_states_may_stay_as_it_was_stored(tmp_path, monkeypatch):
    training = build(tmp_path, task="HalfCheetah", max_steps=50, frames=64)
    training._settings = training._settings._replace(refresh_last_value=False)
    monkeypatch.setattr(training._memory, "update_last_values", lambda *arguments: pytest.fail("it was written"))
    list(training)


@pytest.mark.parametrize("form", ["quadratic", pytest.param("gaussian", marks=pytest.mark.slow)])
def test_advantages_reach_the_memory(tmp_path, monkeypatch, form):
    """A new episode's are those of acting, a sampled step's those of the gradient step."""
    training = build(tmp_path, frames=64, steps_per_call=1, advantage=form)
    memory, update, written = training._memory, training._memory.update, {}

    def updating(indices, rho, value, advantage):
        update(indices, rho, value, advantage)
        written.update(zip(indices.tolist(), advantage.tolist()))

    monkeypatch.setattr(memory, "update", updating)
    list(training)
    state = memory.get_state()
    assert state["head"] == 0
    assert len(written) > 500
    for serial, expected in written.items():
        assert state["advantage"][serial] == np.float32(expected)
    untouched = np.setdiff1d(np.arange(len(memory)), list(written))
    assert untouched.size
    assert state["advantage"][untouched].all()  # from acting
    memory.check_valid()


@pytest.mark.parametrize("agent", ["vracer_refer", "ddpg_refer"])
def test_an_agent_without_an_advantage_stores_none(tmp_path, agent):
    training, _ = _run(tmp_path, agent=agent, frames=64)
    assert not training._memory.get_state()["advantage"].any()


@pytest.mark.parametrize(
    ("capacity", "start", "seen", "stored"),
    [
        (1_000, 1_000, 1_000, 1_000),  # N_start = N, and whole episodes fill it
        (1_020, 1_020, 1_050, 1_000),  # they do not: the one that completes N_start makes the first one leave
        (1_020, 1_001, 1_050, 1_000),
        (1_020, 990, 1_000, 1_000),
        (8_192, 1_001, 1_050, 1_050),
    ],
)
def test_learning_begins_with_the_episode_that_completes_n_start_steps(tmp_path, capacity, start, seen, stored):
    """Episodes of 50 steps each; N_start may be as large as the memory."""
    config = small_config(task="HalfCheetah", max_steps=50, frames=160)
    config.memory.capacity, config.memory.start_steps = capacity, start
    training = find_experiment(config).build_trainer(1, RunDirectory(tmp_path, config.to_dict(), 1), print)
    memory = training._memory
    training._begin()
    assert (memory.num_seen, len(memory)) == (seen, stored)
    state = memory.get_state()
    assert state["head"] == seen - stored
    np.testing.assert_allclose(training._agent.state_mean, state["state"].mean(axis=0), rtol=1e-4, atol=1e-5)
    list(training)
    assert training.summary()["gradient_steps"] == 160
    assert memory.num_seen == seen + 150  # three more whole episodes of 160 steps
    assert len(memory) == min(stored + 150, capacity // 50 * 50)
    memory.check_valid()


def test_more_first_steps_than_the_memory_holds_are_one_sentence(tmp_path):
    config = small_config()
    config.memory.capacity = 999
    with pytest.raises(ValueError, match="memory.start_steps=1000 must be at most memory.capacity=999"):
        find_experiment(config).build_trainer(1, RunDirectory(tmp_path, config.to_dict(), 1), print)


def test_a_memory_that_holds_no_episode_is_one_sentence(tmp_path):
    config = small_config()
    config.memory.capacity, config.memory.start_steps, config.env.max_steps = 60, 50, 61
    with pytest.raises(ValueError, match=r"^memory\.capacity=60 is less than an episode, .* 61 steps \(env\.max"):
        find_experiment(config).build_trainer(1, RunDirectory(tmp_path, config.to_dict(), 1), print)


def test_a_memory_that_is_larger_than_the_machine_s_is_one_sentence(tmp_path, monkeypatch):
    build(tmp_path / "fits").close()
    needed = ReferMemory.nbytes(8_192, 4, 1)  # of an inverted pendulum
    monkeypatch.setattr(machine_memory, "available_bytes", lambda: needed - 1)
    with pytest.raises(ValueError, match=r"^memory\.capacity=8192 takes .* choose at most 8191\.$"):
        build(tmp_path / "not")


@pytest.mark.parametrize(
    ("section", "field", "value", "chosen"),
    [
        ("refer", "c", 0.0, "finite number above 0"),
        ("refer", "annealing", -1.0, "number from 0 to 1"),
        ("learner", "annealing", 1.5, "number from 0 to 1"),
        ("learner", "learning_rate", -1.0, "finite number of 0 or more"),
    ],
)
def test_settings_of_annealing_are_checked_once(tmp_path, section, field, value, chosen):
    config = small_config()
    config[section][field] = value
    with pytest.raises(ValueError, match=f"^{section}.{field}={value}: choose a {chosen}.$"):
        find_experiment(config).build_trainer(1, RunDirectory(tmp_path, config.to_dict(), 1), print)


def test_c_max_anneals_and_beta_follows_the_far_policy_fraction(tmp_path):
    """Eqs. (12) and (13) for each of 320 gradient steps, from the ratios stored before the call of 16 of them.

    More steps have been seen than are stored, and those stored count.
    """
    config = small_config(frames=320)
    config.memory.capacity = 1_000
    training = find_experiment(config).build_trainer(1, RunDirectory(tmp_path, config.to_dict(), 1), print)
    memory, train, given, shares = training._memory, training._agent.train, [], []

    def noting(batch, beta, c_max, *rest):
        rho, bound = memory.get_state()["rho"], c_max[-1]
        given.extend(zip(beta, c_max))
        shares.extend(16 * [np.mean((rho <= 1 / bound) | (rho >= bound))])
        return train(batch, beta, c_max, *rest)

    training._agent.train = noting
    list(training)
    assert memory.c_max == pytest.approx(1 + 4 / (1 + 5e-7 * 319))
    assert len(given) == len(shares) == 320
    expected = 1.0
    for step, ((beta, c_max), share) in enumerate(zip(given, shares)):
        assert beta == pytest.approx(expected, rel=1e-9)
        assert c_max == pytest.approx(1 + 4 / (1 + 5e-7 * step), rel=1e-12)
        eta = 1e-3 / (1 + 5e-7 * step)
        expected = (1 - eta) * expected + (eta if share <= 0.1 else 0.0)
    assert training._beta == pytest.approx(expected, rel=1e-9)
    assert shares[0] < 0.1 < shares[-1]  # it stays at 1 at first and falls later
    assert training._beta < 0.95


def test_episodes_before_the_first_gradient_step_are_in_no_window(tmp_path, monkeypatch):
    """Of a run that is shorter than its window."""
    training = build(tmp_path, frames=320)
    begin, before = training._begin, []

    def noting_begin():
        begin()
        before.append(training._episodes.games)

    monkeypatch.setattr(training, "_begin", noting_begin)
    list(training)
    evaluation, games = training.summary()["evaluation"], training.summary()["games"]
    assert 0 < before[0] < games
    assert evaluation["episodes"] == games - before[0]
    assert evaluation["protocol"].startswith("episodes that ended in the last 320 steps of training, ")


@pytest.mark.slow
def test_evaluation_is_of_the_last_window(tmp_path):
    training, _ = _run(tmp_path, frames=3_200)
    evaluation = training.summary()["evaluation"]
    entered = training._episodes.trailing_returns.get_state()
    inside = [score for step, score in entered if step > 3_200 - 2_000]
    assert 0 < len(inside) < training.summary()["games"]
    assert evaluation["episodes"] == len(evaluation["returns"]) == len(inside)
    assert evaluation["mean"] == pytest.approx(np.mean(evaluation["returns"]))
    assert "last 2000 steps" in evaluation["protocol"]


def test_a_run_that_diverges_stops_with_its_step(tmp_path, monkeypatch):
    training = build(tmp_path)
    steps = iter(training)
    next(steps)
    training._agent.weights.assign(np.nan * training._agent.weights)
    with pytest.raises(NonFiniteLossError, match="the network outputs NaN after gradient step 16"):
        next(steps)


@pytest.mark.parametrize(
    ("agent", "known"),
    [
        ("vracer", "acer, acer_fast, ppo, vracer_er"),
        ("ddpg_rank", "ddpg_er, ddpg_er_annealed"),
        ("naf", "naf_er, naf_per"),
    ],
)
def test_an_unknown_agent_is_one_sentence(tmp_path, agent, known):
    with pytest.raises(ValueError, match=f"agent='{agent}': choose {known}"):
        build(tmp_path, agent=agent)


@pytest.mark.parametrize("agent", ["vracer_refer", "ppo"])
def test_several_tasks_are_refused_in_a_sentence(tmp_path, agent):
    config = small_config(agent="vracer_refer")
    config.agent, config.env.tasks = agent, ("Hopper", "Walker2d")
    run = RunDirectory(tmp_path / "run", config.to_dict(), 0)
    sentence = f"env.tasks=Hopper,Walker2d: agent {agent} learns only env.task; leave out env.tasks."
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        find_experiment(config).build_trainer(0, run, print)


@pytest.mark.parametrize("package", ["atari", "dmlab", "vizdoom"])
@pytest.mark.parametrize("agent", ["vracer_refer", "ppo"])
def test_packages_of_images_are_refused_and_those_of_vectors_are_named(tmp_path, agent, package):
    config = small_config(agent="vracer_refer")
    config.agent, config.env.name = agent, package
    run = RunDirectory(tmp_path / "run", config.to_dict(), 0)
    sentence = (
        f"env.name='{package}': agent {agent} learns from vectors, and these environments give images; "
        "choose mujoco, acer_tasks, dm_control, rwrl or gymnasium."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        find_experiment(config).build_trainer(0, run, print)


@pytest.mark.parametrize(
    ("agent", "annealing"),
    [("ddpg_refer", 5e-7), ("ddpg_er", 0.0), ("ddpg_per", 0.0), ("ddpg_er_annealed", 5e-7), ("naf_er", 5e-7)],
)
def test_the_learning_rate_is_annealed_but_for_plain_ddpg(tmp_path, monkeypatch, agent, annealing):
    training = build(tmp_path, agent=agent, frames=32)
    rates, train = [], training._agent.train
    monkeypatch.setattr(training._agent, "train", lambda *arguments: rates.extend(arguments[3]) or train(*arguments))
    list(training)
    np.testing.assert_allclose(rates, 1e-3 / (1 + annealing * np.arange(32)), rtol=1e-12)


@pytest.mark.parametrize(("agent", "decay", "theta"), [("ddpg_er", 1e-4, 0.15), ("ddpg_er_untuned", 0.0, None)])
def test_plain_ddpg_may_go_without_weight_decay_and_correlated_noise(tmp_path, agent, decay, theta):
    training = build(tmp_path, agent=agent)
    assert (training._agent._settings.weight_decay, training._settings.noise_theta) == (decay, theta)


@pytest.mark.parametrize("agent", ["vracer_er", "ddpg_refer", "naf_refer"])
def test_a_trained_policy_takes_the_mean_action(tmp_path, agent):
    training, _ = _run(tmp_path, agent=agent, frames=32)
    training._agent.sync_acting_weights()
    experiment = find_experiment(small_config(agent=agent))
    policy, environment, _ = experiment.load_policy(tmp_path / "checkpoints", 1, 5, print)
    observation, _ = environment.reset()
    time_step = ts.restart(observation, batch_size=1)
    action = policy.action(time_step).action
    np.testing.assert_allclose(action[0], training._agent.act(observation[0]).mean, rtol=1e-4, atol=1e-6)
    environment.close()


def test_an_episode_that_a_resume_cuts_is_stored_and_does_not_count(tmp_path):
    training = build(tmp_path, frames=32)
    training._play(3)
    environment, step = training._environment, training._environment.step
    environment._step_limit = 4

    def losing(actions):
        *found, info = step(actions)
        return *found, info | {"lost": info["game_over"].copy()}

    environment.step = losing
    training._play(1)
    assert [episode.length for episode in training._finished] == [4]
    assert not training._finished[0].terminated
    assert training._episode.length == training.episodes.games == 0


def test_the_steps_before_the_first_update_end_with_a_signal(tmp_path):
    training = build(tmp_path, frames=32)
    steps = interrupt_at(training, 20)
    assert list(training) == []
    assert 20 <= len(steps) <= 21  # an episode that ends is followed by a step that begins the next
    assert (training.updates, training.has_checkpoint) == (0, False)
    training.close()
