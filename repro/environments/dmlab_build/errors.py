"""What stops a build."""


class BuildError(Exception):
    """The module cannot be built; the message says why, and what to do, in one sentence."""
