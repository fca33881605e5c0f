"""What forks of the tests' fork server have before they begin: modules, published numbers and configurations."""

import gc
import importlib

from repro.evidence import rows

for name in (
    "repro.papers.impala.experiments.discrete",
    "repro.papers.refer.experiments.replay",  # and Numba with it
):
    importlib.import_module(name)
rows.make_rows({})  # reads all published numbers and the configurations that they are of, once
gc.freeze()  # or every fork would go through all of it, and copy it
