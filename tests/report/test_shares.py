"""Rows by verdict and share of the paper's budget, and the page's account of the time before the campaign."""

import dataclasses
import re
import subprocess

import pytest

from repro.evidence.records import ROOT
from repro.report import shares
from repro.report.markdown import results_page
from tests.report.example_row import NOT_TRAINED, ROW, TRAINED


@pytest.mark.parametrize(
    ("row", "share"),
    [
        (dataclasses.replace(TRAINED, share=1.0), "all of it"),
        (dataclasses.replace(TRAINED, share=0.9995), "all of it"),
        (dataclasses.replace(TRAINED, share=0.998), "a tenth and more"),
        (dataclasses.replace(TRAINED, share=0.1), "a tenth and more"),
        (dataclasses.replace(TRAINED, share=0.09), "less than a tenth"),
        (dataclasses.replace(TRAINED, share=None), "no budget is printed"),
        (NOT_TRAINED, "studies, which train no network"),
        (dataclasses.replace(TRAINED, seeds=()), "no run"),
    ],
)
def test_the_share_of_a_row(row, share):
    assert shares.share_of_budget(row) == share


def test_rows_are_counted_by_share_and_verdict():
    done = dataclasses.replace(TRAINED, share=1.0, finding="agrees", shortfalls=())
    some = dataclasses.replace(done, share=0.1, finding="contradicts", shortfalls=("10 % of the budget",))
    none = dataclasses.replace(ROW, seeds=(), finding="not run", shortfalls=())
    without_a_number = dataclasses.replace(ROW, finding=None)
    table = shares.by_share([done, done, some, none, without_a_number])
    assert table.splitlines()[2:] == [
        "| all of it | 2 | 0 | 0 | 0 | 0 | 0 | 0 | 2 |",
        "| a tenth and more | 0 | 0 | 1 | 0 | 0 | 0 | 0 | 1 |",
        "| less than a tenth | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 |",
        "| no budget is printed | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 |",
        "| studies, which train no network | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 |",
        "| no run | 0 | 0 | 0 | 0 | 0 | 1 | 0 | 1 |",
        "| together | 2 | 0 | 1 | 0 | 0 | 1 | 0 | 4 |",
    ]
    assert table in results_page([done, done, some, none])


def test_the_rows_before_the_campaign_are_those_of_its_commit():
    """Skipped in a copy without that history."""
    before = subprocess.run(
        ["git", "show", "77378c97:README.md"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if before.returncode:
        pytest.skip("the history of the repository is not at hand")
    counts = r"^\| (?:IMPALA|ACER|ReF-ER|C-trace|STAC) \|(?: \d+ \|){5}$"
    told = re.findall(counts, shares.BEFORE, re.M)
    assert told == re.findall(counts, before.stdout, re.M)
    assert len(told) == 5
    assert sum(int(line.split(" | ")[1]) for line in told) == 55
    listing = ["git", "ls-tree", "-r", "--name-only", "77378c97", "results"]
    files = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert f"there were {len(re.findall('seed_', files))} records" in shares.BEFORE
