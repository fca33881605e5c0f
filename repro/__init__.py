"""Reproducibility suite for five off-policy deep reinforcement-learning papers."""

import shlex
import sys
from types import TracebackType

_COMMAND = next(
    (name for flag, name in zip(sys.orig_argv, sys.orig_argv[1:]) if flag == "-m" and name.startswith("repro.")), None
)


def _show_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Prints how to install a missing package, and nothing for Ctrl-C; Python shows any other error."""
    if issubclass(kind, KeyboardInterrupt):
        return
    name = error.name if isinstance(error, ModuleNotFoundError) else None
    if name is None or name.split(".")[0] in ("repro", "paper_configs"):
        sys.__excepthook__(kind, error, trace)
        return
    importer = sys.argv[0]
    while trace is not None:
        if "importlib" not in (file := trace.tb_frame.f_code.co_filename):
            importer = file
        trace = trace.tb_next
    install = [sys.executable, "-m", "pip", "install", "--requirement", "requirements.lock"]
    way = f"install all packages of the suite with: {shlex.join(install)}"
    if sys.prefix == sys.base_prefix:  # not a virtual environment
        way = f"run the command with .venv/bin/python instead of {sys.executable}, after make setup."
    print(f"{_COMMAND}: the package {name!r}, which {importer} imports, is missing; {way}", file=sys.stderr)


if _COMMAND:  # for commands such as python -m repro.train, not for other projects that import this package
    sys.excepthook = _show_error
