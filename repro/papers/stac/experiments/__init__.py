"""Experiments of STAC."""
