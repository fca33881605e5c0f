"""Selection of the runs of a plan, and of the cores of a machine, for a campaign."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from repro import cli
from repro.evidence.commands import Run
from repro.launch.plan import Block, Step


def choose(steps: Sequence[Step], only: Sequence[str], share: str) -> list[tuple[Run, Block]]:
    """Returns the selected runs in the order of the plan.

    Args:
        steps: the plan.
        only: papers, experiments, agents, tasks or scales; of words joined by slashes, a run must match all. Empty for
            all runs.
        share: `k/n` for every n-th run of the whole plan from the k-th on. Completed runs are counted, too, so that
            machines with the same plan never select the same run.

    Raises:
        ValueError: a word matches no run, the share is invalid, or no run is left.
    """
    every = [(run, step.block) for step in steps for run in step.runs]
    check_choice([run for run, _ in every], only, share)
    wanted = [set(text.split("/")) for text in only]
    k, n = parse_share(share)
    mine = every[k - 1 :: n]
    chosen = [(run, block) for run, block in mine if not wanted or any(words <= _words(run) for words in wanted)]
    if not chosen:
        raise ValueError(f"--only={','.join(only)} and --share={share} leave no run of the plan.")
    return chosen


def parse_share(text: str) -> tuple[int, int]:
    """Returns k and n of a text `k/n`.

    Raises:
        ValueError: the text has another form, or k is not from 1 to n.
    """
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise ValueError(f"--share={text!r}: give k/n with k from 1 to n, such as 1/2.")
    return int(match[1]), int(match[2])


def check_choice(runs: Iterable[Run], only: Sequence[str], share: str) -> None:
    """Checks the arguments of `choose`; the runs of the plan may be in any order.

    Raises:
        ValueError: a word matches no run, or the share is invalid.
    """
    parse_share(share)
    known = sorted({word for run in runs for word in _words(run)})
    for word in (word for text in only for word in text.split("/")):
        if word not in known:
            raise ValueError(f"--only: no run of the plan has the word {word!r}{cli.nearest(word, known) or '.'}")


def _words(run: Run) -> set[str]:
    return {run.paper, run.experiment, run.agent, run.task, run.scale}


def parse_cores(text: str | None, allowed: Sequence[int]) -> list[int]:
    """Returns the numbers of the cores to use, in order.

    Args:
        text: numbers and ranges separated by commas, such as 0,2-3; None for all cores.
        allowed: cores that this process may use.

    Raises:
        ValueError: the text has another form, or names cores that are not allowed.
    """
    if text is None:
        return sorted(allowed)
    if re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", text) is None:
        raise ValueError(f"--cores={text!r}: give numbers of cores, such as 0,2-3.")
    ranges = [part.partition("-") for part in text.split(",")]
    chosen = {core for first, _, last in ranges for core in range(int(first), int(last or first) + 1)}
    if not chosen or not chosen <= set(allowed):
        raise ValueError(f"--cores={text}: this process may use {', '.join(map(str, sorted(allowed)))}.")
    return sorted(chosen)
