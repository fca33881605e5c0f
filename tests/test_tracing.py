"""Compiled functions, also those of tests, are traced without AutoGraph.

AutoGraph would rewrite their source first and double the time in which a run starts.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def converted(source: str) -> list[int]:
    """Lines with a `tf.function` that AutoGraph converts."""
    nodes = list(ast.walk(ast.parse(source)))
    plain = {
        call.func
        for call in nodes
        if isinstance(call, ast.Call)
        and any(key.arg == "autograph" and ast.unparse(key.value) == "False" for key in call.keywords)
    }
    return [
        node.lineno
        for node in nodes
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "tf.function" and node not in plain
    ]


@pytest.mark.parametrize("folder", ["repro", "tests"])
def test_no_function_is_converted_before_it_is_traced(folder):
    found = {path: converted(path.read_text()) for path in (ROOT / folder).rglob("*.py")}
    assert not {path: lines for path, lines in found.items() if lines}


def test_the_rule_sees_each_way_to_compile():
    assert converted("@tf.function\ndef f(x): pass") == [1]
    assert converted("f = tf.function(g, jit_compile=True)") == [1]
    assert converted("x = 1\n@tf.function(autograph=True)\ndef f(x): pass") == [2]
    assert converted("f = tf.function(g, autograph=False)\n@tf.function(autograph=False)\ndef h(x): pass") == []
