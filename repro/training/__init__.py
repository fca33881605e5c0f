"""The run: a trainer, its learner, checkpoints, and the folder it leaves."""
