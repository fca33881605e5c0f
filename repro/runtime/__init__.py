"""Actors, queue, learner, checkpoints and progress; knows no paper."""
