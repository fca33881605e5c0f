"""Programs in turns: what is counted, which one runs when, and the resulting numbers."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import psutil
import pytest

from repro.benchmarks.measuring.alternating import Program, ProgramError, Turn, alternate, compare, parse_count

COUNTING = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
n = 0
while True:
    n += 1
    print(f"child {child.pid}, step {n:,} ", end="\\r", flush=True)
    time.sleep(0.002)
"""
COUNT = r"step ([\d,]+)"


@pytest.fixture
def start():
    started = []

    def start(code=COUNTING, count=COUNT):
        started.append(Program(f"exec {sys.executable} -c '{code}'", count))
        return started[-1]

    yield start
    for program in started:
        program.end()


def states(program):
    process = psutil.Process(program._process.pid)
    return {p.status() for p in [process, *process.children(recursive=True)]}


@pytest.mark.parametrize(
    ("text", "number"),
    [("7", 7), ("12,800", 12_800), ("3.5", 3.5), ("1.25M", 1_250_000), ("16.4k", 16_400), ("2G", 2e9)],
)
def test_counts_are_read_as_programs_print_them(text, number):
    assert parse_count(text) == number


def test_a_number_of_which_more_digits_may_follow_is_not_read(start):
    program = start('import sys, time\nfor part in ("step 1", "23", "456 done"):\n  print(part, end="", flush=True)\n'
                    '  time.sleep(0.3)\ntime.sleep(600)'.replace("'", '"'))  # fmt: skip
    program.warm_up(0.0, 20.0)
    assert program.count == 123_456


def test_a_count_is_so_much_work():
    program = Program("echo 1,200 frames; sleep 600", r"([\d,]+) frames", 0.25)
    try:
        program.warm_up(0.0, 20.0)
        assert program.count == 300
    finally:
        program.end()


def test_a_program_and_its_children_run_in_its_turns_alone(start):
    first, second = start(), start()
    for program in (first, second):
        program.warm_up(0.2, 60.0)
        assert states(program) == {psutil.STATUS_STOPPED}
        before = program.count
        assert not program._read(0.3)
        assert program.count == before
    seen = []

    def look(round_):
        seen.append((round_, states(first), states(second)))

    turns = alternate((first, second), 0.2, 2, look)
    assert seen == [(i, {psutil.STATUS_STOPPED}, {psutil.STATUS_STOPPED}) for i in (1, 2)]
    for of_program in turns:
        assert len(of_program) == 5
        assert np.all(np.diff([turn.counted for turn in of_program]) > 0)


def test_nothing_of_a_program_is_left(start):
    program = start()
    program.warm_up(0.0, 60.0)
    everything = [psutil.Process(program._process.pid), *psutil.Process(program._process.pid).children(recursive=True)]
    assert len(everything) == 2
    program.end()
    _, alive = psutil.wait_procs(everything, timeout=10)
    assert [p for p in alive if p.status() != psutil.STATUS_ZOMBIE] == []


def test_a_program_that_ends_or_does_not_count_is_a_sentence_with_its_last_words(start):
    with pytest.raises(ProgramError, match=r"(?s)ended with code 3: .* \(no such game\)"):
        start('import sys\nprint("no such game")\nsys.exit(3)').warm_up(0.0, 60.0)
    with pytest.raises(ProgramError, match="no count for 0.3 seconds from the program"):
        start("import time\ntime.sleep(600)").warm_up(0.0, 0.3)


def turns(*pairs):
    return [Turn(0.0, 100.0), *(Turn(seconds, counted) for seconds, counted in pairs)]


def test_the_ratio_is_that_of_all_rounds_and_its_interval_of_whole_rounds():
    first = turns((1.0, 110.0), (1.0, 120.0), (2.0, 122.0), (2.0, 124.0))  # 10, 10 and then, slower, 2, 2
    second = turns((1.0, 105.0), (1.0, 110.0), (2.0, 111.0), (2.0, 112.0))
    result = compare(first, second)
    assert result["rates"] == pytest.approx([24 / 6, 12 / 6])
    assert result["ratio"] == pytest.approx(2.0)
    assert result["interval"] == pytest.approx([2.0, 2.0])  # the machine's speed changes, and the ratio does not
    assert result["rounds"] == 2


def test_the_interval_has_the_ratios_of_the_rounds_inside():
    rng = np.random.default_rng(0)
    work = rng.uniform(90, 110, size=(2, 20, 2))
    first, second = (turns(*((1.0, 100.0 + done) for done in np.cumsum(rounds))) for rounds in work)
    result = compare(first, second)
    low, high = result["interval"]
    ratio = work[0].sum() / work[1].sum()
    assert result["ratio"] == pytest.approx(ratio)
    assert low < ratio < high
    spread = np.std(work[0].sum(axis=1) / work[1].sum(axis=1)) / np.sqrt(20)
    assert (high - low) / (2 * 1.96) == pytest.approx(spread, rel=0.35)


def test_one_round_has_no_interval_and_a_program_without_work_is_a_sentence():
    first = turns((1.0, 110.0), (1.0, 120.0))
    assert "interval" not in compare(first, turns((1.0, 105.0), (1.0, 110.0)))
    with pytest.raises(ProgramError, match="the second program counted nothing in its turns"):
        compare(first, turns((1.0, 100.0), (1.0, 100.0)))


def test_the_command_says_what_is_wrong_with_a_pattern():
    command = [sys.executable, "-m", "repro.alternate", "--first=x", "--second=y", "--first_count=Steps"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 2
    assert ended.stderr.strip() == (
        "repro.alternate: --first_count=Steps: put the number into a group, such as 'Steps ([0-9]+)'."
    )
