"""The list of wrong variants against the source: each applies, is valid Python, and names an existing test."""

import argparse
import ast
from collections import Counter
from pathlib import Path

import pytest

from repro.regression.reference_runs import RUNS, SPARE
from tests.mutations import VARIANTS
from tests.mutations.__main__ import one_of_each_file, one_of_each_paper, parse_share
from tests.mutations.training import TRAINING

ROOT = Path(__file__).resolve().parents[2]


def test_names_are_unique():
    assert [name for name, count in Counter(v.name for v in VARIANTS).items() if count > 1] == []


@pytest.mark.parametrize("file", sorted({v.file for v in VARIANTS}))
def test_each_applies_to_the_present_source(file):
    source = (ROOT / file).read_text()
    for variant in VARIANTS:
        if variant.file == file:
            ast.parse(variant.apply(source))


@pytest.mark.parametrize("file", sorted({v.test.split("::")[0] for v in VARIANTS}))
def test_each_names_a_test(file):
    functions = {node.name for node in ast.parse((ROOT / file).read_text()).body if isinstance(node, ast.FunctionDef)}
    for variant in VARIANTS:
        path, _, function = variant.test.partition("::")
        assert path != file or not function or function in functions, variant.name


def test_those_whose_test_is_marked_slow_are_slow():
    """Or `--fast` would find no test."""
    marked = {
        f"{file}::{node.name}"
        for file in {variant.test.partition("::")[0] for variant in VARIANTS}
        for node in ast.parse((ROOT / file).read_text()).body
        if isinstance(node, ast.FunctionDef)
        and "pytest.mark.slow" in [ast.unparse(decorator) for decorator in node.decorator_list]
    }
    assert [variant.name for variant in VARIANTS if variant.test in marked and not variant.slow] == []
    assert marked & {variant.test for variant in VARIANTS}


def test_a_text_that_is_gone_or_is_there_twice_is_an_error():
    variant = VARIANTS[0]
    for source in ("", 2 * variant.old):
        with pytest.raises(ValueError, match="must occur once"):
            variant.apply(source)


def test_those_for_training_are_variants_and_name_reference_runs():
    assert set(TRAINING) <= {variant.name for variant in VARIANTS}
    assert {name for names in TRAINING.values() for name in names} <= {run.name for run in RUNS}
    assert len(TRAINING) >= 40


def test_what_spare_reference_runs_find_another_one_finds_too():
    assert {run.name for run in RUNS} >= SPARE
    assert [name for name, runs in TRAINING.items() if set(runs) <= SPARE] == []


def test_the_fast_part_has_every_source_and_test_file_once_where_it_can():
    quick = [variant for variant in VARIANTS if not variant.slow]
    chosen = one_of_each_file(VARIANTS)
    assert {v.file for v in chosen} == {v.file for v in quick}
    assert {v.test.split("::")[0] for v in chosen} == {v.test.split("::")[0] for v in quick}
    for i, variant in enumerate(chosen):
        earlier = chosen[:i]
        files, tests = {v.file for v in earlier}, {v.test.split("::")[0] for v in earlier}
        assert not variant.slow
        assert variant.file not in files or variant.test.split("::")[0] not in tests


def test_the_fast_trainings_are_of_different_papers():
    chosen = one_of_each_paper([variant for variant in VARIANTS if variant.name in TRAINING])
    assert [TRAINING[variant.name] for variant in chosen] == [("vracer_per",), ("impala_catch",)]


def test_a_share_is_k_of_n():
    assert parse_share("2/3") == (2, 3)
    for text in ("0/3", "4/3", "1", "1/0", "-1/3", "a/b"):
        with pytest.raises(argparse.ArgumentTypeError, match="give k/n"):
            parse_share(text)
