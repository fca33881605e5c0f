"""STAC and STACX: self-tuning actor-critics (Zahavy et al., 2020)."""
