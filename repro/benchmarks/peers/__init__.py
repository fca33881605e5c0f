"""Comparison of this suite's speed with other programs that learn the same, from checkouts of their source."""
