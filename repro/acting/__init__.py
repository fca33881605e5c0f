"""Playing: actors, their unrolls and weights, pools of actors, evaluation of a policy, videos; knows no paper."""
