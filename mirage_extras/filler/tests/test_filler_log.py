"""The reader of the fillers' log finds every record, whatever lies between them."""

from __future__ import annotations

import io
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.extras.filler.filler_log import LAYOUT, Cause, FillerRecord, pack_filler, read_fillers, scan_fillers
from slurm_mirage.jobs.sigsleep_log import MAGIC, LogDamage, Record, pack

I64 = st.integers(min_value=-(2**63), max_value=2**63 - 1)
U32 = st.integers(min_value=0, max_value=2**32 - 1)
NODES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])).filter(lambda text: len(text.encode()) < 64)
RECORDS = st.builds(
    FillerRecord,
    **dict.fromkeys(("cause", "start", "saves", "cores", "slurm_job_id", "restart"), U32),
    **dict.fromkeys(("id", "start_ns", "ready_ns", "from_ns", "to_ns", "saved_ns", "worked_ns", "before_ns", "after_ns"), I64),
    **dict.fromkeys(("work_ns", "speed"), I64),
    node=NODES,
    failed=st.booleans(),
    completed=st.booleans(),
)  # none is repeated
# Bytes in which no magic number can begin, not even with the help of what follows.
JUNK = st.binary(min_size=1, max_size=300).map(lambda junk: junk.replace(b"S", b"s"))
SMALL = FillerRecord(
    id=7,
    cause=Cause.REQUEST,
    node="n3",
    start=2,
    start_ns=10,
    ready_ns=15,
    from_ns=16,
    to_ns=36,
    saved_ns=38,
    worked_ns=20,
    before_ns=100,
    after_ns=118,
    work_ns=1000,
    speed=900_000_000,
    saves=4,
    slurm_job_id=99,
    restart=1,
)


def test_the_layout_is_the_documented_one() -> None:
    raw = pack_filler(SMALL)
    expected = [
        b"SSLP",
        *(number.to_bytes(2, "little") for number in (3, 192)),
        *(number.to_bytes(4, "little") for number in (2, 0)),
        (7).to_bytes(8, "little"),
        *(number.to_bytes(4, "little") for number in (99, 1, 1)),
        raw[36:40],
        b"n3".ljust(64, b"\0"),
        *(number.to_bytes(8, "little") for number in (1000, 900_000_000, 10, 15, 16, 36, 38, 20, 100, 118)),
        *(number.to_bytes(4, "little") for number in (2, 4)),
    ]
    assert raw == b"".join(expected)
    assert int.from_bytes(raw[36:40], "little") == zlib.crc32(raw[:36] + bytes(4) + raw[40:])
    assert pack_filler(replace(SMALL, failed=True, completed=True, repeated=True))[12:16] == (49).to_bytes(4, "little")


@pytest.mark.parametrize("cause", Cause)
@pytest.mark.parametrize("failed", [False, True])
def test_only_what_was_saved_is_useful(cause: Cause, failed: bool) -> None:
    saves = (Cause.INTERVAL, Cause.REQUEST, Cause.SLOT, Cause.END)
    assert replace(SMALL, cause=cause, failed=failed).useful_ns == (20 if cause in saves and not failed else 0)


@given(parts=st.lists(st.tuples(JUNK, RECORDS), max_size=6), tail=JUNK)
def test_junk_between_records_hides_none(parts: list[tuple[bytes, FillerRecord]], tail: bytes) -> None:
    log = b"".join(junk + pack_filler(record) for junk, record in parts) + tail
    records, damage = read_fillers(io.BytesIO(log))
    assert records == [record for _, record in parts]
    assert [bad.length for bad in damage] == [len(junk) for junk, _ in parts] + [len(tail)]


@given(before=RECORDS, torn=RECORDS, after=RECORDS, data=st.data())
def test_a_record_cut_short_costs_only_itself(
    before: FillerRecord, torn: FillerRecord, after: FillerRecord, data: st.DataObject
) -> None:
    kept = data.draw(st.integers(min_value=1, max_value=LAYOUT.size - 1))
    records, damage = read_fillers(io.BytesIO(pack_filler(before) + pack_filler(torn)[:kept] + pack_filler(after)))
    assert records == [before, after]
    assert [(bad.offset, bad.length) for bad in damage] == [(LAYOUT.size, kept)]


@given(before=RECORDS, changed=RECORDS, after=RECORDS, data=st.data())
def test_a_changed_byte_is_never_taken_for_a_record(
    before: FillerRecord, changed: FillerRecord, after: FillerRecord, data: st.DataObject
) -> None:
    raw = bytearray(pack_filler(changed))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    records, damage = read_fillers(io.BytesIO(pack_filler(before) + bytes(raw) + pack_filler(after)))
    assert records == [before, after]
    assert sum(bad.length for bad in damage) == len(raw)


@given(pieces=st.lists(st.one_of(st.binary(max_size=200), st.just(MAGIC), RECORDS.map(pack_filler)), max_size=10))
def test_every_byte_is_either_record_or_damage(pieces: list[bytes]) -> None:
    log = b"".join(pieces)
    position = 0
    for found in scan_fillers(log):
        assert found.offset == position
        position += found.length
    assert position == len(log)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (MAGIC, "torn record: 4 bytes of 192"),
        (pack_filler(SMALL)[:-1], "torn record: 191 bytes of 192"),
        (pack_filler(SMALL)[:-1] + b"\xff", "torn record: the checksum differs"),
        (b"slurmstepd: error", "foreign bytes: no magic number"),
        (
            pack(Record(1, 1, "p", 1, 2, 3, 1, 1, True)),
            "record of version 1 with 112 bytes, which is not a filler's",
        ),
    ],
)
def test_the_reason_is_told(raw: bytes, reason: str) -> None:
    assert read_fillers(io.BytesIO(raw)) == ([], [LogDamage(0, len(raw), reason)])


def test_a_repeated_record_counts_if_it_is_the_only_one() -> None:
    """The third start repeats the second save, whose record exists, and the fourth start that of the third, which is missing."""
    first, second = replace(SMALL, to_ns=20, saves=1), replace(SMALL, to_ns=36, saves=2)
    third = replace(SMALL, to_ns=90, start=3, saves=3)
    again = [replace(record, repeated=True) for record in (second, third, third)]
    log = [first, second, again[0], again[1], again[2]]
    assert read_fillers(io.BytesIO(b"".join(map(pack_filler, log)))) == ([first, second, again[1]], [])
    assert list(scan_fillers(b"".join(map(pack_filler, log)))) == log


def test_a_missing_log_is_named(tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match=r"nothing\.bin: No such file"):
        read_fillers(tmp_path / "nothing.bin")


@pytest.mark.parametrize("change", [{"node": "x" * 64}, {"node": "a\0b"}, {"id": 2**63}, {"cores": -1}])
def test_pack_refuses_what_does_not_fit(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"name|number"):
        pack_filler(replace(SMALL, **change))  # type: ignore[arg-type]
