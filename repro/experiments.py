"""Lists the experiments: `python -m repro.experiments [--paper=impala,stac]`, or `make experiments`.

For each one it prints the first line of its configuration file, its agents, and the task that runs if none is given.
"""

from __future__ import annotations

import shutil
import signal
import textwrap
from collections.abc import Iterator

from absl import flags

from repro import cli
from repro.config import agents, tasks
from repro.files import headline
from repro.launch import jobs

PAPER = flags.DEFINE_list("paper", [], "Folders in paper_configs; all if not given.")
INDENT = " " * 4


def lines(paper: str, width: int) -> Iterator[str]:
    """Yields the lines about a paper's experiments.

    Args:
        paper: folder in paper_configs.
        width: number of columns to fill.

    Raises:
        ValueError: the paper has no experiments; the message names the papers that have some.
    """
    yield f"make reproduce-{paper} EXPERIMENT=<name>"
    for name in jobs.experiments(paper):
        config = jobs.load_config(paper, name, "desk")
        together = tasks(config)
        task = f"{config.env.task}, {len(together)} tasks together" if together else config.env.task
        made = "a study, which trains nothing" if "study" in config else f"agents: {', '.join(agents(config))}"
        yield f"  {name}"
        for text in (headline(jobs.CONFIGS / paper / f"{name}.py"), f"{made}; task: {task}"):
            yield from textwrap.wrap(
                text, width, initial_indent=INDENT, subsequent_indent=INDENT, break_on_hyphens=False
            )


def main(argv: list[str]) -> None:
    del argv
    width = shutil.get_terminal_size().columns
    try:
        for paper in PAPER.value or jobs.papers():
            print("\n".join(lines(paper, width)), end="\n\n")
    except ValueError as error:
        cli.fail(error)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # so that `| head` ends it without a traceback
    cli.run(main)
