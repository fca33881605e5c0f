"""Every field of every config is read by code of its paper, or by code that all papers share."""

from __future__ import annotations

import ast
import functools
import importlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from repro.config import agents, flatten, resolve_plain

ROOT = Path(__file__).resolve().parents[1]
EXPERIMENTS = sorted(
    f"{path.parent.name}.{path.stem}" for path in (ROOT / "paper_configs").glob("*/*.py") if path.stem != "__init__"
)
TOP = "config"
"""What code calls a whole configuration; its sections have their own names."""


def last_name(node: ast.expr) -> str:
    """`c` of a.b.c, or nothing."""
    return getattr(node, "attr", getattr(node, "id", ""))


def assigned(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """(a, section) of each `a = config.section`, also where several are assigned at once."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            (target,) = node.targets[:1]
            pairs = zip(target.elts, node.value.elts) if both_tuples(target, node.value) else [(target, node.value)]
            yield from ((last_name(a), last_name(b)) for a, b in pairs if isinstance(b, ast.Attribute))


def both_tuples(*nodes: ast.expr) -> bool:
    return all(isinstance(node, ast.Tuple) for node in nodes)


def reads(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """(section, field) of each access to an attribute or an entry, by the name of what has it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield last_name(node.value), node.attr
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            yield last_name(node.value), node.slice.value
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "get"
            and node.args
        ):
            yield last_name(node.func.value), getattr(node.args[0], "value", "")


def fields_of_classes(tree: ast.AST) -> set[str]:
    """Annotated fields of the file's classes, which a section may be passed to as keyword arguments."""
    classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    return {last_name(f.target) for c in classes for f in c.body if isinstance(f, ast.AnnAssign)}


def passed_whole(tree: ast.AST) -> Iterator[str]:
    """Sections in f(**config.section), in config.section[name], and those that `read_config` reads."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from (last_name(keyword.value) for keyword in node.keywords if keyword.arg is None)
            if last_name(node.func) == "read_config":
                yield "env"
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Name):
            yield last_name(node.value)


@functools.cache
def found_in(path: Path) -> tuple[set[str], set[str], set[tuple[str, str]]]:
    """Fields of a file's classes, sections that it passes whole, and (section, field) of each that it reads."""
    tree = ast.parse(path.read_text())
    names = dict(assigned(tree))
    return (
        fields_of_classes(tree),
        set(passed_whole(tree)),
        {(names.get(name, name), field) for name, field in reads(tree)},
    )


@functools.cache
def read_by(paper: str) -> frozenset[tuple[str, str]]:
    """(section, field) of all that code of a paper and code of no paper reads."""
    papers = ROOT / "repro/papers"
    files = [path for path in (ROOT / "repro").rglob("*.py") if papers not in path.parents]
    found = map(found_in, (*files, *(papers / paper).rglob("*.py"), papers / "__init__.py"))
    fields, sections, read = (set().union(*parts) for parts in zip(*found))
    return frozenset(read | set(itertools.product(sections, fields)))


def unread(config: dict[str, Any]) -> set[str]:
    """Fields that the code of no agent reads; sections that are another experiment's configuration are left to it."""
    left = []
    for agent in agents(config):
        resolved = resolve_plain(config, agent)
        found = read_by(resolved.get("algorithm", config["paper"]).split(".")[0])
        own = {k: value for k, value in resolved.items() if not (isinstance(value, dict) and "algorithm" in value)}
        left.append({name for name in flatten(own) if tuple([TOP, *name.split(".")][-2:]) not in found})
    return set.intersection(*left)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_field_is_read(name):
    assert unread(importlib.import_module(f"paper_configs.{name}").get_config("smoke").to_dict()) == set()


@pytest.mark.parametrize(
    "planted",
    ["speed", "runtime.batch_size", "learner.torso", "network.learning_rate", "env.kernel", "refer.clip", "memory.c"],
)
def test_a_field_that_nothing_reads_is_found(planted):
    """Some of these are read in other sections."""
    config = importlib.import_module("paper_configs.refer.figure_4_vracer").get_config("smoke").to_dict()
    *section, field = planted.split(".")
    (config[section[0]] if section else config)[field] = 1
    assert unread(config) == {planted}
