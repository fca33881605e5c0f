"""Protocols, result records, statistics, published numbers and verdicts."""
