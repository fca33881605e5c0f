"""Distributions as pure functions of their parameters: log-probability, entropy, divergence, samples."""
