"""Pure functions on tensors: targets, traces, corrections."""
