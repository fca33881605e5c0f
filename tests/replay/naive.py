"""A naive twin of the ReF-ER memory: Python lists, float64, everything computed in full on each call."""

from __future__ import annotations

import numpy as np


class NaiveMemory:
    def __init__(self, capacity, discount):
        self.capacity, self.discount = capacity, discount
        self.stored = []  # episodes, oldest first
        self.seen = 0
        self.c_max = float("inf")
        self.scale = 1.0

    def add_episode(self, states, actions, rewards, means, stds, values, terminated, advantages=None):
        episode = [
            {"serial": self.seen + t, "state": states[t], "next_state": states[t + 1], "action": actions[t]}
            | {"mean": means[t], "std": stds[t], "reward": float(rewards[t])}
            | {"value": float(values[t]), "rho": 1.0}
            | {"advantage": 0.0 if advantages is None else float(advantages[t])}
            for t in range(len(rewards))
        ]
        self.seen += len(episode)
        self.stored.append({"steps": episode, "last": 0.0 if terminated else float(values[-1]), "end": terminated})
        while sum(len(e["steps"]) for e in self.stored) > self.capacity:
            self.stored.pop(0)

    def serials(self):
        return [step["serial"] for episode in self.stored for step in episode["steps"]]

    def find(self, serial):
        for episode in self.stored:
            for t, step in enumerate(episode["steps"]):
                if step["serial"] == serial:
                    return episode, t
        raise KeyError(serial)

    def v_tbc(self, episode, t):
        """Eq. 7 with Q = V + A (Appendix E) as a recursion from the paper; t may be one past the last step."""
        if t == len(episode["steps"]):
            return episode["last"]
        step = episode["steps"][t]
        error = self.q_ret(episode, t) - (step["value"] + step["advantage"])
        return step["value"] + min(1.0, step["rho"]) * error

    def q_ret(self, episode, t):
        return episode["steps"][t]["reward"] / self.scale + self.discount * self.v_tbc(episode, t + 1)

    def update(self, serials, rho, value, advantage=None):
        advantage = np.zeros(len(serials)) if advantage is None else advantage
        for serial, new_rho, new_value, new_advantage in zip(serials, rho, value, advantage):
            episode, t = self.find(serial)
            episode["steps"][t]["rho"] = float(new_rho)
            episode["steps"][t]["value"] = float(new_value)
            episode["steps"][t]["advantage"] = float(new_advantage)

    def cut_ends(self, serials):
        """Sampled steps that are the last of an episode which did not terminate, each once."""
        found = {
            serial for serial in serials for e, t in [self.find(serial)] if not e["end"] and t == len(e["steps"]) - 1
        }
        return sorted(found)

    def update_last_values(self, serials, values):
        for serial, value in zip(serials, values):
            self.find(serial)[0]["last"] = float(value)

    def far(self):
        ratios = [step["rho"] for episode in self.stored for step in episode["steps"]]
        return sum(not (1.0 / self.c_max < rho < self.c_max) for rho in ratios) / max(1, len(ratios))

    def refresh(self):
        rewards = [step["reward"] for episode in self.stored for step in episode["steps"]]
        mean_square = sum(r * r for r in rewards) / len(rewards)
        if mean_square > 0.0:
            self.scale = mean_square**0.5 + 1e-7

    def minibatch(self, serials):
        """Fields of `Minibatch` by name, [B, ...]."""
        found = []
        for serial in serials:
            episode, t = self.find(serial)
            step = episode["steps"][t]
            ends = episode["end"] and t == len(episode["steps"]) - 1
            found.append(
                {name: step[name] for name in ("state", "action", "mean", "std", "next_state")}
                | {"reward": step["reward"] / self.scale, "discount": 0.0 if ends else self.discount}
                | {"q_ret": self.q_ret(episode, t), "v_tbc": self.v_tbc(episode, t)}
            )
        return {name: np.array([one[name] for one in found]) for name in found[0]}

    def windows(self, serials, longest):
        """States up to each step, one list per step, oldest first."""
        found = [self.find(serial) for serial in serials]
        return [[one["state"] for one in episode["steps"][: t + 1]][-longest:] for episode, t in found]


def random_advantages(random, episode):
    """The argument `advantages` that goes with a `random_episode`."""
    return random.normal(size=len(episode["rewards"])).astype(np.float32)


def random_episode(random, length, states=3, actions=2):
    """Arguments of `add_episode` but for `terminated` and `advantages`."""
    return {
        "states": random.normal(size=(length + 1, states)).astype(np.float32),
        "actions": random.normal(size=(length, actions)).astype(np.float32),
        "rewards": random.normal(size=length).astype(np.float32),
        "means": random.normal(size=(length, actions)).astype(np.float32),
        "stds": random.uniform(0.1, 1.0, size=(length, actions)).astype(np.float32),
        "values": random.normal(size=length + 1).astype(np.float32),
    }
