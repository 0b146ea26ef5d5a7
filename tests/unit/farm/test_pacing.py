"""Limiting the start of daemons by the host's memory, and measuring rates."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_mirage.farm.pacing import Memory, MemoryPace, Rate, host_memory


class Host:
    """A host whose memory and time a test sets."""

    def __init__(self, total: float, available: float) -> None:
        self.total, self.available, self.now = total, available, 100.0
        self.pace = MemoryPace(lambda: Memory(self.total, self.available), lambda: self.now)

    def start_all(self, takes: float, most: int) -> int:
        """Start at most `most` daemons that take `takes` MiB each while MemoryPace permits it; returns how many were started."""
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
def test_reserve(total: float, reserve: float) -> None:
    assert Memory(total, total).reserve == reserve


@given(st.floats(512, 65536), st.floats(0, 1), st.floats(0.1, 6.0))
def test_starts_stop_before_the_reserve_is_used(total: float, share: float, takes: float) -> None:
    """Daemons take up to 6 MiB each. Only the first 50, before their memory is measured, may exceed the estimate of 1.5 MiB."""
    host = Host(total, total * share)
    before = host.available
    host.start_all(takes, 20000)
    reserve = Memory(total, 0).reserve
    assert host.available >= min(before, reserve - max(0, takes - 1.5) * 50)


def test_the_measured_memory_per_daemon_replaces_the_estimate() -> None:
    host = Host(16384, 16384)
    count = host.start_all(takes=10, most=20000)
    left = host.available - 1024
    assert 10 * 32 <= left <= 10 * 34, f"after {count} starts, memory for the 32 starting daemons is left"


def test_starts_continue_when_memory_is_freed_and_waiting_counts_seconds_without_growth() -> None:
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
    assert host.pace.waiting == 40, "15 MiB are less than GROWTH"
    host.available += 2
    assert host.pace.allows(20) is False
    assert host.pace.waiting == 0
    host.available += 100
    assert host.pace.allows(20) is True
    assert host.pace.waiting is None


def test_restart_discards_the_measured_memory_per_daemon() -> None:
    host = Host(16384, 16384)
    host.start_all(takes=20, most=100)
    host.pace.restart()
    host.available = 1024 + 40
    assert host.start_all(takes=0, most=100) == 26


def test_rate() -> None:
    rate = Rate(window=10)
    assert rate.note(0, 0.0) is None
    assert rate.note(5, 0.5) is None
    assert rate.note(100, 2.0) == 50
    assert rate.note(1000, 11.0) == pytest.approx((1000 - 100) / 9)
    assert rate.note(10, 12.0) is None, "a smaller number starts a new count"
    assert rate.note(30, 14.0) == 10
