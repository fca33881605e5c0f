"""Runs and studies, from a configuration to a record, on this machine or on a cluster."""
