"""Flags of commands that compare two programs turn by turn."""

from __future__ import annotations

from absl import flags

from repro import cli

SECONDS = flags.DEFINE_float("seconds", 5.0, "Length of a turn in seconds.", 0.1)
ROUNDS = flags.DEFINE_integer("rounds", 12, "Rounds; each program has two turns in a round.", 1)
WARM_UP = flags.DEFINE_float("warm_up", 15.0, "Seconds for which a program runs after its first count.", 0.0)
PATIENCE = flags.DEFINE_float("patience", 300.0, "Longest wait for the first count, in seconds.", 1.0)
JSON = cli.define_json()
