"""Checksums of the published numbers, so that none changes unseen."""

import hashlib
import pathlib

NAME = "SHA256SUMS"


def changes(directory: pathlib.Path) -> list[str]:
    """Returns a sentence for every JSON file below a directory that is not as `SHA256SUMS` in it says.

    The file is that of the command `sha256sum`, which also writes it anew after a change that is meant.

    Args:
        directory: holds the JSON files and `SHA256SUMS`.
    """
    remedy = f"if that is meant: cd {directory} && sha256sum *.json */*.json > {NAME}"
    try:
        lines = (directory / NAME).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        return [f"The checksums {directory / NAME} could not be read ({error.strerror or error}); {remedy}"]
    expected = {name.lstrip("*"): digest for digest, name in (line.split(maxsplit=1) for line in lines if line.strip())}
    found = {path.relative_to(directory).as_posix(): path for path in sorted(directory.rglob("*.json"))}
    sentences = []
    for name in sorted({*expected, *found}):
        if name not in found:
            sentences.append(f"The published numbers {directory / name} are gone; {remedy}")
        elif name not in expected:
            sentences.append(f"The published numbers {directory / name} have no checksum in {NAME}; {remedy}")
        elif hashlib.sha256(found[name].read_bytes()).hexdigest() != expected[name]:
            sentences.append(f"The published numbers {directory / name} have changed; {remedy}")
    return sentences
