"""Tests of reading the Parquet table oda.job."""

from __future__ import annotations

import gzip
import io
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirage.records.schedule import read_schedule
from mirage.traces import job_table, parquet_size, parquet_trial
from mirage.traces.trace import Trace, read_trace
from mirage.workloads.requests import names
from slurm_mirage.base.errors import WrongUse

BEGIN = datetime(2026, 3, 1, 10, tzinfo=UTC)
COLUMNS = (
    "job_number", "submit", "wait", "run_time", "allocated_processors", "requested_processors", "requested_time",
    "requested_memory", "status", "user",
)  # fmt: skip


def at(second: float | None) -> datetime | None:
    return None if second is None else BEGIN + timedelta(seconds=second)


def table(**columns: list[Any]) -> pl.DataFrame:
    """A table in which columns that end in _time are seconds after BEGIN."""
    return pl.DataFrame(
        {name: list(map(at, values)) if name.endswith("_time") else values for name, values in columns.items()}, strict=False
    )


FULL = table(
    job_id=[7, 8, 9, 10], submit_time=[0, 5.5, 8, 9], start_time=[10, 5.5, None, 9], end_time=[70, 6, 20, 30],
    runtime_seconds=[60, 0.5, 0, 90], requested_seconds=[3600, 60, 120, None], allocated_cpus=[4, None, None, 8],
    num_cores_alloc=[5, 6, None, None], num_cores_req=[4, 6, 2, None], num_nodes_alloc=[2, 1, None, 1],
    num_nodes_req=[2, 1, 1, 1], num_gpus_req=[4, 0, None, 1], requested_memory_mib=[1024, None, 512, 0],
    partition=["b", "a", None, "b"], qos=["high", "normal", "normal", None], user=["x", "y", "x", None],
    account=["lab", None, "lab", "lab"], job_state=["COMPLETED", "FAILED", "CANCELLED by 7", "3"],
    constraints=["a100", None, None, "x y"],
)  # fmt: skip


def read(frame: pl.DataFrame, folder: Path) -> Trace:
    frame.write_parquet(folder / "jobs.parquet")
    return read_trace(folder / "jobs.parquet")


def test_a_table(tmp_path: Path) -> None:
    log = read(FULL, tmp_path)
    assert log.format == "oda.job"
    assert log.frame.select(COLUMNS).rows() == [
        (7, 0, 10, 60, 4, 4, 3600, 1024 * 1024 * 2 / 4, 1, 1),
        (8, 5.5, 0, 0.5, 6, 6, 60, -1, 0, 2),
        (9, 8, 12, -1, -1, 2, 120, 512 * 1024 / 2, 5, 1),
        (10, 9, 0, 21, 8, 8, -1, -1, -1, -1),
    ]
    assert log.frame["state"].to_list() == ["COMPLETED", "FAILED", "CANCELLED", None]
    assert log.frame["account"].to_list() == ["lab", None, "lab", "lab"]
    assert log.frame["request"].to_list() == ["nodes=2 constraint=a100 gpus=4", "", "", "gpus=1"]
    assert log.header["UnixStartTime"] == f"{BEGIN.timestamp():.0f}"
    assert log.frame.with_columns(names(log)).select("partition_name", "qos_name").rows() == [
        ("b", "high"), ("a", "normal"), ("", "normal"), ("b", ""),
    ]  # fmt: skip
    assert log.notes["runtime_contradicts_end"] == 1 and log.notes["cancelled_before_start"] == 1
    assert {note for note in log.notes if note.startswith("field")} == {"field_queue_absent"}
    schedule = read_schedule(tmp_path / "jobs.parquet")
    assert schedule.jobs.select("start", "end", "nodes").rows() == [(10, 70, 2), (5.5, 6, 1), (None, 20, None), (9, 30, 1)]


def test_a_table_with_texts_as_instants_and_numbers(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "job_id": ["7.host", "x8", "9_3"], "allocated_cpus": ["4", "x", "6"],
            "start_time": ["2026-03-01T10:00:10Z", "2026-03-01T11:00:10.5+01:00", "never"],
            "end_time": ["2026-03-01T10:01:10Z"] * 3, "submit_time": ["2026-03-01T10:00:00Z"] * 3,
        }
    )  # fmt: skip
    log = read(frame, tmp_path)
    assert log.frame.select("job_number", "wait", "run_time", "allocated_processors").rows() == [
        (7, 10, 60, 4), (2, 10.5, 59.5, -1), (9, -1, -1, 6),
    ]  # fmt: skip


def test_what_a_table_lacks_is_named(tmp_path: Path) -> None:
    frame = FULL.select("job_id", "start_time", "end_time", user=pl.lit(None, pl.String))
    log = read(frame, tmp_path)
    absent = {note.removeprefix("field_").removesuffix("_absent") for note in log.notes if note.startswith("field_")}
    assert {"submit_time", "requested_seconds", "user", "runtime_seconds", "partition"} < absent
    assert not absent & {"job_id", "start_time", "end_time"}
    assert log.notes["submit_unknown"] == 4


def test_nodes_without_processors_are_whole_nodes(tmp_path: Path) -> None:
    log = read(FULL.select("job_id", "submit_time", "start_time", "end_time", "num_nodes_alloc", "num_nodes_req"), tmp_path)
    assert log.in_whole_nodes(16).frame["requested_processors"].to_list() == [32, 16, 16, 16]


def test_rows_keep_their_order(tmp_path: Path) -> None:
    rows = 60_000
    numbers = pl.arange(rows, eager=True)
    frame = pl.DataFrame({"job_id": numbers, "num_nodes_req": numbers % 7, "user": (numbers % 9).cast(pl.String)})
    instants = dict.fromkeys(("start_time", "end_time"), pl.from_epoch(numbers + 10**9))
    frame.with_columns(**instants).write_parquet(tmp_path / "jobs", row_group_size=1000)
    found = read_trace(tmp_path / "jobs").frame
    assert (found["job_number"] == numbers).all() and (found["user"] == numbers % 9 + 1).all()
    asked = found["request"].str.extract(r"nodes=(\d+)").cast(pl.Int64).fill_null(1)
    assert (asked == (numbers % 7).clip(1)).all()


def test_texts_of_instants(tmp_path: Path) -> None:
    """One without a zone is UTC, as a timestamp without one."""
    texts = ["2024-01-01T00:00:10", "2024-01-01 01:00:00.5+01:00", "2024-01-01T00:00:20Z", "1704067200"]
    found = read(FULL.with_columns(submit_time=pl.Series(texts)), tmp_path)
    assert (found.frame["submit"] + float(found.header["UnixStartTime"])).to_list()[:3] == [1704067210, 1704067200.5, 1704067220]
    assert found.notes["submit_unknown"] == 1


def test_too_many_names_are_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_table, "MOST_NAMES", 2)
    log = read(FULL.with_columns(partition=pl.Series(["a", "b", "c", "d"])), tmp_path)
    assert log.frame["partition"].to_list() == [-1] * 4 and "Partition" not in log.header
    assert log.notes["too_many_names_in_partition"] == 4


def test_durations_and_marks_for_no_value(tmp_path: Path) -> None:
    spans = pl.Series([timedelta(minutes=5), None, timedelta(seconds=7), timedelta(0)])
    frame = FULL.with_columns(requested_seconds=spans, num_cores_req=pl.Series([2**32 - 2, 6, -4, 2**31 - 1]))
    found = read(frame, tmp_path).frame
    assert found["requested_time"].to_list() == [300, -1, 7, -1] and found["requested_processors"].to_list() == [4, 6, -1, 8]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (FULL.drop("end_time"), "lacks the columns end_time of oda.job"),
        (FULL.with_columns(start_time=pl.lit(5)), "start_time of oda.job has the type Int"),
        (FULL.with_columns(partition=pl.lit(b"x")), "partition of oda.job has the type Binary, not a text"),
        (FULL.with_columns(num_nodes_req=pl.lit(True)), "num_nodes_req of oda.job has the type Boolean, not a number"),
        (FULL.clear(), "holds no job"),
    ],
)
def test_other_tables_are_refused(frame: pl.DataFrame, message: str, tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match=message):
        read(frame, tmp_path)


def test_a_path_is_no_pattern(tmp_path: Path) -> None:
    folder = tmp_path / "user=9" / "[a]*"
    folder.mkdir(parents=True)
    assert read(FULL.drop("user"), folder).frame["user"].to_list() == [-1] * 4


def test_a_packed_table_is_named(tmp_path: Path) -> None:
    FULL.write_parquet(tmp_path / "jobs")
    (tmp_path / "gz").write_bytes(gzip.compress((tmp_path / "jobs").read_bytes()))
    with pytest.raises(WrongUse, match="a Parquet file in gzip: convert it with gunzip"):
        read_trace(tmp_path / "gz")


# ---- files that are not what they seem ----


def packed(frame: pl.DataFrame = FULL, **options: Any) -> bytes:
    content = io.BytesIO()
    frame.write_parquet(content, **options)
    return content.getvalue()


def test_the_footer_has_rows_and_bytes() -> None:
    rows = 50_000
    frame = pl.DataFrame({"a": pl.arange(rows, eager=True), "b": ["x"] * rows})
    data = io.BytesIO(packed(frame, row_group_size=10_000))
    both = parquet_size.size_of(data, "f", ("a", "b"))
    only = parquet_size.size_of(data, "f", ("b",))
    assert both.rows == only.rows == rows
    assert both.unpacked >= 8 * rows > only.unpacked and both.largest >= 8 * rows / 5


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"PAR1", "it has no footer"),
        (packed()[:-9], "it has no footer"),
        (packed()[:-4] + b"PARE", "is an encrypted Parquet file"),
        (b"PAR1" + b"\xff" * 90 + (90).to_bytes(4, "little") + b"PAR1", "is damaged"),
        (b"PAR1" + b"\x1c" * 90 + (90).to_bytes(4, "little") + b"PAR1", "is damaged"),
        (b"PAR1" + b"\x19\xf9\xff\xff\xff\x0f" + (6).to_bytes(4, "little") + b"PAR1", "is damaged"),
    ],
)
def test_damaged_footers_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(WrongUse, match=message):
        parquet_size.size_of(io.BytesIO(data), "f", ())


@given(st.data())
@settings(max_examples=300)
def test_any_footer_is_read_or_refused(chosen: st.DataObject) -> None:
    data = bytearray(packed())
    length = int.from_bytes(data[-8:-4], "little")
    for _ in range(chosen.draw(st.integers(1, 4))):
        data[chosen.draw(st.integers(len(data) - 8 - length, len(data) - 1))] = chosen.draw(st.integers(0, 255))
    try:
        size = parquet_size.size_of(io.BytesIO(bytes(data)), "f", job_table._COLUMNS)
    except WrongUse as error:
        assert "\n" not in error.message
    else:
        assert size.rows >= 0 and 0 <= size.largest <= size.unpacked


def test_columns_that_cannot_be_unpacked_are_refused(tmp_path: Path) -> None:
    data = bytearray(packed(compression="zstd"))
    begin = data.index(b"\x28\xb5\x2f\xfd")
    data[begin : begin + 40] = b"\xff" * 40
    (tmp_path / "jobs.parquet").write_bytes(data)
    with pytest.raises(WrongUse, match="is a damaged Parquet file"):
        read_trace(tmp_path / "jobs.parquet")


def test_a_footer_that_ends_polars_is_read_by_the_other_process_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A footer may make polars panic, which is no exception that a caller can take for a damaged file."""
    data = packed()
    (tmp_path / "jobs.parquet").write_bytes(data.replace(b"job_id", b"\xff\xfeb_id"))
    monkeypatch.setattr(parquet_trial, "scanned", lambda _: pytest.fail("read by this process"))
    with pytest.raises(WrongUse, match="its columns cannot be unpacked"):
        read_trace(tmp_path / "jobs.parquet")


def test_unpacking_has_a_limit_of_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, names = 8_000_000, [f"c{number}" for number in range(30)]
    same = pl.select(pl.repeat(1, rows, dtype=pl.Int64)).to_series()
    frame = pl.DataFrame([same.alias(name) for name in names])
    frame.write_parquet(tmp_path / "large", row_group_size=rows, statistics=False)
    frame.head(9).write_parquet(tmp_path / "small")
    assert (tmp_path / "large").stat().st_size < 1 << 20 < 1500 << 20 < rows * len(names) * 8
    monkeypatch.setattr(parquet_trial, "memory_of", lambda path: 1500 << 20)
    assert parquet_trial.known_values(tmp_path / "small", names) == dict.fromkeys(names, 9)
    with pytest.raises(WrongUse, match="its columns cannot be unpacked"):
        parquet_trial.known_values(tmp_path / "large", names)


@pytest.mark.parametrize(("limit", "value"), [("MOST_ROWS", 3), ("LARGEST", 10), ("MEMORY_PER_ROW", 1 << 50)])
def test_large_tables_are_refused(limit: str, value: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_table, limit, value)
    with pytest.raises(WrongUse, match=r"it may have|and this machine has"):
        read(FULL, tmp_path)


# ---- any table ----

second = st.one_of(st.none(), st.integers(0, 10**6))
counted = st.one_of(st.none(), st.integers(-2, 10**5))
row = st.tuples(second, second, second, counted, counted, st.sampled_from(["COMPLETED", "CANCELLED", "TIMEOUT", "what", None]))


@given(st.lists(row, min_size=1, max_size=40))
@settings(max_examples=8)
def test_any_rows(rows: list[tuple[Any, ...]]) -> None:
    frame = pl.DataFrame(
        [(number, *map(at, one[:3]), *one[3:]) for number, one in enumerate(rows)], orient="row",
        schema={
            "job_id": pl.Int64, **dict.fromkeys(("submit_time", "start_time", "end_time"), pl.Datetime("us", "UTC")),
            "allocated_cpus": pl.Int32, "requested_seconds": pl.Float32, "job_state": pl.String,
        },
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        log = read(frame, Path(folder))
    first = min((one for submit, start, *_ in rows for one in (submit, start) if one is not None), default=0)
    for found, (submit, start, end, cpus, limit, state) in zip(log.frame.iter_rows(named=True), rows, strict=True):
        unused = state == "CANCELLED" and (start is None or (end is not None and start >= end))
        waited = end if unused else start
        assert found["submit"] == (-1 if submit is None else submit - first)
        if submit is not None and waited is not None and waited - submit != -1:
            assert found["wait"] == waited - submit
        known = start is not None and end is not None and end >= start and not unused
        assert found["run_time"] == (end - start if known else -1)
        assert found["allocated_processors"] == (cpus if cpus and cpus > 0 and not unused else -1)
        assert found["requested_time"] == (limit if limit and limit > 0 else -1)
