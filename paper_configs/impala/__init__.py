"""Experiments of IMPALA."""

DEFAULT_EXPERIMENT = "atari_shallow"
