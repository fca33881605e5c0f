"""A small recurrent agent on the point mass, and random unrolls for it."""

from __future__ import annotations

from typing import Any

import numpy as np
from tf_agents.trajectories import StepType, Trajectory

from repro.acting.unrolls import UnrollGroup
from repro.networks.dense import dense_torso
from repro.networks.multi_head_actor_critic import MultiHeadActorCritic
from repro.papers.stac.action_distribution import SquashedGaussian
from repro.papers.stac.agent import StacAgent
from tests.papers.stac.small import STAC, build_agent
from tests.support.point_mass import PointMass

BURN_IN, LEARNED = 3, 5
DISTRIBUTION = SquashedGaussian(2, -1.5, 0.2)


def make_agent(
    tuned: tuple[str, ...] = STAC,
    *,
    num_heads: int = 1,
    burn_in: int = BURN_IN,
    units: int = 6,
    gamma_embedding: str = "none",
    seed: int = 0,
    **settings: Any,
) -> StacAgent:
    """By default eta moves by minus the metagradient, so that a test can read it; settings: `build_agent`."""
    network = MultiHeadActorCritic(
        dense_torso((units,), seed + 1),
        DISTRIBUTION.num_outputs,
        num_heads=num_heads,
        head_units=units,
        core_units=units,
        gamma_embedding=gamma_embedding,
        gamma_embedding_units=4,
        seed=seed,
    )
    return build_agent(
        PointMass(1, 0), network, DISTRIBUTION, tuned, num_heads, burn_in=burn_in, greedy=True, **settings
    )


def random_unrolls(agent: StacAgent, seed: int) -> Trajectory:
    """[3, BURN_IN + LEARNED + 1] of everything; NaN in what the burn-in, a row between two episodes and the last row
    do not need.

    The first unroll ends an episode in a learned row; the second has a row between two in the learned part, the third
    in the burn-in.
    """
    rng = np.random.default_rng(seed)
    arrays = UnrollGroup(agent.collect_data_spec, 3, BURN_IN + LEARNED).arrays
    info = arrays.policy_info
    for x in (arrays.observation, arrays.reward, *info["core_state"]):
        x[:] = rng.normal(size=x.shape)
    arrays.action[:] = np.tanh(0.8 * rng.normal(size=arrays.action.shape))
    info["mean"][:] = np.tanh(0.5 * rng.normal(size=info["mean"].shape))
    info["std"][:] = rng.uniform(0.4, 1.0, size=info["std"].shape)
    arrays.discount[:] = 1.0
    arrays.step_type[:] = StepType.MID
    arrays.discount[0, BURN_IN + 1] = 0.0
    arrays.step_type[0, BURN_IN + 2] = StepType.FIRST
    for unroll, row in ((1, BURN_IN + 2), (2, 0)):
        arrays.step_type[unroll, row : row + 2] = StepType.LAST, StepType.FIRST
    unread = (arrays.reward, arrays.discount, info["mean"], info["std"])
    for x in (*unread, arrays.action):
        x[:, :BURN_IN] = x[:, -1] = np.nan
    for x in unread:
        x[1, BURN_IN + 2] = np.nan
    for part in info["core_state"]:
        part[:, 1:] = np.nan
    return arrays
