"""Tests of reading a log: its format follows from its content."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.traces import swf, trace
from slurm_mirage.base.errors import WrongUse

SWF = "1 0 5 10 4 -1 -1 4 20 -1 1 3 1 -1 -1 -1 -1 -1\n"
SACCT = "JobID|State|Submit|Start|End|AllocCPUS\n7|COMPLETED|2026-03-01T10:00:00|2026-03-01T10:00:30|2026-03-01T10:02:30|8\n"
JOBS = (
    "id,submit,eligible,start,end,suspended,processors,nodes,requested,runtime,priority,partition,state,submit_lag\n"
    "1,0,0,2,12,4,2,1,60,6,100,batch,COMPLETED,0.01\n"
    "2,0,,,,,2,,60,6,,batch,PENDING,\n"
)


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.swf", SWF, "swf"),
        ("log", SWF, "swf"),
        ("a.txt", "; MaxProcs: 9\n\n   ; more\n" + SWF, "swf"),
        ("no-bars.log", "  \t" + SWF, "swf"),
        ("a.csv", SACCT, "sacct"),
        ("a.swf.gz", SACCT, "sacct"),
        ("dump", "\n" + SACCT, "sacct"),
    ],
)
def test_content_decides(tmp_path: Path, name: str, content: str, kind: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(content.encode()) if name.endswith(".gz") else content.encode())
    read = trace.read_trace(path)
    assert (read.format, read.frame.height) == (kind, 1)
    assert read.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("hello\nworld\n", "line 1: 'hello' is neither a job in SWF nor a heading of sacct -P with JobID"),
        ("; comment\n\nAccount|User\nx|y\n", "line 3: 'Account|User' is neither"),
        ("; only comments\n", "has no jobs"),
        ("1 2 3\n", "line 1: has 3 fields"),
        ("", "is empty"),
    ],
)
def test_other_content_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "log"
    path.write_text(content)
    with pytest.raises(WrongUse) as error:
        trace.read_trace(path)
    assert str(error.value).startswith(f"trace: {path}")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("header", "machine"),
    [
        ("; MaxProcs: 100\n; MaxNodes: 50\n", (100, 50)),
        ("; MaxProcs: 128 (and 2 for service)\n", (128, None)),
        ("; MaxNodes: 3\n", (4, 3)),
        ("; MaxProcs: 0\n; MaxNodes: unknown\n", (4, None)),
        ("; MaxProcs: 8888888888\n; MaxNodes: " + 5000 * "1" + "\n", (4, None)),
    ],
)
def test_the_machine_of_a_log(tmp_path: Path, header: str, machine: tuple[int, int | None]) -> None:
    (tmp_path / "log").write_text(header + SWF)
    assert trace.read_trace(tmp_path / "log").machine() == machine


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(-1, 20), st.integers(-1, 20), st.integers(-1, 9)),
        max_size=20,
    )
)
def test_peak_use_agrees_with_a_slow_count(jobs: list[tuple[int, int, int, int]]) -> None:
    rows = [
        dict.fromkeys(swf.COLUMNS, -1) | {"submit": submit, "wait": wait, "run_time": run, "allocated_processors": size}
        for submit, wait, run, size in jobs
    ]
    frame = pl.DataFrame(rows, schema=swf.SCHEMA, strict=False)
    known = [(submit + wait, run, size) for submit, wait, run, size in jobs if wait >= 0 and run > 0 and size > 0]
    in_use = [sum(size for start, run, size in known if start <= second < start + run) for second in range(80)]
    assert trace.peak_use(frame) == max(in_use)


def test_the_machine_of_a_log_without_header_is_estimated(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(SWF + SWF.replace("1 0 5", "2 3 4"))
    read = trace.read_trace(tmp_path / "log")
    assert (read.machine(), read.machine_source()) == ((8, None), trace.PEAK_USE)
    (tmp_path / "log").write_text(SWF)
    assert trace.read_trace(tmp_path / "log").machine_source() == trace.LARGEST_JOB
    (tmp_path / "log").write_text("; MaxProcs: 9\n" + SWF)
    assert trace.read_trace(tmp_path / "log").machine_source() == trace.HEADER
