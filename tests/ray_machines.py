"""Trains on a Ray cluster of three machines, network namespaces here, and breaks it: `python -m tests.ray_machines`.

The head has no core for tasks, and the other two machines have some; a fourth, which is not part of the cluster, can
command. `actors`: a learner on the fourth machine, by `ray://`, with actors and an evaluator on the cluster.
`learners`: two synchronous learners and their actors, commanded by the head. `replay`: a learner without actors, on the
head, whose replay is in a process of its own. `runs`: whole runs, commanded by the head. Prints what `tests.machines`
prints, of one cluster. Needs Ray and the right to make namespaces.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from repro.launch.ray_cluster import AUTO
from tests.machines import (
    CUT_SECONDS,
    EVALUATION,
    GAMES,
    SAVING_IMPALA,
    Outcome,
    end_by_signal,
    evaluate,
    go_on,
    resume,
    sends,
    started,
)
from tests.support.commanded_run import SECONDS, CommandedRun, wait
from tests.support.faulty_environments import FOLDER_VARIABLE
from tests.support.network import machines, refusal
from tests.support.ray_cluster import CLIENT, HEAD, RayCluster, ray_cluster

CORES = (0, 3, 3)
"""Of the head and of the other machines of the cluster."""
BETWEEN = "what came after the last checkpoint that came back"
OUTSIDE = 3
"""Machine that is not part of it."""
RUN = "runs/refer/figure_4_vracer/InvertedPendulum/vracer_refer/smoke"


@contextmanager
def running(cluster: RayCluster, machine: int, *settings: str) -> Iterator[tuple[CommandedRun, subprocess.Popen]]:
    """A run that a machine commands and that has begun to learn."""
    with tempfile.TemporaryDirectory() as folder:
        command = [*cluster.command(machine), sys.executable, "-m", "tests.support.placed_train"]
        run = CommandedRun(Path(folder), command, cluster.environment, SAVING_IMPALA)
        with started(run, *settings) as process:
            yield run, process


def end(cluster: RayCluster, run: CommandedRun, process: subprocess.Popen) -> tuple[dict, Outcome]:
    """Ends a run by a signal; its totals, and what came of it."""
    totals, took = end_by_signal(run, process, cluster.roles)
    return totals, Outcome("SIGTERM", f"saved, and nothing is left after {took:.1f} s", "open games")


def break_actors(cluster: RayCluster) -> Iterator[Outcome]:
    """Faults of actors and an evaluator, and of their machines."""
    settings = "--config.runtime.num_actors=2", "--config.runtime.evaluator_episodes=4", f"--cluster={CLIENT}"
    with running(cluster, OUTSIDE, *settings) as (run, process):
        wait(lambda: cluster.roles("play", 1) and cluster.roles("play", 2), "actors are not on two machines")
        evaluate(run)

        os.kill(cluster.role("play", 2), signal.SIGKILL)
        run.wait_for(
            "restart 1 by this process): ActorDiedError: The actor is dead because its worker process has died."
        )
        wait(lambda: len(cluster.roles("play")) == 2, "no other actor starts")
        go_on(run)
        yield Outcome("an actor is killed", "another is started, the run goes on", GAMES)

        os.kill(cluster.role("evaluate"), signal.SIGKILL)
        run.wait_for("The evaluator was restarted (restart 1 by this process): ActorDiedError")
        evaluate(run)
        yield Outcome("an evaluator is killed", "another is started", EVALUATION)

        away = cluster.made.cables[1]
        restarts = run.count("was restarted")
        away.is_up = False
        time.sleep(CUT_SECONDS)
        away.is_up = True
        sends(away)
        go_on(run)
        assert run.count("was restarted") == restarts, run.stderr.read_text()
        yield Outcome(f"a machine is cut off for {CUT_SECONDS:g} s", "the run goes on, and later with it", "nothing")

        lost = len(cluster.roles("play", 1))
        began = time.monotonic()
        cluster.made.lose(1)
        wait(lambda: len(cluster.roles("play", 2)) == 2, "actors do not start elsewhere")
        took = time.monotonic() - began
        assert run.count("The actor died because its node has died") >= lost, run.stderr.read_text()
        go_on(run)
        evaluate(run)
        happened = f"after {took:.0f} s Ray gives it up, and its actors start elsewhere"
        yield Outcome("a machine is gone", happened, GAMES)

        cluster.start({1: CORES[1]})
        totals, outcome = end(cluster, run, process)
        assert totals["actor_restarts"] == 1 + lost, totals
        assert totals["machines"] == 3, totals
        yield outcome


def break_learners(cluster: RayCluster) -> Iterator[Outcome]:
    """Faults of synchronous learners."""
    settings = "--config.runtime.num_actors=2", "--config.runtime.num_learners=2", f"--cluster={AUTO}"
    with running(cluster, HEAD, *settings) as (run, process):
        saved = run.saved_updates
        os.kill(cluster.role("learn"), signal.SIGKILL)
        run.wait_for("Learner 1 is gone: ActorDiedError")
        yield Outcome("a learner is killed", "all learners start again", resume(run, 0, saved))
        totals, outcome = end(cluster, run, process)
        assert totals["learners"] == 2, totals
        assert totals["machines"] == 3, totals
        yield outcome

    with running(cluster, OUTSIDE, *settings[:-1], f"--cluster={CLIENT}") as (run, process):
        go_on(run)
        totals, outcome = end(cluster, run, process)
        assert totals["learners"] == 2, totals
        assert totals["machines"] == 3, totals
        yield outcome._replace(fault="SIGTERM to a chief outside the cluster")


def break_replay(cluster: RayCluster) -> Iterator[Outcome]:
    """Kills a replay in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.txt"
        command = [*cluster.command(HEAD), sys.executable, "-m", "tests.support.ray_replay"]
        with log.open("w") as file:
            learner = subprocess.Popen(command, stdout=file, stderr=file, env=cluster.environment)
        try:
            wait(lambda: "Sequences: " in log.read_text() or learner.poll() is not None, "no replay is served")
            assert learner.poll() is None, log.read_text()
            os.kill(cluster.role("store"), signal.SIGKILL)
            assert learner.wait(timeout=SECONDS) == 0, log.read_text()
        finally:
            learner.kill()
        before, after = (int(count) for count in re.findall(r"Sequences: (\d+)", log.read_text()))
        assert before == after > 0, log.read_text()
        assert "The replay was restarted (restart 1 by this process): ActorDiedError" in log.read_text()
        wait(lambda: not cluster.roles(), "a replay is left")
        yield Outcome("a replay is killed", "another is started with what was saved", "nothing")


def break_runs(cluster: RayCluster) -> Iterator[Outcome]:
    """Faults of whole runs and of their machines."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = folder / "log.txt"

        def start() -> subprocess.Popen:
            roots = [f"--results_dir={folder / 'results'}", f"--runs_dir={folder / 'runs'}", f"--cluster={AUTO}"]
            command = [sys.executable, "-m", "repro.reproduce", "--paper=refer", "--scale=smoke", "--seeds=2", *roots]
            with log.open("a") as file:
                return subprocess.Popen(
                    [*cluster.command(HEAD), *command], stdout=file, stderr=file, env=cluster.environment
                )

        def saved() -> int:
            return len(list((folder / RUN).glob("seed_*/checkpoints/checkpoint_*")))

        def records() -> list[Path]:
            return list((folder / "results").glob("*/*/*/*/seed_*.json"))

        head = start()
        try:
            wait(lambda: saved() > 0 or head.poll() is not None, "nothing is saved")
            assert head.poll() is None, log.read_text()
            machine, other = (1, 2) if cluster.trainings(1) else (2, 1)
            cluster.made.lose(machine)
            others = cluster.trainings(other)  # they would be at their end before the machine is given up
            for pid in others:
                os.kill(pid, signal.SIGSTOP)
            wait(lambda: "it continues elsewhere" in log.read_text(), "a run is not started again")
            for pid in others:
                os.kill(pid, signal.SIGCONT)
            yield Outcome("the machine of a whole run is gone", "the run goes on elsewhere", BETWEEN)

            head.send_signal(signal.SIGTERM)
            assert head.wait(timeout=SECONDS) == 0, log.read_text()
            assert "2 of 2 runs are not finished; the same command resumes them." in log.read_text()
            wait(lambda: not cluster.trainings(), "trainings do not end")
            yield Outcome("SIGTERM", "saved; the same command goes on", "nothing")

            cluster.start({machine: CORES[machine]})
            head = start()
            wait(lambda: cluster.trainings() or head.poll() is not None, "no run goes on")
            assert head.poll() is None, log.read_text()
            head.kill()
            began = time.monotonic()
            wait(lambda: not cluster.trainings(), "trainings do not end")
            happened = f"trainings end after {time.monotonic() - began:.0f} s; the same command goes on"
            yield Outcome("the command is killed", happened, BETWEEN)

            head = start()
            wait(lambda: cluster.trainings(seed=2) or head.poll() is not None, "no run goes on")
            for pid in cluster.trainings(seed=2):  # the other run has the cores to itself
                os.kill(pid, signal.SIGSTOP)
            wait(lambda: records() or head.poll() is not None, "no run ends", 4 * SECONDS)
            assert records(), log.read_text()
            yield Outcome("none", "a run ends, and the head has its record", "nothing")
        finally:
            head.kill()


SCENARIOS: dict[str, Callable[[RayCluster], Iterator[Outcome]]] = {
    "actors": break_actors,
    "learners": break_learners,
    "replay": break_replay,
    "runs": break_runs,
}


def outcomes() -> Iterator[tuple[str, Outcome]]:
    """What comes of all scenarios, one after another, on one cluster."""
    with (
        tempfile.TemporaryDirectory() as faults,
        machines(OUTSIDE + 1) as made,
        ray_cluster(made, CORES, {FOLDER_VARIABLE: faults}) as cluster,
    ):
        for name, scenario in SCENARIOS.items():
            for outcome in scenario(cluster):
                yield name, outcome


def main() -> None:
    if reason := refusal():
        sys.exit(reason)
    for name, outcome in outcomes():
        print(f"{name}: {outcome.fault}: {outcome.happened}; lost: {outcome.lost}", flush=True)


if __name__ == "__main__":
    main()
