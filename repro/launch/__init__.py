"""Runs and studies on this machine or on a cluster, from a configuration to a record."""
