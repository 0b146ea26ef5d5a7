"""The reader of sigsleep's log finds every record, whatever lies between them."""

from __future__ import annotations

import io
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.jobs.sigsleep_log import HEADER, MAGIC, MAX_SUSPENSIONS, LogDamage, Record, Suspension, pack, read_log, scan

I64 = st.integers(min_value=-(2**63), max_value=2**63 - 1)
U32 = st.integers(min_value=0, max_value=2**32 - 1)
PRIORITIES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1).filter(
    lambda text: len(text.encode()) <= 31
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
    ],
)
def test_pack_refuses_what_does_not_fit(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"priority|suspensions|number"):
        pack(Record(**{**vars(SMALL), **change}))  # type: ignore[arg-type]
