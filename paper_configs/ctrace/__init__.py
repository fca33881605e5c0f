"""Experiments of C-trace."""

DEFAULT_EXPERIMENT = "tabular"
"""Every experiment whose name begins with it: Figures 1, 3, 5, 6, 7 and 8."""
