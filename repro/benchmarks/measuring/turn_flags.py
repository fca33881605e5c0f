"""Flags of commands that compare two programs turn by turn."""

from __future__ import annotations

from absl import flags

from repro import cli

SECONDS = flags.DEFINE_float("seconds", 5.0, "Seconds of a turn, in which one program runs.", 0.1)
ROUNDS = flags.DEFINE_integer("rounds", 12, "Number of rounds, each of two turns per program.", 1)
WARM_UP = flags.DEFINE_float(
    "warm_up", 15.0, "Seconds for which each program runs after its first count, before the turns.", 0.0
)
PATIENCE = flags.DEFINE_float("patience", 300.0, "Longest wait for the first count of a program, in seconds.", 1.0)
JSON = cli.define_json()
