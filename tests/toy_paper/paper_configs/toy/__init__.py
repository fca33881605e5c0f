"""Experiments of a paper that does not exist."""

DEFAULT_EXPERIMENT = "cartpole"
