"""A hanging step of the main thread is ended, and nothing else is."""

from __future__ import annotations

import signal
import time

import pytest

from repro.training.step_watch import StepHungError, StepWatch


@pytest.fixture
def watch():
    watch = StepWatch(0.3)
    watch.start()
    yield watch
    watch.stop()


@pytest.fixture
def sent(monkeypatch):
    """The signals that a watch has sent."""
    kill, sent = signal.pthread_kill, []
    monkeypatch.setattr(signal, "pthread_kill", lambda *arguments: sent.append(arguments) or kill(*arguments))
    return sent


def test_what_takes_long_between_two_steps_or_in_many_goes_on(watch, sent):
    time.sleep(1.0)  # as an update, or a checkpoint
    end = time.monotonic() + 1.0
    while time.monotonic() < end:
        watch.changes += 1
        time.sleep(0.05)
        watch.changes += 1
    assert sent == []
    watch.changes += 1
    with pytest.raises(StepHungError):  # it did look
        time.sleep(60.0)
    assert len(sent) == 1


def test_a_step_that_hangs_is_ended_and_what_comes_in_its_place_has_as_long(watch):
    watch.changes += 1
    began = time.monotonic()
    with pytest.raises(StepHungError, match=r"^no step for 0\.3 seconds$"):
        time.sleep(60.0)
    assert 0.3 < time.monotonic() - began < 10.0
    time.sleep(0.2)  # another environment is made, and its step is the one that hangs now
    with pytest.raises(StepHungError):
        time.sleep(60.0)
    watch.changes += 1
    time.sleep(1.0)


def test_a_step_is_not_ended_in_place_of_the_one_before_that_hung(watch, monkeypatch):
    kill, sent = signal.pthread_kill, []

    def send_late(thread, number):
        watch.changes += 2  # that step has ended, and the next one has begun
        kill(thread, number)
        sent.append(number)

    monkeypatch.setattr(signal, "pthread_kill", send_late)
    watch.changes += 1
    end = time.monotonic() + 10.0
    while not sent:
        assert time.monotonic() < end
        time.sleep(0.01)
    watch.changes += 1


def test_after_the_end_nothing_is_ended(watch, sent):
    watch.changes += 1
    assert watch._thread.is_alive()
    watch.stop()
    time.sleep(1.0)
    assert not watch._thread.is_alive()
    assert sent == []
