"""Builds the `deepmind_lab` module from DeepMind Lab's source, headless and without Bazel, on Debian 12."""
