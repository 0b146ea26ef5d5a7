"""Halts: for how long nothing answered, or the replay itself did not run."""

from __future__ import annotations

import pytest
from virtual_time import VirtualTime

from slurm_mirage.replay.halts import CONTROLLER, REPLAY, Halt, Halts
from slurm_mirage.rm.api import Unavailable


@pytest.fixture
def clock() -> VirtualTime:
    return VirtualTime(began=1000)


def fails() -> None:
    raise Unavailable("nobody there")


def test_a_request_that_waits_for_long(clock: VirtualTime) -> None:
    seen = Halts(clock)
    for seconds in (0.1, 0.2, 0.1, 20.0, 0.1):
        seen.ask("queue", lambda: clock.sleep(seconds))  # noqa: B023
        clock.sleep(1.0)
    assert seen.take(clock.now()) == [Halt(CONTROLLER, pytest.approx(1003.4), pytest.approx(1023.4))]
    assert seen.take(clock.now()) == []


def test_requests_that_fail_are_without_an_answer(clock: VirtualTime) -> None:
    """Also if each is over soon."""
    seen = Halts(clock)
    seen.ask("queue", lambda: None)
    clock.sleep(1.0)
    for _ in range(8):
        with pytest.raises(Unavailable):
            seen.ask("queue", fails)
        clock.sleep(1.0)
    seen.ask("submission", lambda: clock.sleep(0.1))
    assert seen.take(clock.now()) == [Halt(CONTROLLER, 1001.0, pytest.approx(1009.1))]


def test_another_answer_meanwhile(clock: VirtualTime) -> None:
    """Answers to other requests while one waits show that the controller works: the waiting request is slow, and no halt."""
    seen = Halts(clock)

    def slow() -> None:
        for _ in range(6):
            clock.sleep(2.0)
            seen.ask("submission", lambda: clock.sleep(0.1))

    seen.ask("queue", slow)
    assert seen.take(clock.now()) == []


def test_where_each_request_takes_long_a_halt_is_longer(clock: VirtualTime) -> None:
    seen = Halts(clock)
    for _ in range(5):
        seen.ask("queue", lambda: clock.sleep(3.0))
    seen.ask("queue", lambda: clock.sleep(20.0))
    assert seen.take(clock.now()) == []
    seen.ask("queue", lambda: clock.sleep(31.0))
    assert [halt.until - halt.since for halt in seen.take(clock.now())] == [31.0]


def test_a_host_that_was_suspended_comes_first(clock: VirtualTime) -> None:
    seen = Halts(clock)
    seen.beat()
    seen.ask("queue", lambda: clock.sleep(60.0))
    seen.beat()
    clock.sleep(1.0)
    seen.beat()
    assert seen.take(1059.0) == []
    assert [(halt.what, halt.since, halt.until) for halt in seen.take(1061.0)] == [
        (REPLAY, 1000.0, 1060.0),
        (CONTROLLER, 1000.0, 1060.0),
    ]
