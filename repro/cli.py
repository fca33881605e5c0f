"""What all commands share: quiet start, flags of nested configurations, one sentence for an error."""

from __future__ import annotations

import difflib
import gc
import glob
import importlib
import os
import re
import runpy
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

import ml_collections
from absl import app, flags, logging
from gym_notices.notices import notices
from ml_collections import config_flags

from repro.config import flatten

USAGE_ERROR = 2
"""Exit code for input that cannot be used."""

INTERRUPTED = 130
"""Exit code after Ctrl-C, where nothing had to be saved."""


def quiet() -> None:
    """Keeps third-party messages off the screen; call before TensorFlow is imported."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    warnings.simplefilter("ignore")
    logging.set_verbosity(logging.ERROR)
    notices.clear()  # TF-Agents imports gym, which prints one on import


def load_tensorflow() -> None:
    """Imports TensorFlow and TF-Agents, quietly, and keeps Python's garbage collector from what they make.

    Nothing of it ever ends, and the collector goes through it again and again, while they load and while a run begins.
    """
    quiet()
    gc.disable()
    importlib.import_module("tf_agents.policies")
    gc.freeze()
    gc.enable()


def fail(message: object, code: int = USAGE_ERROR) -> NoReturn:
    """Prints one sentence and ends the process."""
    print(f"{_program()}: {message}", file=sys.stderr)
    raise SystemExit(code)


def run(main: Callable[[list[str]], None]) -> None:
    """`absl.app.run`, with one sentence and exit code 2 for flags that cannot be used; Ctrl-C ends quietly."""
    try:
        app.run(main, flags_parser=parse_flags)
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


def parse_flags(argv: Sequence[str]) -> list[str]:
    """Parses; unknown fields name the nearest one, wrong types say what is expected."""
    settings = dict(re.findall(r"^--config(?:\.([\w.]+))?=(.*)$", a)[0] for a in argv if _CONFIG.match(a))
    if "" in settings:
        _check_settings(_load_config(settings.pop("")), settings)
    elif settings and "config" in flags.FLAGS:
        fail(f"--config.{min(settings)} changes a field of a configuration, which --config=<file> must name.")
    try:
        rest = flags.FLAGS(list(argv))
    except (flags.Error, AttributeError, KeyError, TypeError, ValueError) as error:
        fail(" ".join(str(error).split()).rstrip(" .?") + f"; see python -m {_program()} --help.")
    if len(rest) > 1:
        fail(f"unexpected argument {rest[1]!r}; settings are given as --name=value.")
    return rest


def define_config() -> flags.FlagHolder:
    """The flag `--config=paper_configs/<paper>/<experiment>.py[:scale]`, whose fields are flags too."""
    return config_flags.DEFINE_config_file(
        "config",
        None,
        "Configuration file and scale, such as paper_configs/impala/atari_shallow.py:desk; "
        "change any field with --config.section.field=value.",
        lock_config=True,
    )


def _load_config(flag: str) -> ml_collections.ConfigDict:
    """The configuration that `--config=<path>[:scale]` names, without overrides."""
    path, *scale = flag.split(":", 1)
    if not os.path.isfile(path):
        known = sorted(glob.glob("paper_configs/*/[a-z]*.py"))
        fail(f"no configuration file {path!r}{nearest(path, known)} (there are {', '.join(known)})")
    try:
        return runpy.run_path(path)["get_config"](*scale)
    except (ValueError, KeyError, TypeError) as error:
        fail(f"{path}: {error}")


def _check_settings(config: ml_collections.ConfigDict, settings: Mapping[str, str]) -> None:
    """Fails for a field that the configuration does not have, or text that its type cannot hold."""
    fields = flatten(config)
    for name, text in settings.items():
        if name not in fields and re.match(r"env\.kwargs\b", name):
            fail(
                f"{name} cannot be set from the command line; set it in a config of your own, "
                'see "Arguments of the environment" in docs/custom_environment.md.'
            )
        if name not in fields:
            same_name = [field for field in fields if field.split(".")[-1] == name.split(".")[-1]]
            fail(f"the configuration has no field {name!r}{nearest(name, same_name or list(fields))}")
        if not _fits(text, fields[name]):
            kind = type(fields[name]).__name__
            fail(f"{name}={text!r} is not of type {kind} (its value is {fields[name]!r}).")
    agent = settings.get("agent", config.agent)
    own = config.get("variants", {}).get(agent, {})
    for name in sorted(settings.keys() & flatten(own).keys()):
        fail(f"agent {agent} has its own {name}; change it with --config.variants.{agent}.{name}={settings[name]}.")


def _fits(text: str, value: object) -> bool:
    if isinstance(value, bool):
        return text.lower() in ("true", "false", "0", "1", "t", "f")
    if isinstance(value, (int, float)):
        try:
            type(value)(text)
        except ValueError:
            return False
    return True


def nearest(name: str, names: Sequence[str]) -> str:
    """`; did you mean 'x'?` for the nearest of some names, or nothing."""
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
    return f"; did you mean {close[0]!r}?" if close else ""


_CONFIG = re.compile(r"--config(\.[\w.]+)?=")


def _program() -> str:
    module = getattr(sys.modules["__main__"], "__spec__", None)
    return module.name if module else os.path.basename(sys.argv[0])
