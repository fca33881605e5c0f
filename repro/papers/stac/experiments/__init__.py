"""STAC's experiments."""
