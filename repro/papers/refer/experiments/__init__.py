"""Experiments of ReF-ER."""
