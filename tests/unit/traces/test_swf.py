"""Tests of reading and writing SWF: deviations of real logs are accepted and counted, other content is refused with its line."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import line_values
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from real_logs import real_log

from mirage.traces import swf, swf_header
from slurm_mirage.base.errors import WrongUse

JOB = "1 0 5 10 4 -1 -1 4 20 -1 1 3 1 -1 -1 -1 -1 -1"


def job(number: int = 1, **fields: float) -> str:
    values = dict(zip(swf.COLUMNS, JOB.split(), strict=True))
    values |= {"job_number": str(number), **{name: str(value) for name, value in fields.items()}}
    return " ".join(values.values())


def parse(text: str) -> tuple[pl.DataFrame, dict[str, str], dict[str, int]]:
    return swf.parse_swf(text.encode(), "log")[:3]


def test_fields_and_header() -> None:
    text = "; Version: 2.2\n; Computer: IBM SP2\n;MaxProcs: 100\n\n1 2 3 4 5 6.5 7 8 9 10 1 12 13 14 15 16 -1 -1\n"
    frame, header, notes = parse(text)
    assert header == {"Version": "2.2", "Computer": "IBM SP2", "MaxProcs": "100"}
    assert frame.schema == swf.SCHEMA
    assert frame.rows() == [(1, 2, 3, 4, 5, 6.5, 7, 8, 9, 10, 1, 12, 13, 14, 15, 16, -1, -1)]
    assert notes == {}


def test_header_values_over_several_lines() -> None:
    text = (
        "; About this log\n; Information: http://www.pdc.kth.se/\n;              http://example.org: 80\n"
        f"; Queue: 0  interactive\n; Queue: 1  batch\n; Note:\n;\n{JOB}\n; Note: after the first job\n"
    )
    assert parse(text)[1] == {
        "Note": "About this log",
        "Information": "http://www.pdc.kth.se/\nhttp://example.org: 80",
        "Queue": "0  interactive\n1  batch",
    }


@pytest.mark.parametrize(
    "text",
    [
        JOB.replace(" ", "\t"),
        "   " + JOB.replace(" ", "     ") + "  ",
        JOB + "\r\n",
        "\n\n \n" + JOB + "\n\n\t\n",
        "; comment\n  ; indented comment\n" + JOB,
        JOB + "\n; comment\n",
        JOB.replace("10", "1e1").replace(" 20 ", " 20.0 ").replace(" 5 ", " +5. "),
    ],
)
def test_spellings_of_the_same_job(text: str) -> None:
    assert parse(text)[0].rows() == parse(JOB)[0].rows()


@pytest.mark.parametrize(
    ("lines", "notes"),
    [
        ([job(1, submit=9), job(2, submit=3), job(3, submit=4)], {"unsorted_submits": 1}),
        ([job(submit=-1), job(2, submit=-0.5)], {"submit_unknown": 1, "submit_negative": 1}),
        (
            [" ".join(["-1"] * 18)] * 2,
            dict.fromkeys(["submit_unknown", "processors_unknown", "run_time_unknown", "wait_unknown", "requested_time_unknown"], 2)
            | {"repeated_numbers": 1},
        ),
        ([job(1, submit=1027839845)], {"epoch_submits": 1}),
        ([job() + " 7 8 9", job(2)], {"extra_columns": 1}),
        ([job(), job(), job(2)], {"repeated_numbers": 1}),
        ([job(allocated_processors=-1)], {"allocated_unknown": 1}),
        ([job(allocated_processors=0, requested_processors=-1)], {"processors_unknown": 1}),
        ([job(run_time=-1), job(2, run_time=-7)], {"run_time_unknown": 1, "run_time_negative": 1}),
        ([job(wait=-1), job(2, wait=-7)], {"wait_unknown": 1, "wait_negative": 1}),
        ([job(requested_time=-1)], {"requested_time_unknown": 1}),
        ([job(run_time=21), job(2, run_time=20)], {"ran_over_requested_time": 1}),
        (["; Preemption: TS", job(), job(2)], {"time_sliced": 2}),
        (["; MaxProcs: 1 152", job()], {"numbers_of_the_header_unknown": 1}),
        ([job(allocated_processors=1.5)], {"fractions_rounded_up": 1}),
    ],
)
def test_oddities_are_counted(lines: list[str], notes: dict[str, int]) -> None:
    frame, _, counted = parse("; Version: 2.2\n" + "\n".join(lines))
    assert counted == notes
    assert frame.height == sum(not line.startswith(";") for line in lines)


def test_no_header_is_an_oddity() -> None:
    frame, header, notes = parse(f"{JOB}\n{job(2)}\n")
    assert (frame.height, header, notes) == (2, {}, {"missing_header": 1})


@pytest.mark.parametrize("lines", [[job(), job(2)], ["  " + job(), job(2)], [job() + " 5", job(2)], [job(), job(2, status=1.5)]])
@pytest.mark.parametrize("header", ["", "; MaxProcs: 4\n"])
def test_the_first_job_is_not_taken_as_a_heading(header: str, lines: list[str]) -> None:
    """evalys 4.0.7 makes this mistake: it reads 28,488 of KTH's 28,489 jobs."""
    assert parse(header + "\n".join(lines))[0]["job_number"].to_list() == [1, 2]


def test_fractions_of_processors_are_rounded_up_and_those_of_times_kept() -> None:
    frame, _, _ = parse(job(allocated_processors=1.5, run_time=1.25))
    assert frame.select("allocated_processors", "run_time").row(0) == (2, 1.25)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 2 3 4 5", "log line 1: has 5 fields, a job in SWF has 18"),
        (f"; head\n\n{JOB}\r\n; more\n1 0 5 10 4\n", "log line 5: has 5 fields"),
        (f"{JOB}\n{JOB.replace('10', 'x20')}", r"log line 2: field 4 \('x20'\) is not a number"),
        (f"{JOB}\n{JOB.replace('10', 'nan')}", r"log line 2: field 4 \('nan'\)"),
        (f"{JOB}\n{JOB.replace('10', '1e999')}", r"log line 2: field 4 \('1e999'\)"),
        (f"{JOB}\n{JOB.replace('10', '1_0')}", r"log line 2: field 4 \('1_0'\)"),
        (JOB.replace("10", '"10"'), r"log line 1: field 4"),
        (
            f"{JOB}\n{job(2, submit=-3)}",
            r"log line 2: field 2 \('-3'\) is a negative time; submission times begin at the log's second 0",
        ),
        ("; only\n; comments\n", "log: has no jobs"),
        (f"{JOB}\n\0{JOB}", r"log line 2: field 1 \('\\x001'\)"),
        (f"{JOB}\n" + JOB.replace(" 10", " \0 10"), r"log line 2: field 4 \('\\x00'\)"),
        (f"x^{JOB}\n", r"log line 1: field 1 \('x\^1'\)"),
        ("\n\nhello world\n", r"log line 3: field 1 \('hello'\)"),
        ("hello world\n", r"log line 1: field 1 \('hello'\)"),
    ],
)
def test_text_that_is_not_swf_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(WrongUse, match=f"^trace: {message}"):
        parse(text)


def test_torn_lines_are_left_out_and_told() -> None:
    torn = ["3 0 5 10", "4 0 5 x" + " -1" * 14, job(5, submit=-7)]
    text = "\n".join([job(1), "; note", torn[0], job(2), *torn[1:], *(job(n) for n in range(6, 1000))])
    frame, _, _, unread = swf.parse_swf(text.encode(), "log")
    assert frame["job_number"].to_list() == [1, 2, *range(6, 1000)]
    assert (unread.lines, unread.count, unread.excluded()) == (999, 3, {"line of the log that cannot be read": 3})
    assert unread.in_words() == (
        "3 of 999 lines could not be read: line 3: has 4 fields, a job in SWF has 18; "
        "line 5: field 4 ('x') is not a number of SWF; "
        "line 6: field 2 ('-7') is a negative time; submission times begin at the log's second 0"
    )
    frame, _, _, unread = swf.parse_swf((text + "\n1 2\n").encode(), "log")
    assert unread.in_words().startswith("4 of 1,000 lines") and unread.in_words().endswith("; ...")


def test_a_field_that_no_job_needs_is_unknown_and_told() -> None:
    lines = [JOB, job(2).replace(" 20 -1 1 ", " 20 9223372036854779808 1 "), "; note", job(3)[:-6] + " 1&2 0"]
    frame, _, notes, unread = swf.parse_swf("\n".join(["; MaxProcs: 4", *lines]).encode(), "log")
    assert frame["job_number"].to_list() == [1, 2, 3]
    assert frame["requested_memory"].to_list() == [-1, -1, -1]
    assert frame.select("preceding_job", "think_time").rows() == [(-1, -1), (-1, -1), (-1, 0)]
    assert notes == {}
    assert (unread.count, unread.fields, unread.excluded()) == (0, 2, {})
    assert unread.in_words() == (
        "fields that could not be read are taken as unknown, 2: "
        "line 3: field 10 ('9223372036854779808') is not a number of SWF; line 5: field 17 ('1&2') is not a number of SWF"
    )


@pytest.mark.parametrize("fields", [2, 11, 17])
def test_a_line_that_ends_early_is_left_out(fields: int) -> None:
    text = "\n".join([job(1), job(2), " ".join(job(3).split()[:fields]), job(4).replace(" 3 1 ", " x 1 ")])
    frame, _, _, unread = swf.parse_swf(text.encode(), "log")
    assert frame["job_number"].to_list() == [1, 2, 4]
    assert (dict(unread.faults), unread.fields) == ({3: f"has {fields} fields, a job in SWF has 18"}, 1)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    def refused(name: str, content: bytes | None, message: str) -> None:
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(WrongUse) as error:
            swf.read_swf(path)
        assert str(error.value).startswith(f"trace: {path}{message}")
        assert "\n" not in str(error.value)

    packed = gzip.compress(b"".join(job(n).encode() + b"\n" for n in range(1000)))
    noise = random.Random(1).randbytes(5000)
    refused("missing.swf", None, ": cannot be read (No such file or directory)")
    refused("empty.swf", b"", ": is empty")
    refused("blank.swf", b"\n \r\n", ": is empty")
    refused("empty.swf.gz", gzip.compress(b""), ": is empty")
    refused("cut.swf.gz", packed[: len(packed) // 2], ": is a damaged or truncated gzip file")
    refused("tail.swf.gz", packed[:-3], ": is a damaged or truncated gzip file")
    refused("flipped.swf.gz", packed[:200] + bytes([packed[200] ^ 255]) + packed[201:], ": is a damaged")
    refused("noise.swf", noise, " line 1: is not a text file")
    refused("noise.swf.gz", gzip.compress(noise), " line 1: is not a text file")
    (tmp_path / "folder.swf").mkdir()
    refused("folder.swf", None, ": is a directory; it must be a regular file")


def test_gzip_is_recognised_by_content_not_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.swf").write_bytes(gzip.compress(JOB.encode()))
    (tmp_path / "b.swf.gz").write_text(JOB)
    assert swf.read_swf(tmp_path / "a.swf")[0].equals(swf.read_swf(tmp_path / "b.swf.gz")[0])


def test_a_byte_order_mark_does_not_hide_the_header(tmp_path: Path) -> None:
    (tmp_path / "a.swf").write_text(f"\ufeff; MaxProcs: 7\n{JOB}\n")
    assert swf.read_swf(tmp_path / "a.swf")[1] == {"MaxProcs": "7"}


def test_written_form(tmp_path: Path) -> None:
    frame, header, _ = parse(f"; MaxProcs: 64\n; Zoo: x\n; Computer: toy\n{job(submit=0.5, wait=1 / 3, run_time=7.0)}")
    swf.write_swf(frame, header, tmp_path / "a.swf")
    assert (tmp_path / "a.swf").read_text() == (
        "; Version: 2.2\n; Computer: toy\n; MaxJobs: 1\n; MaxRecords: 1\n; UnixStartTime: 0\n; MaxNodes: 4\n"
        "; MaxProcs: 64\n; MaxRuntime: 20\n; Zoo: x\n1 0.5 0.333 7 4 -1 -1 4 20 -1 1 3 1 -1 -1 -1 -1 -1\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["a.swf"]


def header_of(folder: Path, head: dict[str, str], *lines: str) -> dict[str, str]:
    swf.write_swf(parse("\n".join(lines))[0], head, folder / "log.swf")
    return swf.read_swf(folder / "log.swf")[1]


def test_parts_of_a_job_are_written_as_one_job(tmp_path: Path) -> None:
    header = header_of(tmp_path, {}, job(1), job(1, status=2), job(1, status=3))
    assert (header["MaxJobs"], header["MaxRecords"]) == ("1", "1")


@pytest.mark.parametrize(
    ("head", "start", "end"),
    [
        ({"UnixStartTime": "1459468800"}, "Fri Apr 01 00:00:00 UTC 2016", "Fri Apr 01 00:00:25 UTC 2016"),
        (
            {"UnixStartTime": "1459468800", "TimeZoneString": "Europe/Stockholm"},
            "Fri Apr 01 02:00:00 CEST 2016",
            "Fri Apr 01 02:00:25 CEST 2016",
        ),
        (
            {"UnixStartTime": "1459468800", "TimeZone": "-3600"},
            "Thu Mar 31 23:00:00 UTC-01:00 2016",
            "Thu Mar 31 23:00:25 UTC-01:00 2016",
        ),
        (
            {"UnixStartTime": "1459468800", "TimeZoneString": "../nowhere", "StartTime": "in spring"},
            "in spring",
            "Fri Apr 01 00:00:25 UTC 2016",
        ),
        ({"UnixStartTime": "0"}, None, None),
        ({"UnixStartTime": "soon"}, None, None),
        ({"UnixStartTime": "999999999999999"}, None, None),
        ({}, None, None),
    ],
)
def test_dates_of_the_log(tmp_path: Path, head: dict[str, str], start: str | None, end: str | None) -> None:
    header = header_of(tmp_path, head, job(1, submit=5, wait=10, run_time=10), job(2, submit=5, wait=-1, run_time=1))
    assert (header.get("StartTime"), header.get("EndTime")) == (start, end)


def test_submissions_in_unix_time_add_no_end_time_to_the_header(tmp_path: Path) -> None:
    assert "EndTime" not in header_of(tmp_path, {"UnixStartTime": "1459468800"}, job(1, submit=1459468900))


def test_compressed_files_are_reproducible(tmp_path: Path) -> None:
    frame, header, _ = parse(JOB)
    for name in ("a.swf.gz", "b.swf.gz"):
        swf.write_swf(frame, header, tmp_path / name)
    assert (tmp_path / "a.swf.gz").read_bytes() == (tmp_path / "b.swf.gz").read_bytes()
    assert swf.read_swf(tmp_path / "a.swf.gz")[0].equals(frame)


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match=r"^out: .*cannot be written"):
        swf.write_swf(parse(JOB)[0], {}, tmp_path / "none" / "a.swf")


whole = st.integers(-1, 10**12)
thousandths = st.integers(-1000, 10**12).map(lambda n: n / 1000)
rows = st.tuples(*(whole if kind == pl.Int64 else thousandths for kind in swf.SCHEMA.values()))
line = st.text("abcXYZ019 ,;:()-", min_size=1).map(str.strip).filter(bool)
values = st.lists(line, min_size=1, max_size=3).map("\n".join)
labels = st.sampled_from([label for label in swf_header.LABELS if label not in ("Version", "MaxJobs", "MaxRecords")])


@given(st.lists(rows, min_size=1, max_size=8), st.dictionaries(labels, values, max_size=4))
@settings(deadline=None)
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, jobs: list[tuple[float, ...]], head: dict[str, str]) -> None:
    frame = pl.DataFrame(jobs, schema=swf.SCHEMA, orient="row")
    frame = frame.filter(~pl.col("status").is_between(2, 4))  # parts of a job, which are joined
    assume(frame.height)
    path = tmp_path_factory.mktemp("round") / "log.swf"
    swf.write_swf(frame, head, path)
    back, header, _, _ = swf.read_swf(path)
    assert back.equals(frame)
    assert header.items() >= head.items()
    again = path.with_name("again.swf")
    swf.write_swf(back, header, again)
    assert again.read_bytes() == path.read_bytes()


@given(st.lists(st.sampled_from([job(), job(2), "; note", "", job(3, submit=0.5), job(4) + " 7"]), max_size=6), st.data())
@settings(deadline=None)
def test_blanks_between_fields_and_around_lines_change_nothing(lines: list[str], data: st.DataObject) -> None:
    """The reader handles aligned columns, indented lines, empty lines, tabs and CRLF by another code path."""
    lines = [job(9), *lines]
    blanks = st.text(" \t\v\f", max_size=3)
    spread = [
        data.draw(blanks) + "".join(field + data.draw(blanks) + " " for field in line.split()) + data.draw(blanks) for line in lines
    ]
    ends = st.sampled_from(["\n", "\r\n", "\n\n", "\n \n"])
    text = "".join(line + data.draw(ends) for line in spread)
    frame, _, notes = parse(text)
    plain, _, expected = parse("\n".join(lines))
    assert (frame.rows(), notes) == (plain.rows(), expected)


def test_runs_of_blanks_across_the_borders_of_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "\n\n".join(f"  {job(n)}  ".replace(" ", "   ") for n in range(50))
    expected = parse(text)[0]
    for size in (1, 2, 3, 64):
        monkeypatch.setattr(swf, "_PIECE", size)
        assert parse(text)[0].equals(expected)
    assert expected.height == 50


@pytest.mark.parametrize(
    ("name", "jobs", "notes", "processors"),
    [
        ("KTH-SP2-1996.unfiltered.swf.gz", 28489, {"ran_over_requested_time": 475}, "100"),
        ("NASA-iPSC-1993-3.1-cln.swf.gz", 18239, {"wait_unknown": 18239, "requested_time_unknown": 18239}, "128"),
        ("alea-hpc2n-part.swf.gz", 3170, {"run_time_unknown": 25, "ran_over_requested_time": 320}, "240"),
        ("lublin_256.swf.gz", 10000, {"wait_unknown": 10000, "requested_time_unknown": 10000}, None),
    ],
)
def test_real_logs(name: str, jobs: int, notes: dict[str, int], processors: str | None, tmp_path: Path) -> None:
    path = real_log(name)
    frame, header, counted, _ = swf.read_swf(path)
    assert (frame.height, counted, header.get("MaxProcs")) == (jobs, notes, processors)
    with gzip.open(path, "rt") as lines:
        plain = [tuple(map(float, text.split()[:18])) for text in lines if text.strip() and text[0] != ";"]
    assert frame.rows() == plain
    swf.write_swf(frame, header, tmp_path / "log.swf")
    assert swf.read_swf(tmp_path / "log.swf")[0].equals(frame)


@given(line_values.values, line_values.values)
def test_a_text_of_the_header_begins_no_other_line(note: str, name: str) -> None:
    """Neither a label nor a job, to a reader that takes any control character for the end of a line."""
    frame = parse(JOB)[0]
    text = swf_header.header_text(frame, {"Note": note, "Partition": f"1 {name}"})
    lines = text.splitlines()
    assert len(lines) == len(text.split("\n")) - 1 and all(line.startswith("; ") for line in lines)
    labels = [line.split(":")[0] for line in lines]
    assert labels.count("; Note") == note.count("\n") + 1 and labels.count("; MaxJobs") == 1
    read = swf_header.read_header(text.encode())
    if note.isprintable() and note.strip() and note == note.strip():
        assert read["Note"] == note
