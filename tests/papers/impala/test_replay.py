"""IMPALA with a replay (Section 5.2.2): contents of a batch, its loss, and that it learns."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.trajectories import StepType

from paper_configs.impala import atari_shallow, dmlab_table2, gymnasium
from repro.config import resolve
from repro.papers import find_experiment
from repro.training import sizes
from repro.training.run_directory import RunDirectory

GAMMA = 0.9


def catch_config(**sections):
    """Catch in lockstep without a lag, four games at once."""
    config = gymnasium.get_config("smoke")
    config.env.task = "repro.regression.environments:repro/Catch-v0"
    config.network.units = (32,)
    config.loss.update({"discount": GAMMA, "entropy_cost": 0.005})
    config.learner.update({"learning_rate": 0.01, "batch_size": 4, "unroll_length": 12})
    config.runtime.update({"schedule": "lockstep", "lockstep_lag": 0, "envs_per_actor": 4})
    for section, fields in sections.items():
        config[section].update(fields)
    return config


def build(config, folder):
    return find_experiment(config).build_trainer(1, RunDirectory(folder, config.to_dict(), 1), print)


def recorded(trainer, updates):
    """The batches of the first updates, and the trainer's agent."""
    batches, step = [], trainer._learner.step

    def record(batch):
        batches.append(tf.nest.map_structure(np.array, batch))
        return step(batch)

    trainer._learner.step = record
    for update in trainer:
        if update.updates == updates:
            break
    return batches, trainer._learner.agent


RECURRENT = {"env": {"last_action_and_reward": True}, "network": {"core_units": 8}}


@pytest.mark.slow
def test_half_of_a_batch_is_replayed_with_the_state_that_its_unrolls_began_with(tmp_path):
    config = catch_config(**RECURRENT)
    config.learner.batch_size, config.replay.fraction, config.replay.capacity = 8, 0.5, 12
    trainer = build(config, tmp_path)
    batches, _ = recorded(trainer, 6)
    trainer.close()
    assert trainer.frames == 6 * 4 * 12  # of new unrolls alone
    states = {}  # of new unrolls, by the policies that acted in them
    for n, batch in enumerate(batches):
        unrolls = [logits.tobytes() for logits in batch.policy_info["logits"][:, :-1]]
        state = np.concatenate([part[:, 0] for part in batch.policy_info["core_state"]], axis=-1)
        assert len(unrolls) == 8
        for i, unroll in enumerate(unrolls):
            if i < 4:
                states[unroll] = n, state[i]
            else:
                began, expected = states[unroll]
                assert began > n - 3  # the replay holds three batches
                np.testing.assert_array_equal(state[i], expected)
    assert len(states) == 24
    assert sum(np.abs(state).min() > 0 for _, state in states.values()) > 15  # zeros where a game begins


@pytest.mark.slow
def test_ratios_are_1_where_the_weights_have_not_moved_also_across_ends(tmp_path):
    """The LSTM goes over rows of ends and beginnings as it did when it acted; replayed unrolls are of older weights."""
    config = catch_config(**RECURRENT)
    config.loss.clip_rho = 1e9
    config.replay.fraction, config.replay.capacity = 0.5, 64
    config.runtime.envs_per_actor = 2  # a round is one batch
    trainer = build(config, tmp_path)
    deviations, step = [], trainer._learner.step

    def measure(batch):
        rho = trainer._learner.agent._per_step_loss(batch).extras["rho_clipped"].numpy()  # [T, B]
        step_type = batch.step_type.numpy().T
        ends = step_type[:-1] == StepType.LAST
        assert ends.any()
        assert (step_type[1:-1] == StepType.FIRST).any()
        deviations.append(np.abs(np.where(ends, 1.0, rho) - 1.0).max(axis=0))
        return step(batch)

    trainer._learner.step = measure
    for update in trainer:
        if update.updates == 20:
            break
    trainer.close()
    new, old = np.split(np.array(deviations), 2, axis=1)
    assert new.max() < 1e-5
    assert old[5:].max() > 1e-3


def loss_by_hand(logits, mu_logits, values, batch, row):
    """The loss of one unroll by the sums of Section 4.2 in float64: V-trace with all clips at 1, no lambda."""
    pi, mu = (np.exp(x - np.logaddexp.reduce(x, axis=-1, keepdims=True)) for x in (logits, mu_logits))
    T = len(batch.reward[row]) - 1
    rho = [min(1.0, pi[s, batch.action[row, s]] / mu[s, batch.action[row, s]]) for s in range(T)]
    gamma = [GAMMA * batch.discount[row, s] for s in range(T)]
    live = [batch.step_type[row, s] != StepType.LAST for s in range(T)]

    def target(s):
        """v_s, the sum of Eq. 1 up to the end of the game or of the unroll."""
        total, weight = values[s], 1.0
        for t in range(s, T):
            if not live[t]:
                break
            total += weight * rho[t] * (batch.reward[row, t] + gamma[t] * values[t + 1] - values[t])
            weight *= gamma[t] * rho[t]
        return total

    total = 0.0
    for s in filter(live.__getitem__, range(T)):
        following = target(s + 1) if s + 1 < T else values[T]
        advantage = rho[s] * (batch.reward[row, s] + gamma[s] * following - values[s])
        total -= np.log(pi[s, batch.action[row, s]]) * advantage
        total += 0.5 * 0.5 * (target(s) - values[s]) ** 2
        total += 0.005 * (pi[s] * np.log(pi[s])).sum()
    return total


def test_replayed_unrolls_have_the_loss_of_section_4_2_for_the_policy_that_acted(tmp_path):
    config = catch_config(replay={"fraction": 0.5, "capacity": 100}, learner={"batch_size": 4, "learning_rate": 0.1})
    config.runtime.envs_per_actor = 2
    trainer = build(config, tmp_path)
    batches, agent = recorded(trainer, 8)
    trainer.close()
    batch = batches[-1]
    logits, values, _ = agent._network(tf.constant(batch.observation), tf.constant(batch.step_type), ())
    logits, values = (np.array(x, np.float64) for x in (logits, values))
    mu = np.array(batch.policy_info["logits"], np.float64)
    by_hand = [loss_by_hand(logits[row], mu[row], values[row], batch, row) for row in range(4)]
    as_if_on_policy = [loss_by_hand(logits[row], logits[row], values[row], batch, row) for row in range(4)]
    tensors = tf.nest.map_structure(tf.constant, batch)
    for row in range(4):
        loss = float(agent.loss(tensors, weights=tf.one_hot(row, 4)).loss)
        assert loss == pytest.approx(by_hand[row], rel=1e-4, abs=1e-5)
    assert np.abs(np.subtract(by_hand, as_if_on_policy)[2:]).max() > 0.01
    assert float(agent.loss(tensors).loss) == pytest.approx(sum(by_hand), rel=1e-4, abs=1e-5)


@pytest.mark.slow
def test_it_learns_catch_from_half_the_games(tmp_path):
    """A third of the balls is caught at random: a return of -0.4 or so."""
    config = catch_config(replay={"fraction": 0.5, "capacity": 40}, learner={"batch_size": 16})
    config.runtime.update({"envs_per_actor": 8, "lockstep_lag": 1})
    config.num_env_steps = 60_000
    trainer = build(config, tmp_path)
    first, *_, last = (update for update in trainer if update.games >= 100)
    trainer.close()
    assert first.mean_return < 0.2
    assert last.mean_return > 0.9
    assert last.scalars["replay_lag"] > last.lag + 1


def test_without_a_replay_a_batch_is_new(tmp_path):
    config = catch_config()
    assert config.replay.fraction == 0.0
    trainer = build(config, tmp_path)
    *_, last = recorded(trainer, 3)[0]
    trainer.close()
    assert last.reward.shape == (4, 13)
    assert trainer.frames == 3 * 4 * 12
    assert "replay_lag" not in trainer.summary()


@pytest.mark.parametrize(("fraction", "found"), [(0.3, "1.2"), (1.0, "4"), (-0.25, "-1")])
def test_a_fraction_that_is_no_number_of_unrolls_is_refused(tmp_path, fraction, found):
    config = catch_config(replay={"fraction": fraction})
    with pytest.raises(ValueError, match=f"replay.fraction={fraction:g} of learner.batch_size=4 is {found} unrolls"):
        build(config, tmp_path)


def test_a_replay_without_room_for_its_part_of_a_batch_is_refused(tmp_path):
    config = catch_config(replay={"fraction": 0.5, "capacity": 1})
    with pytest.raises(
        ValueError, match=r"^replay\.capacity=1 is less than the 2 replayed unrolls of one batch: choose 2 or more\.$"
    ):
        build(config, tmp_path)
    config.replay.capacity = 2
    build(config, tmp_path).close()


@pytest.mark.parametrize(("fraction", "batch_size", "num_replayed"), [(0.28, 25, 7), (0.29, 100, 29), (0.07, 100, 7)])
def test_a_fraction_whose_product_is_rounded_is_a_number_of_unrolls(fraction, batch_size, num_replayed):
    config = dmlab_table2.get_config("smoke")
    config.agent, config.learner.batch_size, config.runtime.envs_per_actor = "vtrace_replay", batch_size, 0
    config.variants.vtrace_replay.replay.fraction = fraction
    assert find_experiment(resolve(config)).num_replayed == num_replayed
    assert sizes._needs(config)["batch_size"] == batch_size - num_replayed


def test_the_agents_of_table_2_with_replay_differ_from_those_without_in_the_replay_alone():
    table = dmlab_table2.get_config("paper")
    for agent in ("vtrace", "one_step", "epsilon", "no_correction"):
        configs = []
        for table.agent in (agent, f"{agent}_replay"):
            configs.append(resolve(table))
        without, with_replay = configs
        assert (without.replay.fraction, with_replay.replay.fraction) == (0.0, 0.5)
        assert with_replay.replay.capacity == 10_000
        assert without.loss == with_replay.loss
        experiments = [find_experiment(config) for config in configs]
        assert [experiment.frames_per_update for experiment in experiments] == [32 * 400, 16 * 400]
    assert find_experiment(atari_shallow.get_config("paper")).num_replayed == 0


def test_seeds_sample_their_settings_from_the_ranges_of_table_c1_where_they_are_asked_to():
    experiment = find_experiment(resolve(dmlab_table2.get_config("paper")))
    sampled = [experiment.sample_hparams(seed) for seed in range(300)]
    for name, (low, high) in {"entropy_cost": (5e-5, 1e-2), "learning_rate": (5e-6, 5e-3)}.items():
        values = np.log([hparams[name] for hparams in sampled])
        places = (values - np.log(low)) / np.log(high / low)
        assert 0 <= places.min() < 0.02 < 0.98 < places.max() <= 1
        assert np.histogram(places, 4, (0, 1))[0] == pytest.approx(75, abs=25)  # 3.3 standard deviations
    values, counts = np.unique([hparams["rmsprop_epsilon"] for hparams in sampled], return_counts=True)
    assert values.tolist() == [1e-7, 1e-5, 1e-3, 1e-1]
    assert counts == pytest.approx(75, abs=25)
    rates, costs = ([np.log(hparams[name]) for hparams in sampled] for name in ("learning_rate", "entropy_cost"))
    assert abs(np.corrcoef(rates, costs)[0, 1]) < 0.2
    config = experiment.with_hparams(sampled[0]).config
    assert (config.learner.learning_rate, config.learner.rmsprop_epsilon, config.loss.entropy_cost) == tuple(
        sampled[0][name] for name in ("learning_rate", "rmsprop_epsilon", "entropy_cost")
    )
    assert experiment.config.learner.learning_rate == 4.8e-4
    for scale in ("smoke", "desk"):
        assert find_experiment(resolve(dmlab_table2.get_config(scale))).sample_hparams(0) == {}


@pytest.mark.parametrize(
    ("field", "values"), [("learning_rate", (0.0, 1.0)), ("entropy_cost", (1.0,)), ("rmsprop_epsilon", ())]
)
def test_a_sweep_that_cannot_be_sampled_from_is_refused(field, values):
    config = dmlab_table2.get_config("paper")
    config.sweep[field] = values
    with pytest.raises(ValueError, match=rf"^sweep\.{field}=\(.*\): choose .* above 0"):
        find_experiment(resolve(config)).sample_hparams(1)


def test_sampled_settings_are_those_that_the_agent_learns_with_and_the_record_s(tmp_path):
    config = catch_config()
    config.sweep = dmlab_table2.get_config("paper").sweep
    config.sweep.rmsprop_epsilon = (0.25,)
    trainer = build(config, tmp_path)
    agent, sampled = trainer._learner.agent, trainer.summary()["sampled_hparams"]
    trainer.close()
    assert sampled == find_experiment(config).sample_hparams(1)
    assert agent._optimizer.epsilon == 0.25
    assert float(agent._optimizer.learning_rate) == pytest.approx(sampled["learning_rate"])
    assert agent._loss_settings.entropy_cost == sampled["entropy_cost"]
