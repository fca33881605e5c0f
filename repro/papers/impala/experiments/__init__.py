"""IMPALA's experiments."""
