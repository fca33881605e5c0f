"""Memories that experience is sampled from again."""
