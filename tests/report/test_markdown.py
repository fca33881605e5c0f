"""`docs/results.md`: every row with a run once, its command beside it, and the committed file up to date."""

import dataclasses
import re

import pytest

from repro.evidence.records import ROOT
from repro.evidence.verdicts import MEANINGS
from repro.report.contents import collect
from repro.report.markdown import READING, results_page
from repro.report.tables import trained_note
from repro.training import problem_study
from tests.report.example_row import ROW

CLAIM = dataclasses.replace(
    ROW, table="Section 6", task="atari57", statement="Deep beats shallow.", better="above", unit="probability"
)
NOT_RUN = dataclasses.replace(ROW, task="alien", seeds=(), value=None, interval=None, finding="not run", shortfalls=())
OWN = dataclasses.replace(ROW, table=None, column=None, published=None, finding=None, agent="impala_own")


@pytest.fixture(scope="module")
def committed():
    return collect(ROOT / "results").rows


def section(page: str, heading: str) -> str:
    """What stands below a heading, up to the next one of the same or a higher level."""
    level = heading.index(" ")
    return re.split(rf"^#{{2,{level}}} ", page.split(f"\n{heading}\n")[1], maxsplit=1, flags=re.M)[0]


def test_the_committed_page_has_the_rows_of_the_committed_records():
    found = collect(ROOT / "results")
    page = results_page(found.rows, found.external, found.stored)
    assert (ROOT / "docs/results.md").read_text() == page, "run `make report` and commit the page"


def test_every_row_with_a_run_stands_in_its_papers_section_once(committed):
    page = results_page(committed)
    for name, paper in (("impala", "IMPALA"), ("acer", "ACER"), ("refer", "ReF-ER"), ("ctrace", "C-trace")):
        lines = [line for line in section(page, f"## {paper}").splitlines() if line.startswith("| ")]
        headers = sum("Ours [95 %]" in line for line in lines)
        done = [row for row in committed if row.paper == name and row.seeds]
        assert len(lines) - 2 * headers == len(done) > 0


def test_every_command_is_on_the_page(committed):
    page = results_page(committed).replace(" &&\n    ", " && ")
    assert [row for row in committed if row.seeds and row.command and row.command not in page] == []


def test_the_page_says_what_every_verdict_means_and_how_many_there_are():
    page = results_page([ROW, NOT_RUN])
    for verdict, meaning in MEANINGS.items():
        assert f"- **{verdict}**: {meaning}\n" in page
    assert "| IMPALA | 0 | 0 | 0 | 0 | 1 | 1 | 0 | 2 |" in page


def test_verdicts_of_trained_agents_are_counted_apart(committed):
    done = dataclasses.replace(ROW, finding="agrees", shortfalls=(), trained=True)
    study = dataclasses.replace(done, trained=False)
    page = results_page([done, study, study, dataclasses.replace(done, shortfalls=("3 of 5 runs",)), NOT_RUN])
    assert (
        "Verdicts from trained agents: reproduced 1 of 3, agrees 1 of 1, disagrees 0 of 0, contradicts 0 of 0." in page
    )
    trained = {row.experiment: row.trained for row in committed if row.finding == "agrees"}
    assert trained["figure_1_ddpg"]
    assert not any(trained[name] for name in ("theorems", "tradeoffs", "closed_form", "tabular_fig1", "online_theorem"))


def test_a_sentence_that_agents_answer_in_part_has_the_verdict_of_all_its_rows():
    done = dataclasses.replace(ROW, finding="agrees", shortfalls=(), trained=True, sentence="both")
    missing = dataclasses.replace(done, finding="not run", trained=False)
    of_study = dataclasses.replace(done, trained=False)
    assert trained_note([done, missing]) == ""
    assert "reproduced 1 of 1," in trained_note([of_study, done])
    assert "reproduced 1 of 2," in trained_note([done, dataclasses.replace(of_study, sentence="other")])


def test_reproduced_rows_that_can_hardly_come_out_otherwise_are_counted(committed):
    proven = dataclasses.replace(
        ROW, finding="agrees", shortfalls=(), sentence="both", note="It can hardly come out otherwise: it is proven."
    )
    other = dataclasses.replace(proven, note="It might have come out otherwise.")
    said = "can hardly come out otherwise: they are proven, and test the code."
    assert f"Of the reproduced, 1 {said}" in trained_note([proven, dataclasses.replace(other, sentence="third")])
    assert f"Of the reproduced, 0 {said}" in trained_note([proven, other])  # one sentence
    assert f"Of the reproduced, 0 {said}" in trained_note([dataclasses.replace(proven, shortfalls=("one run",))])
    open_, agreed = dataclasses.replace(proven, finding="undecided"), dataclasses.replace(other, sentence="third")
    assert f"Of the reproduced, 0 {said}" in trained_note([open_, agreed])
    assert f"Of the reproduced, all {said}" in trained_note([proven, dataclasses.replace(proven, sentence="third")])
    (count,) = re.findall(rf"Of the reproduced, (\d+|all) {said}", results_page(committed))
    assert count == "all" or int(count) > 10


def test_main_claims_stand_first_with_their_own_findings(committed):
    page = results_page([NOT_RUN, CLAIM, dataclasses.replace(CLAIM, main=True, note="printed the wrong way round")])
    assert [line for line in section(page, "## Main claims").splitlines() if line.startswith("| IMPALA")] == [
        "| IMPALA | Deep beats shallow. (Section 6) | atari57 | probability | > 20.4 | -4.03 [-6.07, -1.98] | "
        "undecided | 20 % of the budget, 3 of 5 runs | printed the wrong way round |"
    ]
    shown = section(results_page(committed), "## Main claims")
    assert [row.column for row in committed if row.main and str(row.statement) not in shown] == []


def test_a_shared_command_stands_above_its_rows():
    text = section(results_page([ROW, dataclasses.replace(ROW, task="qbert")]), "## IMPALA")
    assert text.count(ROW.command) == 1
    assert f"\n    {ROW.command}\n" in text


def test_the_command_of_one_statement_stands_above_its_rows():
    other = dataclasses.replace(CLAIM, statement="Shallow is faster.", command="make a && make b")
    text = section(results_page([CLAIM, other]), "## IMPALA")
    assert text.index("Deep beats shallow.") < text.index(f"\n    {CLAIM.command}\n") < text.index("Shallow is faster.")
    assert "\n    make a &&\n    make b\n" in text
    assert "Command" not in text


def test_commands_that_differ_stand_in_their_rows():
    other = dataclasses.replace(ROW, task="qbert", command="make reproduce-impala TASK=qbert")
    lines = section(results_page([ROW, other]), "## IMPALA").splitlines()
    for row in (ROW, other):
        (line,) = (line for line in lines if line.startswith(f"| {row.task} "))
        assert line.endswith(f"| `{row.command}` |")


def test_rows_stand_below_their_table_and_statement():
    page = results_page([CLAIM, ROW, NOT_RUN, OWN])
    assert "[Not run](results_not_run.md#impala): Table C.1 (1)." in page
    claim = section(page, "### Section 6: Results named in the conclusion")
    assert claim.index("Deep beats shallow. Unit: probability.") < claim.index("| atari57 |")
    assert "| > 20.4 |" in claim
    score = section(page, "### Table C.1: Score of each of the 57 games")
    assert "| pong | IMPALA, shallow, experts | 20.4 | -4.03 [-6.07, -1.98] | 40M frames (20 %) | 3 seeds |" in score
    own = section(page, "### Runs without a printed number")
    assert "| pong | impala_own |" in own
    assert "Published" not in own
    assert "alien" not in page


def test_random_players_come_last():
    random = dataclasses.replace(OWN, agent="random", task="qbert")
    page = results_page([random, CLAIM, OWN])
    assert "qbert" not in section(page, "### Runs without a printed number")
    assert page.index("### Runs without a printed number") < page.index("### Random play") < page.index("| qbert |")


def test_what_an_exact_zero_is_on_the_page():
    assert f"0 is less than {0.5 * 10**-problem_study.DIGITS:.5f} on every problem" in READING


def test_an_exact_value_has_six_digits_at_most():
    exact = dataclasses.replace(CLAIM, exact=True, interval=None)
    page = results_page([dataclasses.replace(exact, value=value) for value in (153.0, 2 / 3)])
    assert "| 153 (exact) |" in page
    assert "| 0.666667 (exact) |" in page


def test_units_that_differ_have_a_column():
    text = results_page([CLAIM, dataclasses.replace(CLAIM, column="other", unit="percent")])
    assert "Unit:" not in text
    assert "| atari57 | other | percent |" in text


def test_a_bar_in_a_text_does_not_end_its_cell():
    assert r"| a\|b |" in results_page([dataclasses.replace(ROW, column="a|b")])
