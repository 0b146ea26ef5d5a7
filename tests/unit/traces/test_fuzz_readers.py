"""Fuzz tests of the readers: for any content of a file they return jobs or raise WrongUse with a message of one line.

The environment variable FUZZ_EXAMPLES sets the number of examples of each test (default 50).
"""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Callable
from math import ceil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mirage.records import schedule
from mirage.traces import swf, trace
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.jobs import sigsleep_log
from tests.fuzz.readers import BATSIM, CSV, JSON

SWF = b"""; Version: 2.2
; UnixStartTime: 1459468800
; MaxProcs: 64
1 0 5 10 4 -1 -1 4 20 -1 1 3 1 -1 -1 -1 -1 -1
2 3 -1 -1 -1 -1 -1 16 3600 -1 5 3 1 -1 2 -1 -1 -1
  3    7.5  0  1e2 8 -1 -1   8 3600 -1 0 4 2 -1 2 -1 -1 -1
"""
SACCT = b"""JobID|JobIDRaw|User|State|Submit|Start|End|Elapsed|Timelimit|AllocCPUS|ReqMem|AllocTRES|NNodes|JobName|SubmitLine
7|7|ann|COMPLETED|2026-03-01T10:00:00|2026-03-01T10:00:30|2026-03-01T10:02:30|00:02:00|1-00:00:00|8|4Gn|cpu=8,node=1|1|a|sbatch a.sh
7.batch|7.batch||COMPLETED|2026-03-01T10:00:00|2026-03-01T10:00:30|2026-03-01T10:02:30|00:02:00||8||cpu=8,node=1|1|batch|
8_[1-4]|8|bob|PENDING|2026-03-01T10:00:00+0100|Unknown|Unknown|00:00:00|UNLIMITED|0|4G||1K|b|sbatch --wrap=a|b
9|9|bob|CANCELLED by 5|1772359200|None|2026-03-01 10:02:30|00:00:00|Partition_Limit|0|0||1|b|sbatch --wrap=a
b
"""
JOBS = b"""id,submit,eligible,start,end,suspended,processors,nodes,requested,runtime,priority,partition,state,submit_lag,preset
1,0,0,2,12,4,2,1,60,6,100,batch,COMPLETED,0.01,
2,0.5,,,,,2,,60,6,,batch,PENDING,,
3,1,1,2,1e3,,2,,60,6,,"b ""q"", r",TIMEOUT,,
"""
SLEPT = b"".join(
    sigsleep_log.pack(
        sigsleep_log.Record(
            number, 4, "high", 10**9 * number, 10**9 * (number + 1), 10**9 * (number + 9), 5 * 10**9, 6 * 10**9, True,
            (sigsleep_log.Suspension(10**9 * (number + 2), 10**9 * (number + 4)),),
        )
    )
    for number in range(1, 4)
)  # fmt: skip

EXAMPLES = settings(
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", "50")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
# Tokens that the formats distinguish, and tokens that parsers commonly mishandle.
TOKENS = st.sampled_from(
    [
        *(b" ", b"\t", b"\n", b"\r", b"\r\n", b"\n\n", b"|", b"||", b",", b";", b'"', b"''", b"\0", b"\x1a", b"\xff"),
        *(
            b"-",
            b"-1",
            b"+",
            b".",
            b"e",
            b"1e400",
            b"0.1",
            b"nan",
            b"inf",
            b"NULL",
            b"9" * 19,
            b"9" * 40,
            b"-" + b"9" * 19,
            b"1" * 400,
        ),
        *(b"\xc2\xa0", b"\xef\xbb\xbf", b"\xd9\xa3", b"JobID", b"id,", b"SSLP", b"\x1f\x8b", b"Unknown", b"UNLIMITED", b"?", b"K"),
        *(b"9999-12-31T23:59:60", b"2026-02-30T00:00:00", b"999999999-999999999:59:59", b"CANCELLED+", b"7_[", b"cpu=" + b"9" * 20),
    ]
)
BYTES = st.one_of(TOKENS, st.binary(max_size=6))


@st.composite
def mutated(draw: st.DrawFn, content: bytes) -> bytes:
    """The content with one to four random deletions, replacements, insertions or repetitions, half of them of whole fields."""
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(content)))
        end = min(len(content), start + draw(st.sampled_from([0, 1, 2, 5, 40, 400])))
        fields = [field.span() for field in re.finditer(rb"[^ ,|\n]+", content)]
        if fields and draw(st.booleans()):
            start, end = draw(st.sampled_from(fields))
        new = draw(st.one_of(BYTES, st.just(content[start:end] * 2)))
        content = content[:start] + new + content[end:]
    return content


def outcome(read: Callable[[Path], object], folder: Path, content: bytes) -> str | None:
    """The message of WrongUse when the content is read from a file; None if it can be read."""
    path = folder / "log"
    path.write_bytes(content)
    try:
        read(path)
    except WrongUse as error:
        text = str(error)
        assert re.match(rf"trace: {re.escape(str(path))}( line \d+)?: ", text), text
        assert "\n" not in text
        return text
    return None


def test_the_unchanged_files_can_be_read(tmp_path: Path) -> None:
    assert [outcome(schedule.read_schedule, tmp_path, content) for content in (SWF, SACCT, JSON, CSV, BATSIM, JOBS, SLEPT)] == [
        None
    ] * 7


@EXAMPLES
@given(st.one_of(st.binary(max_size=300), st.lists(BYTES, max_size=60).map(b"".join)))
def test_any_bytes(tmp_path: Path, content: bytes) -> None:
    for read in (trace.read_trace, schedule.read_schedule):
        outcome(read, tmp_path, content)


@pytest.mark.parametrize(
    "content",
    [SWF, SACCT, JSON, CSV, BATSIM, JOBS, SLEPT],
    ids=["swf", "sacct", "json", "csv", "batsim", "jobs", "sigsleep"],
)
@EXAMPLES
@given(data=st.data())
def test_mutated_files(tmp_path: Path, content: bytes, data: st.DataObject) -> None:
    changed = data.draw(mutated(content))
    for read in (trace.read_trace, schedule.read_schedule):
        outcome(read, tmp_path, changed)


@EXAMPLES
@given(data=st.data())
def test_mutated_gzip_files(tmp_path: Path, data: st.DataObject) -> None:
    whole = data.draw(st.sampled_from([SWF, SACCT]))
    outcome(trace.read_trace, tmp_path, data.draw(mutated(gzip.compress(whole, mtime=0))))


def read_line_by_line(content: bytes) -> list[list[float]] | None:
    """A simple SWF reader: the 18 numbers of each job; None if half of the lines, or the first, are neither jobs nor comments."""
    if re.match(rb"\s*[^-+.0-9;\s]", content):
        return None
    number = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
    rows: list[list[float]] = []
    bad = 0
    for line in content.decode("utf-8", "replace").split("\n"):
        fields = re.findall(r"[^ \t\r\f\v]+", line)
        if not fields or fields[0].startswith(";"):
            continue
        known = [number.fullmatch(field) is not None and abs(float(field)) <= 2**53 for field in fields[:18]]
        # Job number, submission, wait, run time, processors and status.
        if len(known) == 18 and all(known[place] for place in (0, 1, 2, 3, 4, 7, 10)) and float(fields[1]) >= -1:
            rows.append([float(field) if is_known else -1 for field, is_known in zip(fields, known, strict=False)])
        else:
            bad += 1
    return rows if bad < len(rows) or not bad else None


def test_a_field_of_control_characters_is_unknown() -> None:
    for character in bytes(range(32)).translate(None, b"\t\n\v\f\r"):
        check_line_by_line(SWF.replace(b" -1 ", b" %c " % character, 1))


@EXAMPLES
@given(data=st.data())
def test_swf_is_read_as_line_by_line(data: st.DataObject) -> None:
    check_line_by_line(data.draw(mutated(SWF)))


def check_line_by_line(content: bytes) -> None:
    expected = read_line_by_line(content)
    try:
        frame = swf.parse_swf(content, "log")[0]
    except WrongUse:
        assert not expected
        return
    assert expected is not None
    if any(2 <= ceil(row[10]) <= 4 for row in expected):
        return  # parts of jobs, which are joined: test_swf_parts.py
    wanted = [[ceil(n) if kind.is_integer() else n for n, kind in zip(row, swf.SCHEMA.values(), strict=True)] for row in expected]
    assert frame.rows() == [tuple(row) for row in wanted]
