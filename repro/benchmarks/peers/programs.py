"""Settings of each of the other programs, and of this suite beside it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from repro.environments.dmlab_build.source import run_git, write_tree

HERE = Path(__file__).resolve().parent
COUNT = "Steps ([0-9]+)"
"""Regular expression of the agent steps that each program prints once it learns, by our adapter or environment."""
START_STEPS = 2**14
"""Steps of random play before V-RACER learns, in both programs; the last episode is played to its end."""
EPISODE_STEPS = 1000
"""Length of an episode of the environment that returns random numbers."""
SETTINGS = {
    "learner": "VRACER",
    "returnsEstimator": "retrace",
    "ERoldSeqFilter": "oldest",
    "dataSamplingAlgo": "uniform",
    "nnLayerSizes": [128, 128],
    "nnFunc": "SoftSign",
    "outWeightsPrefac": 0.1,
    "explNoise": 0.2**0.5,
    "batchSize": 256,
    "learnrate": 1e-4,
    "epsAnneal": 5e-7,
    "gamma": 0.995,
    "lambda": 1,
    "clipImpWeight": 4,
    "penalTol": 0.1,
    "obsPerStep": 1,
    "minTotObsNum": START_STEPS,
    "maxTotObsNum": 2**18,
}
"""Settings of smarties, in its own names: V-RACER with ReF-ER as in `paper_configs/refer/figure_4_vracer.py`."""
DEBIAN = "on Debian apt-get install cmake g++ libopenmpi-dev libopenblas-dev brings what it needs."


class PeerError(RuntimeError):
    """Something is missing or fails; the message is one sentence that says what, and what to do."""


class Peer(NamedTuple):
    """Another program, and this suite's training of the same agent.

    address, commit: address and commit of its source.
    paths: files and folders of the source that are used.
    ours: flags of `repro.train`.
    size: agent steps per unit of our count.
    theirs: arguments of the program.
    script: our adapter, which its Python runs; None for a program that is built with an environment of ours.
    modules: modules that its Python must have.
    one_core: whether both run on the same single core.
    """

    address: str
    commit: str
    paths: tuple[str, ...]
    ours: tuple[str, ...]
    size: float
    theirs: tuple[str, ...]
    script: str | None = None
    modules: tuple[str, ...] = ()
    one_core: bool = False


PEERS = {
    "cleanrl": Peer(
        address="https://github.com/vwxyzjn/cleanrl",
        commit="fe8d8a03c41a7ef5b523e2e354bd01c363e786bb",
        paths=("cleanrl", "cleanrl_utils"),
        ours=(
            "--config=paper_configs/ctrace/dqn.py:paper",
            "--config.agent=double_dqn",
            "--config.env.task=pong",
            "--config.variants.double_dqn.learner.batch_size=32",
            "--config.exploration.first=0.1",
            "--config.replay.frames=400_000",
            "--config.replay.first_frames=4_000",
        ),
        size=0.25,
        theirs=(
            "--env-id=PongNoFrameskip-v4",
            "--no-cuda",
            "--batch-size=32",
            "--train-frequency=4",
            "--target-network-frequency=40000",
            "--learning-rate=1e-5",
            "--start-e=0.1",
            "--end-e=0.1",
            "--buffer-size=100000",
            "--learning-starts=1000",
        ),
        script="run_cleanrl.py",
        modules=("torch", "gymnasium", "ale_py", "cv2", "tensorboard", "tyro"),
    ),
    "torchbeast": Peer(
        address="https://github.com/facebookresearch/torchbeast",
        commit="0af07b051a2176a8f9fd20c36891ba2bba6bae68",
        paths=("torchbeast",),
        ours=("--config=paper_configs/impala/atari_shallow.py:paper", "--config.env.task=pong"),
        size=0.25,
        theirs=(
            "--env=PongNoFrameskip-v4",
            "--disable_cuda",
            "--disable_checkpoint",
            "--num_actors=2",
            "--num_buffers=64",
            "--batch_size=32",
            "--unroll_length=20",
            "--total_steps=50000000",
            "--learning_rate=0.0006",
            "--epsilon=0.01",
            "--entropy_cost=0.01",
            "--baseline_cost=0.5",
        ),
        script="run_monobeast.py",
        modules=("torch", "gymnasium", "ale_py", "cv2"),
    ),
    "smarties": Peer(
        address="https://github.com/cselab/smarties",
        commit="34c53d1ef03a324b20b418eaac6343ba44b6c966",
        paths=("CMakeLists.txt", "include", "source"),
        ours=(
            "--config=paper_configs/refer/figure_4_vracer.py:paper",
            "--config.env.task=HalfCheetah",
            f"--config.memory.start_steps={START_STEPS}",
        ),
        size=1.0,
        theirs=(
            "--nMasters=1",
            "--nEnvironments=1",
            "--nThreads=1",
            "--nTrainSteps=10000000",
            "--restart=none",
            "--logAllSamples=0",
            "--redirectAppStdoutToFile=0",
        ),
        one_core=True,
    ),
}


def write_source(name: str, source: Path, tree: Path) -> None:
    """Writes the used files of a peer's source at its commit.

    Args:
        name: name of the peer.
        source: checkout, or git directory, bare or not.
        tree: folder to write to.

    Raises:
        PeerError: there is no such folder, or it is no repository with the commit and all of its files.
    """
    peer = PEERS[name]
    if not source.is_dir():
        raise PeerError(f"there is no folder {source}; clone {peer.address} and give its path.")
    try:
        run_git(source.resolve(), "rev-parse", "--verify", f"{peer.commit}^{{commit}}")
    except subprocess.CalledProcessError:
        raise PeerError(
            f"{source} has no commit {peer.commit[:7]} of {peer.address}; fetch it, or clone again."
        ) from None
    missing = write_tree(source.resolve(), peer.commit, tree, peer.paths)
    if missing:
        raise PeerError(
            f"{source} is missing files of its commit {peer.commit[:7]}, such as {missing[0]}; clone {peer.address}."
        )


def check_modules(name: str, python: Path) -> None:
    """Checks that a peer's Python has all modules that it needs.

    Raises:
        PeerError: there is no such Python, or it cannot import a module.
    """
    if not python.is_file():
        raise PeerError(f"there is no {python}; install it with make benchmark-peer PEER={name}.")
    for module in PEERS[name].modules:
        done = subprocess.run([python, "-c", f"import {module}"], capture_output=True, text=True, check=False)
        if done.returncode:
            why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise PeerError(f"{python} cannot import {module} ({why}); install requirements-peers.lock with it.")


def build(tree: Path, folder: Path) -> Path:
    """Compiles smarties with an environment that returns random numbers, and returns the path of the program.

    Args:
        tree: folder of its source.
        folder: folder of the build.

    Raises:
        PeerError: a tool is missing, or the build fails.
    """
    for tool in ("cmake", "make", "mpicxx"):
        if shutil.which(tool) is None:
            raise PeerError(f"{tool} is missing; {DEBIAN}")
    configure = ["cmake", f"-S{HERE / 'smarties'}", f"-B{folder}", f"-DSOURCE={tree}", "-DCMAKE_BUILD_TYPE=Release"]
    for command in (configure, ["cmake", "--build", os.fspath(folder), f"--parallel={os.cpu_count()}"]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            errors = [line.strip() for line in done.stderr.splitlines() if "error" in line.lower() or "NOT" in line]
            raise PeerError(f"smarties does not build ({[*errors, 'no reason given'][0]}); {DEBIAN}")
    return folder / "random_cheetah"


def make_commands(name: str, tree: Path, folder: Path, python: Path) -> tuple[str, str]:
    """Returns the command lines of this suite and of a peer.

    Args:
        name: name of the peer.
        tree: folder of its source.
        folder: absolute path of the folder in which it runs; a build is in `build`, and an earlier run of ours in
            `ours` is removed.
        python: absolute path of its Python.
    """
    peer = PEERS[name]
    shutil.rmtree(folder / "ours", ignore_errors=True)
    ours = [sys.executable, "-m", "repro.train", *peer.ours, f"--run_dir={folder / 'ours'}"]
    if peer.script is None:
        (folder / "settings.json").write_text(json.dumps(SETTINGS, indent=1) + "\n")
        threads = ["env", "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1", f"FIRST_STEPS={START_STEPS + EPISODE_STEPS}"]
        theirs = [*threads, os.fspath(folder / "build/random_cheetah"), *peer.theirs]
    else:
        theirs = [os.fspath(python), os.fspath(HERE / peer.script), os.fspath(tree), *peer.theirs]
    if peer.one_core:
        core = ["taskset", "--cpu-list", str(min(os.sched_getaffinity(0)))]
        ours, theirs = core + ours, core + theirs
    return shlex.join(ours), f"cd {shlex.quote(os.fspath(folder))} && exec {shlex.join(theirs)}"
