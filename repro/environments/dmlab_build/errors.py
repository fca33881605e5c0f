"""Errors of a build."""


class BuildError(Exception):
    """The module cannot be built; the message gives the reason and a remedy in one sentence."""
