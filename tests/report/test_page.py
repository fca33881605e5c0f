"""The page: complete, self-contained, sound for screen readers; the summary equals it."""

import html.parser
import re
import xml.etree.ElementTree

import numpy as np
import pytest

from repro.evidence import published, records
from repro.evidence.records import ROOT
from repro.evidence.rows import group_records, make_rows
from repro.report import curves, page, svg, tables
from tests.evidence.synthetic_records import make_record, write

PRINTED = sum(len(published.load(paper).rows) for paper in published.papers())
JUDGED = sum(row.value is not None for row in published.load("impala").rows)
CANNOT_RUN = sum(row.value is not None and row.cannot_run is not None for row in published.load("impala").rows)
NOT_RUN = JUDGED - CANNOT_RUN - 2
COUNTS = f"0 reproduced, 0 agrees, 0 contradicts, 2 undecided, {NOT_RUN} not run, {CANNOT_RUN} cannot run here"
VOID = {"meta", "link", "input", "br"}


class Outline(html.parser.HTMLParser):
    """Checks that elements close in order, and keeps what the tests ask for."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links, self.headings, self.attributes = [], [], [], [], []

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.attributes.append((tag, attributes))
        if tag not in VOID:
            self.open.append(tag)
        if "id" in attributes:
            self.ids.append(attributes["id"])
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))

    def handle_startendtag(self, tag, attributes):
        self.attributes.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def of(self, tag):
        return [attributes for name, attributes in self.attributes if name == tag]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Records of three games, one of them stale, and a broken file."""
    root = tmp_path_factory.mktemp("results")
    for seed in (1, 2, 3):
        write(root, make_record(seed, "pong", frames=40_000_000, final=float(seed)))
    write(root, make_record(1, "beam_rider", final=9000.0, scale="paper"))
    write(root, make_record(1, "freeway", agent="impala_own"))
    config = make_record()["config"] | {"frames": 12_000_000}
    write(root, make_record(1, "alien", config=config, config_sha256=records.config_sha256(config)))
    broken = records.record_path(root, "impala", "atari_deep", "pong", "impala_deep", 1)
    broken.parent.mkdir(parents=True)
    broken.write_text('{"paper": "<script>alert(1)</script>')
    return root


@pytest.fixture(scope="module")
def text(results, tmp_path_factory):
    return page.write_report(tmp_path_factory.mktemp("report"), results).read_text()


@pytest.fixture(scope="module")
def outline(text):
    parser = Outline()
    parser.feed(text)
    assert parser.open == []
    return parser


def test_page_loads_nothing_from_elsewhere(text, outline):
    assert not re.findall(r"""(?:src|href)=["'](?!#|data:)""", text)
    assert "@import" not in text
    assert "url(" not in text
    assert "fetch(" not in text
    policy = next(meta["content"] for meta in outline.of("meta") if "content" in meta and "http-equiv" in meta)
    assert policy.startswith("default-src 'none'")


def test_every_row_is_on_the_page(results, outline):
    rows = make_rows(group_records(records.read_all(results)[0]))
    assert len([row for row in outline.of("tr") if "data-verdict" in row]) == len(rows)
    assert len(rows) == PRINTED + 1  # the agent of our own


def test_commands_can_be_copied(outline):
    commands = [button["data-copy"] for button in outline.of("button")]
    assert "make reproduce-impala EXPERIMENT=atari_shallow TASK=pong SCALE=desk SEEDS=3" in commands
    assert "make reproduce-impala EXPERIMENT=atari_shallow TASK=beam_rider SCALE=paper SEEDS=1" in commands


def test_result_links_lead_to_their_curves(outline):
    targets = [link["href"][1:] for link in outline.of("a")]
    assert set(targets) <= set(outline.ids)
    assert len(outline.ids) == len(set(outline.ids))
    assert {"impala-atari_shallow-pong-impala_shallow", "impala-atari_shallow-beam_rider-impala_shallow"} <= set(
        targets
    )


def test_bar_counts_the_printed_numbers(outline):
    bars = [div["aria-label"] for div in outline.of("div") if div.get("class") == "bar"]
    assert len(bars) == 2 * len(published.papers())  # above all papers, and above its own rows
    assert bars.count(f"Of {JUDGED} published numbers: {COUNTS}") == 2


def test_screen_reader_basics(text, outline):
    assert text.startswith('<!doctype html>\n<html lang="en">')
    assert outline.headings[0] == 1
    assert all(later <= earlier + 1 for earlier, later in zip(outline.headings, outline.headings[1:]))
    assert all("scope" in header for header in outline.of("th"))
    assert all(svg["role"] == "img" and svg["aria-label"] for svg in outline.of("svg"))
    assert all(button["aria-label"] for button in outline.of("button"))
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in outline.of("meta")


def test_what_was_left_out_is_said_and_escaped(text):
    assert "Records left out" in text
    assert "frames was 12000000 and is " in text
    assert "<script>alert(1)" not in text
    assert "seed_1.json is not readable JSON" in text


def test_differences_from_the_paper_are_listed_for_desk_runs(text):
    cards = {card.split('"', 1)[0]: card for card in text.split('<article class="card" id="')[1:]}
    pong = cards["impala-atari_shallow-pong-impala_shallow"]
    assert re.search(r"<code>frames</code> \d+, paper 200000000", pong)
    assert "Differs from" not in cards["impala-atari_shallow-beam_rider-impala_shallow"]
    assert "Example CPU, 2 cores, no GPU" in pong
    assert "Frames/s" in pong
    assert "Human-normalised" in pong


def test_aggregates_and_comparisons_link_to_the_tasks_together(tmp_path):
    for game in published.normaliser("atari57"):
        for experiment, agent in (("atari_shallow", "impala_shallow"), ("atari_deep", "impala_deep")):
            for seed in (1, 2):
                write(tmp_path / "results", make_record(seed, game, experiment, agent, episodes=2))
    parser = Outline()
    parser.feed(page.write_report(tmp_path / "report", tmp_path / "results").read_text())
    links = [link["href"][1:] for link in parser.of("a")]
    assert set(links) <= set(parser.ids)
    # the median and the mean of Table 4, and the claim that the deep network beats the shallow one
    assert links.count("impala-atari_deep-impala_deep-together") >= 3


def test_context_and_settings_are_on_the_page(text):
    pong = text.split('<article class="card" id="impala-atari_shallow-pong-impala_shallow"')[1].split("</article>")[0]
    assert "Other publications on pong" in pong
    assert "Rainbow (Hessel et al. 2018), no-op starts" not in pong  # context for C-trace
    assert "83 printed settings" in text
    assert "as printed (atari_shallow, atari_deep)" in text


def test_deviations_come_from_the_paper_s_own_page(text):
    section = text.split('<details class="deviations">')[1].split("</details>")[0]
    assert "FIRE is not pressed" in section
    listed = (ROOT / "repro/papers/impala/README.md").read_text().split("## Deviations from the paper")[1]
    assert section.count("<li>") == len(re.findall(r"^\d+\. ", listed.split("**Not built**")[0], re.MULTILINE)) > 5


def test_report_is_the_same_bytes_each_time(results, tmp_path, text):
    assert page.write_report(tmp_path, results).read_text() == text


def test_summary_has_the_rows_of_the_page(results, tmp_path):
    page.write_report(tmp_path, results)
    summary = (tmp_path / "summary.md").read_text()
    rows = make_rows(group_records(records.read_all(results)[0]))
    assert sum(summary.count(f"\n| {tables.PAPERS[paper]}") for paper in published.papers()) == len(rows)
    assert COUNTS in summary
    first = next(line for line in summary.splitlines() if line.startswith("| IMPALA"))
    assert "beam_rider" in first  # rows with results come first


def test_page_without_records_says_so(tmp_path):
    text = page.write_report(tmp_path, tmp_path / "none").read_text()
    assert "No records yet." in text
    assert "Learning curves" not in text
    assert f"{JUDGED}</b> not run" in text.replace("\n", "")


def _svg(*made):
    (row,) = (r for r in make_rows(_groups(made)) if r.seeds and r.statistic is None)
    plot = curves.make_plot(made, row)
    return plot, xml.etree.ElementTree.fromstring(curves.curve_svg(plot, 'title "quoted" & <b>'))


def _groups(made):
    path = records.record_path("r", "p", "e", "t", "a", 0)
    return group_records([records.StoredRecord(path, record) for record in made])


def _texts(svg):
    return [element.text for element in svg.iter("text")]


def test_curve_has_a_line_a_seed_the_mean_and_both_references():
    plot, svg = _svg(*[make_record(seed, frames=40_000_000) for seed in (1, 2, 3)])
    assert [line.get("class") for line in svg.iter("polyline")] == ["seed", "seed", "seed", "mean"]
    kinds = [line.get("class") for line in svg.iter("line")]
    assert kinds.count("published") == kinds.count("random") == 1
    assert "published 20.4 at 200M frames" in _texts(svg)
    assert "random -20.7" in _texts(svg)
    published_y = next(float(line.get("y1")) for line in svg.iter("line") if line.get("class") == "published")
    random_y = next(float(line.get("y1")) for line in svg.iter("line") if line.get("class") == "random")
    assert curves.TOP < published_y < random_y < curves.HEIGHT - curves.BOTTOM
    assert plot.y_range[0] < -20.7 < 20.4 < plot.y_range[1]


def test_lines_stay_inside_the_axes():
    _, svg = _svg(make_record(1, final=18.0))
    points = np.array(
        [[float(v) for v in p.split(",")] for line in svg.iter("polyline") for p in line.get("points").split()]
    )
    assert (points.min(axis=0) >= (curves.LEFT - 0.1, curves.TOP)).all()
    assert (points.max(axis=0) <= (curves.WIDTH - curves.RIGHT + 0.1, curves.HEIGHT - curves.BOTTOM)).all()
    assert points[-1, 0] == pytest.approx(curves.WIDTH - curves.RIGHT, abs=0.1)


def test_published_number_far_away_is_named_and_not_drawn():
    plot, svg = _svg(make_record(1, "breakout", final=10.0))
    assert not plot.on_scale
    assert plot.y_range[1] < 20
    assert "published" not in [line.get("class") for line in svg.iter("line")]
    assert "\u2191 published 640.43 at 200M frames, off scale" in _texts(svg)


def test_curve_without_any_finished_game_still_draws():
    plot, svg = _svg(make_record(1, curve=[]))
    assert not list(svg.iter("polyline"))
    assert plot.x_end > 0


def test_mean_line_is_the_mean_where_all_seeds_have_data():
    made = [make_record(1, curve=[[0, 0.0], [100, 10.0]]), make_record(2, curve=[[0, 2.0], [50, 7.0]])]
    mean = curves.make_plot(made, None).mean
    assert (mean[0, 0], mean[-1, 0]) == (0, 50)
    np.testing.assert_allclose(mean[:, 1], 1 + mean[:, 0] / 10)


def _windowed(seed, slope, frames=1000, window=200):
    """A curve that rises by `slope` a window, logged ten times in each."""
    curve = [[20 * i, slope * 0.1 * i] for i in range(1, frames // 20 + 1)]
    return make_record(seed, curve=curve, frames=frames, config={"window_steps": window, "frames": frames})


def test_windows_have_the_mean_and_the_percentiles_of_the_seeds():
    made = [_windowed(seed, slope) for seed, slope in ((1, 1.0), (2, 2.0), (3, 6.0))]
    plot = curves.make_plot(made, None)
    np.testing.assert_allclose(plot.mean[:, 0], [100, 300, 500, 700, 900])
    per_window = 0.55 + np.arange(5)  # mean of 0.1 to 1, of 1.1 to 2, ...
    np.testing.assert_allclose(plot.mean[:, 1], 3 * per_window)
    # of 1, 2, 6 the 20th percentile lies 0.4 of the way from 1 to 2, the 80th 0.6 of that from 2 to 6
    np.testing.assert_allclose(plot.band, np.outer(per_window, [1.4, 4.4]))
    assert plot.mean_label == "mean over seeds in windows of 200 steps"
    assert plot.band_label == "20th to 80th percentile over seeds"
    assert plot.y_label == "mean return, game score"


def test_only_whole_windows_that_all_seeds_have_count():
    short = _windowed(2, 1.0, frames=890)
    assert curves.make_plot([_windowed(1, 1.0), short], None).mean[-1, 0] == 700
    late = _windowed(2, 1.0) | {"curve": [[450, 1.0], [1000, 2.0]]}  # no game had ended before
    assert curves.make_plot([_windowed(1, 1.0), late], None).mean[:, 0].tolist() == [500, 900]


def test_without_two_whole_windows_the_curve_is_as_without_any():
    made = [_windowed(seed, 1.0, window=600) for seed in (1, 2)]
    plot = curves.make_plot(made, None)
    assert (plot.window, len(plot.mean)) == (None, curves.MAX_POINTS)
    assert plot.band_label == "95 % interval of the mean over seeds"
    assert not len(curves.make_plot([_windowed(1, 1.0)], None).mean)  # one seed has no line over seeds


def _timed(seed, pace, **changes):
    """A record of 1 000 frames at `pace` seconds a frame, logged at the start, in the middle and at the end."""
    curve = [[200, 2.0 * seed], [600, 6.0 * seed], [1000, 10.0 * seed]]
    series = {"columns": ["frames", "seconds"], "rows": [[x, pace * x] for x in (0, 500, 1000)]}
    return make_record(seed, **{"curve": curve, "series": series, "frames": 1000} | changes)


def test_a_curve_against_wall_time_has_the_seconds_of_the_log():
    made = [_timed(1, 6.0), _timed(2, 12.0)]
    plot = curves.make_plot(made, None, timed=True)
    assert plot.x_label == "wall time of training, hours"
    np.testing.assert_allclose(plot.lines[1], [[1 / 3, 2.0], [1.0, 6.0], [5 / 3, 10.0]])
    np.testing.assert_allclose(plot.lines[2], [[2 / 3, 4.0], [2.0, 12.0], [10 / 3, 20.0]])
    assert plot.x_end == pytest.approx(10 / 3)
    # both have data from 2/3 to 5/3 hours, where the first stands at 6 t and the second at 6 t too
    assert (plot.mean[0, 0], plot.mean[-1, 0]) == pytest.approx((2 / 3, 5 / 3))
    np.testing.assert_allclose(plot.mean[:, 1], 6 * plot.mean[:, 0])
    by_frames = curves.make_plot(made, None)
    assert (by_frames.x_label, by_frames.x_end) == ("environment frames", 1000)
    assert by_frames.y_range == plot.y_range


@pytest.mark.parametrize(("pace", "unit"), [(7.2, "hours"), (7.1, "minutes"), (0.12, "minutes"), (0.11, "seconds")])
def test_wall_time_is_in_the_largest_unit_of_which_there_are_two(pace, unit):
    assert curves.make_plot([_timed(1, pace)], None, timed=True).x_label == f"wall time of training, {unit}"


def test_ticks_of_wall_time_are_not_rounded_to_whole_ones():
    drawn = curves.curve_svg(curves.make_plot([_timed(1, 9.0)], None, timed=True), "t")
    texts = _texts(xml.etree.ElementTree.fromstring(drawn))
    assert {"0", "0.5", "1", "1.5", "2", "2.5", "wall time of training, hours"} <= set(texts)


def test_windows_are_of_steps_and_not_of_time():
    config = {"window_steps": 200, "frames": 1000}
    made = [_timed(seed, 6.0, config=config) for seed in (1, 2)]
    assert curves.make_plot(made, None).window == 200
    assert curves.make_plot(made, None, timed=True).window is None


@pytest.mark.parametrize("change", [{"curve": []}, {"series": {"columns": ["frames"], "rows": [[1]]}}])
def test_all_runs_must_have_a_curve_and_times(change):
    assert curves.has_times([_timed(1, 6.0), _timed(2, 6.0)])
    assert not curves.has_times([_timed(1, 6.0), _timed(2, 6.0, **change)])


def test_runs_with_times_have_a_second_drawing_on_the_page(tmp_path):
    frames = make_record()["frames"]
    series = {"columns": ["frames", "seconds"], "rows": [[0, 0.0], [frames, 7200.0]]}
    for seed in (1, 2):
        write(tmp_path / "results", make_record(seed, "pong", series=series))
        write(tmp_path / "results", make_record(seed, "alien"))
    text = page.write_report(tmp_path / "report", tmp_path / "results").read_text()
    parser = Outline()
    parser.feed(text)
    labels = [svg["aria-label"] for svg in parser.of("svg") if "Learning curve" in svg["aria-label"]]
    assert [label.split(",")[0] for label in labels] == [
        "Learning curve of impala_shallow on alien",
        "Learning curve of impala_shallow on pong",
        "The same against the wall time of training. Learning curve of impala_shallow on pong",
    ]
    assert text.count("wall time of training, hours") == 1


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0, 40e6, [0, 1e7, 2e7, 3e7, 4e7]), (-21, 21, [-20, -10, 0, 10, 20]), (0.2, 0.31, [0.2, 0.25, 0.3])],
)
def test_ticks_are_round(low, high, expected):
    assert svg.ticks(low, high) == pytest.approx(expected)


def test_picture_is_written(tmp_path):
    printed = published.published_row("impala", "atari_shallow", "pong", "impala_shallow")
    curves.save_curve([make_record(1), make_record(2)], printed, tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "curve.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("seconds", "text"), [(44.6, "45 s"), (60, "1 min"), (3599, "1 h 00 min"), (7500, "2 h 05 min")]
)
def test_durations(seconds, text):
    assert page.duration(seconds) == text
