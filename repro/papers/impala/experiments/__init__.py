"""Experiments of IMPALA."""
