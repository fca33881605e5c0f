"""Run by `test_agent.py` in a separate process: weights and eta after some updates on one device and on two.

eta of both replicas is also saved by name. The entropy's weight is large enough for its metaparameter to move visibly.
"""

import sys

import numpy as np

from tests.papers.stac.small import OUTER, STAC, make_agent
from tests.support import two_replicas
from tests.support.batches import random_batch

if __name__ == "__main__":
    devices = two_replicas.two_devices()
    parts = (
        lambda: make_agent(
            num_heads=2,
            gamma_embedding="separate",
            clip_global_norm=2.0,
            kl_cost=5.0,
            outer=OUTER._replace(g_e=0.3),
        ),
        random_batch,
        lambda agent: [*agent._network.variables, *(agent._metaparameters.eta[name] for name in STAC)],
    )
    result = two_replicas.compare(devices, *parts)
    first = result["count"] - len(STAC)
    np.savez(sys.argv[1], **result, **{f"eta_{name}": result[f"two_{first + i}"] for i, name in enumerate(STAC)})
