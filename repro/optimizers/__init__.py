"""Optimisers, learning-rate schedules, and what happens to a gradient before it is applied."""
