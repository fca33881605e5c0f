"""Experiments of ACER."""
