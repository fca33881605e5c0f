"""One configuration per paper experiment, and the numbers the papers published."""
