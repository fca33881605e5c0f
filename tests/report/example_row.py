"""A row for tests of tables and pages."""

import dataclasses

from repro.evidence.rows import Row

ROW = Row(
    paper="impala",
    experiment="atari_shallow",
    task="pong",
    agent="impala_shallow",
    unit="game score",
    table="C.1",
    column="IMPALA, shallow, experts",
    published=20.4,
    published_budget=200_000_000,
    value=-4.026,
    interval=(-6.071, -1.984),
    interval_over="seeds",
    budget=40_000_000,
    counts="frames",
    share=0.2,
    seeds=(1, 2, 3),
    finding="undecided",
    shortfalls=("20 % of the budget", "3 of 5 runs"),
    command="make reproduce-impala TASK=pong",
)

TRAINED = dataclasses.replace(ROW, trained=True)
NOT_TRAINED = dataclasses.replace(ROW, trained=False, share=None)
