"""Benchmarks of the suite's hot paths against bounds of the machine, one module per subject."""
