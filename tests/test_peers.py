"""Other programs beside this suite: equal settings, counts, adapters, and errors if something is missing."""

from __future__ import annotations

import ast
import re
import runpy
import shlex
import subprocess
import sys
import types
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from repro.benchmarks.peers import programs, run_monobeast
from repro.config import resolve
from tests.support.forked_train import run_command

ROOT = Path(__file__).resolve().parents[1]
PRINTED = {
    "cleanrl": "global_step=820, episodic_return=[-21.]\r\nSPS: 22\r\nSteps 1100\r\nSPS: 19\r\nSteps 1200\r\n",
    "torchbeast": "Steps 640\r\n[INFO:325 monobeast:484 2026-11-27 16:43:22,371] Steps 1280 @ 127.8 SPS. Loss -91.19. "
    "Stats:\r\n{'baseline_loss': 21.699451446533203,\r\n 'episode_returns': ()}\r\n",
    "smarties": "Steps 5050\r\nID #/T   |  avgR  | avgr | stdr | DKL | RMSE |maxErr|\r\n00 00001 -8.091772 -0.008 "
    "0.9729 0.008 8.2966 2.3384 7.0626\r\nSteps 5100\r\n",
}
"""As each of them printed it."""
OURS_AND_THEIRS = (
    *("outWeightsPrefac", "batchSize", "learnrate", "epsAnneal", "gamma", "clipImpWeight", "penalTol"),
    *("obsPerStep", "minTotObsNum", "maxTotObsNum"),
)
"""Settings of smarties that are numbers, and ours as well."""


@pytest.mark.parametrize(("name", "counts"), [("cleanrl", 1200), ("torchbeast", 1280), ("smarties", 5100)])
def test_the_newest_count_on_a_screen_is_found(name, counts):
    assert int(re.findall(programs.COUNT, PRINTED[name])[-1]) == counts
    assert len(re.findall(programs.COUNT, PRINTED[name])) == 2


def our_config(name):
    """The configuration of our program, with the fields that its flags change."""
    (path, scale), *changes = [
        re.fullmatch(r"--config\.?([\w.]*)=(.*)", flag).groups() for flag in programs.PEERS[name].ours
    ]
    assert path == ""
    path, _, scale = scale.partition(":")
    config = runpy.run_path(str(ROOT / path))["get_config"](scale)
    for field, text in changes:
        value = text if text.isidentifier() else ast.literal_eval(text)
        config.update_from_flattened_dict({field: value})
    return resolve(config)


def their_settings(name):
    return dict(word[2:].split("=") for word in programs.PEERS[name].theirs if "=" in word)


def test_cleanrl_learns_as_ours():
    config, theirs = our_config("cleanrl"), their_settings("cleanrl")
    assert (config.network.torso, config.env.task, config.loss.target) == ("nature", "pong", "double_dqn")
    assert theirs.pop("env-id") == "PongNoFrameskip-v4"
    learner, skip = config.learner, config.env.frame_skip
    assert {field: float(text) for field, text in theirs.items()} == {
        "batch-size": learner.batch_size * config.replay.steps,
        "train-frequency": learner.steps_per_update,
        "target-network-frequency": learner.target_period * learner.steps_per_update,
        "learning-rate": learner.learning_rate,
        "start-e": config.exploration.first,
        "end-e": config.exploration.last,
        "buffer-size": config.replay.frames / skip,
        "learning-starts": config.replay.first_frames / skip,
    }
    assert programs.PEERS["cleanrl"].size == 1 / skip


def test_monobeast_learns_as_ours():
    config, theirs = our_config("torchbeast"), their_settings("torchbeast")
    assert (config.network.torso, config.network.core_units, config.env.task) == ("shallow", 0, "pong")
    assert theirs.pop("env") == "PongNoFrameskip-v4"
    learner = config.learner
    assert int(theirs.pop("num_buffers")) >= 2 * learner.batch_size  # so that actors do not wait for a batch's
    assert {field: float(text) for field, text in theirs.items()} == {
        "num_actors": config.runtime.num_actors,
        "batch_size": learner.batch_size,
        "unroll_length": learner.unroll_length,
        "total_steps": config.num_env_frames / config.env.frame_skip,
        "learning_rate": learner.learning_rate,
        "epsilon": learner.rmsprop_epsilon,
        "entropy_cost": config.loss.entropy_cost,
        "baseline_cost": config.loss.baseline_cost,
    }
    assert programs.PEERS["torchbeast"].size == 1 / config.env.frame_skip


def test_smarties_learns_as_ours():
    config, theirs = our_config("smarties"), programs.SETTINGS
    learner, refer = config.learner, config.refer
    assert (learner.method, refer.rule, config.memory.prioritised) == ("vracer", "refer", False)
    assert theirs["nnLayerSizes"] == list(config.network.units)
    assert theirs["explNoise"] == pytest.approx(config.network.initial_variance**0.5)
    assert {field: theirs[field] for field in OURS_AND_THEIRS} == {
        "outWeightsPrefac": config.network.output_scale,
        "batchSize": learner.batch_size,
        "learnrate": learner.learning_rate,
        "epsAnneal": refer.annealing,
        "gamma": learner.discount,
        "clipImpWeight": refer.c,
        "penalTol": refer.max_far_policy_fraction,
        "obsPerStep": learner.time_steps_per_gradient,
        "minTotObsNum": config.memory.start_steps,
        "maxTotObsNum": config.memory.capacity,
    }


def test_the_environment_of_random_numbers_has_the_sizes_of_half_cheetah():
    text = (ROOT / "repro/benchmarks/peers/smarties/random_cheetah.cpp").read_text()
    states, actions, episode = map(int, re.search(r"STATES = (\d+), ACTIONS = (\d+), EPISODE = (\d+)", text).groups())
    env = gymnasium.make("HalfCheetah-v5")
    assert ((states,), (actions,), episode) == (
        env.observation_space.shape,
        env.action_space.shape,
        programs.EPISODE_STEPS,
    )
    assert env.spec.max_episode_steps == episode


def git(folder, *words):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    done = subprocess.run(["git", *identity, "-C", folder, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A repository with the commit of a peer, and a later one."""
    folder = tmp_path / "checkout"
    (folder / "cleanrl").mkdir(parents=True)
    (folder / "docs").mkdir()
    (folder / "cleanrl/dqn_atari.py").write_text("old\n")
    (folder / "docs/page.md").write_text("a page\n")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message=old")
    commit = git(folder, "rev-parse", "HEAD")
    (folder / "cleanrl/dqn_atari.py").write_text("new\n")
    git(folder, "commit", "--quiet", "--all", "--message=new")
    monkeypatch.setitem(programs.PEERS, "cleanrl", programs.PEERS["cleanrl"]._replace(commit=commit))
    return folder


def test_the_source_is_that_of_the_commit_whatever_is_checked_out(checkout, tmp_path):
    for source in (checkout, checkout / ".git"):
        tree = tmp_path / f"tree_{source.name}"
        programs.write_source("cleanrl", source, tree)
        assert {str(path.relative_to(tree)) for path in tree.rglob("*.*")} == {"cleanrl/dqn_atari.py"}
        assert (tree / "cleanrl/dqn_atari.py").read_text() == "old\n"


def test_a_source_that_lacks_files_is_a_sentence(checkout, tmp_path):
    blob = git(checkout, "rev-parse", f"{programs.PEERS['cleanrl'].commit}:cleanrl/dqn_atari.py")
    (checkout / ".git/objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(
        programs.PeerError, match=r"is missing files of its commit \w{7}, such as cleanrl/dqn_atari\.py; clone "
    ):
        programs.write_source("cleanrl", checkout, tmp_path / "tree")


@pytest.mark.parametrize("name", programs.PEERS)
def test_a_folder_or_a_commit_that_is_not_there_is_a_sentence(name, tmp_path):
    arguments = (f"--peer={name}", f"--out={tmp_path / 'out'}")
    for source, sentence in (
        (tmp_path / "none", f"there is no folder {tmp_path / 'none'}; clone https://github.com/"),
        (ROOT, f"has no commit {programs.PEERS[name].commit[:7]} of https://github.com/"),
    ):
        done = run_command(tmp_path, "repro.benchmarks.peers", *arguments, f"--source={source}")
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert done.stderr.startswith("repro.benchmarks.peers: ")
        assert sentence in done.stderr


def test_a_python_without_pytorch_is_a_sentence(tmp_path):
    with pytest.raises(programs.PeerError, match="python; install it with make benchmark-peer PEER=torchbeast"):
        programs.check_modules("torchbeast", tmp_path / "bin/python")
    with pytest.raises(
        programs.PeerError, match=r"cannot import torch \(ModuleNotFoundError: No module named 'torch'\)"
    ):
        programs.check_modules("torchbeast", Path(sys.executable))


def test_a_build_without_its_tools_or_source_is_a_sentence(tmp_path, monkeypatch):
    tools = tmp_path / "tools"
    tools.mkdir()
    monkeypatch.setenv("PATH", str(tools))
    with pytest.raises(programs.PeerError, match="^cmake is missing; on Debian apt-get install cmake g"):
        programs.build(tmp_path, tmp_path / "build")
    for tool in ("cmake", "make", "mpicxx"):
        (tools / tool).write_text("#!/bin/sh\necho 'Could NOT find BLAS (missing: BLAS_LIBRARIES)' >&2\nexit 1\n")
        (tools / tool).chmod(0o755)
    with pytest.raises(programs.PeerError, match=r"does not build \(Could NOT find BLAS .*\); on Debian apt-get"):
        programs.build(tmp_path, tmp_path / "build")


def test_commands_run_both_programs_where_nothing_else_is(tmp_path):
    (tmp_path / "ours").mkdir()
    ours, theirs = programs.make_commands("cleanrl", tmp_path / "source", tmp_path, Path("/env/bin/python"))
    assert not (tmp_path / "ours").exists()  # or an earlier run would go on
    assert shlex.split(ours)[:3] == [sys.executable, "-m", "repro.train"]
    assert shlex.split(ours)[-1] == f"--run_dir={tmp_path / 'ours'}"
    words = shlex.split(theirs)
    assert words[:5] == ["cd", str(tmp_path), "&&", "exec", "/env/bin/python"]
    assert Path(words[5]).name == "run_cleanrl.py"
    assert words[6:] == [str(tmp_path / "source"), *programs.PEERS["cleanrl"].theirs]


def test_smarties_and_ours_have_one_core_and_one_thread(tmp_path):
    ours, theirs = programs.make_commands("smarties", tmp_path / "source", tmp_path, Path("/env/bin/python"))
    assert '"learner": "VRACER"' in (tmp_path / "settings.json").read_text()
    pinned = re.compile(r"taskset --cpu-list (\d+) ")
    assert pinned.search(ours)[1] == pinned.search(theirs)[1]
    assert "OMP_NUM_THREADS=1" in theirs
    assert f"FIRST_STEPS={programs.START_STEPS + 1000} {tmp_path}/build/random_cheetah --nMasters=1" in theirs


def test_cleanrl_runs_as_it_is_and_its_steps_are_printed(tmp_path):
    torch = tmp_path / "modules/torch/utils"
    torch.mkdir(parents=True)
    for folder in (torch.parent, torch):
        (folder / "__init__.py").touch()
    (torch / "tensorboard.py").write_text(
        "class SummaryWriter:\n    def add_scalar(self, tag, value, step):\n        print('wrote', tag, value, step)\n"
    )
    for folder in ("cleanrl", "cleanrl_utils"):
        (tmp_path / folder).mkdir()
    (tmp_path / "cleanrl_utils/__init__.py").touch()
    (tmp_path / "cleanrl/dqn_atari.py").write_text(
        "import sys\nimport cleanrl_utils\nfrom torch.utils.tensorboard import SummaryWriter\n"
        "if __name__ == '__main__':\n    writer = SummaryWriter()\n    print(sys.argv[1:])\n"
        "    writer.add_scalar('charts/SPS', 22, 1100)\n    writer.add_scalar('losses/td_loss', 0.5, 1100)\n"
    )
    adapter = ROOT / "repro/benchmarks/peers/run_cleanrl.py"
    done = subprocess.run(
        [sys.executable, adapter, tmp_path, "--no-cuda"],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(tmp_path / "modules")},
    )
    assert done.stdout.splitlines() == [
        "['--no-cuda']",
        *("wrote charts/SPS 22 1100", "Steps 1100", "wrote losses/td_loss 0.5 1100"),
    ]


def test_monobeast_s_games_have_gym_s_former_interface(monkeypatch):
    gym = run_monobeast.make_gym()
    env = gym.make("PongNoFrameskip-v4")
    assert env.unwrapped is env
    assert env.spec.id == "PongNoFrameskip-v4"
    assert env.get_action_meanings()[:2] == ["NOOP", "FIRE"]
    env.seed(2**40)
    assert 1 <= env.np_random.randint(1, 31) <= 30
    first = env.reset()
    assert (first.shape, first.dtype) == ((210, 160, 3), np.uint8)
    observation, reward, done, info = env.step(0)
    assert (observation.shape, reward, done, info["lives"]) == ((210, 160, 3), 0.0, False, env.ale.lives())
    env.close()


def test_monobeast_s_wrappers_change_what_they_say():
    gym = run_monobeast.make_gym()
    inner = types.SimpleNamespace(reset=lambda: 1, step=lambda action: (2, 3.0, True, {"action": action}), lives=5)

    class Observed(gym.ObservationWrapper):
        def observation(self, observation):
            return observation * 10

    class Rewarded(gym.RewardWrapper):
        def reward(self, reward):
            return -reward

    env = gym.Wrapper(Rewarded(Observed(inner)))
    assert env.lives == 5
    assert env.reset() == 10
    assert env.step(4) == (20, -3.0, True, {"action": 4})


def test_monobeast_s_updates_are_printed(capsys):
    printer = run_monobeast.StepPrinter(xpid="x", xp_args={}, rootdir="~")
    printer.log({"step": 1280, "total_loss": -91.2})
    printer.close()
    assert capsys.readouterr().out == "Steps 1280\n"
