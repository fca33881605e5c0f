"""Experiments of Zahavy et al. (2020)."""

DEFAULT_EXPERIMENT = "atari"
