"""Measurements of the suite's own hot paths against the machine's bound, one module per subject."""
