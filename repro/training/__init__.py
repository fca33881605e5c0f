"""Training runs: experiments, trainers, learners, checkpoints, evaluation, and the folder of a run."""
