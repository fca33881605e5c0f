"""STAC: a self-tuning actor-critic (Zahavy et al., 2020); the statements about its operator, not yet its agents."""
