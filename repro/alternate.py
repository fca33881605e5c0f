"""Compares the speeds of two programs on a machine that others use as well: `python -m repro.alternate`.

    python -m repro.alternate --first="python -m repro.train --config=... --run_dir=runs/x" --second="python peer.py"
        --second_count="Steps ([0-9]+)"

The programs take turns: each runs for some seconds while the other is stopped. Their work is read from the counts that
they print.
"""

from __future__ import annotations

import contextlib
import re
import signal
import sys

from absl import flags

from repro import cli
from repro.benchmarks.measuring import alternating, turn_flags
from repro.benchmarks.measuring.turn_flags import JSON, PATIENCE, ROUNDS, SECONDS, WARM_UP
from repro.evidence import records
from repro.training.progress_line import ProgressLine

FIRST = flags.DEFINE_string("first", None, "Command line of the first program.", required=True)
SECOND = flags.DEFINE_string("second", None, "Command line of the second program.", required=True)
COUNT_HELP = (
    "Regular expression for the count that this program prints, with the number as its first group; by default, it "
    "matches this suite's progress line."
)
FIRST_COUNT = flags.DEFINE_string("first_count", alternating.COUNT, COUNT_HELP)
SECOND_COUNT = flags.DEFINE_string("second_count", alternating.COUNT, COUNT_HELP)
SIZE_HELP = "Work per unit of this program's count, such as 0.25 if it counts frames and a step has 4 frames."
FIRST_SIZE = flags.DEFINE_float("first_size", 1.0, SIZE_HELP, 1e-9)
SECOND_SIZE = flags.DEFINE_float("second_size", 1.0, SIZE_HELP, 1e-9)
flags.adopt_module_key_flags(turn_flags)


def main(argv: list[str]) -> None:
    del argv
    cli.quiet()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(cli.INTERRUPTED))  # leaving the context ends both programs
    named = ((FIRST, FIRST_COUNT, FIRST_SIZE), (SECOND, SECOND_COUNT, SECOND_SIZE))
    for _, count, _ in named:
        try:
            groups = re.compile(count.value).groups
        except re.error as error:
            cli.fail(f"--{count.name}={count.value}: not a regular expression ({error}).")
        if not groups:
            cli.fail(f"--{count.name}={count.value}: put the number into a group, such as 'Steps ([0-9]+)'.")
    try:
        with contextlib.ExitStack() as ending:
            programs = []
            for command, count, size in named:
                programs.append(alternating.Program(command.value, count.value, size.value))
                ending.callback(programs[-1].end)
                programs[-1].warm_up(WARM_UP.value, PATIENCE.value)
            line = ending.enter_context(contextlib.closing(ProgressLine("Alternating", ROUNDS.value, "rounds")))
            turns = alternating.alternate(programs, SECONDS.value, ROUNDS.value, lambda i: line.update(i, str))
            result = alternating.compare(*turns)
    except alternating.ProgramError as error:
        cli.fail(error, code=1)
    for (command, _, _), rate in zip(named, result["rates"]):
        print(f"{rate:12,.1f} a second: {command.value}")
    low, high = result.get("interval", (result["ratio"],) * 2)
    rounds = f"{result['rounds']} rounds"
    print(f"Rate of the first over that of the second: {result['ratio']:.2f} [{low:.2f}, {high:.2f}], {rounds}.")
    commands = {"commands": [command.value for command, _, _ in named], "seconds": SECONDS.value}
    found = commands | result | {"hardware": records.hardware(), "versions": records.versions()}
    cli.write_json(JSON.value, found)


if __name__ == "__main__":
    cli.run(main)
