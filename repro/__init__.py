"""Reproducibility suite for five off-policy deep reinforcement-learning papers."""
