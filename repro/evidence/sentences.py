"""Sentences: all rows of one printed number or sentence, which count once."""

import collections
from collections.abc import Iterable, Sequence

from repro.evidence.rows import Row
from repro.evidence.verdicts import VERDICTS, Finding, verdict_of, weakest

EXPECTED = "can hardly come out otherwise"
"""Words of a row's note if its result is proven or follows from a definition, so that the row tests the code."""


def sentences(rows: Iterable[Row]) -> list[tuple[Row, Finding, tuple[str, ...]]]:
    """Returns each printed number or sentence once, with the finding and the shortfalls of all its rows together.

    Args:
        rows: rows of one paper or more; those without a printed number are ignored.

    Returns:
        For each sentence its first row, finding and shortfalls, in order. A sentence that is contradicted has the
        shortfalls of the contradicting row with the fewest, since what other rows lack does not weaken that row.
    """
    return [(of_one[0], *_together(of_one)) for of_one in _parts(rows)]


def count_expected(rows: Iterable[Row]) -> int:
    """Returns how many reproduced numbers and sentences can hardly come out otherwise, by the notes of their rows."""
    found = [(verdict_of(*_together(of_one)), [row.note for row in of_one]) for of_one in _parts(rows)]
    return sum(verdict == "reproduced" and all(EXPECTED in note for note in notes) for verdict, notes in found)


def _parts(rows: Iterable[Row]) -> list[list[Row]]:
    """Returns the rows of each printed number or sentence, in order of their first ones."""
    parts: dict[tuple[str, str | int], list[Row]] = {}
    for index, row in enumerate(rows):
        if row.finding is not None:
            parts.setdefault((row.paper, index if row.sentence is None else row.sentence), []).append(row)
    return list(parts.values())


def _together(of_one: Sequence[Row]) -> tuple[Finding, tuple[str, ...]]:
    """Returns the finding and the shortfalls of a sentence from those of its rows."""
    finding = weakest([row.finding for row in of_one if row.finding is not None])
    if finding == "contradicts":
        return finding, min((row.shortfalls for row in of_one if row.finding == finding), key=len)
    return finding, tuple(dict.fromkeys(text for row in of_one for text in row.shortfalls))


def count_verdicts(rows: Iterable[Row]) -> dict[str, int]:
    """Returns how many printed numbers and sentences have each verdict; arguments as for `sentences`."""
    found = collections.Counter(verdict_of(finding, shortfalls) for _, finding, shortfalls in sentences(rows))
    return {name: found[name] for name in VERDICTS}
