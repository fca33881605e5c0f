"""Finite MDPs on which operators, their fixed points and their sampled targets are known exactly."""
