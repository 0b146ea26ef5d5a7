"""How fast daemons may be started: by the memory that they take, and how a rate is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_mirage.farm.pacing import Memory, MemoryPace, Rate, host_memory


class Host:
    """A host's memory and time as a test wants them."""

    def __init__(self, total: float, available: float) -> None:
        self.total, self.available, self.now = total, available, 100.0
        self.pace = MemoryPace(lambda: Memory(self.total, self.available), lambda: self.now)

    def start_all(self, takes: float, most: int) -> int:
        """Start daemons, none of which is ready before the last is started, until no more may be; how many were."""
        for number in range(most):
            if not self.pace.allows(min(number, 32)):
                return number
            self.pace.started()
            self.available -= takes
        return most


def test_memory_of_this_host_and_of_a_file(tmp_path: Path) -> None:
    here = host_memory()
    assert 0 < here.available <= here.total
    (tmp_path / "meminfo").write_text("MemTotal:       8388608 kB\nMemFree: 1 kB\nMemAvailable:    4194304 kB\n")
    assert host_memory(tmp_path / "meminfo") == Memory(8192, 4096)


@pytest.mark.parametrize(("total", "reserve"), [(8192, 1024), (20480, 1024), (40960, 2048)])
def test_what_stays_free(total: float, reserve: float) -> None:
    assert Memory(total, total).reserve == reserve


@given(st.floats(512, 65536), st.floats(0, 1), st.floats(0.1, 6.0))
def test_never_into_the_reserve(total: float, share: float, takes: float) -> None:
    """Of daemons that take up to 6 MiB each: the first of them, of which nothing is known yet, are forgiven some."""
    host = Host(total, total * share)
    before = host.available
    host.start_all(takes, 20000)
    reserve = Memory(total, 0).reserve
    assert host.available >= min(before, reserve - max(0, takes - 1.5) * 50)


def test_daemons_that_take_more_than_thought_are_counted_with_what_they_take() -> None:
    host = Host(16384, 16384)
    count = host.start_all(takes=10, most=20000)
    left = host.available - 1024
    assert 10 * 32 <= left <= 10 * 34, f"after {count}: what the 32 that are starting may still take is left"


def test_goes_on_when_memory_was_freed_and_says_how_long_it_waited_for_nothing() -> None:
    host = Host(8192, 1030)
    assert host.start_all(1.5, 10) == 2
    assert host.pace.waiting == 0
    host.now += 30
    assert (host.pace.allows(20), host.pace.waiting) == (False, 30)
    host.available -= 500
    host.now += 10
    assert (host.pace.allows(20), host.pace.waiting) == (False, 40)
    host.available += 500 + 15
    assert host.pace.allows(20) is False
    assert host.pace.waiting == 40, "15 MiB might be anybody's"
    host.available += 2
    assert host.pace.allows(20) is False
    assert host.pace.waiting == 0
    host.available += 100
    assert host.pace.allows(20) is True
    assert host.pace.waiting is None


def test_the_memory_of_an_earlier_start_says_nothing_about_the_next() -> None:
    host = Host(16384, 16384)
    host.start_all(takes=20, most=100)
    host.pace.restart()
    host.available = 1024 + 40
    assert host.start_all(takes=0, most=100) == 26


def test_rates() -> None:
    rate = Rate(window=10)
    assert rate.note(0, 0.0) is None
    assert rate.note(5, 0.5) is None
    assert rate.note(100, 2.0) == 50
    assert rate.note(1000, 11.0) == pytest.approx((1000 - 100) / 9)
    assert rate.note(10, 12.0) is None, "another count began"
    assert rate.note(30, 14.0) == 10
