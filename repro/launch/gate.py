"""Checks that agents learn as their behaviour versions say, and that the code does not change meanwhile."""

from __future__ import annotations

import functools
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from repro.evidence import behaviour
from repro.evidence.commands import Run
from repro.evidence.records import ROOT
from repro.evidence.staleness import CONFIGS_DIR
from repro.files import write_whole

CODE = ("repro", "paper_configs", "setup.cfg", "requirements.lock")
"""Files and folders that decide how a run goes."""
NOT_CODE = ("paper_configs/published", "paper_configs/campaign.py")
"""Published numbers and the plan, which may change while runs are made."""
SUFFIXES = {".py", ".json", ".xml", ".cfg", ".lock"}
"""Suffixes of the files in `CODE` that count."""


class GateError(RuntimeError):
    """The golden values could not be computed; the message gives the reason."""


def fingerprint(root: Path = ROOT) -> str:
    """Returns a hash of the files that decide how a run goes."""
    digest = hashlib.sha256()
    for top in CODE:
        for path in sorted((root / top).rglob("*")) if (root / top).is_dir() else [root / top]:
            name = path.relative_to(root).as_posix()
            if path.suffix in SUFFIXES and not name.startswith(NOT_CODE) and path.is_file():
                digest.update(f"{name}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


@functools.cache
def behaviours(run: Run) -> tuple[str, ...]:
    """Returns the names of the behaviours of a run's agent, such as `refer.vracer_refer`; none for a study."""
    names = behaviour.names_of(run.paper, run.experiment, run.agent, CONFIGS_DIR)
    return tuple(f"{run.paper}.{name}" for name in names)


def find_other_behaviour(names: Iterable[str], kept: Path) -> dict[str, str]:
    """Returns the behaviours that differ from their golden values, each with a sentence that says what to do.

    Records of such a run would become stale when the behaviour version is raised, which must happen before the code is
    committed. The output of `python -m tests.golden --check` is stored and reused as long as the code does not change.

    Args:
        names: names of behaviours.
        kept: file with earlier output, created if it is missing.

    Raises:
        GateError: the golden values could not be computed.
    """
    code = fingerprint()
    known = json.loads(kept.read_text()) if kept.exists() else {}
    found: dict[str, str | None] = known["found"] if known.get("code") == code else {}
    if missing := sorted({*names} - {*found}):
        command = [sys.executable, "-m", "tests.golden", f"--check={','.join(missing)}"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
            raise GateError(f"the golden values could not be computed ({reason}).")
        found |= json.loads(done.stdout.splitlines()[-1])
        write_whole(kept, json.dumps({"code": code, "found": found}, indent=1))
    return {name: sentence for name, sentence in found.items() if sentence is not None and name in {*names}}
