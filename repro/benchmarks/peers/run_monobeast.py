"""Runs torchbeast's MonoBeast with IMPALA's shallow network: `run_monobeast.py <its source> <its arguments>`.

It needs torchbeast's Python, with PyTorch, and nothing of this suite. Differences from the original program:

- Its network is that of IMPALA's Table F.1, like ours.
- The releases of Gym and atari-py that it was written for cannot be installed any more. It gets Gymnasium's emulators
  with Gym's former interface.
- It prints its agent steps at each update instead of every five seconds.
"""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np


class Env:
    """Game of Gymnasium with the interface of Gym before 0.26.

    Args:
        name: name of the game, such as PongNoFrameskip-v4.
    """

    def __init__(self, name: str) -> None:
        import ale_py  # noqa: F401  registers the games in Gymnasium
        import gymnasium

        self._env: Any = gymnasium.make(name).unwrapped
        self._seed: int | None = None
        self.observation_space, self.action_space = self._env.observation_space, self._env.action_space
        self.spec, self.ale = self._env.spec, self._env.ale
        self.np_random = np.random.RandomState()  # with randint, which NumPy's newer generators lack

    @property
    def unwrapped(self) -> Env:
        return self

    def get_action_meanings(self) -> list[str]:
        return self._env.get_action_meanings()

    def seed(self, seed: int) -> None:
        self._seed = seed % 2**31
        self.np_random.seed(self._seed)

    def reset(self) -> np.ndarray:
        observation, _ = self._env.reset(seed=self._seed)
        self._seed = None
        return observation

    def step(self, action: int) -> tuple[np.ndarray, float, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self._env.step(action)
        return observation, reward, terminated or truncated, info

    def close(self) -> None:
        self._env.close()


class Wrapper:
    """Environment around another one, whose attributes it also has."""

    def __init__(self, env: Any) -> None:
        self.env = env

    def __getattr__(self, name: str) -> Any:
        return getattr(self.env, name)

    def reset(self) -> Any:
        return self.env.reset()

    def step(self, action: int) -> tuple[Any, float, bool, dict[str, Any]]:
        return self.env.step(action)


class ObservationWrapper(Wrapper):
    """Wrapper that changes observations by `observation`."""

    def observation(self, observation: Any) -> Any:
        raise NotImplementedError

    def reset(self) -> Any:
        return self.observation(self.env.reset())

    def step(self, action: int) -> tuple[Any, float, bool, dict[str, Any]]:
        observation, *rest = self.env.step(action)
        return self.observation(observation), *rest


class RewardWrapper(Wrapper):
    """Wrapper that changes rewards by `reward`."""

    def reward(self, reward: float) -> float:
        raise NotImplementedError

    def step(self, action: int) -> tuple[Any, float, bool, dict[str, Any]]:
        observation, reward, done, info = self.env.step(action)
        return observation, self.reward(reward), done, info


class StepPrinter:
    """Log that prints the agent steps of each update of MonoBeast, and writes no files."""

    def __init__(self, **_: Any) -> None:
        pass

    def log(self, row: dict[str, Any]) -> None:
        print(f"Steps {row['step']}", flush=True)

    def close(self) -> None:
        pass


def make_gym() -> types.ModuleType:
    """Returns a module with the parts of Gym that MonoBeast uses."""
    from gymnasium import spaces

    gym = types.ModuleType("gym")
    gym.__dict__.update(
        make=Env, spaces=spaces, Wrapper=Wrapper, ObservationWrapper=ObservationWrapper, RewardWrapper=RewardWrapper
    )
    return gym


def make_network() -> type:
    """Returns a class of networks for MonoBeast: 16 filters 8x8, 32 filters 4x4, 256 units, two heads."""
    import torch
    from torch import nn
    from torch.nn import functional

    class ShallowNet(nn.Module):
        def __init__(self, observation_shape: tuple[int, ...], num_actions: int, use_lstm: bool = False) -> None:
            assert not use_lstm, "the shallow network on Atari has no LSTM"
            super().__init__()
            self.num_actions = num_actions
            self.torso = nn.Sequential(
                nn.Conv2d(observation_shape[0], 16, 8, stride=4),
                nn.ReLU(),
                nn.Conv2d(16, 32, 4, stride=2),
                nn.ReLU(),
                nn.Flatten(),
                nn.Linear(32 * 9 * 9, 256),
                nn.ReLU(),
            )
            self.policy = nn.Linear(256, num_actions)
            self.baseline = nn.Linear(256, 1)

        def initial_state(self, batch_size: int) -> tuple[()]:
            return ()

        def forward(self, inputs: dict[str, Any], core_state: tuple[()] = ()) -> tuple[dict[str, Any], tuple[()]]:
            frames = inputs["frame"]  # [T, B, C, H, W]
            steps, batch = frames.shape[:2]
            features = self.torso(frames.flatten(0, 1).float() / 255.0)
            logits = self.policy(features)
            action = torch.multinomial(functional.softmax(logits, dim=1), num_samples=1)
            output = {
                "policy_logits": logits.view(steps, batch, self.num_actions),
                "baseline": self.baseline(features).view(steps, batch),
                "action": action.view(steps, batch),
            }
            return output, core_state

    return ShallowNet


def main(source: Path) -> None:
    """Runs the program in the checkout `source` with the arguments in `sys.argv`."""
    sys.modules["gym"] = make_gym()
    sys.path.insert(0, os.fspath(source))
    from torchbeast import monobeast

    monobeast.Net = make_network()
    monobeast.file_writer.FileWriter = StepPrinter
    monobeast.main(monobeast.parser.parse_args())


if __name__ == "__main__":
    checkout = Path(sys.argv.pop(1))
    main(checkout)
