"""Experiments of Wang et al. (2017)."""

DEFAULT_EXPERIMENT = "atari"
