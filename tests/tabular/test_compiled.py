"""Functions that Numba keeps compiled on disk."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def stale_names(source: str) -> dict[str, set[str]]:
    """Names of other files of repro that cached functions read, by function."""
    tree = ast.parse(source)
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    ours = {
        name.asname or name.name for node in imports if (node.module or "").startswith("repro") for name in node.names
    }
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any("cache=True" in ast.unparse(x) for x in node.decorator_list):
            read = {name.id for line in node.body for name in ast.walk(line) if isinstance(name, ast.Name)}
            found[node.name] = read & ours
    return found


def test_a_cached_function_reads_nothing_of_another_file():
    """Numba compares a cached function with its own file, so that it would go on with what the other file once had."""
    found = {path: stale_names(path.read_text()) for path in (ROOT / "repro").rglob("*.py")}
    assert sum(map(len, found.values())) > 20
    assert {f"{path}: {name}": names for path, all_ in found.items() for name, names in all_.items() if names} == {}


@pytest.mark.parametrize(("keyword", "expected"), [("cache=True", {"f": {"g"}}), ("nogil=True", {})])
def test_another_files_function_is_found(keyword, expected):
    source = f"from repro.tabular.simulation import g\n@numba.njit({keyword})\ndef f(x):\n    return g(x) + h(x)\n"
    assert stale_names(source) == expected
