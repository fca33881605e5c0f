"""Preloads modules, published numbers and configs for all forks of the tests' fork server."""

import gc
import importlib

from repro.evidence import rows

for name in (
    "repro.papers.impala.experiments.discrete",
    "repro.papers.refer.experiments.replay",  # and Numba with it
):
    importlib.import_module(name)
rows.make_rows({})  # reads all published numbers and their configs once
gc.freeze()  # otherwise the garbage collector of every fork would visit, and so copy, all of it
