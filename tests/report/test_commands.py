"""`repro.check` and `repro.report` as programs and as functions: each planted fault is caught, usage errors are 2."""

import functools
import json
import pathlib
import shutil
import subprocess
import sys

import pytest

from repro import check
from repro.evidence import published, records, rows, staleness
from repro.evidence.sentences import sentences
from repro.report.__main__ import PICTURE
from tests.evidence.synthetic_records import make_record, random_records, write
from tests.support.forked_train import run_command

ROOT = pathlib.Path(__file__).parents[2]
PRINTED = sum(len(published.load(paper).rows) for paper in published.papers())
SENTENCES = sentences(rows.make_rows({}, papers=["impala"]))
COUNTED = len(SENTENCES)
CANNOT_RUN = sum(finding == "cannot run here" for _, finding, _ in SENTENCES)
RATE = make_record()["config"]["learner"]["learning_rate"]


@pytest.fixture
def run(tmp_path_factory):
    return functools.partial(run_command, tmp_path_factory.mktemp("output"))


@pytest.fixture
def results(tmp_path):
    for seed in (1, 2):
        write(tmp_path / "results", make_record(seed))
    return tmp_path / "results"


def _spoil(results, change):
    path = results / "impala/atari_shallow/pong/impala_shallow/seed_2.json"
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))
    return path


def test_sound_records_have_no_faults(results):
    findings = check.check(results)
    assert (len(findings.records), findings.errors, findings.stale) == (2, [], {})
    assert [row.task for row in findings.rows if row.seeds] == ["pong"]


def test_stale_records_are_looked_for_once(results, monkeypatch):
    calls = []
    path = results / "impala"
    monkeypatch.setattr(check, "stale_records", lambda groups: calls.append(groups) or {path: "a reason"})
    assert check.check(results).stale == {path: "a reason"}
    assert len(calls) == 1


def test_random_play_is_no_result_to_print(results, run):
    for record in random_records():
        write(results, record)
    done = run("repro.check", f"--results_dir={results}")
    assert done.returncode == 0, done.stdout
    assert "pong " in done.stdout
    assert "random" not in done.stdout


def _errors(result):
    """Those besides the checksums', which notice every edit of a record."""
    checksums = [error for error in result.errors if "SHA256SUMS" in error.message]
    assert checksums
    return [error for error in result.errors if error not in checksums]


PLANTED = {
    "truncated file": (lambda path: path.write_text(path.read_text()[:100]), "not readable JSON"),
    "empty file": (lambda path: path.write_text(""), "not readable JSON"),
    "record of another game": (
        lambda path: shutil.move(path, path.parents[1] / "seed_2.json"),
        "lies at the wrong place",
    ),
}


@pytest.mark.parametrize(("plant", "words"), PLANTED.values(), ids=PLANTED.keys())
def test_planted_file_fault_is_caught(results, plant, words):
    plant(results / "impala/atari_shallow/pong/impala_shallow/seed_2.json")
    findings = check.check(results)
    assert [words in error.message for error in _errors(findings)] == [True]
    assert len(findings.records) == 1


def test_edited_score_is_a_fault(results):
    _spoil(results, lambda record: record["evaluation"].update(mean=21.0))
    (error,) = _errors(check.check(results))
    assert "evaluation.mean is 21.0 but the returns have mean" in error.message


def test_wrong_unit_is_a_fault(results):
    path = _spoil(results, lambda record: record["evaluation"].update(unit="percent"))
    findings = check.check(results)
    (error,) = _errors(findings)
    assert error.path == path
    assert "has the unit 'percent', but the paper's number has 'game score'" in error.message
    assert [row.seeds for row in findings.rows if row.seeds] == [(1,)]


@pytest.fixture
def banded(tmp_path):
    """Five sound records, which have a band each."""
    for seed in range(1, 6):
        write(tmp_path / "results", make_record(seed, final=15.0 + 0.1 * seed))
    return tmp_path / "results"


def test_sound_records_stay_in_their_band(banded):
    findings = check.check(banded)
    assert (list(findings.judged_by.values()), findings.regressions, findings.passed) == ([5, 0, 0], [], True)


def test_record_lowered_below_its_band_is_a_regression_with_reason_and_command(banded, run):
    lowered = make_record(3, final=-15.0)
    path = write(banded, lowered)
    findings = check.check(banded)
    assert [found.path for found in findings.regressions] == [path]
    done = run("repro.check", f"--results_dir={banded}", f"--json={banded}/out.json")
    assert done.returncode == 1
    assert f"regression: {path} holds" in done.stdout
    assert "below the end" in done.stdout
    assert "rerun it with: .venv/bin/python -m repro.reproduce --paper=impala --experiment=atari_shallow" in done.stdout
    assert "5 records (5 judged by the others of their group, 0 by the pooled spread of their family" in done.stdout
    out = json.loads((banded / "out.json").read_text())
    (listed,) = out["regressions"]
    assert listed["value"] < listed["low"]
    assert list(out["judged"].values()) == [5, 0, 0]


@pytest.mark.parametrize(("final", "code"), [(15.0, 0), (-15.0, 1)])
def test_a_rerun_in_another_folder_is_judged_by_the_committed_records(banded, tmp_path, final, code, run):
    path = write(tmp_path / "again", make_record(9, final=final))
    done = run("repro.check", f"--results_dir={tmp_path / 'again'}", f"--committed_dir={banded}")
    assert (done.returncode, f"regression: {path} holds" in done.stdout) == (code, bool(code))
    assert "1 records (1 judged by the others of their group" in done.stdout
    alone = check.check(tmp_path / "again")
    assert (list(alone.judged_by.values()), alone.passed) == ([0, 0, 1], True)


def test_the_rows_of_one_experiment_are_answered_as_among_all():
    """They may need records of other experiments, such as random players."""
    of_all = [(row.column, row.finding) for row in check.check(records.ROOT / "results").rows]
    alone = check.check(records.ROOT / "results", paper="ctrace", experiment="dqn")
    assert {item.record["experiment"] for item in alone.records} == {"dqn"}
    assert "undecided" in {row.finding for row in alone.rows}
    assert all((row.column, row.finding) in of_all for row in alone.rows)


def test_changed_published_number_is_a_fault(results, tmp_path):
    published_dir = tmp_path / "published"
    shutil.copytree(published.PUBLISHED_DIR, published_dir)
    text = (published_dir / "impala.json").read_text()
    assert text.count('"value": 640.43') == 1
    (published_dir / "impala.json").write_text(text.replace('"value": 640.43', '"value": 64.043'))
    (error,) = check.check(results, published_dir=published_dir).errors
    assert "impala.json have changed" in error.message


@pytest.mark.parametrize(
    ("experiment", "changed", "words"),
    [
        (
            "dqn",
            {"agent": "ctrace_gamma01"},
            "name an agent 'ctrace_gamma01', which ctrace/dqn does not have; did you mean",
        ),
        (
            "tabular_fig7",
            {"protocol": {"readings": {"tabular_fig3/control_erly": "it is meant otherwise"}}},
            "name an agent 'control_erly', which ctrace/tabular_fig3 does not have; did you mean 'control_early",
        ),
        ("dqn", {"experiment": "dqm"}, "name an experiment that cannot be used: There is no experiment ctrace/dqm in "),
        ("dqn", {"task": "alein"}, "name a task 'alein', which ctrace/dqn does not have: No Atari game is called"),
        ("dqn", {"task": "Alien"}, "name a task 'Alien', which ctrace/dqn does not have by this name; it is 'alien'."),
        (
            "tabular_fig7",
            {"task": "garnets"},
            "name a task 'garnets', which ctrace/tabular_fig7 does not have; it has 'garnet' alone.",
        ),
    ],
)
def test_a_published_row_of_a_name_that_does_not_exist_is_a_fault(results, tmp_path, experiment, changed, words):
    published_dir = tmp_path / "published"
    shutil.copytree(published.PUBLISHED_DIR, published_dir)
    printed = json.loads((published_dir / "ctrace.json").read_text())
    rows = (row for row in printed["rows"] if row["experiment"] == experiment and not row.get("cannot_run"))
    next(rows).update(changed)
    (published_dir / "ctrace.json").write_text(json.dumps(printed))
    messages = [error.message for error in check.check(results, published_dir=published_dir).errors]
    assert len([message for message in messages if words in message]) == 1, messages


def test_edited_config_is_a_fault_and_a_changed_one_stale(results):
    path = _spoil(results, lambda record: record["config"]["learner"].update(learning_rate=1.0))
    (error,) = _errors(check.check(results))
    assert "config_sha256 does not match config" in error.message
    _spoil(results, lambda record: record.update(config_sha256=records.config_sha256(record["config"])))
    findings = check.check(results)
    assert _errors(findings) == []
    assert findings.stale == {path: f"learner.learning_rate was 1.0 and is {RATE}"}
    assert [row.seeds for row in findings.rows if row.seeds] == [(1,)]


def test_changed_config_file_makes_records_stale(results, tmp_path):
    configs = tmp_path / "paper_configs"
    shutil.copytree(staleness.CONFIGS_DIR, configs)
    assert check.check(results, configs_dir=configs).stale == {}
    with (configs / "impala/atari_shallow.py").open("a") as file:
        file.write("\n_get = get_config\n\n\ndef get_config(scale='desk'):\n    config = _get(scale)\n")
        file.write("    config.learner.batch_size = 7\n    config.learner.new_field = 1\n    return config\n")
    staleness.current_config.cache_clear()
    reasons = set(check.check(results, configs_dir=configs).stale.values())
    was = make_record()["config"]["learner"]["batch_size"]
    assert reasons == {f"learner.batch_size was {was} and is 7"}


def test_filters(results):
    write(results, make_record(1, experiment="atari_deep", agent="impala_deep"))
    assert len(check.check(results, paper="impala").records) == 3
    assert len(check.check(results, paper="acer").records) == 0
    findings = check.check(results, experiment="atari_deep")
    assert len(findings.records) == 1
    assert {row.experiment for row in findings.rows} == {"atari_deep"}


def test_check_exits_0_on_sound_records_and_writes_json(results, tmp_path, run):
    done = run("repro.check", f"--results_dir={results}", f"--json={tmp_path / 'out.json'}")
    assert (done.returncode, done.stderr) == (0, "")
    assert "undecided" in done.stdout
    assert f"{COUNTED} printed numbers and sentences, " in done.stdout
    assert "1 undecided, " in done.stdout
    assert "settings: 208 as printed, 0 otherwise" in done.stdout
    out = json.loads((tmp_path / "out.json").read_text())
    assert (out["records"], out["faults"], out["stale"]) == (2, [], [])
    assert out["verdicts"]["impala"] == {
        "reproduced": 0,
        "agrees": 0,
        "disagrees": 0,
        "contradicts": 0,
        "undecided": 1,
        "not run": COUNTED - CANNOT_RUN - 1,
        "cannot run here": CANNOT_RUN,
    }
    assert len(out["rows"]) == PRINTED


def test_check_exits_1_on_a_fault_and_says_why(results, run):
    _spoil(results, lambda record: record.pop("num_env_frames"))
    done = run("repro.check", f"--results_dir={results}")
    assert done.returncode == 1
    assert "fault: " in done.stdout
    assert "it needs exactly one of num_env_frames and num_env_steps" in done.stdout


def test_stale_records_are_shown_and_no_fault(results, run):
    def change(record):
        record["config"]["learner"]["learning_rate"] = 1.0
        record["config_sha256"] = records.config_sha256(record["config"])

    path = _spoil(results, change)
    subprocess.run("sha256sum */*/*/*/seed_*.json > SHA256SUMS", shell=True, cwd=results, check=True)
    done = run("repro.check", f"--results_dir={results}")
    assert done.returncode == 0
    assert f"stale: {path}: learner.learning_rate was 1.0 and is {RATE}" in done.stdout


def test_check_without_records_says_so(tmp_path, run):
    done = run("repro.check", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "No records were found" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("repro.check", "--results_dir=absent"), "--results_dir=absent: there is no such folder"),
        (("repro.check", "--paper=impla"), "did you mean 'impala'? (there are acer, "),
        (("repro.check", "--experiment=atari_shalow"), "'atari_shalow'; did you mean 'atari_shallow'?"),
        (("repro.check", "--jsn=out.json"), "Unknown command line flag 'jsn'"),
        (("repro.check", "--json=/proc/none/out.json"), "--json=/proc/none/out.json: its folder does not exist"),
        (("repro.report", "--results_dir=absent"), "--results_dir=absent: there is no such folder"),
        (("repro.report", "--picture=pong.png"), "--picture needs PAPER/EXPERIMENT/TASK=FILE"),
        (
            ("repro.report", "--picture=impala/mine/pong=pong.png"),
            "--picture=impala/mine/pong: there are no runs of it",
        ),
        (("repro.report", "stray"), "repro.report: unexpected argument 'stray'"),
        (("repro.report", "--out="), "repro.report: --out is empty"),
    ],
)
def test_unusable_input_is_one_sentence_and_code_2(tmp_path, arguments, words, run):
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("argument", ["--out=/proc/none", "--markdown=/proc/none/results.md"])
def test_a_report_that_cannot_be_written_is_one_sentence_and_code_1(tmp_path, argument, run):
    done = run("repro.report", argument, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == "repro.report: /proc/none could not be read or written (No such file or directory).\n"


def test_a_report_makes_folders_and_learns_of_a_file_in_their_place_before_it_reads_records(tmp_path):
    code = (
        "import runpy\nfrom repro.report import contents\n\n\ndef collect(*_, **__):\n"
        "    raise PermissionError(13, 'Permission denied', 'results/video.json')\n\n\n"
        "contents.collect = collect\nrunpy.run_module('repro.report', run_name='__main__', alter_sys=True)\n"
    )
    (tmp_path / "file").write_text("")
    done = subprocess.run([sys.executable, "-c", code, f"--out={tmp_path / 'file'}"], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.endswith(f": {tmp_path / 'file'} could not be read or written (File exists).\n")
    files = [f"--markdown={tmp_path / 'docs/new/results.md'}", f"--picture=a/b/c={tmp_path / 'pictures/c.png'}"]
    subprocess.run([sys.executable, "-c", code, f"--out={tmp_path / 'out'}", *files], capture_output=True, check=False)
    assert (tmp_path / "docs/new").is_dir()
    assert (tmp_path / "pictures").is_dir()


def test_a_report_names_the_file_that_it_cannot_read(tmp_path):
    code = (
        "import runpy\nfrom repro.report import contents\n\n\ndef collect(*_, **__):\n"
        "    raise PermissionError(13, 'Permission denied', 'results/video.json')\n\n\n"
        "contents.collect = collect\nrunpy.run_module('repro.report', run_name='__main__', alter_sys=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, f"--out={tmp_path}"], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.endswith(": results/video.json could not be read or written (Permission denied).\n")


def test_report_writes_page_and_summary(results, tmp_path, run):
    done = run("repro.report", f"--results_dir={results}", f"--out={tmp_path / 'out'}")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"Page: {tmp_path / 'out' / 'index.html'}\n"
    names = {"index.html", "summary.md", "rows.csv", "figures", "records", ".written"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == names


def test_report_writes_the_markdown_page_where_asked(results, tmp_path, run):
    arguments = (f"--results_dir={results}", f"--out={tmp_path / 'out'}", f"--markdown={tmp_path / 'results.md'}")
    done = run("repro.report", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    run_line = "| pong | IMPALA, shallow, experts |"
    not_run_line = "| alien | IMPALA, shallow, experts |"
    pages = [(tmp_path / name).read_text() for name in ("results.md", "results_not_run.md")]
    assert [(run_line in page, not_run_line in page) for page in pages] == [(True, False), (False, True)]


def test_a_picture_without_a_curve_is_left_as_it_is(tmp_path, run):
    write(tmp_path / "results", random_records()[0] | {"curve": []})
    picture = tmp_path / "pong.png"
    picture.write_text("before")
    done = run(
        "repro.report",
        f"--results_dir={tmp_path / 'results'}",
        f"--out={tmp_path / 'out'}",
        f"--picture=impala/atari_shallow/pong={picture}",
    )
    assert (done.returncode, picture.read_text()) == (0, "before")
    assert f"No run of impala/atari_shallow/pong in {tmp_path / 'results'} has a learning curve; " in done.stdout
    assert f"{picture} was not changed." in done.stdout


def test_report_plots_the_pictures_asked_for(results, tmp_path, run):
    pictures = [f"--picture=impala/atari_shallow/{task}={tmp_path / task}.png" for task in ("pong", "zaxxon")]
    done = run("repro.report", f"--results_dir={results}", f"--out={tmp_path / 'out'}", *pictures)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "pong.png").read_bytes().startswith(b"\x89PNG")
    assert not (tmp_path / "zaxxon.png").exists()  # no runs


@pytest.mark.parametrize("names", [("impala", "atari_deep", "pong"), ("impala", "my/lander.py", "ale_py:ALE/Pong-v5")])
def test_a_picture_is_of_an_experiment_by_name_or_by_file(names):
    assert PICTURE.fullmatch(f"{'/'.join(names)}=docs/x.png").groups() == (*names, "docs/x.png")


def test_tables_and_page_start_without_tensorflow():
    code = "import sys, repro.check, repro.report.__main__; assert 'tensorflow' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
