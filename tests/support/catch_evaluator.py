"""Evaluator on Catch in a separate process: `python -m tests.support.catch_evaluator <address>`."""

import functools
import sys

from repro.acting.remote_actor import end_with
from repro.acting.remote_evaluator import LearnerLink, evaluate_offers
from repro.training import devices
from tests.support.catch import Catch
from tests.support.training import make_agent

ENVS, EPISODES, SEED = 20, 1000, 3

if __name__ == "__main__":
    address = sys.argv[1]
    end_with(address)
    devices.configure_actor()
    agent, make_environment = make_agent(Catch(1, 0)), functools.partial(Catch, ENVS)
    variables = agent.collect_policy.variables()
    evaluate_offers(agent.policy, variables, [make_environment], ENVS, EPISODES, SEED, LearnerLink(address))
