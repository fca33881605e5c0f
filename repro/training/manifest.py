"""The manifest that shows whether a checkpoint is whole: sizes and checksums of its files; imports no TensorFlow."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

from repro.files import reason

MANIFEST = "manifest.json"
CHUNK_BYTES = 1 << 24
"""Bytes of a file that are read at once."""


def write_manifest(path: Path) -> None:
    """Writes the manifest of all files in a folder and below.

    Raises:
        OSError: the disk is full or not writable.
    """
    files = sorted(file for file in path.rglob("*") if file.is_file())
    manifest = {str(file.relative_to(path)): _fingerprint(file) for file in files}
    (path / MANIFEST).write_text(json.dumps(manifest, indent=1))


def find_damage(path: Path) -> str | None:
    """Returns what is wrong with the checkpoint in a folder, or None where it is whole."""
    name = MANIFEST
    try:
        manifest = dict(json.loads((path / MANIFEST).read_text()))
        for name, expected in manifest.items():
            if _fingerprint(path / name) != expected:
                return f"{name} was changed or cut short"
    except OSError as error:
        return f"{name} cannot be read ({reason(error)})"
    except (TypeError, ValueError):
        return f"{MANIFEST} was changed or cut short"
    return None


def _fingerprint(path: Path) -> dict[str, int]:
    checksum = 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            checksum = zlib.crc32(chunk, checksum)
    return {"bytes": path.stat().st_size, "crc32": checksum}
