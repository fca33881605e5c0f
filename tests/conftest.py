"""Keeps third-party messages out of the tests' output."""

from repro import cli

cli.quiet()
