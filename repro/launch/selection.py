"""Which runs of a plan a machine works on, and on which of its cores."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from repro import cli
from repro.evidence.commands import Run
from repro.launch.plan import Block, Step


def choose(steps: Sequence[Step], only: Sequence[str], share: str) -> list[tuple[Run, Block]]:
    """Returns runs in the order of the plan.

    Args:
        steps: the plan.
        only: papers, experiments, agents, tasks or scales; words with a slash between must all be a run's. Empty for
            all runs.
        share: `k/n`: every n-th run of the whole plan from the k-th on. What is done makes no difference, so that
            machines with one plan never choose the same run.

    Raises:
        ValueError: a word that means no run, no such share, or nothing is left.
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
    """Returns k and n of `k/n`.

    Raises:
        ValueError: another text, or a k that is not from 1 to n.
    """
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise ValueError(f"--share={text!r}: give k/n with k from 1 to n, such as 1/2.")
    return int(match[1]), int(match[2])


def check_choice(runs: Iterable[Run], only: Sequence[str], share: str) -> None:
    """Checks what `choose` is asked for, in any order of the plan's runs.

    Raises:
        ValueError: a word that means no run, or no such share.
    """
    parse_share(share)
    known = sorted({word for run in runs for word in _words(run)})
    for word in (word for text in only for word in text.split("/")):
        if word not in known:
            raise ValueError(f"--only: the plan has no {word!r}{cli.nearest(word, known) or '.'}")


def _words(run: Run) -> set[str]:
    return {run.paper, run.experiment, run.agent, run.task, run.scale}


def parse_cores(text: str | None, allowed: Sequence[int]) -> list[int]:
    """Returns the numbers of the cores to use, in order.

    Args:
        text: numbers and ranges with commas between, such as 0,2-3; None for all.
        allowed: those that this process may use.

    Raises:
        ValueError: not such numbers, or others than the allowed ones.
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
