"""The progress line: in place on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io
import sys

import pytest

from repro.training import progress_line
from repro.training.progress_line import ProgressLine, format_score


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass only when the test says so."""
    now = [100.0]
    monkeypatch.setattr(progress_line.time, "monotonic", lambda: now[0])

    def wait(seconds):
        now[0] += seconds

    return wait


def run(clock, seconds):
    """Half of 3,000 steps are done; then a thousand, in ten updates."""
    line = ProgressLine("agent [pong] seed 1", 3000, "steps", 1500)
    for i in range(1, 11):
        clock(seconds / 10)
        line.update(1500 + 100 * i, f"return [{i}]".__str__)
    line.close()
    line.close()


def test_elsewhere_a_plain_line_appears_after_its_time_and_at_the_end(clock, capsys):
    run(clock, 50.0)
    assert capsys.readouterr().err.splitlines() == [
        "agent [pong] seed 1  70%  2.10k/3.00k steps, 0:00:45 left, 20 steps/s, return [6]",
        "agent [pong] seed 1  83%  2.50k/3.00k steps, 0:00:25 left, 20 steps/s, return [10]",
    ]


def test_a_short_run_has_one_line_and_an_idle_one_none(clock, capsys):
    run(clock, 2.0)
    ProgressLine("nothing yet", 10, "games").close()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(", 0:00:01 left, 500 steps/s, return [10]")


def test_what_comes_before_the_first_update_does_not_count_for_the_rate(clock, capsys):
    line = ProgressLine("agent", 100, "games")
    clock(1000.0)
    line.update(10, str)
    clock(31.0)
    line.update(41, str)
    assert capsys.readouterr().err.splitlines() == [
        "agent  10%  10/100 games, unknown time left",
        "agent  41%  41/100 games, 0:00:59 left, 1 games/s",
    ]


def test_a_text_that_is_not_shown_is_not_made(clock):
    line, made = ProgressLine("agent", 10, "games"), []
    for i in range(1, 11):
        clock(7.0)
        line.update(i, lambda i=i: made.append(i) or "")
    line.close()
    assert made == [5, 10]


def test_a_standstill_has_no_end(clock, capsys):
    line = ProgressLine("agent", 10, "games", 5)
    line.update(5, str)
    clock(31.0)
    line.update(5, str)
    assert capsys.readouterr().err == "agent  50%  5/10 games, unknown time left, 0 games/s\n"


def test_a_count_that_is_reached_at_once_leaves_no_time(clock, capsys):
    line = ProgressLine("agent", 1, "games")
    line.update(1, str)
    line.close()
    assert capsys.readouterr().err == "agent 100%  1/1 games, 0:00:00 left\n"


def test_decades_are_not_counted(clock, capsys):
    """A budget that is far too large, such as one with an exponent of its own, must not end the run."""
    line = ProgressLine("agent", 10**30, "steps")
    line.update(1, str)
    clock(31.0)
    line.update(32, str)
    assert ", over 30 years left, 1 steps/s" in capsys.readouterr().err


@pytest.mark.parametrize(("columns", "end"), [(120, "500 steps/s, return [10]"), (90, "500 steps/s"), (50, "\u2026")])
def test_a_terminal_has_one_line_that_is_drawn_again_and_cut_at_its_width(clock, monkeypatch, columns, end):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    run(clock, 2.0)
    (drawn, shown) = terminal.getvalue().removesuffix("\x1b[?25h").rstrip("\n").rsplit("\r\x1b[2K", 1)
    assert "\n" not in drawn
    assert drawn.count("agent [pong] seed 1") == 5  # at the start, after 0.6, 1.2 and 1.8 seconds, at the end
    assert shown.startswith("agent [pong] seed 1  83% ")
    assert shown.rstrip().endswith(end)
    assert sys.stderr is terminal  # what the line had taken over is given back


@pytest.mark.parametrize(
    ("columns", "label"),
    [
        (80, "impala_shallow Spac\u2026"),
        (100, "impala_shallow SpaceInvade\u2026"),
        (120, "impala_shallow SpaceInvaders seed 1"),
    ],
)
def test_a_long_label_is_cut_to_leave_room_for_the_return(clock, monkeypatch, columns, label):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    line = ProgressLine("impala_shallow SpaceInvaders seed 1", 200_000_000, "frames")
    clock(1.0)
    line.update(18_600, lambda: "return 10021.7 (100 episodes), loss 12.3")
    line.close()
    assert ", return 10021.7" in terminal.getvalue()
    assert f"{label}   0%" in terminal.getvalue()


def test_a_dumb_terminal_gets_plain_lines(clock, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "dumb")
    run(clock, 2.0)
    assert "\r" not in terminal.getvalue()
    assert "\x1b" not in terminal.getvalue()


@pytest.mark.parametrize(
    ("value", "size", "text"),
    [
        (0.883, None, "0.883"),
        (0.05, 0.883, "0.050"),
        (-0.0123456, None, "-0.0123"),
        (9.5, None, "9.50"),
        (-20.34, None, "-20.3"),
        (361.24, None, "361.2"),
        (-1223.4, None, "-1223"),
        (499_999.6, None, "500000"),
        (0.4, 20_000.0, "0"),
        (0.0, None, "0.0"),
        (1e-30, None, "0.000000000"),
    ],
)
def test_a_score_has_digits_for_its_size_and_no_exponent(value, size, text):
    assert format_score(value, size) == text
