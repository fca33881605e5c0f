"""The page: complete, without broken links, suitable for screen readers; summary and CSV are equal to it."""

import csv
import dataclasses
import html
import html.parser
import json
import re
import shutil
import urllib.parse
import xml.etree.ElementTree

import pytest

from repro.evidence import published, records, staleness
from repro.evidence.groups import group_records
from repro.evidence.records import ROOT
from repro.evidence.rows import make_rows
from repro.evidence.sentences import sentences
from repro.report import contents, downloads, page, tables
from repro.report.contents import paper_link
from tests.evidence.synthetic_records import make_record, random_records, write
from tests.report.example_row import ROW
from tests.report.example_video import write_example

PRINTED = sum(len(published.load(paper).rows) for paper in published.papers())
FINDINGS = [finding for _, finding, _ in sentences(make_rows({}, papers=["impala"]))]
JUDGED, NOT_RUN = len(FINDINGS), FINDINGS.count("not run")
COUNTS = ", ".join(
    [
        "0 reproduced, 0 agrees, 0 disagrees, 0 contradicts, 2 undecided",
        f"{NOT_RUN - 2} not run, {JUDGED - NOT_RUN} cannot run here",
    ]
)
VOID = {"meta", "link", "input", "br", "img"}


class Outline(html.parser.HTMLParser):
    """Checks that elements close in order, and keeps what the tests ask for."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.headings, self.attributes, self.commands = [], [], [], [], []

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.attributes.append((tag, attributes))
        if tag not in VOID:
            self.open.append((tag, attributes.get("class")))
        if "id" in attributes:
            self.ids.append(attributes["id"])
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))

    def handle_startendtag(self, tag, attributes):
        self.attributes.append((tag, dict(attributes)))

    def handle_data(self, data):
        if self.open[-2:] == [("td", "command"), ("code", None)]:
            self.commands.append(data)

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def of(self, tag):
        return [attributes for name, attributes in self.attributes if name == tag]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Records of three games, one of them stale, and a broken file."""
    root = tmp_path_factory.mktemp("results")
    for seed in (1, 2, 3):
        write(root, make_record(seed, "pong", budget=40_000_000, final=float(seed)))
    write(root, make_record(1, "beam_rider", final=9000.0, scale="paper"))
    write(root, make_record(1, "freeway", agent="impala_own"))
    config = make_record(1, "alien")["config"] | {"num_env_frames": 12_000_000}
    write(root, make_record(1, "alien", config=config))
    broken = records.record_path(root, "impala", "atari_deep", "pong", "impala_deep", 1)
    broken.parent.mkdir(parents=True)
    broken.write_text('{"paper": "<script>alert(1)</script>')
    return root


@pytest.fixture(scope="module")
def folder(results, tmp_path_factory):
    return page.write_report(tmp_path_factory.mktemp("report"), results).parent


@pytest.fixture(scope="module")
def rows(results):
    return make_rows(group_records(records.read_all(results)[0]))


@pytest.fixture(scope="module")
def text(folder):
    return (folder / "index.html").read_text()


@pytest.fixture(scope="module")
def outline(text):
    parser = Outline()
    parser.feed(text)
    assert parser.open == []
    return parser


def test_page_loads_nothing_from_elsewhere(text, outline):
    assert all(image["src"].startswith("figures/") for image in outline.of("img"))
    assert not re.findall(r"""src=["'](?!figures/)""", text)
    assert "@import" not in text
    assert "url(" not in text
    assert "fetch(" not in text
    policy = next(meta["content"] for meta in outline.of("meta") if "content" in meta and "http-equiv" in meta)
    assert policy.startswith("default-src 'none'")


def test_every_link_leads_to_a_file_a_place_on_the_page_or_a_paper(folder, outline):
    papers = {paper_link(published.load(paper).citation) for paper in published.papers()}
    links = [link["href"] for link in outline.of("a")]
    places = {link for link in links if link.startswith("#")}
    assert {link for link in links if ":" in link} == papers
    files = {link for link in links if ":" not in link} - places | {image["src"] for image in outline.of("img")}
    assert {link[1:] for link in places} <= set(outline.ids)
    assert len(outline.ids) == len(set(outline.ids))
    assert [name for name in files if not (folder / urllib.parse.unquote(name)).is_file()] == []
    names = {"index.html", "summary.md", "rows.csv", "figures", "records", downloads.WRITTEN}
    assert {path.name for path in folder.iterdir()} == names


def test_no_file_is_written_that_nothing_links_to(folder, outline):
    linked = {link["href"] for link in outline.of("a")} | {image["src"] for image in outline.of("img")}
    written = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert written - {"index.html", downloads.WRITTEN} <= {urllib.parse.unquote(link) for link in linked}


def test_a_task_with_a_module_has_its_figures_and_records_on_the_page(tmp_path):
    write(tmp_path / "results", make_record() | {"task": "ale_py:ALE/Pong-v5"})
    folder = page.write_report(tmp_path / "report", tmp_path / "results").parent
    outline = Outline()
    outline.feed((folder / "index.html").read_text())
    test_every_link_leads_to_a_file_a_place_on_the_page_or_a_paper(folder, outline)
    test_no_file_is_written_that_nothing_links_to(folder, outline)
    names = {path.name for path in folder.rglob("*Pong-v5*")}
    assert {"ale_py+ALE+Pong-v5", "impala-atari_shallow-ale_py+ALE+Pong-v5-curve.svg"} <= names


def test_records_on_the_page_are_copies(folder, results):
    copies = {path.relative_to(folder / "records"): path.read_bytes() for path in folder.rglob("seed_*.json")}
    assert len(copies) == 5  # three of pong, one of beam_rider, one of freeway; none of the stale and the broken one
    assert all((results / path).read_bytes() == copy for path, copy in copies.items())


def test_figures_are_loaded_late_and_keep_their_place(folder, outline):
    images = outline.of("img")
    assert len({image["src"] for image in images}) == len(images) > 3
    for image in images:
        assert image["loading"] == "lazy"
        assert image["alt"]
        root = xml.etree.ElementTree.parse(folder / image["src"]).getroot()
        _, _, width, height = map(float, root.get("viewBox").split())
        assert (int(image["width"]), int(image["height"])) == pytest.approx((width, height), abs=0.5)


def test_csv_has_the_rows_of_the_page(folder, rows):
    with (folder / "rows.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert list(lines[0]) == list(downloads.COLUMNS)
    assert [line["task"] for line in lines] == [row.task for row in rows]
    (pong,) = (line for line in lines if line["task"] == "pong" and line["ours"])
    (row,) = (row for row in rows if row.task == "pong" and row.seeds)
    assert (float(pong["ours"]), float(pong["low"]), float(pong["high"])) == (row.value, *row.interval)
    assert (pong["published"], pong["verdict"], pong["seeds"]) == ("20.4", "undecided", "1 2 3")
    assert json.loads(pong["budget"]) == 40_000_000
    assert {line["ours"] for line in lines if line["verdict"] == "not run"} == {""}


def test_every_row_is_on_the_page(rows, outline):
    assert len([row for row in outline.of("tr") if "data-verdict" in row]) == len(rows)
    assert len(rows) == PRINTED + 1  # the agent of our own


def test_a_narrow_screen_labels_a_number_as_the_header_of_its_column_does(text):
    for table in re.findall(r'<table class="(?:rows|claims)">.*?</table>', text, re.DOTALL):
        head, body = table.split("</thead>")
        (asked,) = set(re.findall(">(Asked|Published)<", head))
        assert set(re.findall('data-label="([^"]*)"', body)) - {"Ours", "Budget"} == {asked}


def test_commands_stand_in_their_rows(outline):
    assert "make reproduce-impala EXPERIMENT=atari_shallow TASK=pong SCALE=desk SEEDS=3" in outline.commands
    assert "make reproduce-impala EXPERIMENT=atari_shallow TASK=beam_rider SCALE=paper SEEDS=1" in outline.commands


def test_rows_are_in_one_list_per_table_of_which_the_first_is_open(outline):
    groups = [details for details in outline.of("details") if details.get("class") == "group"]
    tables_of = [{row.table for row in published.load(paper).rows} for paper in published.papers()]
    assert len(groups) == sum(map(len, tables_of)) + 1  # the agent of our own
    assert ["open" in group for group in groups] == [True] + [False] * (len(groups) - 1)
    assert "C.1" in groups[0]["data-words"]  # the one with results


def test_result_links_lead_to_their_curves(outline):
    targets = [link["href"][1:] for link in outline.of("a") if link["href"].startswith("#")]
    assert set(targets) <= set(outline.ids)
    assert {"impala-atari_shallow-pong-impala_shallow", "impala-atari_shallow-beam_rider-impala_shallow"} <= set(
        targets
    )


def test_a_claim_without_a_place_of_its_own_links_to_its_experiment(tmp_path):
    for agent in ("vracer_refer", "ppo", "random"):
        for seed in (1, 2):
            config = staleness.agent_config("refer", "figure_4_vracer", "desk", agent)
            config.pop("variants", None)
            final = float(seed) if agent != "random" else -1000.0
            record = make_record(seed, agent=agent, final=final, config=config)
            record["evaluation"]["unit"] = "episode return"
            names = {"paper": "refer", "experiment": "figure_4_vracer", "task": "HalfCheetah"}
            write(tmp_path / "results", record | names)
    parser = Outline()
    parser.feed(page.write_report(tmp_path / "report", tmp_path / "results").read_text())
    assert "#refer-figure_4_vracer" in [link["href"] for link in parser.of("a")]
    assert "refer-figure_4_vracer" in parser.ids


def test_a_page_begins_with_what_it_has(tmp_path, text):
    """The paper with runs first; main claims above the papers where one has a run, with two runs of each agent."""
    claims, paper = 'id="main-claims"', '<section class="paper" id="refer"'
    others = [f'<section class="paper" id="{name}"' for name in published.papers() if name != "refer"]
    config = staleness.current_config("refer", "figure_4_vracer", "desk")
    for agent, final in (("vracer_refer", 3000.0), ("vracer_er", 5.0), ("random", -280.0)):
        for seed in (1, 2):
            own = config | {"agent": agent}
            record = make_record(seed, agent=agent, final=final, config=own, experiment="figure_4_vracer")
            write(tmp_path / "results", record | {"paper": "refer", "task": "HalfCheetah"})
    found = page.write_report(tmp_path / "all", tmp_path / "results").read_text()
    assert found.index(claims) < found.index(paper) < min(map(found.index, others))
    shutil.rmtree(tmp_path / "results/refer/figure_4_vracer/HalfCheetah/vracer_er")
    found = page.write_report(tmp_path / "one", tmp_path / "results").read_text()
    assert found.index(paper) < min(map(found.index, others))
    assert max(map(found.index, others)) < found.index(claims)
    assert "Verdicts from trained agents" not in found


def test_main_claims_are_on_the_page_though_none_has_a_run(text):
    first = text.index('id="main-claims"'), text.index('id="reading"')
    main = [row for row in make_rows({}) if row.main]
    assert len(main) > 3
    assert [
        row.column for row in main if not first[0] < text.find(html.escape(str(row.statement)), first[0]) < first[1]
    ] == []
    section = html.unescape(text[slice(*first)])
    assert "the finding of its own row only" in section
    assert [row.column for row in main if f"<td>{row.task}</td>" not in section] == []
    assert [row.column for row in main if row.note and row.note in section] == []  # none is run


def test_a_unit_that_begins_with_a_number_does_not_run_into_the_value(text):
    assert re.search(r"<small>\(1 if [^<]*\)</small>", text)
    assert "<small>episode return</small>" in text


def test_bar_counts_the_printed_numbers(outline):
    bars = [div["aria-label"] for div in outline.of("div") if div.get("class") == "bar"]
    assert len(bars) == 2 * len(published.papers())  # above all papers, and above its own rows
    assert bars.count(f"Of {JUDGED} printed numbers and sentences: {COUNTS}") == 2


def test_counts_say_how_many_come_from_trained_agents_on_narrow_screens_too(tmp_path):
    """Of the 3 that agree, 2 are of a study and 1 is of agents that learn."""
    rows = [dataclasses.replace(ROW, finding="agrees", trained=i == 0, task=f"task {i}") for i in range(3)]
    found = contents.Contents([], [*rows, dataclasses.replace(ROW, paper="acer")], {}, [], [], [])
    text = page.write_report(tmp_path, tmp_path / "none", contents=found).read_text()
    (overview,) = re.findall(r'<table class="papers">.*?</table>', text, re.DOTALL)
    counts = "3 agrees <small>(1 trained)</small> of 3"
    assert counts in overview
    assert '<td class="n">3 <small>(1 trained)</small></td>' in overview
    assert "<b>3</b> agrees <small>(1 trained)</small></li>" in text
    assert "<b>0</b> reproduced</li>" in text


def test_narrow_screens_have_the_colours_of_the_bars_explained(text):
    (legend,) = re.findall(r'<ul class="legend narrow">(.*?)</ul>', text)
    assert re.findall(r"</span>([^<]+)</li>", legend) == list(tables.VERDICTS)


def test_screen_reader_basics(text, outline):
    assert text.startswith('<!doctype html>\n<html lang="en">')
    assert outline.headings[0] == 1
    assert all(later <= earlier + 1 for earlier, later in zip(outline.headings, outline.headings[1:]))
    assert all("scope" in header for header in outline.of("th"))
    assert not outline.of("svg")
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in outline.of("meta")


def test_what_was_left_out_is_said_and_escaped(text):
    assert "Records left out" in text
    assert "frames was 12000000 and is " in text
    assert "<script>alert(1)" not in text
    assert "seed_1.json is not readable JSON" in text


def test_differences_from_the_paper_are_listed_for_desk_runs(text):
    runs = {part.split('"', 1)[0]: part for part in text.split('<section class="runs" id="')[1:]}
    pong = runs["impala-atari_shallow-pong-impala_shallow"]
    assert re.search(r"<code>num_env_frames</code> \d+, paper 200000000", pong)
    assert "Differs from" not in runs["impala-atari_shallow-beam_rider-impala_shallow"]
    assert "Example CPU, 2 cores, no GPU" in pong
    assert "Frames/s" in pong
    assert "Human-normalized" in pong


@pytest.mark.slow
def test_aggregates_and_comparisons_link_to_the_tasks_together(tmp_path):
    for game in published.normaliser("atari57"):
        for experiment, agent in (("atari_shallow", "impala_shallow"), ("atari_deep", "impala_deep")):
            for seed in (1, 2):
                write(tmp_path / "results", make_record(seed, game, experiment, agent, episodes=5, curve=[]))
    for record in random_records(published.normaliser("atari57"), curve=[]):
        write(tmp_path / "results", record)
    parser = Outline()
    parser.feed(page.write_report(tmp_path / "report", tmp_path / "results").read_text())
    links = [link["href"][1:] for link in parser.of("a") if link["href"].startswith("#")]
    assert set(links) <= set(parser.ids)
    # the median and the mean of Table 4, and the claim that the deep network beats the shallow one
    assert links.count("impala-atari_deep-impala_deep-together") >= 3


def test_context_and_settings_are_on_the_page(text):
    pong = text.split('id="impala-atari_shallow-pong"')[1].split("</article>")[0]
    assert "Other publications on pong" in pong
    assert "Rainbow (Hessel et al. 2018), no-op starts" not in pong  # context for C-trace
    assert "88 printed settings" in text
    assert "as printed (atari_shallow, atari_deep, atari_a3c)" in text


def test_deviations_come_from_the_paper_s_own_page(text):
    section = text.split('<details class="deviations">')[1].split("</details>")[0]
    assert "FIRE is not pressed" in section
    listed = (ROOT / "repro/papers/impala/README.md").read_text().split("## Deviations from the paper")[1]
    items = re.findall(r"^ *(?:\d+\.|-) ", listed.split("**Not built**")[0], re.MULTILINE)
    assert section.count("<li>") == len(items) > 5


def test_report_is_the_same_bytes_each_time(results, tmp_path, folder):
    page.write_report(tmp_path, results)
    files = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    assert [name for name in files if (tmp_path / name).read_bytes() != (folder / name).read_bytes()] == []


def test_what_an_earlier_report_wrote_and_nothing_else_is_removed(tmp_path):
    results, folder = tmp_path / "results", tmp_path / "report"
    gone = write(results, make_record(1, "pong")).parent
    write_example(gone)
    write(results, make_record(1, "freeway"))

    def files(folder=folder):
        return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}

    page.write_report(folder, results)
    assert {name.split("/")[0] for name in files() if "pong" in name} == {"figures", "records", "videos"}
    own = {"notes.txt", "figures/pong.svg", "records/impala/atari_shallow/pong/notes.txt"}
    for name in own:
        (folder / name).write_text("mine")
    outside = tmp_path / "outside.txt"
    outside.touch()
    with (folder / downloads.WRITTEN).open("a") as listed:
        listed.write(f"../outside.txt\n{outside}\nfigures\n")
    shutil.rmtree(gone)
    page.write_report(folder, results)
    page.write_report(tmp_path / "fresh", results)
    assert files() == files(tmp_path / "fresh") | own
    assert outside.exists()


def test_summary_has_the_rows_of_the_page(folder, rows):
    summary = (folder / "summary.md").read_text()
    assert sum(summary.count(f"\n| {tables.PAPERS[paper]}") for paper in published.papers()) == len(rows)
    assert COUNTS in summary
    first = next(line for line in summary.splitlines() if line.startswith("| IMPALA"))
    assert "beam_rider" in first  # rows with results come first


def test_page_without_records_says_so(tmp_path):
    text = page.write_report(tmp_path, tmp_path / "none").read_text()
    assert "No records yet." in text
    assert "Learning curves" not in text
    assert f"{NOT_RUN}</b> not run" in text.replace("\n", "")


def test_runs_with_times_have_a_second_plot_on_the_page(tmp_path):
    frames = make_record()["num_env_frames"]
    series = {"columns": ["num_env_frames", "seconds"], "rows": [[0, 0.0], [frames, 7200.0]]}
    for seed in (1, 2):
        write(tmp_path / "results", make_record(seed, "pong", series=series))
        write(tmp_path / "results", make_record(seed, "alien"))
    parser = Outline()
    parser.feed(page.write_report(tmp_path / "report", tmp_path / "results").read_text())
    curves = [image for image in parser.of("img") if "Learning curve" in image["alt"]]
    assert [(image["class"], image["alt"].split(".")[0], image["src"].rpartition("-")[2]) for image in curves] == [
        ("by-steps", "Learning curve of impala_shallow on alien", "curve.svg"),
        ("by-steps", "Learning curve of impala_shallow on pong", "curve.svg"),
        ("by-time", "The same against the wall time of training", "time.svg"),
    ]
    timed = [path.name for path in tmp_path.rglob("*.svg") if "wall time of training, hours" in path.read_text()]
    assert timed == ["impala-atari_shallow-pong-time.svg"]
    assert sum(radio.get("type") == "radio" for radio in parser.of("input")) == 2


@pytest.mark.parametrize(
    ("seconds", "text"), [(44.6, "45 s"), (60, "1 min"), (3599, "1 h 00 min"), (7500, "2 h 05 min")]
)
def test_durations(seconds, text):
    assert page.duration(seconds) == text
