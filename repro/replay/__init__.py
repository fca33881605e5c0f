"""Memories that experience is drawn from again."""
