"""Runs and studies on this machine, from a configuration to a record."""
