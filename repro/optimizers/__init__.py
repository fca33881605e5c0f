"""Optimisers, learning-rate schedules, and the reduction and clipping of gradients."""
