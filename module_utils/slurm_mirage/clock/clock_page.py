"""The page of an event clock, DIRECTORY/state/clock.page: the present virtual time, figures of the clock, and all waits with their
ends.

All processes of the instance map it; files/virtual_clock/page.h describes its layout. The coordinator alone writes the time. This
module creates the page and reads it, without mapping it: the page belongs to the instance's user, who may truncate it or write
anything into it at any moment.

The time is one of two anchors, each with the CLOCK_MONOTONIC of the host, the virtual time there, the speed, and a limit that
virtual time does not pass. The latch says which one holds: an odd value the second. Its writer changes the other one, then adds 1.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..base import user_folders
from ..base.errors import WrongUse

FILE = "state/clock.page"
WAKES = "state/clock.wakes"
"""The coordinator's record of the waits that it has served since the start of a run (`begin_record`): for each
WAKES_OF_A_BLOCK of them the instant of the last in ms since the start, and a hash of all so far, two numbers of 64 bits."""
WAKES_OF_A_BLOCK = 100
LARGEST_RECORD = 64 << 20
"""Bytes: 400 million waits."""
MAGIC = b"mirageP1"
SLOTS_AT, SLOTS, SLOT_SIZE, BLOCK, LOOKS, LOOK_SIZE = 4096, 65536, 32, 64, 4096, 16
SIZE = SLOTS_AT + SLOTS * SLOT_SIZE + SLOTS // BLOCK * 4 + LOOKS * LOOK_SIZE
"""Bytes: the head, the wait slots, a version for each block of them, and looks at the clock."""
SCHEDULER_AT, CHARGE_AT, ORIGIN_AT, LEAP_AT, CHANGES_AT = 256, 260, 272, 296, 2360
REAL_SPEED = 1_000_000_000
"""The speed of real time, in billionths."""
FIGURES = (
    "jumps",
    "jumped_ns",
    "busy_ns",
    "false_quiets",
    "false_quiet_ns",
    "mode",
    "driven_ns",
    "driven_real_ns",
    "started",
    "starts",
    "given_up",
    "charged_ns",
    "unlisted",
    "scheduler_ns",
    "reader_steps",
    "left_out",
)
"""What the coordinator counts (files/virtual_clock/README.md)."""
_ATTEMPTS = 1000
_MAX_NS = 2**63 - 1
_LATCH_AT, _ANCHORS_AT, _FIGURES_AT = 16, (32, 64), 128
_HEAD = struct.Struct("<8sqI")
_ANCHOR = struct.Struct("<qqqq")
_FIGURES = struct.Struct(f"<{len(FIGURES)}q")


def create(directory: Path, virtual_ns: int, charge: bool) -> None:
    """Replace the page of the instance in `directory` by a new one, atomically. Time stops at `virtual_ns` until it is served.

    charge: whether slurmctld's processor time counts in virtual time. Raises OSError and WrongUse.
    """
    mono = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    head = bytearray(SLOTS_AT)
    _HEAD.pack_into(head, 0, MAGIC, virtual_ns - mono, 0)
    for offset in _ANCHORS_AT:
        _ANCHOR.pack_into(head, offset, mono, virtual_ns, REAL_SPEED, virtual_ns)
    struct.pack_into("<I", head, CHARGE_AT, charge)
    # Written as a whole, not left sparse: a process that maps it would get SIGBUS where a full disk has no room.
    user_folders.write_atomically(directory, FILE, bytes(head) + bytes(SIZE - SLOTS_AT), 0o600)


def set_charge(directory: Path, charge: bool) -> None:
    """Set whether slurmctld's processor time counts in virtual time. Raises OSError, and WrongUse as `now` does."""
    with _opened(directory, os.O_RDWR) as descriptor:
        os.pwrite(descriptor, struct.pack("<I", charge), CHARGE_AT)


def set_changes(directory: Path, by_itself: bool) -> None:
    """Set whether jobs of the run wait for an instant, as by `--begin`: then the scheduler's idle cycles are not left out
    (files/virtual_clock/idle_cycles.c). Raises OSError, and WrongUse as `now` does.
    """
    with _opened(directory, os.O_RDWR) as descriptor:
        os.pwrite(descriptor, struct.pack("<I", by_itself), CHANGES_AT)


def now(directory: Path) -> int:
    """Return the present virtual instant (ns since the epoch). Raises WrongUse when the page is missing or damaged."""
    with _opened(directory) as descriptor:
        for _ in range(_ATTEMPTS):
            latch = os.pread(descriptor, 4, _LATCH_AT)
            anchor = os.pread(descriptor, _ANCHOR.size, _ANCHORS_AT[latch[0] & 1 if latch else 0])
            if len(anchor) == _ANCHOR.size and latch == os.pread(descriptor, 4, _LATCH_AT):
                return instant(anchor, time.clock_gettime_ns(time.CLOCK_MONOTONIC))
        raise WrongUse(f"{directory / FILE}: changes again and again while it is read")


def figures(directory: Path) -> dict[str, int]:
    """Return what the coordinator has counted since the page was created. Raises WrongUse when the page is missing or damaged."""
    with _opened(directory) as descriptor:
        content = os.pread(descriptor, _FIGURES.size, _FIGURES_AT)
    return dict(zip(FIGURES, _FIGURES.unpack(content.ljust(_FIGURES.size, b"\0"))))


def scheduler(directory: Path) -> int:
    """Return the process id of the scheduler's daemon, as it wrote it itself; 0 before. Raises WrongUse as `now` does."""
    with _opened(directory) as descriptor:
        return int.from_bytes(os.pread(descriptor, 4, SCHEDULER_AT), "little", signed=True)


def leap(directory: Path, virtual_ns: int) -> None:
    """Have the coordinator set the clock to a later instant (ns since the epoch), whoever works; the caller is the clock's driver.

    All waits that end before it end then. Raises OSError, and WrongUse as `now` does.
    """
    with _opened(directory, os.O_RDWR) as descriptor:
        os.pwrite(descriptor, struct.pack("<q", virtual_ns), LEAP_AT)


def begin_record(directory: Path, virtual_ns: int) -> None:
    """Begin the record of served waits anew; its instants count from `virtual_ns` (ns since the epoch).

    Raises OSError, and WrongUse as `now` does.
    """
    with _opened(directory, os.O_RDWR) as descriptor:
        os.pwrite(descriptor, struct.pack("<qQQ", 0, 0, 0), ORIGIN_AT)
        os.close(user_folders.open_file(directory, WAKES, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
        os.pwrite(descriptor, struct.pack("<q", virtual_ns), ORIGIN_AT)


def fingerprint(directory: Path, until: float) -> tuple[int, str]:
    """Return how many waits are in the record (`begin_record`) up to a virtual instant (s since the epoch), as far as it has whole
    blocks, and a hash of their instants and programs; (0, "") if it has none.

    Raises WrongUse as `now` does.
    """
    with _opened(directory) as descriptor:
        (origin,) = struct.unpack("<q", os.pread(descriptor, 8, ORIGIN_AT))
    try:
        record = user_folders.read_bytes(directory, WAKES, LARGEST_RECORD)
    except FileNotFoundError:
        record = b""
    blocks = list(struct.iter_unpack("<qQ", record[: len(record) // 16 * 16]))
    within = [digest for instant, digest in blocks if instant / 1e3 <= until - origin / 1e9]
    return (len(within) * WAKES_OF_A_BLOCK, f"{within[-1]:016x}") if within else (0, "")


@contextmanager
def _opened(directory: Path, flags: int = os.O_RDONLY) -> Iterator[int]:
    """Open the page for the duration of the context, if it has a page's size and magic."""
    try:
        descriptor = user_folders.open_file(directory, FILE, flags)
    except FileNotFoundError as error:
        raise WrongUse(f"{directory / FILE}: is gone; `make cluster` makes another one") from error
    try:
        if os.fstat(descriptor).st_size != SIZE or os.pread(descriptor, len(MAGIC), 0) != MAGIC:
            raise WrongUse(f"{directory / FILE}: is not the page of an event clock; `make cluster` makes another one")
        yield descriptor
    finally:
        os.close(descriptor)


def instant(anchor: bytes, mono_now: int) -> int:
    """Return virtual time (ns since the epoch, from 0 to 2^63 - 1) by the 32 bytes of an anchor, at a CLOCK_MONOTONIC (ns)."""
    mono, calendar, speed, limit = (int(number) for number in _ANCHOR.unpack(anchor))
    passed = max(0, mono_now - mono) * max(0, speed) // REAL_SPEED
    return min(max(0, calendar, min(limit, calendar + passed)), _MAX_NS)
