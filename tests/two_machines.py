"""Trains with actors on two machines, network namespaces here: one is cut off for a while, its actor killed later.

    python -m tests.two_machines [--cut_off=30]

The learner and an actor are on 10.77.0.1, another actor on 10.77.0.2. Prints what happened as JSON: updates while the
second machine was cut off, its groups of unrolls before and after, and the totals. Needs the right to make namespaces.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

SECONDS = 300.0
"""Longest wait for anything."""
HOME, AWAY = "10.77.0.1", "10.77.0.2"
LINK = "repro-link"
"""Name of each end of the cable, in a namespace of its own."""


def refusal() -> str | None:
    """Says why there can be no namespaces here; None where there can be some."""
    name = f"repro-{os.getpid()}-try"
    try:
        made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "There is no command ip."
    if made.returncode:
        return f"Network namespaces are not permitted: {made.stderr.strip()}"
    subprocess.run(["ip", "netns", "delete", name], check=True)
    return None


@contextlib.contextmanager
def two_machines() -> Iterator[tuple[str, str]]:
    """Names of two namespaces that are joined by a cable; they are gone afterwards."""
    names = tuple(f"repro-{os.getpid()}-{i}" for i in range(2))
    try:
        for name in names:
            _ip("netns", "add", name)
        _ip("-n", names[0], "link", "add", LINK, "type", "veth", "peer", "name", LINK, "netns", names[1])
        for name, address in zip(names, (HOME, AWAY)):
            _ip("-n", name, "address", "add", f"{address}/24", "dev", LINK)
            for device in ("lo", LINK):
                _ip("-n", name, "link", "set", device, "up")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


class OnTwoMachines:
    """Starts actors on both machines in turn, see `Launcher`."""

    home, port = HOME, None

    def __init__(self, names: tuple[str, str], run_dir: Path) -> None:
        self._names = names
        self._run_dir = run_dir
        self.processes = {}

    def __call__(self, actor, start, address):
        from repro.acting.actor_processes import LocalProcess

        flags = {"run_dir": self._run_dir, "actor": actor, "start": start}
        flags["address"] = f"{HOME}:{address.rsplit(':', 1)[1]}"
        command = ["ip", "netns", "exec", self._names[actor % 2], sys.executable, "-m", "repro.actor"]
        command += [f"--{name}={value}" for name, value in flags.items()]
        self.processes[actor] = LocalProcess(command, self._run_dir / f"actor_{actor}.txt")
        return self.processes[actor]


def train(names: tuple[str, str], folder: Path, cut_off: float) -> dict[str, object]:
    """The run, in the first machine; returns what happened."""
    from paper_configs.impala import gymnasium
    from repro.papers import find_experiment
    from repro.training.run_directory import RunDirectory

    config = gymnasium.get_config("smoke")
    config.num_env_steps = 10**9
    config.runtime.schedule, config.runtime.num_actors = "processes", 2
    run = RunDirectory(folder, config.to_dict(), 1)
    launcher = OnTwoMachines(names, folder)
    said: list[str] = []
    trainer = find_experiment(config).build_trainer(1, run, said.append, launcher)
    source, updates = trainer._source, iter(trainer)

    def groups(start: int) -> int:
        """That came from the second machine."""
        return source._next.get((1, start), 0)

    def train_until(condition) -> int:
        count, end = 0, time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < end, (said, source._next)
            next(updates)
            count += 1
        return count

    try:
        train_until(lambda: groups(0) > 3)
        _ip("-n", names[1], "link", "set", LINK, "down")
        end = time.monotonic() + cut_off
        before = groups(0)
        meanwhile = train_until(lambda: time.monotonic() > end)
        during = groups(0) - before
        _ip("-n", names[1], "link", "set", LINK, "up")
        train_until(lambda: groups(0) > before + during + 3)
        restarts = source.restarts
        launcher.processes[1].kill()
        train_until(lambda: groups(1) > 3)
        found = {"updates_meanwhile": meanwhile, "groups_meanwhile": during, "restarts_after_cut": restarts}
        return found | {"said": said, **trainer.summary()}
    finally:
        trainer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cut_off", type=float, default=30.0)
    parser.add_argument("--inside", nargs=2)
    arguments = parser.parse_args()
    if arguments.inside:
        from repro import cli

        cli.quiet()
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(train(tuple(arguments.inside), Path(folder), arguments.cut_off), indent=1, default=float))
        return
    if reason := refusal():
        sys.exit(reason)
    with two_machines() as names:
        again = [sys.executable, "-m", "tests.two_machines", f"--cut_off={arguments.cut_off}", "--inside", *names]
        sys.exit(subprocess.run(["ip", "netns", "exec", names[0], *again], check=False).returncode)


if __name__ == "__main__":
    main()
