"""A level of DeepMind Lab in a separate process, which may crash or hang without harm to this one."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

from repro.environments.dmlab_module import module_folder

ROOT = Path(__file__).parents[2]


class GameFailedError(RuntimeError):
    """A process ended, raised an error or did not answer in time; the message says which."""


class GameProcess:
    """Starts the process of a level when needed, and exchanges requests and answers with it.

    Args:
        level: name of the level in the engine.
        settings: settings of the engine, all strings.
        cache: folder for compiled maps; None for no cache.
        timeout: seconds to wait for an answer.
        render_fps: number of agent steps in a second of play.

    Raises:
        MissingModuleError: DeepMind Lab is not built.

    Attributes:
        metadata: Gymnasium's metadata with `render_fps`.
    """

    def __init__(
        self, level: str, settings: Mapping[str, str], cache: str | None, timeout: float, render_fps: float
    ) -> None:
        self._process: subprocess.Popen | None = None
        self.metadata = {"render_fps": render_fps}
        self._level, self._settings, self._cache, self._timeout = level, dict(settings), cache, timeout
        self._folder = module_folder()
        self._connection: Connection | None = None
        self._output: Any = None
        self._scratch: tempfile.TemporaryDirectory | None = None

    def request(self, *what: Any) -> None:
        """Sends a request, whose result `answer` returns; starts the process if none is running."""
        if self._process is None:
            self._start()
        assert self._connection is not None
        with contextlib.suppress(OSError):  # `answer` notices if the process has ended
            self._connection.send(what)

    def answer(self) -> Any:
        """Returns the answer to the last request.

        Raises:
            GameFailedError: the process failed and was ended; the next request starts another one.
        """
        assert self._connection is not None
        try:
            if not self._connection.poll(self._timeout):
                raise GameFailedError(f"no answer for {self._timeout:g} seconds")
            found = self._connection.recv()
            if isinstance(found, str):
                raise GameFailedError(found)
        except (EOFError, OSError):
            reason = self._last_words()
            self.close()
            raise GameFailedError(f"its process ended ({reason})") from None
        except GameFailedError:
            self.close()
            raise
        return found

    def close(self) -> None:
        """Ends the process and all that it has started; the next request starts another one."""
        if self._process is None:
            return
        assert self._connection is not None
        assert self._scratch is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # with the compilers of maps
        self._process.wait()
        self._connection.close()
        self._output.close()
        self._scratch.cleanup()
        self._process = None

    def __del__(self) -> None:
        self.close()

    def _start(self) -> None:
        self._connection, inherited = Pipe()
        self._scratch = tempfile.TemporaryDirectory(prefix="dmlab_", ignore_cleanup_errors=True)
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - `close` does
        folders = [str(ROOT), self._folder, os.environ.get("PYTHONPATH")]
        # In a new session, Ctrl-C does not reach the process. One rendering thread is best for one process per core.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "repro.environments.dmlab_game", str(inherited.fileno())],
            env={"LP_NUM_THREADS": "0", **os.environ, "PYTHONPATH": os.pathsep.join(filter(None, folders))},
            pass_fds=[inherited.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
            start_new_session=True,
        )
        inherited.close()
        with contextlib.suppress(OSError):
            self._connection.send((self._level, self._settings, self._cache, self._scratch.name))

    def _last_words(self) -> str:
        """Returns the last line that the process printed, or else its exit code."""
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        self._output.seek(max(0, self._output.seek(0, os.SEEK_END) - 4096))
        lines = self._output.read().decode(errors="replace").strip().splitlines()
        return " ".join(lines[-1].split()) if lines else f"exit code {self._process.returncode}"
