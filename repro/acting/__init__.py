"""Playing: actors, unrolls, weights, pools of actors, evaluation of a policy, videos; independent of any paper."""
