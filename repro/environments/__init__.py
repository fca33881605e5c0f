"""Batched environments that all follow one step contract, with their TF-Agents specs."""
