"""Compares another program's speed with ours: `python -m repro.benchmarks.peers --peer=cleanrl --source=<checkout>`.

Both train the same agent in turns, by `repro.alternate`, whose command is printed.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from absl import flags

from repro import cli
from repro.benchmarks.measuring import turn_flags
from repro.benchmarks.measuring.turn_flags import JSON, PATIENCE, ROUNDS, SECONDS, WARM_UP
from repro.benchmarks.peers import programs

PEER = flags.DEFINE_enum("peer", None, sorted(programs.PEERS), "The other program.", required=True)
SOURCE = flags.DEFINE_string(
    "source", None, "Its repository: a checkout, or a git directory, bare or not.", required=True
)
PYTHON = flags.DEFINE_string(
    "python", "build/peers/bin/python", "Python in which requirements-peers.lock is installed."
)
OUT = flags.DEFINE_string("out", "build/peers", "Folder for its source, its build and both runs.")
flags.adopt_module_key_flags(turn_flags)


def main(argv: list[str]) -> None:
    del argv
    name, folder = PEER.value, Path(OUT.value).absolute() / PEER.value
    python = Path(PYTHON.value).absolute()  # not resolved: a virtual environment's link leads to another Python
    try:
        programs.write_source(name, Path(SOURCE.value), folder / "source")
        if programs.PEERS[name].script is None:
            programs.build(folder / "source", folder / "build")
        else:
            programs.check_modules(name, python)
    except programs.PeerError as error:
        cli.fail(error)
    ours, theirs = programs.make_commands(name, folder / "source", folder, python)
    command = [
        *(sys.executable, "-m", "repro.alternate", f"--first={ours}", f"--first_size={programs.PEERS[name].size}"),
        *(f"--second={theirs}", f"--second_count={programs.COUNT}"),
        *(f"--{flag.name}={flag.value}" for flag in (SECONDS, ROUNDS, WARM_UP, PATIENCE)),
        *([f"--json={JSON.value}"] if JSON.value else []),
    ]
    print(shlex.join(command), flush=True)
    os.execv(command[0], command)


if __name__ == "__main__":
    cli.run(main)
