"""Runs CleanRL's unchanged `dqn_atari.py` and prints its agent steps: `run_cleanrl.py <its source> <its arguments>`.

It needs CleanRL's Python, with PyTorch, and nothing of this suite.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path
from typing import Any

SCALAR = "charts/SPS"
"""Name of a scalar that it writes, with the number of agent steps, every 100 of them once it learns."""


def count_steps(writer: type) -> None:
    """Makes a class of summary writers print the agent steps of each `SCALAR`."""
    add_scalar = writer.add_scalar  # type: ignore[attr-defined]

    def add(self: Any, tag: str, value: Any, step: int, *rest: Any) -> None:
        add_scalar(self, tag, value, step, *rest)
        if tag == SCALAR:
            print(f"Steps {step}", flush=True)

    writer.add_scalar = add  # type: ignore[attr-defined]


def main(source: Path) -> None:
    """Runs the program in the checkout `source` with the arguments in `sys.argv`."""
    import ale_py  # noqa: F401  registers the games in Gymnasium, which this release no longer finds by itself
    from torch.utils import tensorboard

    count_steps(tensorboard.SummaryWriter)
    sys.path.insert(0, os.fspath(source))  # for cleanrl_utils
    runpy.run_path(os.fspath(source / "cleanrl/dqn_atari.py"), run_name="__main__")


if __name__ == "__main__":
    checkout = Path(sys.argv.pop(1))
    main(checkout)
