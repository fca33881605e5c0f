"""Code that all studies share: pieces of work spread over cores, and figures."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import psutil
import pytest
from matplotlib.figure import Figure
from PIL import Image

from repro.training import study
from tests.launch.fake_cluster import has_ended
from tests.support.waiting import wait


def test_pieces_come_back_in_order_and_can_be_stopped():
    pieces = [(2, i) for i in range(6)]
    seen = []
    assert study.map_pieces(pow, pieces, [0], lambda *done: seen.append(done)) == [2**i for i in range(6)]
    assert seen == sorted(seen)
    assert seen[-1] == (6, 6)

    def stop(done: int, pieces: int) -> None:
        raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        study.map_pieces(time.sleep, [(60,)], [0], stop)
    assert time.monotonic() - began < 30


def test_a_killed_process_ends_the_study_with_a_reason():
    """Its piece never comes, as after the system has run out of memory."""
    pieces = [("import os, signal; os.kill(os.getpid(), signal.SIGKILL)",), ("1 + 1",)]
    with pytest.raises(study.LostProcessError, match="was killed, perhaps because memory ran out"):
        study.map_pieces(exec, pieces, [0], lambda *_: None)


def test_processes_end_with_the_one_that_began_them(tmp_path):
    """In the midst of a piece, when that is killed."""
    piece = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(300)"
    whole = f"from repro.training import study; study.map_pieces(exec, [({piece!r},)], [0], lambda *_: None)"
    pid_file = tmp_path / "pid"
    parent = subprocess.Popen([sys.executable, "-c", whole, str(pid_file)])
    wait(lambda: parent.poll() is not None or (pid_file.exists() and pid_file.read_text()))
    worker = psutil.Process(int(pid_file.read_text()))
    parent.kill()
    parent.wait()
    wait(lambda: has_ended(worker))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_wait_while_processes_begin(number):
    """Also where another thread, as that of a progress bar, receives them."""
    before = signal.signal(number, signal.default_int_handler)
    ended = threading.Event()
    other = threading.Thread(target=ended.wait)
    other.start()
    try:
        with study.interrupts_held() as held:
            os.kill(os.getpid(), number)
            time.sleep(0.05)  # an interrupt would come here
            assert signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())
        assert held == [number]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
        assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    finally:
        signal.signal(number, before)
        ended.set()
        other.join()


def test_a_study_without_a_figure_saves_none(tmp_path):
    answer = study.StudyResult("nats", np.zeros(3), "none")
    study.Study({"kl": answer}, steps=0).save_figure(tmp_path / "folder")
    assert not list(tmp_path.iterdir())


def test_a_figure_is_short_the_same_bytes_again_and_keeps_its_texts(tmp_path):
    figure = Figure(figsize=(2, 1))
    figure.text(0.123456, 0.5, "from 0.00125 on")
    figure.subplots().plot([0.0, 1.0], [0.0, 1 / 3])
    for name in ("once", "again"):
        study.Study({}, steps=0, figure=figure).save_figure(tmp_path / name)
    for name in ("figure.png", "figure.svg"):
        assert (tmp_path / "once" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    svg = (tmp_path / "once/figure.svg").read_text()
    assert "from 0.00125 on" in svg
    assert not re.search(r'="[^"]*\d\.\d{3}', svg)  # coordinates in hundredths of a point
    image = Image.open(tmp_path / "once/figure.png")
    assert (image.mode, image.size) == ("P", (2 * study.DPI, study.DPI))
