"""Experiments of Novati and Koumoutsakos (2019)."""

DEFAULT_EXPERIMENT = "figure_4_vracer"
