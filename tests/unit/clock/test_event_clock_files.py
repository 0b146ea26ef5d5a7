"""The files of an event clock: the page that has the present time, the history, and what is made of damaged ones."""

from __future__ import annotations

import os
import stat
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.clock import clock_page, instance_clock
from slurm_mirage.clock.clock import Clock
from slurm_mirage.clock.event_clock import DRIVER, HISTORY, EventClock

INT64 = st.integers(min_value=-(2**63), max_value=2**63 - 1)
START = 1_700_000_000_000_000_000
STEPS = st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**12)), max_size=20)


@pytest.fixture
def instance(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir()
    return tmp_path


@pytest.fixture
def event(instance: Path) -> EventClock:
    instance_clock.set_speed(instance, "event")
    clock = instance_clock.current(instance)
    assert isinstance(clock, EventClock)
    return clock


def page_of(directory: Path) -> bytearray:
    return bytearray((directory / clock_page.FILE).read_bytes())


def set_anchor(directory: Path, latch: int, *values: int) -> None:
    """Make an anchor valid, as the coordinator does: first the one that is not, then the latch."""
    with (directory / clock_page.FILE).open("r+b") as page:
        page.seek(64 if latch & 1 else 32)
        page.write(struct.pack("<qqqq", *values))
        page.flush()
        page.seek(16)
        page.write(struct.pack("<I", latch))


def write_history(directory: Path, points: list[tuple[int, int]], torn: bytes = b"") -> None:
    (directory / HISTORY).write_bytes(b"".join(struct.pack("<qq", *point) for point in points) + torn)


def test_an_anchor_that_changes_while_it_is_read_is_read_again(event: EventClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The coordinator writes the other anchor, makes it valid, and then writes this one, while `now` has read half of it."""
    directory, pread, torn = event.directory, os.pread, [b"\xff" * clock_page._ANCHOR.size]

    def read(descriptor: int, size: int, offset: int) -> bytes:
        content = pread(descriptor, size, offset)
        if size == clock_page._ANCHOR.size and torn:
            set_anchor(directory, page_of(directory)[16] ^ 1, 0, START, 0, START)
            return torn.pop()
        return content

    monkeypatch.setattr("slurm_mirage.clock.clock_page.os.pread", read)
    assert clock_page.now(directory) == START and not torn


def test_a_first_event_clock_begins_at_real_time_and_stands(instance: Path) -> None:
    before = time.time_ns()
    instance_clock.set_speed(instance, "event", charge=True)
    clock = instance_clock.current(instance)
    assert isinstance(clock, EventClock)
    assert before <= clock.virtual_ns == clock.real_ns <= time.time_ns()
    assert (instance / "state/clock").read_text() == f"mirage-clock 1 {clock.real_ns} {clock.virtual_ns} event\n"
    assert clock.virtual_now() == clock.virtual_ns
    time.sleep(0.01)
    assert clock.virtual_now() == clock.virtual_ns


def test_the_page_is_laid_out_as_the_library_reads_it(event: EventClock) -> None:
    page, path = page_of(event.directory), event.directory / clock_page.FILE
    assert len(page) == 4096 + 65536 * 32 + 1024 * 4 + 4096 * 16
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    magic, uptime_offset, latch = struct.unpack_from("<8sqI", page)
    assert (magic, latch) == (b"mirageP1", 0)
    anchors = [struct.unpack_from("<qqqq", page, offset) for offset in (32, 64)]
    assert anchors[0] == anchors[1]
    mono, calendar, speed, limit = anchors[0]
    assert 0 < mono <= time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    assert (calendar, speed, limit) == (event.virtual_ns, 10**9, event.virtual_ns)
    # Virtual CLOCK_MONOTONIC goes on from the host's.
    assert uptime_offset == calendar - mono
    assert not any(page[96:256])
    assert not any(page[264:])
    # No part of it is sparse: a full disk must not hit who writes into it.
    assert path.stat().st_blocks * 512 >= len(page)


@pytest.mark.parametrize("charge", [False, True])
def test_charge_is_written_and_changed(instance: Path, charge: bool) -> None:
    instance_clock.set_speed(instance, "event", charge=not charge)
    instance_clock.set_speed(instance, "event", charge=charge)
    assert struct.unpack_from("<I", page_of(instance), 260) == (charge,)


@given(mono=INT64, calendar=INT64, speed=INT64, limit=INT64, mono_now=st.integers(0, 2**62))
def test_any_anchor_gives_an_instant(mono: int, calendar: int, speed: int, limit: int, mono_now: int) -> None:
    instant = clock_page.instant(struct.pack("<qqqq", mono, calendar, speed, limit), mono_now)
    assert 0 <= instant < 2**63


@given(
    calendar=st.integers(START, START + 10**18),
    speed=st.integers(0, 10**15),
    room=st.integers(-(10**12), 10**15),
    passed=st.integers(-(10**12), 10**12),
)
def test_an_anchor_is_followed_up_to_its_limit_and_never_back(calendar: int, speed: int, room: int, passed: int) -> None:
    mono, limit = 10**15, calendar + room
    instant = clock_page.instant(struct.pack("<qqqq", mono, calendar, speed, limit), mono + passed)
    assert calendar <= instant <= max(calendar, limit)
    if passed <= 0 or room <= 0:
        assert instant == calendar
    else:
        assert instant == min(limit, calendar + passed * speed // 10**9)


def test_the_latch_says_which_anchor_holds(event: EventClock) -> None:
    mono = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    for latch in (1, 2, 3):
        at = event.virtual_ns + latch * 10**9
        set_anchor(event.directory, latch, mono, at, 0, at)
        assert event.virtual_now() == at


def test_time_read_while_the_page_changes_never_goes_back(event: EventClock) -> None:
    over = threading.Event()

    def write() -> None:
        latch = 0
        while not over.is_set():
            latch += 1
            at = event.virtual_ns + latch * 1000
            set_anchor(event.directory, latch, 0, at, 0, at)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        seen = [event.virtual_now() for _ in range(2000)]
    finally:
        over.set()
        writer.join()
    assert seen == sorted(seen)
    assert seen[-1] > seen[0]


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"mirageP1"),
        lambda path: path.write_bytes(b"mirageP2" + path.read_bytes()[8:]),
        lambda path: path.write_bytes(path.read_bytes() + b"more"),
        lambda path: path.unlink(),
        lambda path: (path.unlink(), path.symlink_to("/etc/passwd")),
        lambda path: (path.unlink(), os.mkfifo(path)),
        lambda path: (path.unlink(), path.mkdir()),
    ],
)
def test_what_is_no_page_is_refused_in_one_line(event: EventClock, damage) -> None:
    damage(event.directory / clock_page.FILE)
    with pytest.raises(WrongUse) as error:
        instance_clock.both_times(event.directory)
    assert "clock.page" in str(error.value)
    assert "\n" not in str(error.value)


@given(content=st.binary(max_size=400))
def test_any_content_of_the_page_gives_an_instant_or_one_line(content: bytes) -> None:
    with TemporaryDirectory() as folder:
        directory = Path(folder)
        (directory / "state").mkdir()
        (directory / clock_page.FILE).write_bytes((b"mirageP1" + content).ljust(clock_page.SIZE, b"\xff"))
        clock = EventClock(directory, START, START)
        assert 0 <= clock.virtual_now() < 2**63
        assert 0 <= clock.reached() < 2**63
        assert set(clock_page.figures(directory)) == set(clock_page.FIGURES)


def test_figures_are_read_from_their_places(event: EventClock) -> None:
    with (event.directory / clock_page.FILE).open("r+b") as page:
        page.seek(128)
        page.write(struct.pack("<16q", *range(1, 17)))
    assert list(clock_page.figures(event.directory).values()) == list(range(1, 17))
    assert clock_page.figures(event.directory)["started"] == 9


def test_the_record_of_a_run_begins_anew(event: EventClock) -> None:
    """It counts in blocks, up to an instant."""
    (event.directory / clock_page.WAKES).write_bytes(struct.pack("<qQqQqQ", 1000, 0xA, 2500, 0xB, 9000, 0xC) + b"torn")
    with (event.directory / clock_page.FILE).open("r+b") as page:
        page.seek(256)
        page.write(struct.pack("<iIqqQQ", 4711, 0, 0, START, 3000, 0xAB))
    assert clock_page.scheduler(event.directory) == 4711
    assert clock_page.fingerprint(event.directory, START / 1e9 + 2.6) == (200, "000000000000000b")
    assert clock_page.fingerprint(event.directory, START / 1e9 + 0.5) == (0, "")
    clock_page.begin_record(event.directory, START + 5)
    assert clock_page.fingerprint(event.directory, START / 1e9 + 2.6) == (0, "")
    assert struct.unpack_from("<q", page_of(event.directory), 272) == (START + 5,)


# ---- the history ----


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("instance")
    (directory / "state").mkdir()
    yield directory


def points_of(steps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    points, real, virtual = [], START, START
    for on_real, on_virtual in steps:
        real, virtual = real + on_real, virtual + on_virtual
        points.append((real, virtual))
    return points


def test_virtual_time_between_points_passes_evenly(instance: Path) -> None:
    clock = EventClock(instance, START, START)
    assert clock.virtual_at(START + 5) == START + 5
    write_history(instance, [(START + 100, START + 100), (START + 200, START + 10_100), (START + 300, START + 10_100)])
    assert clock.virtual_at(START - 7) == START - 7
    assert clock.virtual_at(START + 50) == START + 50
    assert clock.virtual_at(START + 150) == START + 5_100
    assert clock.virtual_at(START + 250) == START + 10_100
    assert clock.virtual_at(START + 300) == START + 10_100
    assert clock.virtual_at(START + 307) == START + 10_107
    assert clock.real_at(START + 5_100) == START + 150
    assert clock.real_at(START + 10_107) == START + 307


def test_time_stands_until_the_first_point(instance: Path) -> None:
    """The coordinator serves the page some time after it was created."""
    clock = EventClock(instance, START, START)
    write_history(instance, [(START + 500, START)])
    assert clock.virtual_at(START + 499) == START
    assert clock.virtual_at(START + 510) == START + 10


@given(steps=STEPS, first=st.integers(-(10**10), 10**11), second=st.integers(-(10**10), 10**11), torn=st.binary(max_size=15))
def test_the_history_is_monotonic_and_meets_its_points(
    shared: Path, steps: list[tuple[int, int]], first: int, second: int, torn: bytes
) -> None:
    points, clock = points_of(steps), EventClock(shared, START, START)
    write_history(shared, points, torn)
    low, high = sorted((START + first, START + second))
    assert clock.virtual_at(low) <= clock.virtual_at(high)
    assert clock.real_at(low) <= clock.real_at(high)
    for real, _ in points:
        assert clock.virtual_at(real) == max(virtual for at, virtual in points if at == real)


@given(content=st.binary(max_size=200), instant=INT64)
def test_any_history_gives_some_instant(shared: Path, content: bytes, instant: int) -> None:
    (shared / HISTORY).write_bytes(content)
    clock = EventClock(shared, START, START)
    assert isinstance(clock.virtual_at(instant), int)
    assert isinstance(clock.real_at(instant), int)
    assert clock.reached() >= START


def test_a_history_that_is_a_link_is_not_followed(event: EventClock) -> None:
    (event.directory / HISTORY).symlink_to("/etc/passwd")
    assert event.virtual_at(event.real_ns + 5) == event.virtual_ns + 5


# ---- from one clock to another ----


def test_from_a_constant_clock_time_goes_on(instance: Path) -> None:
    now = time.time_ns()
    Clock(now, now + 10**18, 500.0).write(instance / "state/clock")
    instance_clock.set_speed(instance, "event")
    clock = instance_clock.current(instance)
    assert isinstance(clock, EventClock)
    assert clock.virtual_ns == now + 10**18 + (clock.real_ns - now) * 500
    assert clock.virtual_now() == clock.virtual_ns


@pytest.mark.parametrize("speed", [1.0, 20.0])
def test_to_a_constant_clock_time_goes_on_and_the_files_go(event: EventClock, speed: float) -> None:
    at = event.virtual_ns + 10**15
    set_anchor(event.directory, 1, 0, at, 0, at)
    write_history(event.directory, [(event.real_ns, event.virtual_ns)])
    (event.directory / DRIVER).touch()
    before = time.time_ns()
    instance_clock.set_speed(event.directory, speed)
    clock = instance_clock.current(event.directory)
    assert isinstance(clock, Clock)
    assert (clock.virtual_ns, clock.speed) == (at, speed)
    assert clock.real_ns >= before
    assert [path.name for path in (event.directory / "state").iterdir()] == ["clock"]


def test_the_same_setting_again_keeps_time_and_page(event: EventClock) -> None:
    at = event.virtual_ns + 10**15
    set_anchor(event.directory, 1, 0, at, 0, at)
    inode = (event.directory / clock_page.FILE).stat().st_ino
    instance_clock.set_speed(event.directory, "event")
    assert (event.virtual_now(), (event.directory / clock_page.FILE).stat().st_ino) == (at, inode)


def test_a_lost_page_is_made_again_at_the_latest_known_time(event: EventClock) -> None:
    write_history(event.directory, [(event.real_ns + 5, event.virtual_ns + 10**12)], b"torn")
    (event.directory / clock_page.FILE).unlink()
    instance_clock.set_speed(event.directory, "event")
    assert event.virtual_now() == event.virtual_ns + 10**12


class Killed(BaseException):
    pass


@pytest.mark.parametrize("speeds", [("event",), (50.0, "event"), (50.0, "event", 20.0), (50.0, "event", 1.0, "event")])
def test_killed_between_any_two_steps_time_never_goes_back(
    instance: Path, speeds: tuple[float | str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every change of a file is a step. After the kill the same call is made again, as by the next farm."""
    for speed in speeds[:-1]:
        instance_clock.set_speed(instance, speed)
    steps_before_kill = 0
    state = instance / "state"
    content = {path.name: path.read_bytes() for path in state.iterdir()}
    while True:
        for path in state.iterdir():
            path.unlink()
        for name, data in content.items():
            (state / name).write_bytes(data)
        clock = instance_clock.current(instance)
        reached = time.time_ns() if clock is None else clock.virtual_now()
        left = steps_before_kill

        def step(original):
            def counted(*arguments, **names):
                nonlocal left
                if left == 0:
                    raise Killed
                left -= 1
                return original(*arguments, **names)

            return counted

        killed = False
        with monkeypatch.context() as patch:
            for name in ("rename", "replace", "unlink", "rmdir"):
                patch.setattr(os, name, step(getattr(os, name)))
            try:
                instance_clock.set_speed(instance, speeds[-1])
            except Killed:
                killed = True
        between = instance_clock.current(instance)
        assert (time.time_ns() if between is None else between.virtual_now()) >= reached
        instance_clock.set_speed(instance, speeds[-1])
        after = instance_clock.current(instance)
        assert after is not None
        assert after.virtual_now() >= reached
        assert isinstance(after, EventClock) == (speeds[-1] == "event")
        if not killed:
            assert steps_before_kill >= 2
            return
        steps_before_kill += 1


def test_both_times_tell_the_pace(event: EventClock) -> None:
    real = time.time_ns()
    write_history(event.directory, [(real - 20 * 10**9, event.virtual_ns)])
    at = event.virtual_ns + 10**12
    set_anchor(event.directory, 1, 0, at, 0, at)
    clock = EventClock(event.directory, real - 20 * 10**9, event.virtual_ns)
    assert clock.pace() == pytest.approx((1000 - 10) / 10, rel=0.01)
    times = instance_clock.both_times(event.directory)
    assert times is not None
    assert (times["speed"], times["virtual"]) == ("event", at / 1e9)
