"""Its experiments."""
