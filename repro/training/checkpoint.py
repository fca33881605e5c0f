"""Checkpoints that are whole or absent: weights, optimiser, counters, rngs, actors."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tf_agents.agents import tf_agent

from repro.files import publish_folder, reason, remedy
from repro.training.manifest import find_damage, write_manifest
from repro.training.run_directory import checkpoint_name, is_complete, newest_first, remove_old

STATE, LARGE = "state.npz", "large"
"""Names within a checkpoint: the file of the state, and the folder of its large arrays."""
LARGE_BYTES = 1 << 26
"""Size from which an array has a file of its own, which is mapped into memory at a resume and read as it is copied, so
that a replay that takes half of the memory can be restored."""


class CheckpointError(RuntimeError):
    """No checkpoint could be written or read; the message says what to do."""


def save(
    directory: Path,
    updates: int,
    variables: tf.train.Checkpoint,
    state: dict[str, Any],
    write_more: Callable[[Path], None] | None = None,
) -> Path:
    """Writes `directory/checkpoint_<updates>`, unless it exists and is whole, and removes old ones, see `remove_old`.

    All files are written to a temporary folder, with their sizes and checksums in a manifest, flushed to the
    disk and only then renamed into place. So a kill at any moment leaves the previous checkpoints untouched.

    Args:
        directory: created if missing.
        updates: number of learner updates made.
        variables: TensorFlow variables to save.
        state: nested dictionaries, with string keys, of NumPy arrays, numbers and strings.
        write_more: called with the folder, to write further files; raises OSError if it cannot write.

    Raises:
        CheckpointError: the disk is full or not writable.
        TypeError: the state has a value of another type, which could not be read again.
    """
    final = directory / checkpoint_name(updates)
    partial = directory / f"partial_{final.name}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for leftover in directory.glob("partial_*"):
            shutil.rmtree(leftover)
        if final.exists() and not find_damage(final):
            return final
        partial.mkdir()
        variables.write(str(partial / "variables"))
        _write_state(partial, state)
        if write_more is not None:
            write_more(partial)
        write_manifest(partial)
        shutil.rmtree(final, ignore_errors=True)  # a broken one
        publish_folder(partial, final)
    except (OSError, tf.errors.OpError) as error:
        shutil.rmtree(partial, ignore_errors=True)
        intact = ": its earlier checkpoints are intact" if newest_first(directory) else ""
        raise CheckpointError(
            f"Could not write a checkpoint to {directory} ({reason(error)}); {remedy(error)} and resume the "
            f"run{intact}."
        ) from error
    remove_old(directory, final.name)
    return final


def restore(
    directory: Path,
    variables: tf.train.Checkpoint,
    warn: Callable[[str], None],
    read_more: Callable[[Path], None] | None = None,
) -> dict[str, Any] | None:
    """Restores the newest whole checkpoint; returns its state, or None if there is no checkpoint.

    Args:
        directory: folder that `save` wrote to.
        variables: variables to restore in place; every one must be in the checkpoint.
        warn: called with one line that names the broken checkpoints that are passed over.
        read_more: called with the folder, for the files of `write_more`.

    Raises:
        CheckpointError: there are checkpoints, but none is whole, or the newest whole one lacks a variable or
          has one of another shape.
    """
    broken: list[str] = []
    for path in newest_first(directory):
        if damage := find_damage(path):
            broken.append(f"{path.name}: {damage}")
            continue
        if broken:
            warn(f"Going on from {path}, since newer checkpoints are broken ({'; '.join(broken)}).")
        _read_variables(path, variables)
        if read_more is not None:
            read_more(path)
        return _read_state(path)
    if broken:
        raise CheckpointError(
            f"All checkpoints in {directory} are broken ({'; '.join(broken)}). Put an intact copy there, or train "
            "again with another --run_dir; nothing was removed."
        )
    return None


def read_variables(path: Path, variables: tf.train.Checkpoint) -> None:
    """Restores only the TensorFlow variables of one checkpoint.

    Args:
        path: a checkpoint's folder, or a copy of one.
        variables: variables to restore in place; every one must be in the checkpoint.

    Raises:
        CheckpointError: it is not whole, lacks a variable, or has one of another shape.
    """
    if damage := find_damage(path):
        raise CheckpointError(f"Checkpoint {path} is broken ({damage}).")
    _read_variables(path, variables)


def _read_variables(path: Path, variables: tf.train.Checkpoint) -> None:
    try:
        variables.read(str(path / "variables")).assert_existing_objects_matched()
    except (AssertionError, ValueError) as error:
        text = " ".join(str(error).split()).rstrip(".")
        found = re.search(r"shape (\(.*\)) when .* shape (\(.*\)) and name ([\w/]+)", text)
        if found:
            text = f"{found[3]} has shape {found[1]} there and {found[2]} here"
        elif isinstance(error, AssertionError):  # whose text lists objects of TensorFlow
            text = "it lacks some variables"
        raise CheckpointError(
            f"Checkpoint {path} does not fit this run's agent ({text}): it is from another configuration or other code."
        ) from error


def restore_trained(directory: Path, variables: tf.train.Checkpoint, warn: Callable[[str], None]) -> int:
    """Restores the newest whole checkpoint of a run that must have one; arguments as for `restore`.

    Returns:
        the number of updates behind the checkpoint.

    Raises:
        CheckpointError: there is none, or as for `restore`.
    """
    state = restore(directory, variables, warn)
    if state is None:
        if is_complete(directory.parent):
            raise CheckpointError(
                f"{directory} has no checkpoint, though the run is complete; put its checkpoints back, or train it "
                "again in another folder."
            )
        raise CheckpointError(f"{directory.parent} has no checkpoint yet; train it first.")
    return state["updates"]


def restore_agent(directory: Path, agent: tf_agent.TFAgent, warn: Callable[[str], None]) -> int:
    """Restores an agent as `restore_trained` does; other arguments, result and errors too.

    Args:
        agent: agent as the trainers of `repro.training` save it; its variables are overwritten.
    """
    return restore_trained(directory, tf.train.Checkpoint(agent=agent), warn)


def _write_state(path: Path, state: dict[str, Any]) -> None:
    small = {}
    for name, value in _flatten(state):
        if np.asanyarray(value).dtype.hasobject:
            raise TypeError(f"A checkpoint's {name} must be an array, a number or a string, and not {value!r}.")
        if isinstance(value, np.ndarray) and value.nbytes >= LARGE_BYTES:
            file = path / LARGE / f"{name}.npy"
            file.parent.mkdir(parents=True, exist_ok=True)
            np.save(file, value)
        else:
            small[name] = value
    np.savez(path / STATE, **small)


def _read_state(path: Path) -> dict[str, Any]:
    """Returns the state; large arrays are mapped from their files, and stay valid if these are removed."""
    with np.load(path / STATE, allow_pickle=False) as arrays:
        state = {name: arrays[name] for name in arrays.files}
    for file in (path / LARGE).rglob("*.npy"):
        state[str(file.relative_to(path / LARGE).with_suffix(""))] = np.load(file, mmap_mode="c")
    return _unflatten(state)


def _flatten(state: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in state.items():
        if isinstance(value, dict):
            yield f"{prefix}{key}/", 0  # the dictionary itself, which may be empty
            yield from _flatten(value, f"{prefix}{key}/")
        else:
            yield f"{prefix}{key}", value


def _unflatten(flat: dict[str, np.ndarray]) -> dict[str, Any]:
    state: dict[str, Any] = {}
    for name, value in flat.items():
        *parents, key = name.split("/")
        node = state
        for parent in parents:
            node = node.setdefault(parent, {})
        if key:
            node[key] = value if value.ndim else value.item()
    return state
