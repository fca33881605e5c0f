"""ACER's experiments."""
