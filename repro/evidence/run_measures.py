"""Measures of single runs for claims, besides the final evaluation: divergences, contraction, scores and times."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from repro.evidence.records import BUDGET_FIELDS

Record = Mapping[str, Any]

WINDOW_FRACTION = 0.1
"""Share of the logged rows that counts as the start of training, and the same share as its end."""
MIN_DIVERGENCE = 1e-12
"""Lower limit of mean divergences in nats, so that they have a logarithm."""
MIN_MOVE = 1e-9
"""Smallest change of a column over a run that is not rounding."""
TOLERANCE = 1e-9
"""Relative tolerance: a curve that misses a level by rounding reaches it."""


def column(record: Record, name: str) -> np.ndarray | None:
    """Returns one column of a record's `series`, [N]; None if the record has no such column or no row."""
    series = record.get("series", {"columns": [], "rows": []})
    if name not in series["columns"] or not series["rows"]:
        return None
    place = series["columns"].index(name)
    return np.array([row[place] for row in series["rows"]], np.float64)


def _columns(record: Record, function: str, *names: str) -> list[np.ndarray]:
    """Returns columns of a record's `series`, each [N]; raises a ValueError that names `function` if one is missing."""
    found = [values for name in names if (values := column(record, name)) is not None]
    if len(found) < len(names):
        needed = " and ".join(map(repr, names))
        raise ValueError(f"{function}: the record keeps no column{'s' if len(names) > 1 else ''} {needed}")
    return found


def holds(record: Record, need: str) -> bool:
    """Returns whether a record has a part that a claim needs.

    Args:
        record: any valid record.
        need: name of the part: `curve` with at least one point; `series.<name>`, a column of the log;
            `sampled_hparams`, settings sampled for the run; or `sampled_hparams.<name>`, one of them.
    """
    part, _, name = need.partition(".")
    if part == "series":
        return column(record, name) is not None
    return name in record.get(part, {}) if name else bool(record.get(part))


def start_and_end(values: np.ndarray) -> tuple[float, float]:
    """Returns the means over the first and the last tenth of the rows of a log.

    The start is not a single row, since a divergence from replayed behaviour is zero before the first update.

    Args:
        values: [N], N at least 1; tenths are rounded up, so that a single row is both start and end.
    """
    count = int(np.ceil(WINDOW_FRACTION * len(values)))
    return float(values[:count].mean()), float(values[-count:].mean())


def divergences(record: Record) -> tuple[float, float]:
    """Returns KL(mu || pi) at the start and at the end of a run, in nats, by `start_and_end`.

    Each row of the log is the mean over samples from the replay memory.

    Args:
        record: record with a column `kl`.

    Raises:
        ValueError: the column is missing.
    """
    (values,) = _columns(record, "divergences", "kl")
    start, end = start_and_end(values)
    return max(start, MIN_DIVERGENCE), max(end, MIN_DIVERGENCE)


def logged(record: Record, columns: Sequence[str]) -> tuple[float, float]:
    """Returns the mean of columns of a run's log at the start and at the end, by `start_and_end`.

    Args:
        record: record of the run.
        columns: columns that are averaged.

    Raises:
        ValueError: a column is missing.
    """
    start, end = np.mean([start_and_end(values) for values in _columns(record, "logged", *columns)], axis=0)
    return float(start), float(end)


def turning_back(record: Record, columns: Sequence[str]) -> float:
    """Returns the ratio of how far columns of a log turn back to how far they go, in [0, 1], median over columns.

    The course of a column is its means over tenths of the log. Its number is the ratio of the smaller to the larger of
    two moves: the largest rise from one tenth to a later one, and the largest fall. A column that only rises, only
    falls or never moves has 0, and one that comes back all the way has 1. The median is above a number only if at least
    half of the columns are, so that a few columns that come back do not decide.

    Args:
        record: record of the run.
        columns: columns of its log.

    Raises:
        ValueError: a column is missing.
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
    """Returns the share of a log in which columns are above others times a factor, in percent; ties count half.

    So columns that never move from a common value have 50 % with a factor of 1.

    Args:
        record: record of the run.
        columns: columns of its log.
        others: for each of `columns` the column that it is compared with.
        factor: factor of the others.

    Raises:
        ValueError: a column is missing.
    """
    excess = np.subtract(
        _columns(record, "share_of_log_above", *columns),
        factor * np.array(_columns(record, "share_of_log_above", *others)),
    )
    return float(100 * np.mean(0.5 * (1 + np.sign(excess))))


def distances_of_heads(record: Record, metaparameters: Sequence[str]) -> tuple[float, float]:
    """Returns how far the metaparameters of heads differ at the end of a run, by `start_and_end`.

    Args:
        record: record of STACX with three heads, of which the first acts.
        metaparameters: names of columns without the number of the head.

    Returns:
        Distance between the two auxiliary heads, and mean distance from these to the main one, each a mean over
        metaparameters.

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
    """Returns the observed contraction rate of a run at its end, by `start_and_end`, and over the whole log.

    Each row of the log is the mean of C-trace's Equation 5 over a batch, including positions with few steps left.

    Args:
        record: record with a column `contraction`.

    Raises:
        ValueError: the column is missing.
    """
    (values,) = _columns(record, "contraction_rates", "contraction")
    return start_and_end(values)[1], float(values.mean())


def contraction_excesses(record: Record) -> tuple[float, float]:
    """Returns how far a run's observed contraction rate is above its target, for the same windows as its rate.

    The target of a row of the log is the mean of max(Gamma, gamma^N) over the same batch (C-trace, Eq. 7). Positions of
    a sequence with few steps left cannot reach Gamma, so rates are compared with this mean and not with Gamma.

    Args:
        record: record with columns `contraction` and `contraction_target`.

    Returns:
        Rate minus target at the end, and over the whole log, as for `contraction_rates`; 0 if the target is met.

    Raises:
        ValueError: a column is missing.
    """
    rates, targets = _columns(record, "contraction_excesses", "contraction", "contraction_target")
    return start_and_end(rates - targets)[1], float((rates - targets).mean())


def first_reach(x: np.ndarray, values: np.ndarray, level: float | np.ndarray) -> np.ndarray:
    """Returns the x at which curves first reach a level; infinity if they never do.

    Args:
        x: increasing frames or seconds of all curves, [N], or of each curve, [..., N].
        values: scores at these points, [..., N].
        level: level of each curve, [...], or one for all.

    Returns:
        [...], with a tolerance for rounding (`TOLERANCE`).
    """
    level = np.asarray(level)[..., None]
    reached = values >= level - TOLERANCE * np.abs(level)
    places = np.broadcast_to(x, reached.shape)
    return np.where(reached, places, np.inf).min(axis=-1)


def on_common_frames(records: Sequence[Record]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the learning curves of runs at the same frames, so that they can be averaged.

    Args:
        records: one record per run, each with a curve.

    Returns:
        Frames, [P], at which some curve has a point, from the latest beginning of a curve to the earliest end of a
        run that did not diverge; and scores, [runs, P], linear between the points of a curve. Before its first point a
        curve has its first score, and after the end of a run that diverged its last one.
    """
    curves = [np.array(record["curve"], np.float64) for record in records]
    ends = [curve[-1, 0] for curve, record in zip(curves, records) if "diverged" not in record]
    first, last = max(curve[0, 0] for curve in curves), min(ends, default=max(curve[-1, 0] for curve in curves))
    frames = np.unique(np.concatenate([curve[:, 0] for curve in curves]))
    frames = frames[(frames >= min(first, last)) & (frames <= last)]
    return frames, np.stack([np.interp(frames, curve[:, 0], curve[:, 1]) for curve in curves])


def untrained_score(record: Record) -> float | None:
    """Returns the score at a curve's first point, which is that of the untrained policy.

    Returns:
        Score; None if the curve has no point, begins after the first tenth of its frames, or begins with episodes that
        were cut and score less than whole ones (`env.stagger_steps`).
    """
    if not record["curve"] or record["config"]["env"].get("stagger_steps", 0):
        return None
    frames, score = record["curve"][0]
    return float(score) if frames <= WINDOW_FRACTION * record["curve"][-1][0] else None


def seconds_at(record: Record, frames: np.ndarray) -> np.ndarray:
    """Returns the wall-clock seconds of training that a run took up to some frames, [P].

    Seconds are linear between two rows of the log. After the last row, which matters for runs that diverged, they
    continue at the mean pace.

    Args:
        record: record with a column `seconds` and a column of its budget.
        frames: frames, [P].

    Raises:
        ValueError: a column is missing.
    """
    counted = next((name for name in BUDGET_FIELDS if column(record, name) is not None), BUDGET_FIELDS[0])
    logged, seconds = _columns(record, "seconds_at", counted, "seconds")
    at_mean_pace = seconds[-1] * frames / max(logged[-1], 1.0)
    return np.where(frames > logged[-1], at_mean_pace, np.interp(frames, logged, seconds))
