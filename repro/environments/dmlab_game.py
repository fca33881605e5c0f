"""What a process that plays one level of DeepMind Lab does: `python -m repro.environments.dmlab_game <descriptor>`.

It answers requests on a connection that it inherits, and ends with it. Nothing here imports TensorFlow.

    ("begin", seed)            a new episode: (frame, instruction)
    ("step", action, repeat)   an action held for some frames: (reward, frame, instruction, over)

A frame is the bytes of uint8 [H, W, 3]; the last step of an episode gives the frame and instruction before it. What
fails is answered by an Exception's text, a str, and ends the process.
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
"""Table C.2 (IMPALA): look left or right in pixels a frame, look down or up, strafe, move, fire, jump, crouch."""

FRAME, INSTRUCTION = "RGB_INTERLEAVED", "INSTR"


class LevelCache:
    """Compiled maps in a folder, as the engine asks for them; processes may share it.

    Args:
        folder: made where it is missing.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def fetch(self, key: str, pk3_path: str) -> bool:
        """Copies a map to where the engine wants it; returns whether there is one."""
        try:
            shutil.copyfile(self._folder / key, pk3_path)
        except FileNotFoundError:
            return False
        return True

    def write(self, key: str, pk3_path: str) -> None:
        """Keeps a map that the engine has compiled."""
        part = self._folder / f"{key}.{os.getpid()}.part"
        shutil.copyfile(pk3_path, part)
        part.replace(self._folder / key)


class Game:
    """One level of DeepMind Lab.

    Args:
        level: the engine's name.
        settings: of the engine, all strings.
        cache: folder for compiled maps; None compiles each again.
        scratch: folder for the engine's own files.
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
            seed: in [0, 2^31).
        """
        self._lab.reset(seed=seed)
        return self._observe()

    def step(self, action: int, repeat: int) -> tuple[float, bytes, str, bool]:
        """Holds an action; returns the sum of rewards, the frame and instruction, and whether the episode is over.

        Args:
            action: row of `ACTIONS`.
            repeat: frames to hold it for, fewer where the episode ends.
        """
        reward = self._lab.step(ACTIONS[action], num_steps=repeat)
        over = not self._lab.is_running()  # there is nothing to observe then
        return reward, *(self._seen if over else self._observe()), over

    def _observe(self) -> tuple[bytes, str]:
        observations = self._lab.observations()
        self._seen = observations[FRAME].tobytes(), str(observations[INSTRUCTION])
        return self._seen


def serve(connection: Connection) -> None:
    """Answers requests until the other side is gone. The first one has the arguments of `Game`."""
    arguments = connection.recv()
    try:
        game = Game(*arguments)
        answers: dict[str, Any] = {"begin": game.begin, "step": game.step}
        while True:
            name, *values = connection.recv()
            connection.send(answers[name](*values))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        shutil.rmtree(arguments[-1], ignore_errors=True)  # the engine's files, as nobody else is left to do it
    except Exception as error:  # noqa: BLE001 - the engine's errors, and those of its levels
        connection.send(f"{type(error).__name__}: {error}")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m repro.environments.dmlab_game",
        description="Plays one level of DeepMind Lab for the process that starts it, a batch of environments.",
    )
    parser.add_argument("descriptor", type=int, help="file descriptor of the connection that it inherits")
    serve(Connection(parser.parse_args().descriptor))
    os._exit(0)  # the engine's own clean-up can hang


if __name__ == "__main__":
    main()
