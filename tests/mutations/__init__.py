"""Wrong variants of operators, losses, update rules and replay rules, each of which a named test must catch."""
