"""C-trace's experiments."""
