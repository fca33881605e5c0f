"""Functions that all commands share: quiet start, flags of nested configurations, one-sentence errors."""

from __future__ import annotations

import collections
import difflib
import errno
import gc
import glob
import importlib
import itertools
import json
import math
import os
import re
import runpy
import shlex
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import ml_collections
from absl import app, flags, logging
from gym_notices.notices import notices
from ml_collections import config_flags

from repro.config import LATER, agents, flatten, missing_field, resolve, resolve_plain
from repro.files import FULL, locate, reason, write_whole

if TYPE_CHECKING:
    from rich.console import Console

flags.disclaim_key_flags()  # flags defined here appear in the help of the command that uses them

# NumPy reads this variable when it is imported, which happens later. Agents that act in NumPy, and evidence, have small
# matrices, for which a second thread costs several times what it saves.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# TensorFlow reads this variable when it is imported. By default it uses oneDNN only on processors with instructions for
# neural networks; oneDNN's convolutions are faster than Eigen's on others, too (docs/performance.md).
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

USAGE_ERROR = 2
"""Exit code for input that cannot be used."""

PARENT = "REPRO_PARENT"
"""Variable of the environment in which a command that starts another one gives its name."""
INTERRUPTED = 130
"""Exit code after Ctrl-C if nothing had to be saved."""


INACCESSIBLE = (errno.EACCES, *FULL, errno.EROFS, errno.ENOTDIR, errno.EEXIST)
"""Error numbers for missing permission, a full quota or disk, a read-only file system, and a file where a folder must
be."""


def say(console: Console, text: str, style: str | None = None) -> None:
    """Prints a text as it is: brackets are no markup, and no line is broken, so that paths can be copied."""
    console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)


def quiet() -> None:
    """Suppresses messages of third-party libraries; call it before TensorFlow is imported."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    warnings.simplefilter("ignore")
    logging.set_verbosity(logging.ERROR)
    notices.clear()  # TF-Agents imports gym, which prints one on import


def load_tensorflow() -> None:
    """Imports TensorFlow and TF-Agents without messages, and excludes their objects from garbage collection.

    These objects live as long as the process, and the collector would traverse them repeatedly while they are loaded
    and while a run begins.
    """
    quiet()
    gc.disable()
    importlib.import_module("tf_agents.policies")
    gc.freeze()
    gc.enable()


def fail(message: object, code: int = USAGE_ERROR) -> NoReturn:
    """Prints one sentence and ends the process by SystemExit.

    The local variables of a caught error's frames are freed before. They may include emulators, and ALE prints that
    emulators alive at the end of Python are leaked.

    Args:
        message: the sentence.
        code: exit code.
    """
    if (error := sys.exception()) is not None:
        traceback.clear_frames(error.__traceback__)
    print(f"{_program()}: {message}", file=sys.stderr)
    raise SystemExit(code)


def has_parent() -> bool:
    """Returns whether another command has started this one, and says itself how to go on."""
    return PARENT in os.environ


def run(main: Callable[[list[str]], None]) -> None:
    """Calls `absl.app.run`; invalid flags give one sentence and exit code 2, and Ctrl-C ends without a message.

    A file that cannot be read or written also gives one sentence, unless the command handles the error itself.
    """
    try:
        app.run(main, flags_parser=parse_flags)
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    except OSError as error:
        if error.errno not in INACCESSIBLE:
            raise
        fail(f"{error.filename or 'a file'} could not be read or written ({error.strerror}).", code=1)


def describe_file_error(error: OSError, folder: Path) -> str:
    """Returns a description, without a full stop, of an error while a command reads or writes a file.

    Args:
        error: the caught error.
        folder: a folder on the full disk, named if the error names no file.
    """
    if error.errno in FULL:
        return f"could not write to {error.filename or folder} ({error.strerror}); free some space"
    if error.filename is None:  # a connection, for instance
        return f"{type(error).__name__}: {error}"
    return f"{error.filename} could not be read or written ({error.strerror})"


def parse_flags(argv: Sequence[str]) -> list[str]:
    """Parses the flags of a command, including fields of a configuration, and returns the remaining arguments.

    Errors are one sentence with exit code 2: for an unknown field with the most similar one, for a wrong type with the
    expected one. `--help` also lists the fields of a given configuration, and ends with exit code 0.
    """
    argv = _with_equals_signs(argv)
    settings = dict(re.findall(r"^--config(?:\.([\w.]+))?=(.*)$", a)[0] for a in argv if _CONFIG.match(a))
    fields: Mapping[str, object] = {}
    if "" in settings:
        config = load_config(settings.pop(""))
        _check_settings(config, settings)
        fields = flatten(config)
        argv = [_with_whole_number(argument, fields) for argument in argv]
        if (ordered := _with_fields_after_file(argv)) != argv:
            sys.argv[:] = argv = ordered  # in sys.argv the flag of the configuration checks the order
    elif settings:
        changes = f"--config.{min(settings)} changes a field of a configuration"
        if "config" in flags.FLAGS:
            fail(f"{changes}; name its file with --config=<file>.")
        fail(f"{changes}, which {_program()} does not; write a file with your values (docs/extending.md).")
    try:
        rest = flags.FLAGS(argv)
    except SystemExit:  # --help has printed the help and exits with code 1
        if fields:
            print("\nFields of this configuration, with the values of its file, whose comments say units and sources:")
            print("\n".join(f"  --config.{name}={_write(value)}" for name, value in fields.items()))
        raise SystemExit(0) from None
    except (flags.Error, AttributeError, KeyError, TypeError, ValueError) as error:
        name = getattr(error, "flagname", "")
        meant = [field for field in fields if name and f".{field}".endswith(f".{name}")]
        missing = re.findall(r"flag (--\w+)=None: Flag --\w+ must have a value other than None\.", str(error))
        text = " ".join(str(error).split()).rstrip(" .?")
        text = re.sub(r"invalid literal for int\(\) with base 10: (.*)", r"\1 is not a whole number in digits", text)
        if missing:
            text = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
        if meant:
            fail(f"{text}; did you mean --config.{meant[0]}?")
        fail(f"{text}; see {command(_program(), '--help')}.")
    if len(rest) > 1:
        fail(f"unexpected argument {rest[1]!r}; settings are given as --name=value.")
    for name in (name for name in flags.FLAGS if "." not in name):
        flag = flags.FLAGS[name]
        if flag.present and flag.value in ("", [], [""]):
            fail(f"--{name} is empty; see {command(_program(), '--help')}.")
        if isinstance(flag.value, float) and not math.isfinite(flag.value):
            fail(f"--{name}={flag.value}: choose a finite number.")
    return rest


def command(module: str, *arguments: str) -> str:
    """Returns a command line of the suite for users to copy, with the Python interpreter as it was called."""
    return shlex.join([sys.orig_argv[0], "-m", module, *arguments])


def define_config(example: str = "paper_configs/impala/atari_shallow.py:desk") -> flags.FlagHolder:
    """Defines the flag `--config=paper_configs/<paper>/<experiment>.py[:scale]`, whose fields become flags, too."""
    return config_flags.DEFINE_config_file(
        "config",
        None,
        f"Configuration file and scale, such as {example}; change any field with --config.section.field=value.",
        lock_config=True,
    )


def define_json() -> flags.FlagHolder[str | None]:
    """Defines the flag `--json=<file>`; a missing folder is an error before the command does its work."""
    holder = flags.DEFINE_string("json", None, "Also write the result to this file.")
    message = "its folder does not exist, or it is a folder itself"
    flags.register_validator(holder, lambda path: not path or _can_hold(Path(path)), message)
    return holder


def _can_hold(path: Path) -> bool:
    return path.resolve().parent.is_dir() and not path.is_dir()


def write_json(path: str | None, document: object) -> None:
    """Writes the file of `--json` atomically, or fails with exit code 1; does nothing without a path."""
    if path is None:
        return
    try:
        write_whole(Path(path), json.dumps(document, indent=1) + "\n")
    except OSError as error:
        fail(f"{path} could not be written ({reason(error)}).", code=1)


def fail_for_missing_field(error: AttributeError | KeyError, config: ml_collections.ConfigDict) -> NoReturn:
    """Fails with the field that a configuration lacks; raises an error that has another cause."""
    if (field := missing_field(error)) is None:
        raise error
    known = set().union(*map(_fields, _suite_of()))
    whole = sorted(name for name in known if name.count(".") == 1 and name.rpartition(".")[2] == field)
    is_section = any(name.startswith(f"{field}.") for name in known)
    meant = [field] if is_section or not whole else whole
    fail(
        f"the configuration has no field {' or '.join(map(repr, meant))}, which {resolve(config).algorithm} "
        "reads with these settings; add it, or choose an agent or a configuration that has it."
    )


def load_config(flag: str) -> ml_collections.ConfigDict:
    """Returns the configuration of `--config=<path>[:scale]`, without overrides; fails if the file has no valid one."""
    path, *scale = flag.split(":", 1)
    if not os.path.isfile(path):
        fail(f"no configuration file {path!r}{_name_others(path)}")
    is_suite = os.path.relpath(path) in _suite_configs()
    try:
        if not path.endswith(".py") or (get_config := runpy.run_path(path).get("get_config")) is None:
            fail(f"{path} is not a configuration, a Python file with a function get_config(scale).")
        config = get_config(*scale)
    except Exception as error:  # for any error of the file, the message says where and why
        fail(f"{path}: {error}" if is_suite and isinstance(error, ValueError) else locate(error, path))
    if not isinstance(config, ml_collections.ConfigDict):
        fail(f"{path}: get_config must return a ConfigDict, not {type(config).__name__}.")
    if not is_suite:
        _check_own(path, config)
    return config


def _name_others(path: str) -> str:
    """Returns a configuration file with a name similar to that of a missing one, or where there are others."""
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    beside = sorted(glob.glob(os.path.join(glob.escape(folder), "[a-z]*.py")))
    suite = _suite_configs()
    others = [*beside, *(other for other in suite if other not in beside)]
    names = difflib.get_close_matches(os.path.basename(path), map(os.path.basename, others), cutoff=0.7)
    if near := nearest(path, [other for other in others if os.path.basename(other) in names]):
        return near
    folders = sorted({os.path.dirname(other) for other in suite})
    if folder and beside and os.path.relpath(folder) not in map(os.path.dirname, folders):
        return f" ({folder.rstrip('/')} has {', '.join(map(os.path.basename, beside))})"
    if not suite:
        return " (those of the suite are found from its own folder only)"
    return f" (there are some in {', '.join(folders)})"


def _suite_configs() -> list[str]:
    return sorted(glob.glob("paper_configs/*/[a-z]*.py"))


def _suite_of() -> list[ml_collections.ConfigDict]:
    """Returns the suite's configurations; none outside its root folder."""
    return [runpy.run_path(file)["get_config"]() for file in _suite_configs()]


def _check_own(path: str, config: ml_collections.ConfigDict) -> None:
    """Fails if a user's configuration has a field that none of the suite's has, since nothing would read it.

    Also fails if it lacks a required field that all of the suite's configurations with the same algorithm have, or has
    a field of another type than these. With an algorithm from outside the suite it may have any fields.
    """
    kind = "study" if "study" in config else "algorithm"
    for name in ("agent", kind):
        if name not in config:
            fail(f"{path}: the configuration has no field {name!r}.")
    if kind == "algorithm" and ":" in config.algorithm:
        return
    suite = _suite_of()
    similar = [other for other in suite if other.get(kind) == config[kind]]
    alike = [_fields(other) for other in similar]
    needed = {name for name in set.intersection(*alike) if not _OPTIONAL.match(name)} if alike else set()
    if lacking := needed - _fields(config) - {f"{section}.{name}" for section in LATER for name in LATER[section]}:
        fail(f"{path}: the configuration has no field {min(lacking)!r}, which all of {config[kind]} must have.")
    known = set().union(*map(_fields, suite))
    own = {name for name in _fields(config) - known if not re.match(r"env\.kwargs\b", name)}
    if known and own:
        name = min(own)
        same_section = [field for field in known if field.rpartition(".")[0] == name.rpartition(".")[0]]
        near = nearest(name, same_section)
        fail(f"{path}: nothing reads the field {name!r}, which no configuration of the suite has{near}")
    values = collections.defaultdict(list)
    for name, value in itertools.chain.from_iterable(map(_items, similar)):
        values[name].append(value)
    for name, value in _items(config):
        if values[name] and not any(_is_like(value, other) for other in values[name]):
            fail(f"{path}: {name} is {value!r}; choose a value like {values[name][0]!r}.")


def _items(config: ml_collections.ConfigDict) -> Iterator[tuple[str, Any]]:
    """Yields the fields of each of a configuration's agents: dotted name and value."""
    plain = config.to_dict()
    for agent in agents(plain):
        yield from flatten(resolve_plain(plain, agent)).items()


def _fields(config: ml_collections.ConfigDict) -> set[str]:
    """Returns the names of all fields of a configuration's agents."""
    return {name for name, _ in _items(config)}


def _is_like(value: object, other: object) -> bool:
    """Returns whether a value can stand where another one does: numbers, whole where it is, or the same type."""
    if other is None:  # of any type
        return True
    if isinstance(other, bool) or isinstance(value, bool):
        return isinstance(value, bool) and isinstance(other, bool)
    if isinstance(value, (int, float)) and isinstance(other, (int, float)):
        return isinstance(other, float) or float(value).is_integer()
    if isinstance(other, (tuple, list)):
        return isinstance(value, (tuple, list))
    return isinstance(value, type(other))


def _check_settings(config: ml_collections.ConfigDict, settings: Mapping[str, str]) -> None:
    """Fails for settings of unknown fields, of fields that the agent overrides, or with text of the wrong type."""
    fields = flatten(config)
    agent = settings.get("agent", config.agent)
    if agent not in agents(config):
        fail(f"there is no agent {agent!r}{nearest(agent, agents(config))} (there are {', '.join(agents(config))})")
    own = flatten(config.get("variants", {}).get(agent, {}))
    is_sampled = str(settings.get("sweep.sampled", fields.get("sweep.sampled", True))).lower() in ("true", "1", "t")
    for name, text in settings.items():
        if name == "scale" and text != config.get("scale", text):
            fail(f"scale={text!r}: a scale changes many fields; give it with the file, as --config=<file>:{text}.")
        if name in own:
            fail(f"agent {agent} has its own {name}; change it with --config.variants.{agent}.{name}={text}.")
        if name not in fields and re.match(r"env\.kwargs\b", name):
            fail(
                f"{name} cannot be set from the command line; set it in a config of your own, "
                'see "Arguments of the environment" in docs/custom_environment.md.'
            )
        if name not in fields:
            same_name = [field for field in fields if field.split(".")[-1] == name.split(".")[-1]]
            fail(f"the configuration has no field {name!r}{nearest(name, same_name or list(fields))}")
        if is_sampled and f"sweep.{name.rpartition('.')[2]}" in fields and not name.startswith("sweep."):
            fail(
                f"{name} would not be read, since the sweep samples its value; also give --config.sweep.sampled=False."
            )
        if not _fits(text, fields[name]) and not (_is_int(fields[name]) and _is_whole(text)):
            fail(f"{name}={text!r} is not of type {type(fields[name]).__name__} (the file has {fields[name]!r}).")


def _fits(text: str, value: object) -> bool:
    if isinstance(value, bool):
        return text.lower() in ("true", "false", "0", "1", "t", "f")
    if isinstance(value, (int, float)):
        try:
            type(value)(text)
        except ValueError:
            return False
    if isinstance(value, tuple) and value and all(isinstance(x, (int, float)) for x in value):
        largest = max(value, key=lambda x: isinstance(x, float))  # a float, if there is one
        parts = text.strip("()[] ").rstrip(",").split(",")
        return text in ("()", "[]") or all(_fits(part, largest) for part in parts)
    return True


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_whole(text: str) -> bool:
    """Returns whether a text is a whole number, possibly in another notation, such as 2e5 or 1.5e6."""
    return _NUMBER.fullmatch(text) is not None and float(text).is_integer()


def _with_whole_number(argument: str, values: Mapping[str, object]) -> str:
    """Returns an argument for an integer field with digits only, as its flag requires; other arguments unchanged."""
    name, _, text = argument.partition("=")
    is_int = _is_int(values.get(name.removeprefix("--config.")))
    return f"{name}={float(text):.0f}" if is_int and _is_whole(text) and not text.isdecimal() else argument


def _with_fields_after_file(argv: Sequence[str]) -> list[str]:
    """Returns arguments with fields of the configuration that precede its file behind it, all others in their order."""
    place = next(i for i, argument in enumerate(argv) if argument.startswith("--config="))
    early = [argument for argument in argv[:place] if argument.startswith("--config.")]
    return [*(argument for argument in argv[:place] if argument not in early), argv[place], *early, *argv[place + 1 :]]


def _write(value: object) -> str:
    """Returns a value as its flag accepts it: several values without brackets, quoted for a shell if necessary."""
    return shlex.quote(",".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value))


def _with_equals_signs(argv: Sequence[str]) -> list[str]:
    """Returns arguments in which `--config <file>` and `--config.<field> <value>` are joined by an equals sign.

    With a single dash, which flags may have as well, they get the second one.
    """
    joined: list[str] = []
    for argument in argv:
        argument = re.sub(r"^-config(?=[.=]|$)", "--config", argument)
        if joined and re.fullmatch(r"--config(\.[\w.]+)?", joined[-1]):
            joined[-1] += f"={argument}"
        else:
            joined.append(argument)
    return joined


def nearest(name: str, names: Sequence[str]) -> str:
    """Returns `; did you mean 'x'?` with the most similar of some names, or nothing."""
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
    return f"; did you mean {close[0]!r}?" if close else ""


_CONFIG = re.compile(r"--config(\.[\w.]+)?=")
_OPTIONAL = re.compile(r"env\.(?!name$|task$)|num_env_(frames|steps)$|recorded$")
"""Fields that configurations may lack: those of other environments, one of the two for the budget, and `recorded`."""
_NUMBER = re.compile(r"\d+(\.\d*)?([eE]\+?\d{1,2})?")


def _program() -> str:
    module = getattr(sys.modules["__main__"], "__spec__", None)
    return module.name.removesuffix(".__main__") if module else os.path.basename(sys.argv[0])
