"""IMPALA: importance-weighted actor-learner architecture with V-trace (Espeholt et al., 2018)."""
