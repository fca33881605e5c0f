"""Batched environments with a common step contract and TF-Agents specs."""
