"""Trains on three machines, network namespaces here, and breaks what can break: `python -m tests.machines`.

    python -m tests.machines [--seconds=30] [--only=actors,learners]

Each run is started, watched and ended from outside, as a user would. `actors`: one learner, with an actor on each
machine. `evaluator`: a learner with an actor, and an evaluator on another machine. `learners`: two synchronous
learners on two machines; the actor of the chief is on the third. `replay`: R2D2, whose learner, actors and replay are
on three machines. `weights`: two learners on two machines make the updates of one. Prints for each fault what happened
and what was lost, and ends with code 1 where that is not what docs/cluster_faults.md says. Needs the right to make
namespaces.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from repro.training.learner_group import free_port
from repro.training.run_directory import read_progress
from tests.support.commanded_run import IMPALA, LONG, R2D2, CommandedRun, check_lost, wait
from tests.support.forked_run import Started
from tests.support.forked_train import run_command
from tests.support.network import ADDRESSES, Cable, Machines, machines, refusal
from tests.support.placed_train import VARIABLE, run_placed

DELAY, LOSS = 0.1, 0.02
"""Of the slow cable: seconds of each packet, and probability that it is lost."""
ENVS = 16
"""Environments of an actor."""
EVALUATOR = REPLAY = 2
"""Machine of an evaluator, and of a replay in a process of its own."""
INTERVAL = 1.0
"""Seconds between checkpoints."""
OPTIONS = (LONG, "--config.runtime.schedule=processes")
SAVING_IMPALA = (*IMPALA, f"--config.runtime.checkpoint_seconds={INTERVAL}")
R2D2_FIELDS = ("runtime.num_actors=2", f"runtime.checkpoint_seconds={INTERVAL}", "replay.first_frames=500")
SAVING_R2D2 = (*R2D2, *(f"--config.variants.r2d2_ctrace.{field}" for field in R2D2_FIELDS))
GAMES = "its games, an unroll of each"
EVALUATION = "the evaluation under way"
UPDATES = "what came after the last checkpoint, {:,} steps or more; open games"
END_SECONDS = 30.0
"""From a signal to the end of everything."""
CUT_SECONDS = 5.0
"""For which a learner is cut off: so short that it is not given up."""
HOLD_SECONDS = 5.0
"""Until a run waits for actors that were stopped: unrolls that wait are learned from first."""
MORE_ROWS = "--config.num_env_steps=400000"
"""The log has a row for each of 500 parts of the budget."""
SILENT = "Learner 1 is gone: it gave no sign of life for [0-9]+ seconds. All learners start again"


class Outcome(NamedTuple):
    """What came of a fault, in words."""

    fault: str
    happened: str
    lost: str


class PlacedRun(CommandedRun):
    """A run on machines.

    Args:
        made: the machines.
        folder: for the run.
        actors: machine of each of the chief's.
        agent: flags.
    """

    def __init__(
        self, made: Machines, folder: Path, actors: tuple[int, ...], agent: Sequence[str] = SAVING_IMPALA
    ) -> None:
        places = {"names": made.names, "actors": actors, "evaluator": EVALUATOR, "replay": REPLAY}
        super().__init__(folder, (), {VARIABLE: json.dumps(places)}, agent)

    def _open(self, command: Sequence[str]) -> Started:
        return Started(run_placed, command, self.stderr, self._environment)


@contextmanager
def running(
    made: Machines, actors: tuple[int, ...], *settings: str, agent: Sequence[str] = SAVING_IMPALA
) -> Iterator[tuple[PlacedRun, subprocess.Popen]]:
    """A run that has begun to learn."""
    with tempfile.TemporaryDirectory() as folder:
        run = PlacedRun(made, Path(folder), actors, agent)
        with started(run, *settings) as process:
            yield run, process


@contextmanager
def started(run: CommandedRun, *settings: str) -> Iterator[subprocess.Popen]:
    """The process of a run that has begun to learn, and that is killed in the end."""
    try:
        process = run.start(*OPTIONS, *settings)
        run.wait_for_more_rows(1)
        go_on(run)
        yield process
    finally:
        run.kill()


def go_on(run: CommandedRun, count: int = 2) -> float:
    """Waits until a run has saved so many times, each after other updates; its updates a second.

    The first of them may have begun before the call, the second has not.
    """
    began, first = time.monotonic(), run.saved_updates
    for _ in range(count):
        before = run.saved_updates
        run.wait(lambda: run.saved_updates > before, "the run does not go on")
    return (run.saved_updates - first) / (time.monotonic() - began)


def sends(cable: Cable, size: int = 100_000) -> None:
    """Waits until a machine has sent so many bytes more."""
    target = cable.sent + size
    wait(lambda: cable.sent > target, "a machine sends nothing")


def end(made: Machines, run: CommandedRun, process: subprocess.Popen, others: Sequence[int] = ()) -> tuple[dict, float]:
    """Ends a run as `end_by_signal` does, until no machine has a process."""
    return end_by_signal(run, process, lambda: any(made.pids(machine) for machine in range(3)), others)


def end_by_signal(
    run: CommandedRun, process: subprocess.Popen, is_left: Callable[[], object], others: Sequence[int] = ()
) -> tuple[dict, float]:
    """Ends a run; its totals, and the seconds until nothing is left of it.

    Args:
        is_left: whether something is.
        others: processes that get the signal, too, and before.
    """
    began = time.monotonic()
    for pid in (*others, process.pid):
        os.kill(pid, signal.SIGTERM)
    code, stderr = run.end(process)
    assert code == 0, stderr
    assert "Stopped and saved." in stderr, stderr
    wait(lambda: not is_left(), "processes are left")
    seconds = time.monotonic() - began
    assert seconds < END_SECONDS, seconds
    return json.loads((run.folder / "totals.json").read_text()), seconds


def break_actors(made: Machines, seconds: float) -> Iterator[Outcome]:
    """Faults of actors and of their machines."""
    away = made.cables[2]
    with running(made, (0, 1, 2), "--config.runtime.num_actors=3") as (run, process):
        for machine in (1, 2):
            sends(made.cables[machine])

        os.kill(made.pids(2)[0], signal.SIGKILL)
        run.wait_for("Actor 2 was restarted (restart 1 by this process): it ended with code -9")
        sends(away)
        yield Outcome("an actor is killed", "another is started, the run goes on", GAMES)

        updates, sent = run.saved_updates, away.sent
        away.is_up = False
        time.sleep(seconds)
        go_on(run)
        learned, came = run.saved_updates - updates, away.sent - sent
        away.is_up = True
        sends(away)
        yield Outcome(f"a machine is cut off for {seconds:g} s", f"{learned} updates meanwhile", "nothing")

        for cable in made.cables[1:]:
            cable.delay, cable.loss = DELAY, LOSS
        rate = go_on(run)
        end_of_delay = time.monotonic() + seconds
        while time.monotonic() < end_of_delay:
            sends(away, 10_000)
        for cable in made.cables[1:]:
            cable.delay = cable.loss = 0.0
        assert came < 10_000, came
        assert run.count("was restarted") == 1, run.stderr.read_text()
        yield Outcome(
            f"{1000 * DELAY:g} ms and {LOSS:.0%} loss for {seconds:g} s", f"{rate:.0f} updates a second", "nothing"
        )

        (run.folder / "gone_2").touch()
        made.lose(2)
        run.wait_for("Actor 2 was restarted (restart 2 by this process)")
        go_on(run)
        yield Outcome(
            "a machine is gone", "its actor starts elsewhere, the run goes on", "its games, an unroll of each"
        )

        totals, took = end(made, run, process)
        away.is_up = True
        assert totals["actor_restarts"] == 2, totals
        assert totals["machines"] == 3, totals
        lost = totals["lost"]
        assert lost["games"] == 2 * ENVS, lost
        assert 2 * ENVS <= lost["unrolls"] <= 4 * ENVS, lost
        counted = f"altogether counted: {lost['games']} games, {lost['unrolls']} unrolls"
        yield Outcome("SIGTERM", f"saved, and nothing is left after {took:.1f} s", counted)


def break_evaluator(made: Machines, seconds: float) -> Iterator[Outcome]:
    """Faults of an evaluator and of its machine."""
    cable, settings = made.cables[EVALUATOR], ("--config.num_env_steps=800000", "--config.runtime.evaluator_episodes=4")
    with running(made, (1,), "--config.runtime.num_actors=1", *settings) as (run, process):
        evaluate(run)
        os.kill(made.pids(EVALUATOR)[0], signal.SIGKILL)
        run.wait_for("The evaluator was restarted (restart 1 by this process): it ended with code -9")
        evaluate(run)
        yield Outcome("an evaluator is killed", "another is started", EVALUATION)

        rows = evaluations(run)
        cable.is_up = False
        time.sleep(seconds)
        go_on(run)
        came = evaluations(run) - rows
        cable.is_up = True
        evaluate(run, 2)
        assert came <= 1, came
        assert run.count("was restarted") == 1, run.stderr.read_text()
        yield Outcome(f"it is cut off for {seconds:g} s", "the run goes on, and later the evaluator", "nothing")

        cable.delay, cable.loss = DELAY, LOSS
        evaluate(run)
        cable.delay = cable.loss = 0.0
        happened = "the run goes on, and so does the evaluator"
        yield Outcome(f"{1000 * DELAY:g} ms and {LOSS:.0%} loss", happened, "nothing")

        (run.folder / f"gone_{EVALUATOR}").touch()
        made.lose(EVALUATOR)
        evaluate(run)
        yield Outcome("its machine is gone", "another is started elsewhere", EVALUATION)

        totals, took = end(made, run, process)
        cable.is_up = True
        assert totals["evaluator_restarts"] == 2, totals
        assert not {"actor_restarts", "lost"} & set(totals), totals
        yield Outcome("SIGTERM", f"saved, and nothing is left after {took:.1f} s", EVALUATION)


def evaluations(run: CommandedRun) -> int:
    """That a run has logged."""
    return len(read_progress(run.run_dir / "evaluations.csv"))


def evaluate(run: CommandedRun, count: int = 1) -> None:
    """Waits until a run has logged so many evaluations more."""
    target = evaluations(run) + count
    run.wait(lambda: evaluations(run) >= target, "nothing is evaluated")


def break_learners(made: Machines, seconds: float) -> Iterator[Outcome]:
    """Faults of synchronous learners and of their machines."""
    settings = "--config.runtime.num_actors=2", "--config.runtime.num_learners=2"
    other = made.cables[1]
    with running(made, (2,), *settings) as (run, process):
        run.wait(lambda: run.saved_updates > 0, "nothing is saved")
        saved = run.saved_updates
        os.kill(_pids(made, 1, "repro.learner")[0], signal.SIGKILL)
        run.wait_for("Learner 1 is gone: it ended with code -9")
        lost = resume(run, 0, saved)
        yield Outcome("a learner is killed", "all learners start again", lost)

        for cable in (other, made.cables[2]):
            cable.delay, cable.loss = DELAY, LOSS
        rate = go_on(run)
        for cable in (other, made.cables[2]):
            cable.delay = cable.loss = 0.0
        go_on(run)
        assert run.count("start again") == 1, run.stderr.read_text()
        yield Outcome(f"{1000 * DELAY:g} ms and {LOSS:.0%} loss", f"{rate:.1f} updates a second", "nothing")

        other.is_up = False
        time.sleep(CUT_SECONDS)
        other.is_up = True
        go_on(run)
        assert run.count("start again") == 1, run.stderr.read_text()
        yield Outcome(f"a learner is cut off for {CUT_SECONDS:g} s", "updates wait, and the run goes on", "nothing")

        took, lost = cut_off_learner(made, run)
        happened = f"all learners start again after {took:.0f} s, with it once it is back"
        yield Outcome("a learner is cut off until it is given up", happened, lost)

        for phase, held in (("waits for its actor", 1), ("is in an update", 2)):
            took, lost = stop_learner(made, run, _pids(made, held, "repro.actor"), is_in_update=held != 1)
            happened = f"all learners start again after {took:.0f} s"
            yield Outcome(f"a learner is stopped that {phase}", happened, lost)

        process, outcome = kill(made, run, process, *settings)
        yield outcome._replace(fault="the chief is killed")

        totals, took = end(made, run, process, _pids(made, 1, "repro.learner"))
        assert totals["learners"] == 2, totals
        assert totals["machines"] == 3, totals
        assert "lost" not in totals, totals
        yield Outcome("SIGTERM, to both", f"saved, and nothing is left after {took:.1f} s", "open games")


def break_replay(made: Machines, seconds: float) -> Iterator[Outcome]:
    """Faults of a replay in a process of its own, and of its learner."""
    del seconds
    settings = MORE_ROWS, "--config.variants.r2d2_ctrace.runtime.replay_gb=1.0"
    with running(made, (1, 1), *settings, agent=SAVING_R2D2) as (run, process):
        for machine in (1, REPLAY):
            sends(made.cables[machine])
        os.kill(_pids(made, REPLAY, "--stores=True")[0], signal.SIGKILL)
        run.wait_for("The replay was restarted (restart 1 by this process): it ended with code -9")
        began_again = "The replay starts again from the last checkpoint; ([0-9]+) sequences are lost"
        run.wait(lambda: run.count(began_again), "the replay does not begin again")
        lost = int(re.findall(began_again, run.stderr.read_text())[0])
        go_on(run)
        yield Outcome("a replay is killed", "another is started, the run goes on", f"{lost} sequences")

        process, outcome = kill(made, run, process, *settings)
        yield outcome._replace(fault="a learner with its replay elsewhere is killed")

        totals, took = end(made, run, process, _pids(made, REPLAY, "--stores=True"))
        assert totals["machines"] == 2, totals
        assert totals["replay_restarts"] == 1, totals
        assert totals.get("lost", {}).get("sequences", 0) == lost, totals
        log = (run.run_dir / "actors" / "replay.txt").read_text()
        # None was ended by a signal that was for the learner, too.
        assert log.count("The connection to the learner ended: ") == 2, log
        yield Outcome("SIGTERM, to both", f"saved, and nothing is left after {took:.1f} s", "open games")


def kill(
    made: Machines, run: CommandedRun, process: subprocess.Popen, *settings: str
) -> tuple[subprocess.Popen, Outcome]:
    """Kills the process that was commanded, and gives the same command again; its process, and what came of it."""
    saved = run.saved_updates
    process.kill()
    process.wait()
    began = time.monotonic()
    wait(lambda: not any(made.pids(machine) for machine in range(3)), "learners or actors do not end")
    left = time.monotonic() - began
    assert left < END_SECONDS, left
    rows = read_progress(run.progress)
    process = run.start(*OPTIONS, *settings)
    lost = resume(run, 0, saved, rows)
    return process, Outcome("it is killed", f"all else ends in {left:.1f} s, the same command goes on", lost)


def cut_off_learner(made: Machines, run: CommandedRun) -> tuple[float, str]:
    """Cuts off a learner of two, on the second machine, until it is given up; the seconds until then, what was lost."""
    saved, begun, lines = run.saved_updates, run.count("Resuming "), run.count(SILENT)
    began = time.monotonic()
    made.cables[1].is_up = False
    run.wait(lambda: run.count(SILENT) > lines, "a learner that is cut off is not noticed")
    took = time.monotonic() - began
    made.cables[1].is_up = True
    return took, resume(run, begun, saved)


def stop_learner(made: Machines, run: CommandedRun, actors: Sequence[int], is_in_update: bool) -> tuple[float, str]:
    """Stops a learner of two in a phase that the run is held in by stopping actors.

    Returns the seconds until it is given up, and what was lost.

    Args:
        made: the machines; the learner is on the second.
        run: that learns.
        actors: processes: all of the learner, which waits for them then, or all of the chief.
        is_in_update: whether they are the chief's; the learner, which has its share, waits in the update then.
    """
    (learner,), saved, begun = _pids(made, 1, "repro.learner"), run.saved_updates, run.count("Resuming ")
    lines = run.count(SILENT)
    for pid in actors:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(HOLD_SECONDS)
    os.kill(learner, signal.SIGSTOP)
    began = time.monotonic()
    if is_in_update:
        _go_on_again(actors)
    run.wait(lambda: run.count(SILENT) > lines, "a stopped learner is not noticed")
    took = time.monotonic() - began
    _go_on_again(actors)
    return took, resume(run, begun, saved)


def resume(run: CommandedRun, begun: int, saved: int, rows: Sequence[Mapping[str, float]] | None = None) -> str:
    """Waits until a run goes on again that a fault has ended just now; checks what it lost, and says it.

    Args:
        run: that has not read its log again yet.
        begun: how often the run had resumed.
        saved: updates in the last checkpoint before the fault, at least.
        rows: of its log before; None: those that it has now.
    """
    rows = read_progress(run.progress) if rows is None else rows
    run.wait(lambda: run.count("Resuming ") > begun, "the run does not go on")
    resumed, lost = check_lost(run.stderr.read_text(), rows, INTERVAL)
    assert resumed >= saved, (resumed, saved)
    go_on(run)
    return UPDATES.format(lost)


def _go_on_again(pids: Sequence[int]) -> None:
    """Has processes go on that were stopped, so far as they are there."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def _pids(made: Machines, machine: int, module: str) -> list[int]:
    """Processes of a module on a machine."""
    commands = {pid: Path(f"/proc/{pid}/cmdline").read_text().split("\0") for pid in made.pids(machine)}
    return [pid for pid, command in commands.items() if module in command]


def compare_weights(made: Machines, seconds: float) -> Iterator[Outcome]:
    """Two learners on two machines against one with the whole batch."""
    del seconds
    with tempfile.TemporaryDirectory() as folder:
        chief, other = learn_together(made, Path(folder))
    largest = 0.0
    for name in chief.files:
        if re.fullmatch(r"one_(impala|stacx)_[0-9]+", name):
            together = name.removeprefix("one_")
            np.testing.assert_array_equal(chief[together], other[together])
            largest = max(largest, float(np.abs(chief[together] - chief[name]).max()))
    assert 0.0 < largest < 1e-5, largest
    yield Outcome("none", f"weights of two learners are those of one but for {largest:.1e}", "nothing")


def learn_together(made: Machines | None, folder: Path) -> list[Mapping[str, np.ndarray]]:
    """What `tests.training.two_learners` finds, first the chief.

    Args:
        made: machines of the learners; None for the one that this is.
        folder: for what they find.
    """
    addresses = [f"{address}:7001" for address in ADDRESSES[:2]] if made else [f"localhost:{free_port()}" for _ in "12"]
    folders = [folder / str(number) for number in range(2)]

    def learn(number: int) -> subprocess.CompletedProcess[str]:
        folders[number].mkdir()
        place = [made.names[number]] if made else []
        arguments = [str(number), ",".join(addresses), str(folders[number] / "found.npz"), *place]
        return run_command(folders[number], "tests.training.two_learners", *arguments)

    with ThreadPoolExecutor() as pool:
        for learner in pool.map(learn, range(2)):
            assert learner.returncode == 0, learner.stderr[-3000:]
    return [np.load(path / "found.npz") for path in folders]


SCENARIOS: dict[str, Callable[[Machines, float], Iterator[Outcome]]] = {
    "weights": compare_weights,
    "actors": break_actors,
    "evaluator": break_evaluator,
    "learners": break_learners,
    "replay": break_replay,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0, help="for which cables are cut off or slow")
    parser.add_argument("--only", default=",".join(SCENARIOS), help="some of the scenarios")
    arguments = parser.parse_args()
    if reason := refusal():
        sys.exit(reason)
    for name in arguments.only.split(","):
        with machines(3) as made:
            for outcome in SCENARIOS[name](made, arguments.seconds):
                print(f"{name}: {outcome.fault}: {outcome.happened}; lost: {outcome.lost}", flush=True)


if __name__ == "__main__":
    main()
