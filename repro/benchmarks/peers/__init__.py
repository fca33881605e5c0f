"""Other programs that learn the same, from a checkout of theirs, beside this suite."""
