"""Experiments of C-trace."""
