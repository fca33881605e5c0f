"""Plays one level of DeepMind Lab in a process of its own: `python -m repro.environments.dmlab_game <descriptor>`.

The process answers requests on an inherited connection and ends when the connection does. It does not import
TensorFlow.

    ("begin", seed)            begins an episode and answers (frame, instruction)
    ("step", action, repeat)   holds an action for some frames and answers (reward, frame, instruction, over)

A frame is the bytes of uint8 [H, W, 3]; the last step of an episode answers the previous frame and instruction. If a
request fails, the answer is the text of the exception, a str, and the process ends.
"""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

ACTIONS = np.array(
    [
        (0, 0, 0, 1, 0, 0, 0),  # forward
        (0, 0, 0, -1, 0, 0, 0),  # backward
        (0, 0, -1, 0, 0, 0, 0),  # strafe left
        (0, 0, 1, 0, 0, 0, 0),  # strafe right
        (-20, 0, 0, 0, 0, 0, 0),  # look left
        (20, 0, 0, 0, 0, 0, 0),  # look right
        (-20, 0, 0, 1, 0, 0, 0),  # forward and look left
        (20, 0, 0, 1, 0, 0, 0),  # forward and look right
        (0, 0, 0, 0, 1, 0, 0),  # fire
    ],
    np.intc,
)
"""Actions of Table C.2 (IMPALA), one a row: look left or right in pixels a frame, look down or up, strafe, move, fire,
jump, crouch."""

FRAME, INSTRUCTION = "RGB_INTERLEAVED", "INSTR"


class LevelCache:
    """A cache of compiled maps with the interface that the engine expects; processes may share its folder.

    Args:
        folder: folder of the maps, created if it is missing.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def fetch(self, key: str, pk3_path: str) -> bool:
        """Copies a map to `pk3_path`; returns whether the cache has it."""
        try:
            shutil.copyfile(self._folder / key, pk3_path)
        except FileNotFoundError:
            return False
        return True

    def write(self, key: str, pk3_path: str) -> None:
        """Stores a map that the engine has compiled."""
        part = self._folder / f"{key}.{os.getpid()}.part"
        shutil.copyfile(pk3_path, part)
        part.replace(self._folder / key)


class Game:
    """One level of DeepMind Lab.

    Args:
        level: name of the level in the engine.
        settings: settings of the engine, all strings.
        cache: folder for compiled maps; None to compile every map again.
        scratch: folder for the engine's temporary files.
    """

    def __init__(self, level: str, settings: Mapping[str, str], cache: str | None, scratch: str) -> None:
        import deepmind_lab

        self._lab = deepmind_lab.Lab(
            level,
            [FRAME, INSTRUCTION],
            config=dict(settings),
            renderer="software",
            level_cache=LevelCache(Path(cache)) if cache else None,
            temp_folder=scratch,
        )
        self._seen: tuple[bytes, str] = (b"", "")

    def begin(self, seed: int) -> tuple[bytes, str]:
        """Begins an episode; returns its first frame and instruction.

        Args:
            seed: seed of the episode, in [0, 2^31).
        """
        self._lab.reset(seed=seed)
        return self._observe()

    def step(self, action: int, repeat: int) -> tuple[float, bytes, str, bool]:
        """Holds an action; returns the sum of rewards, the frame and instruction, and whether the episode is over.

        Args:
            action: index of a row of `ACTIONS`.
            repeat: number of frames to hold the action for; fewer if the episode ends.
        """
        reward = self._lab.step(ACTIONS[action], num_steps=repeat)
        over = not self._lab.is_running()  # there is nothing to observe then
        return reward, *(self._seen if over else self._observe()), over

    def _observe(self) -> tuple[bytes, str]:
        observations = self._lab.observations()
        self._seen = observations[FRAME].tobytes(), str(observations[INSTRUCTION])
        return self._seen


def serve(connection: Connection) -> None:
    """Answers requests until the other side closes the connection. The first message has the arguments of `Game`."""
    arguments = connection.recv()
    try:
        game = Game(*arguments)
        answers: dict[str, Any] = {"begin": game.begin, "step": game.step}
        while True:
            name, *values = connection.recv()
            connection.send(answers[name](*values))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        shutil.rmtree(arguments[-1], ignore_errors=True)  # the engine's files; the other process is gone
    except Exception as error:  # noqa: BLE001 - the engine's errors, and those of its levels
        connection.send(f"{type(error).__name__}: {error}")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m repro.environments.dmlab_game",
        description="Plays one level of DeepMind Lab for the process that starts it, a batch of environments.",
    )
    parser.add_argument("descriptor", type=int, help="file descriptor of the inherited connection")
    serve(Connection(parser.parse_args().descriptor))
    os._exit(0)  # the engine's clean-up can hang


if __name__ == "__main__":
    main()
