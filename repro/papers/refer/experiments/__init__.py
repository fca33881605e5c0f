"""ReF-ER's experiments."""
