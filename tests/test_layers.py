"""Lower layers never import higher ones, and no paper imports another."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LAYERS = [
    {
        "ops",
        "aligned",
        "amounts",
        "config",
        "files",
        "flat_call",
        "gpus",
        "machine_memory",
        "memory",
        "processes",
        "quiet",
        "rng",
        "threads",
    },
    {"distributions", "evidence"},
    {"networks", "replay", "environments", "optimizers", "tabular"},
    {"acting"},
    {"training"},
    {"papers"},
    {"launch", "cli"},
]
"""From low to high; whatever is not listed (commands, report, benchmarks) may import everything."""
ALONE = {"ops": set(), "evidence": {"config", "files"}}
"""Packages that import nothing else of repro but these."""
PAPERS = {path.name for path in (ROOT / "repro/papers").iterdir() if path.is_dir()}
"""Each keeps to itself: the commands find a baseline of another paper by its configuration."""


def level(package: str) -> int:
    return next((i for i, names in enumerate(LAYERS) if package in names), len(LAYERS))


def imports(path: Path) -> set[str]:
    """Full names of the modules of repro that a file imports, wherever in the file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if name.startswith("repro.")}


def violations(path: Path, names: set[str]) -> list[str]:
    package, *rest = path.relative_to(ROOT / "repro").with_suffix("").parts
    found = []
    for name in names:
        other = name.split(".")[1]
        if level(other) > level(package):
            found.append(f"{path} imports {name} of a higher layer")
        if package in ALONE and other not in {package, *ALONE[package]}:
            found.append(f"{path}: {package} imports nothing else of repro, but {name}")
        if package == other == "papers" and len(rest) > 1 and name.split(".")[2] in PAPERS - {rest[0]}:
            found.append(f"{path} imports another paper's {name}")
        if package == "papers" and len(rest) > 1 and name.startswith("repro.papers.find_"):
            found.append(f"{path} looks for another paper's experiment; let the caller pass it")
    return found


@pytest.mark.parametrize("path", sorted((ROOT / "repro").rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_down(path):
    assert violations(path, imports(path)) == []


def test_the_rule_sees_each_kind_of_fault():
    repro = ROOT / "repro"
    assert violations(repro / "ops/x.py", {"repro.networks.atari"})
    assert violations(repro / "networks/x.py", {"repro.acting.actor"})
    assert violations(repro / "evidence/x.py", {"repro.acting.play"})
    assert violations(repro / "acting/x.py", {"repro.training.learner"})
    assert violations(repro / "training/x.py", {"repro.papers.impala.loss"})
    assert violations(repro / "papers/stac/loss.py", {"repro.papers.impala.loss"})
    assert not violations(repro / "papers/stac/loss.py", {"repro.papers.stac.meta", "repro.ops.v_targets"})
    assert violations(repro / "papers/refer/x.py", {"repro.papers.find_experiment"})
    assert not violations(repro / "train.py", {"repro.papers.impala.loss"})


@pytest.mark.parametrize("path", sorted((ROOT / "repro/papers").glob("*/**/*.py")), ids=lambda path: path.stem)
def test_papers_import_nothing_dynamically(path):
    assert "importlib" not in path.read_text()
