"""The reader of sigsleep's log finds every record, whatever lies between them."""

from __future__ import annotations

import io
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.jobs.sigsleep_log import (
    HEADER,
    MAGIC,
    MAX_SIZES,
    MAX_SUSPENSIONS,
    LogDamage,
    MalleableRecord,
    Record,
    Size,
    SizeKind,
    Suspension,
    pack,
    read_log,
    scan,
)

I64 = st.integers(min_value=-(2**63), max_value=2**63 - 1)
U32 = st.integers(min_value=0, max_value=2**32 - 1)
PRIORITIES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1).filter(
    lambda text: len(text.encode()) <= 31
)
MALLEABLE = st.builds(
    MalleableRecord,
    sizes=st.lists(st.builds(Size, I64, U32, U32), max_size=5).map(tuple),
    checks=U32,
    expansions=U32,
    shrinks=U32,
    unanswered=U32,
    refused=U32,
    work_ns=I64,
    waited_ns=I64,
    paid_ns=I64,
    sizes_overflowed=st.booleans(),
)
RECORDS = st.builds(
    Record,
    id=I64,
    cores=U32,
    priority=PRIORITIES,
    submission_ns=I64,
    start_ns=I64,
    end_ns=I64,
    runtime_ns=I64,
    executed_ns=I64,
    completed=st.booleans(),
    suspensions=st.lists(st.builds(Suspension, I64, I64), max_size=5).map(tuple),
    slurm_job_id=U32,
    restart=U32,
    inferred=st.booleans(),
    overflowed=st.booleans(),
    malleable=st.none() | MALLEABLE,
)
# Bytes in which no magic number can begin, not even with the help of what follows.
JUNK = st.binary(min_size=1, max_size=300).map(lambda junk: junk.replace(b"S", b"s"))

SMALL = Record(
    id=7,
    cores=16,
    priority="high",
    submission_ns=1,
    start_ns=2,
    end_ns=30,
    runtime_ns=20,
    executed_ns=21,
    completed=True,
    suspensions=(Suspension(5, 12),),
    slurm_job_id=99,
    restart=1,
)
RESIZED = replace(SMALL, malleable=MalleableRecord((Size(2, 4, 0), Size(9, 8, 1)), 11, 12, 13, 14, 15, 21, 22, 23, True))


def test_the_layout_is_the_documented_one() -> None:
    raw = pack(SMALL)
    expected = [
        b"SSLP",
        (1).to_bytes(2, "little"),
        (112).to_bytes(2, "little"),
        (1).to_bytes(4, "little"),
        (1).to_bytes(4, "little"),
        (7).to_bytes(8, "little"),
        (99).to_bytes(4, "little"),
        (1).to_bytes(4, "little"),
        (16).to_bytes(4, "little"),
        raw[36:40],
        b"high".ljust(32, b"\0"),
        *(number.to_bytes(8, "little") for number in (1, 2, 30, 20, 21, 5, 12)),
    ]
    assert raw == b"".join(expected)
    assert int.from_bytes(raw[36:40], "little") == zlib.crc32(raw[:36] + bytes(4) + raw[40:])


def test_the_layout_of_a_malleable_job_is_the_documented_one() -> None:
    plain, raw = pack(SMALL), pack(RESIZED)
    assert raw[:8] == b"SSLP" + (2).to_bytes(2, "little") + (160).to_bytes(2, "little")
    assert raw[12:16] == (1 + 8).to_bytes(4, "little")
    assert (raw[16:36], raw[40:112], raw[160:176]) == (plain[16:36], plain[40:112], plain[112:])
    assert raw[112:136] == b"".join(number.to_bytes(4, "little") for number in (2, 11, 12, 13, 14, 15))
    assert raw[136:160] == b"".join(number.to_bytes(8, "little") for number in (21, 22, 23))
    sizes = [number.to_bytes(length, "little") for number, length in ((2, 8), (4, 4), (0, 4), (9, 8), (8, 4), (1, 4))]
    assert raw[176:] == b"".join(sizes)
    assert int.from_bytes(raw[36:40], "little") == zlib.crc32(raw[:36] + bytes(4) + raw[40:])


def test_allocations_leave_out_what_a_resize_cost() -> None:
    entries = [(1, 4, "STARTED"), (5, 8, "EXPANDED"), (5, 8, "COST_BEGAN"), (7, 8, "COST_ENDED"), (9, 2, "SHRUNK")]
    record = MalleableRecord(tuple(Size(instant, nodes, SizeKind[kind]) for instant, nodes, kind in entries))
    assert record.allocations() == [(1, 4), (5, 8), (9, 2)]


def test_an_empty_log_holds_nothing() -> None:
    assert read_log(io.BytesIO(b"")) == ([], [])


def test_offsets_are_those_of_the_log(tmp_path: Path) -> None:
    path = tmp_path / "sigsleep.log"
    raw = pack(SMALL)
    path.write_bytes(raw + b"slurmstepd: error\n" + raw)
    records, damage = read_log(path)
    assert [record.offset for record in records] == [0, len(raw) + 18]
    assert damage == [LogDamage(len(raw), 18, "foreign bytes: no magic number")]


def test_a_missing_log_is_named(tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match=r"nothing\.log: No such file"):
        read_log(tmp_path / "nothing.log")


@given(records=st.lists(RECORDS, max_size=8))
def test_records_come_back(records: list[Record]) -> None:
    assert read_log(io.BytesIO(b"".join(map(pack, records)))) == (records, [])


@given(parts=st.lists(st.tuples(JUNK, RECORDS), max_size=6), tail=JUNK)
def test_junk_between_records_hides_none(parts: list[tuple[bytes, Record]], tail: bytes) -> None:
    log = b"".join(junk + pack(record) for junk, record in parts) + tail
    records, damage = read_log(io.BytesIO(log))
    assert records == [record for _, record in parts]
    assert [bad.length for bad in damage] == [len(junk) for junk, _ in parts] + [len(tail)]


@given(before=RECORDS, torn=RECORDS, after=RECORDS, data=st.data())
def test_a_record_cut_short_costs_only_itself(before: Record, torn: Record, after: Record, data: st.DataObject) -> None:
    raw = pack(torn)
    kept = data.draw(st.integers(min_value=1, max_value=len(raw) - 1))
    records, damage = read_log(io.BytesIO(pack(before) + raw[:kept] + pack(after)))
    assert records == [before, after]
    assert [(bad.offset, bad.length) for bad in damage] == [(len(pack(before)), kept)]


@given(before=RECORDS, changed=RECORDS, after=RECORDS, data=st.data())
def test_a_changed_byte_is_never_taken_for_a_record(before: Record, changed: Record, after: Record, data: st.DataObject) -> None:
    raw = bytearray(pack(changed))
    raw[data.draw(st.integers(min_value=0, max_value=len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    records, damage = read_log(io.BytesIO(pack(before) + bytes(raw) + pack(after)))
    assert records == [before, after]
    assert sum(bad.length for bad in damage) == len(raw)


@given(pieces=st.lists(st.one_of(st.binary(max_size=200), st.just(MAGIC), RECORDS.map(pack)), max_size=10))
def test_every_byte_is_either_record_or_damage(pieces: list[bytes]) -> None:
    log = b"".join(pieces)
    position = 0
    for found in scan(log):
        assert found.offset == position
        position += len(pack(found)) if isinstance(found, Record) else found.length
    assert position == len(log)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (MAGIC, "torn record: 4 bytes of at least 112"),
        (pack(SMALL)[:-1], "torn record: 127 bytes of 128"),
        (
            MAGIC + b"\x02" + pack(SMALL)[5:],
            "record of version 2 with a header of 112 bytes, which is not known here",
        ),
        (
            HEADER.pack(MAGIC, 1, 112, MAX_SUSPENSIONS + 1, 0, 0, 0, 0, 0, 0, b"p", 0, 0, 0, 0, 0),
            "torn record: 4097 suspensions, at most 4096 are possible",
        ),
        (pack(SMALL)[:-1] + b"\xff", "torn record: the checksum differs"),
        (pack(RESIZED)[:130], "torn record: 130 bytes of at least 160"),
        (pack(RESIZED)[:-1], "torn record: 207 bytes of 208"),
        (pack(RESIZED)[:112] + b"\xff\xff" + pack(RESIZED)[114:], "torn record: 65535 sizes, at most 4096 are possible"),
    ],
)
def test_the_reason_is_told(raw: bytes, reason: str) -> None:
    assert read_log(io.BytesIO(raw)) == ([], [LogDamage(0, len(raw), reason)])


@pytest.mark.parametrize(
    "change",
    [
        {"priority": ""},
        {"priority": "x" * 32},
        {"priority": "a\0b"},
        {"id": 2**63},
        {"cores": -1},
        {"suspensions": (Suspension(0, 2**63),)},
        {"suspensions": (Suspension(0, 1),) * (MAX_SUSPENSIONS + 1)},
        {"malleable": MalleableRecord((Size(0, 2**32, 0),))},
        {"malleable": MalleableRecord((Size(0, 1, 0),) * (MAX_SIZES + 1))},
    ],
)
def test_pack_refuses_what_does_not_fit(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"priority|suspensions|sizes|number"):
        pack(Record(**{**vars(SMALL), **change}))  # type: ignore[arg-type]
