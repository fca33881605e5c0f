"""What claims read off single runs besides the final evaluation: divergences, contraction, scores and times."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from repro.evidence.records import BUDGET_FIELDS

Record = Mapping[str, Any]

WINDOW_FRACTION = 0.1
"""Share of the logged rows that counts as the start of training, and as its end."""
MIN_DIVERGENCE = 1e-12
"""Nats; a smaller mean is taken for this one, so that it has a logarithm."""
MIN_MOVE = 1e-9
"""Smallest change of a column over a run; a smaller one is rounding."""
TOLERANCE = 1e-9
"""Relative; a curve reaches a level that it misses by rounding."""


def column(record: Record, name: str) -> np.ndarray | None:
    """Returns one column of a record's `series`, [N]; None where the record keeps no such column or no row."""
    series = record.get("series", {"columns": [], "rows": []})
    if name not in series["columns"] or not series["rows"]:
        return None
    place = series["columns"].index(name)
    return np.array([row[place] for row in series["rows"]], np.float64)


def _columns(record: Record, function: str, *names: str) -> list[np.ndarray]:
    """Columns of a record's `series`, each [N]; a ValueError that begins with `function` where one is not there."""
    found = [values for name in names if (values := column(record, name)) is not None]
    if len(found) < len(names):
        needed = " and ".join(map(repr, names))
        raise ValueError(f"{function}: the record keeps no column{'s' if len(names) > 1 else ''} {needed}")
    return found


def holds(record: Record, need: str) -> bool:
    """Whether a record has what a claim reads off it.

    Args:
        need: `curve`, at least a point of it; `series.<name>`, a column; `sampled_hparams`, settings sampled for the
            run, or `sampled_hparams.<name>`, one of them.
    """
    part, _, name = need.partition(".")
    if part == "series":
        return column(record, name) is not None
    return name in record.get(part, {}) if name else bool(record.get(part))


def start_and_end(values: np.ndarray) -> tuple[float, float]:
    """Returns the mean over the first tenth of the rows of a log and that over its last tenth.

    The start is no single row, since a divergence from replayed behaviour is zero before the first update.

    Args:
        values: [N], N at least 1; tenths are rounded up, so that one row is both start and end.
    """
    count = int(np.ceil(WINDOW_FRACTION * len(values)))
    return float(values[:count].mean()), float(values[-count:].mean())


def divergences(record: Record) -> tuple[float, float]:
    """Returns KL(mu || pi) at the start and at the end of a run, in nats, as `start_and_end` takes them.

    Each row of the log is the mean over samples from the replay memory.

    Args:
        record: with a column `kl`.

    Raises:
        ValueError: it has none.
    """
    (values,) = _columns(record, "divergences", "kl")
    start, end = start_and_end(values)
    return max(start, MIN_DIVERGENCE), max(end, MIN_DIVERGENCE)


def logged(record: Record, columns: Sequence[str]) -> tuple[float, float]:
    """Returns what the log of a run holds at its start and at its end, as `start_and_end` takes them.

    Args:
        record: of the run.
        columns: whose mean is taken.

    Raises:
        ValueError: it lacks one of them.
    """
    start, end = np.mean([start_and_end(values) for values in _columns(record, "logged", *columns)], axis=0)
    return float(start), float(end)


def turning_back(record: Record, columns: Sequence[str]) -> float:
    """Returns how far columns of a log turn back over how far they go, in [0, 1], median over columns.

    The course of a column is its means over tenths of the log. It goes up by the largest rise from one tenth to a later
    one, and down by the largest fall: the smaller of these counts over the larger. So what only rises, only falls or
    never moves has 0, and what comes back all the way has 1. The median is above a number where at least half of
    the columns are, so that a few which come back do not stand for all.

    Args:
        record: of the run.
        columns: of its log.

    Raises:
        ValueError: it lacks one of them.
    """
    shares = []
    for values in _columns(record, "turning_back", *columns):
        tenths = np.array_split(values, round(1 / WINDOW_FRACTION))
        course = np.array([tenth.mean() for tenth in tenths if tenth.size])
        rise = (course - np.minimum.accumulate(course)).max()
        fall = (np.maximum.accumulate(course) - course).max()
        shares.append(min(rise, fall) / max(rise, fall, MIN_MOVE))
    return float(np.median(shares))


def share_of_log_above(record: Record, columns: Sequence[str], others: Sequence[str], factor: float) -> float:
    """Returns the share of a log in which columns are above others times a factor, in percent; equal ones count half.

    So what never moves from one common value has 50 % with a factor of 1, and not all.

    Args:
        record: of the run.
        columns: of its log.
        others: the column that each of these is compared with.
        factor: of the others.

    Raises:
        ValueError: it lacks one of them.
    """
    excess = np.subtract(
        _columns(record, "share_of_log_above", *columns),
        factor * np.array(_columns(record, "share_of_log_above", *others)),
    )
    return float(100 * np.mean(0.5 * (1 + np.sign(excess))))


def distances_of_heads(record: Record, metaparameters: Sequence[str]) -> tuple[float, float]:
    """Returns how far the metaparameters of heads differ at the end of a run, as `start_and_end` takes it.

    Args:
        record: of STACX with three heads, of which the first acts.
        metaparameters: names of columns without the number of the head.

    Returns:
        Mean distance over metaparameters between the two auxiliary heads, and from these to the main one.

    Raises:
        ValueError: a column is missing.
    """
    main, second, third = (
        np.array(
            [
                start_and_end(values)[1]
                for values in _columns(record, "distances_of_heads", *(f"{name}_{head}" for name in metaparameters))
            ]
        )
        for head in (1, 2, 3)
    )
    from_main = (np.abs(second - main) + np.abs(third - main)) / 2
    return float(np.abs(second - third).mean()), float(from_main.mean())


def contraction_rates(record: Record) -> tuple[float, float]:
    """Returns the observed contraction rate of a run at its end, as `start_and_end` takes it, and over the whole log.

    Each row of the log is the mean of C-trace's Equation 5 over a batch, rows with few steps left among them.

    Args:
        record: with a column `contraction`.

    Raises:
        ValueError: it has none.
    """
    (values,) = _columns(record, "contraction_rates", "contraction")
    return start_and_end(values)[1], float(values.mean())


def contraction_excesses(record: Record) -> tuple[float, float]:
    """Returns how far a run's observed contraction rate lies above its target, as `contraction_rates` takes both.

    The target of a row of the log is the mean of max(Gamma, gamma^N) over the same batch (C-trace, Eq. 7). Rows of a
    sequence with few steps left cannot reach Gamma, so that rates are compared with this mean and not with Gamma.

    Args:
        record: with columns `contraction` and `contraction_target`.

    Returns:
        Rate minus target at the end, and over the whole log; 0 where the target is met exactly.

    Raises:
        ValueError: it lacks one of them.
    """
    rates, targets = _columns(record, "contraction_excesses", "contraction", "contraction_target")
    return start_and_end(rates - targets)[1], float((rates - targets).mean())


def first_reach(x: np.ndarray, values: np.ndarray, level: float | np.ndarray) -> np.ndarray:
    """Returns where curves first stand at a level or above it, infinity where they never do.

    Args:
        x: [N], increasing: frames or seconds; or [..., N], those of each curve.
        values: [..., N], scores at these places.
        level: [...] or one for all.
    """
    level = np.asarray(level)[..., None]
    reached = values >= level - TOLERANCE * np.abs(level)
    places = np.broadcast_to(x, reached.shape)
    return np.where(reached, places, np.inf).min(axis=-1)


def on_common_frames(records: Sequence[Record]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the learning curves of runs at the same frames, so that they can be averaged.

    Args:
        records: one a run, each with a curve.

    Returns:
        The frames, [P], every one that some curve has a point at, from where the last curve begins to where the
        first one ends; and the scores, [runs, P], linear between the points of a curve. A curve that begins after
        another has ended keeps its first score before, and that of a run that diverged its last one.
    """
    curves = [np.array(record["curve"], np.float64) for record in records]
    ends = [curve[-1, 0] for curve, record in zip(curves, records) if "diverged" not in record]
    first, last = max(curve[0, 0] for curve in curves), min(ends, default=max(curve[-1, 0] for curve in curves))
    frames = np.unique(np.concatenate([curve[:, 0] for curve in curves]))
    frames = frames[(frames >= min(first, last)) & (frames <= last)]
    return frames, np.stack([np.interp(frames, curve[:, 0], curve[:, 1]) for curve in curves])


def untrained_score(record: Record) -> float | None:
    """Returns the score at a curve's first point, which the policy made before it had learned.

    Returns:
        The score; None where the curve has no point, or begins after the first tenth of its frames, or with episodes
        that were cut, which score less than whole ones (`env.stagger_steps`).
    """
    if not record["curve"] or record["config"]["env"].get("stagger_steps", 0):
        return None
    frames, score = record["curve"][0]
    return float(score) if frames <= WINDOW_FRACTION * record["curve"][-1][0] else None


def seconds_at(record: Record, frames: np.ndarray) -> np.ndarray:
    """Returns the wall-clock seconds of training that a run took to some frames, [P].

    Args:
        record: with a column `seconds`, and one of its budget.
        frames: [P]; between two rows of the log time passes evenly, and after the last one, where the run diverged,
            at its mean pace.

    Raises:
        ValueError: it lacks one of them.
    """
    counted = next((name for name in BUDGET_FIELDS if column(record, name) is not None), BUDGET_FIELDS[0])
    logged, seconds = _columns(record, "seconds_at", counted, "seconds")
    at_mean_pace = seconds[-1] * frames / max(logged[-1], 1.0)
    return np.where(frames > logged[-1], at_mean_pace, np.interp(frames, logged, seconds))
