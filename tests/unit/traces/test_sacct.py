"""Tests of reading sacct's output: any set of columns, steps, unknown states, and a `|` or a line break inside a field."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from real_logs import real_log

from mirage.traces import sacct, swf
from slurm_mirage.base.errors import WrongUse

DAY = "2026-03-01T"
COLUMNS = {
    "JobID": "7",
    "User": "ann",
    "Partition": "batch",
    "State": "COMPLETED",
    "Submit": DAY + "10:00:00",
    "Start": DAY + "10:00:30",
    "End": DAY + "10:02:30",
    "Elapsed": "00:02:00",
    "Timelimit": "00:10:00",
    "AllocCPUS": "8",
    "ReqCPUS": "4",
    "SubmitLine": "sbatch job.sh",
}


def text(*jobs: dict[str, str], columns: dict[str, str] = COLUMNS, end: str = "") -> bytes:
    """sacct's output with a line per job; fields that a job does not set are those of `columns`."""
    lines = [columns, *({**columns, **job} for job in jobs)]
    rows = ["|".join(columns) + end] + ["|".join(line[c] for c in columns) + end for line in lines[1:]]
    return "\n".join(rows).encode() + b"\n"


def parse(*jobs: dict[str, str], **options: Any) -> tuple[pl.DataFrame, dict[str, int]]:
    frame, _, notes, _ = sacct.parse_sacct(text(*jobs, **options), "log")
    return frame, notes


def parse_one(**job: str) -> dict[str, Any]:
    """The row of a single job whose fields differ from `COLUMNS` as given."""
    frame, _ = parse(job)
    assert frame.height == 1
    return frame.row(0, named=True)


def test_a_job() -> None:
    frame, header, notes, _ = sacct.parse_sacct(text({}), "log")
    assert frame.schema == {**swf.SCHEMA, "state": pl.String}
    assert frame.rows() == [(7, 0, 30, 120, 8, -1, -1, 4, 600, -1, 1, 1, -1, -1, -1, 1, -1, -1, "COMPLETED")]
    assert header["UnixStartTime"] == "1772359200"
    assert header["Partition"] == "1 batch"
    assert notes == {}


def test_columns_may_come_in_any_order_and_with_a_bar_at_the_end() -> None:
    expected, _ = parse({})
    turned = dict(reversed(COLUMNS.items()))
    assert parse({}, columns=turned)[0].equals(expected)
    assert parse({}, end="|")[0].equals(expected)
    assert sacct.parse_sacct(text({}).replace(b"\n", b"\r\n"), "log")[0].equals(expected)


def test_raw_columns_are_preferred_and_few_suffice() -> None:
    columns = {
        "JobIDRaw": "9", "Submit": DAY + "10:00:00", "Start": DAY + "10:00:01", "ElapsedRaw": "77",
        "TimelimitRaw": "3", "NCPUS": "2",
    }  # fmt: skip
    frame, _ = parse({}, columns=columns)
    shown = ["job_number", "wait", "run_time", "allocated_processors", "requested_processors", "requested_time"]
    assert frame.select(shown).row(0) == (9, 1, 77, 2, 2, 180)
    assert frame["status"][0] == -1


def test_without_elapsed_the_run_time_follows_from_the_dates() -> None:
    columns = {name: value for name, value in COLUMNS.items() if name != "Elapsed"}
    assert parse({}, columns=columns)[0]["run_time"][0] == 120
    suspended, notes = parse({}, columns={**columns, "Suspended": "00:00:20"})
    assert suspended.select("run_time", "suspended").row(0) == (100, 20)
    assert notes == {"suspended": 1}


def test_submissions_count_from_the_first_in_the_files_order() -> None:
    frame, notes = parse({"JobID": "8", "Submit": DAY + "10:00:20"}, {"JobID": "7", "Submit": DAY + "10:00:05"})
    assert frame.select("job_number", "submit", "wait").rows() == [(8, 15, 10), (7, 0, 25)]
    assert notes == {"unsorted_submits": 1}


@pytest.mark.parametrize(
    ("limit", "seconds"),
    [
        ("00:01:30", 90),
        ("1-02:03:04", 93784),
        ("365-00:00:00", 31536000),
        ("UNLIMITED", -1),
        ("Partition_Limit", -1),
        ("INVALID", -1),
        ("", -1),
    ],
)
def test_time_limits(limit: str, seconds: float) -> None:
    assert parse_one(Timelimit=limit)["requested_time"] == seconds


@pytest.mark.parametrize(
    ("state", "status"),
    [
        ("COMPLETED", 1),
        ("FAILED", 0),
        ("TIMEOUT", 0),
        ("NODE_FAIL", 0),
        ("OUT_OF_MEMORY", 0),
        ("CANCELLED", 5),
        ("CANCELLED by 75200", 5),
        ("CANCELLED+", 5),
        ("OUT_OF_ME+", 0),
        ("?", -1),
    ],
)
def test_states(state: str, status: int) -> None:
    job = parse_one(State=state)
    assert (job["status"], job["run_time"]) == (status, 120)


@pytest.mark.parametrize(
    ("state", "note"),
    [("?", {"state_unknown": 1}), ("RESIZING", {}), ("BOOMED", {"state_unknown": 1})],
)
def test_states_that_are_counted(state: str, note: dict[str, int]) -> None:
    frame, notes = parse({"State": state})
    assert (frame["run_time"][0], notes) == (120, note)


@pytest.mark.parametrize("start", ["Unknown", "None", DAY + "10:02:30"])
def test_cancelled_while_it_waited(start: str) -> None:
    frame, notes = parse({"State": "CANCELLED by 5", "Start": start, "Elapsed": "00:00:00"})
    shown = frame.select("wait", "run_time", "allocated_processors", "requested_processors", "status")
    assert shown.row(0) == (150, -1, -1, 4, 5)
    assert notes["cancelled_before_start"] == 1


def test_the_end_that_truncate_prints_for_a_running_job_is_ignored() -> None:
    frame, notes = parse({"State": "RUNNING"})
    assert frame["run_time"][0] == -1
    assert notes == {"run_time_unknown": 1, "not_ended": 1}


@pytest.mark.parametrize(("state", "start", "wait"), [("RUNNING", DAY + "10:00:30", 30), ("PENDING", "Unknown", -1)])
def test_jobs_that_have_not_ended_have_no_run_time(state: str, start: str, wait: float) -> None:
    frame, notes = parse({"State": state, "Start": start, "End": "Unknown"})
    assert frame.select("wait", "run_time", "status").row(0) == (wait, -1, -1)
    assert notes["not_ended"] == 1


def test_steps_are_left_out_and_counted() -> None:
    steps = [{"JobID": f"7.{step}"} for step in ("batch", "extern", "0")]
    frame, notes = parse({}, *steps, {"JobID": "8"}, {"JobID": "8+0.0"})
    assert frame["job_number"].to_list() == [7, 8]
    assert notes == {"steps_left_out": 4}


@pytest.mark.parametrize("number", ["7", "7_3", "7_[1-9%2]", "7_[1.5]", "7+1"])
def test_arrays_and_heterogeneous_jobs(number: str) -> None:
    assert parse_one(JobID=number)["job_number"] == 7


@pytest.mark.parametrize("number", ["7_[1-4]", "7_[1-9%2]", "7_[1,3,5-900,...]"])
def test_a_pending_array_is_one_job_and_counted(number: str) -> None:
    frame, notes = parse({"JobID": number, "State": "PENDING", "Start": "Unknown", "End": "Unknown", "AllocCPUS": "0"})
    assert frame.select("job_number", "wait", "allocated_processors", "requested_processors").row(0) == (7, -1, -1, 4)
    assert (notes["pending_arrays"], notes["not_ended"]) == (1, 1)


def test_array_tasks_share_their_raw_numbers_in_the_order_of_tasks() -> None:
    columns = {"JobIDRaw": "", **COLUMNS}
    frame, notes = parse({"JobID": "7_1", "JobIDRaw": "8"}, {"JobID": "7_2", "JobIDRaw": "7"}, columns=columns)
    assert frame["job_number"].to_list() == [7, 8]
    assert notes == {}


def test_names_become_numbers() -> None:
    frame, notes = parse({"User": "zoe"}, {"User": "ann", "JobID": "8"}, {"User": "", "JobID": "9"})
    assert frame["user"].to_list() == [2, 1, -1]
    assert notes == {}


def test_a_job_without_a_submission_time_is_left_out_and_counted() -> None:
    frame, notes = parse({"Submit": "Unknown"}, {"JobID": "8"})
    assert frame["job_number"].to_list() == [8]
    assert notes["submission_unknown"] == 1


@pytest.mark.parametrize(
    ("submit", "start"),
    [
        ("2026-03-01T10:00:00+0000", "2026-03-01T11:00:30+0100"),
        ("2026-03-01T10:00:00Z", "2026-03-01T04:30:30-05:30"),
        ("2026-03-01 10:00:00", "2026-03-01 10:00:30"),
        ("1772359200", "2026-03-01T10:00:30Z"),
    ],
)
def test_dates_in_other_formats_and_zones(submit: str, start: str) -> None:
    frame, header, _, _ = sacct.parse_sacct(text({"Submit": submit, "Start": start}), "log")
    assert (frame["wait"][0], header["UnixStartTime"]) == (30, "1772359200")


def test_dates_as_unix_time() -> None:
    job = parse_one(Submit="1772359200", Start="1772359230", End="1772359350")
    assert (job["wait"], job["run_time"]) == (30, 120)


def test_processors_of_trackable_resources() -> None:
    columns = {name: value for name, value in COLUMNS.items() if name not in ("AllocCPUS", "ReqCPUS")}
    tres = {"ReqTRES": "billing=4,cpu=12,mem=4000M,node=2", "AllocTRES": "cpu=16,mem=4000M,node=2,gres/gpu:a100=4"}
    shown = ["allocated_processors", "requested_processors"]
    frame, _ = parse({}, columns={**columns, **tres})
    assert frame.select(*shown, "nodes").row(0) == (16, 12, 2)
    waits = {"State": "PENDING", "Start": "Unknown", "End": "Unknown", "AllocTRES": ""}
    assert parse(waits, columns={**columns, **tres})[0].select(*shown, "nodes").row(0) == (-1, 12, -1)
    assert parse({}, columns={**COLUMNS, **tres})[0].select(shown).row(0) == (8, 4)
    assert parse({"AllocCPUS": ""}, columns={**COLUMNS, **tres})[0].select(shown).row(0) == (16, 4)


@pytest.mark.parametrize(("nodes", "number"), [("3", 3), ("2K", 2048), ("1.5K", 1536), ("0", -1), ("", -1)])
def test_nodes(nodes: str, number: int) -> None:
    assert parse({}, columns={**COLUMNS, "NNodes": nodes})[0]["nodes"][0] == number


@pytest.mark.parametrize(
    ("memory", "kilobytes"),
    [
        ("4000M", 1_024_000),  # of the job, on 4 processors
        ("4000Mn", 2 * 1_024_000),  # of each of 2 nodes
        ("1Gc", 1 << 20),
        ("1.5G", 393_216),
        ("512", 131_072),
        ("1K", 0.25),
        ("0", -1),
        ("0n", -1),
        ("?", -1),
        ("", -1),
    ],
)
def test_requested_memory_is_kilobytes_per_processor(memory: str, kilobytes: float) -> None:
    frame, _ = parse({}, columns={**COLUMNS, "ReqNodes": "2", "ReqMem": memory})
    assert frame["requested_memory"][0] == kilobytes


def test_a_repeated_heading_is_skipped() -> None:
    frame, _, notes, _ = sacct.parse_sacct(text({}) + text({"JobID": "8"}), "log")
    assert frame["job_number"].to_list() == [7, 8]
    assert notes == {}


def test_bars_in_the_submit_line_are_repaired() -> None:
    command = "sbatch --wrap=env | grep SLURM | sort || true"
    frame, notes = parse({"SubmitLine": command}, {"JobID": "8"})
    assert frame.row(0) == parse({})[0].row(0)
    assert (frame.height, notes) == (2, {"lines_with_bars_mended": 1})
    front = {"SubmitLine": "", **COLUMNS}
    frame, notes = parse({"SubmitLine": command}, columns=front)
    assert frame.row(0) == parse({})[0].row(0)


def test_bars_in_several_columns_are_repaired_if_only_one_way_fits() -> None:
    columns = {**COLUMNS, "JobName": "j", "ExitCode": "0:0", "Comment": "c", "UID": "12"}
    frame, notes = parse({"SubmitLine": "a|b", "JobName": "x|y|", "Comment": "|z"}, columns=columns)
    assert frame.row(0) == parse({})[0].row(0)
    assert notes == {"lines_with_bars_mended": 1}


@pytest.mark.parametrize("end", ["", "|"])
@pytest.mark.parametrize("command", ["sbatch --wrap=a\nb", "sbatch --wrap=\n\na", "a\n\nsbatch\n"])
def test_line_breaks_in_the_submit_line_are_repaired(command: str, end: str) -> None:
    columns = {**COLUMNS, "Comment": ""}
    frame, notes = parse({"JobID": "6"}, {"SubmitLine": command}, {"JobID": "8"}, columns=columns, end=end)
    assert frame["job_number"].to_list() == [6, 7, 8]
    assert frame.drop("job_number").row(1) == frame.drop("job_number").row(0)
    assert notes == {"lines_with_breaks_mended": 1}


def test_line_breaks_in_a_last_column_submit_line_are_repaired() -> None:
    frame, notes = parse({"SubmitLine": "sbatch --wrap=a\nb\n\nc"}, {"JobID": "8"}, {"JobID": "9", "SubmitLine": "a|b\nc"})
    assert frame["job_number"].to_list() == [7, 8, 9]
    assert notes == {"lines_with_breaks_mended": 2, "lines_with_bars_mended": 1}


@pytest.mark.parametrize(
    "data", [text({}) + b"8", text({}) + b"8\n", text({}) + b"a cut line", text({}).replace(b"\n7", b"\nab\n7")]
)
def test_a_truncated_line_is_not_taken_as_the_end_of_a_submit_line(data: bytes) -> None:
    with pytest.raises(WrongUse, match=r"^trace: log line [23]: has 1 fields, the heading has 12; there may be a line break"):
        sacct.parse_sacct(data, "log")


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b"9|ann|batch|COMPL", "has 4 fields, the heading has 12; there may be a line break inside a field"),
        (b"9|ann|batch|8|ann|batch|COMPLETED|2026-03-01T10:00:00|x|y|z|1|2|3", "has 14 fields, the heading has 12: a '|' inside"),
        (b"9|ann|batch|COMPLETED|2026-03-01T10:0|||00:02:00|00:10:00|8|4|x", "Submit '2026-03-01T10:0' does not have the form"),
        (
            b"|ann|batch|COMPLETED|2026-03-01T10:00:00|||00:02:00|00:10:00|8|4|x",
            "JobID '' does not have the form that sacct prints",
        ),
    ],
)
def test_a_torn_line_is_left_out_and_told(line: bytes, fault: str) -> None:
    jobs = text(*({"JobID": str(number)} for number in range(1, 1001)))
    lines = jobs.split(b"\n")
    frame, _, notes, unread = sacct.parse_sacct(b"\n".join([*lines[:500], line, *lines[500:]]), "log")
    assert frame.equals(sacct.parse_sacct(jobs, "log")[0])
    assert notes == {}
    assert (unread.lines, unread.count) == (1001, 1)
    assert unread.in_words().startswith(f"1 of 1,001 lines could not be read: line 501: {fault}")


def test_torn_lines_one_after_another_do_not_take_a_whole_one_with_them() -> None:
    lines = text(*({"JobID": str(number)} for number in range(1, 9))).split(b"\n")
    command = b"|".join(lines[4].split(b"|")[:-1]) + b"|sbatch --wrap=a|b"
    torn = [lines[2][:30], lines[3][:60], command, lines[5][:20], lines[6]]
    frame, _, notes, unread = sacct.parse_sacct(b"\n".join([*lines[:2], *torn, *lines[7:]]), "log")
    assert frame["job_number"].to_list() == [1, 4, 6, 7, 8]
    assert notes == {"lines_with_bars_mended": 1}
    assert list(unread.faults) == [3, 4, 6]


def test_thousands_of_lines_are_not_joined_into_one_job() -> None:
    with pytest.raises(WrongUse, match=r"^trace: log line 2: has 1 fields"):
        sacct.parse_sacct(text() + b"no job\n" * 5000, "log")


def test_a_line_with_too_many_bars_is_refused() -> None:
    with pytest.raises(WrongUse, match=r"^trace: log line 2: has 5012 fields"):
        parse({"SubmitLine": "a|" * 5000})
    columns = {**COLUMNS, **dict.fromkeys(("JobName", "Comment", "WorkDir", "WCKey", "AdminComment"), "x")}
    frame, _ = parse({"SubmitLine": "a|" * 100}, columns=dict(reversed(columns.items())))
    assert frame.row(0) == parse({})[0].row(0)


def test_text_that_begins_like_a_compressed_file() -> None:
    columns = {"x^": "x^", **COLUMNS}
    assert parse({}, {"JobID": "8"}, columns=columns)[0]["job_number"].to_list() == [7, 8]


def test_a_column_that_occurs_twice() -> None:
    data = text({}).replace(b"\n", b"|7\n").replace(b"SubmitLine|7", b"SubmitLine|JobID", 1)
    assert sacct.parse_sacct(data, "log")[0].equals(parse({})[0])


def test_bars_that_cannot_be_repaired_unambiguously_are_refused() -> None:
    columns = {**COLUMNS, "JobName": "j", "NCPUS": "8", "Comment": "c"}
    with pytest.raises(WrongUse, match=r"^trace: log line 3: has 17 fields, the heading has 15: a '\|' inside"):
        parse({}, {"JobName": "j|8", "Comment": "16|c", "NCPUS": "8"}, columns=columns)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (text({}, {}).replace(b"\n7|", b"\n7", 1), "log line 2: has 11 fields, the heading has 12"),
        (text({}, {}).replace(b"COMPLETED", b"COMP\nLETED", 1), "log line 2: has 4 fields"),
        (text({}, {"SubmitLine": "x"})[:-30], "log line 3: has 7 fields"),
        (
            text({"Submit": "2026-02-30T10:00:00"}),
            "log line 2: Submit '2026-02-30T10:00:00' does not have the form that sacct prints; SLURM",
        ),
        (text({"Start": "10:00:30"}), "log line 2: Start '10:00:30' does not have the form that sacct prints; SLURM_TIME_FORMAT"),
        (text({"JobID": "1" * 20}), "log line 2: JobID '1111"),
        (text({"AllocCPUS": "\u0663"}), "log line 2: AllocCPUS"),
        (b"|".join(b"x%d" % n for n in range(400)) + b"|" + text({}), "log line 1: the heading has 412 columns"),
        (text({"Submit": "yesterday"}), "log line 2: Submit 'yesterday' does not have the form that sacct prints"),
        (text({}, {"AllocCPUS": "many"}), "log line 3: AllocCPUS 'many'"),
        (text({"Elapsed": "soon"}), "log line 2: Elapsed 'soon'"),
        (text(), "log: has no jobs"),
        (text({"JobID": "7.batch"}), "log: has no jobs"),
        (b"JobID|Start|NCPUS\n1||1\n", "log line 1: the heading of sacct's output lacks Submit, End or Elapsed"),
    ],
)
def test_malformed_output_is_refused_with_its_line(data: bytes, message: str) -> None:
    with pytest.raises(WrongUse, match=f"^trace: {message}"):
        sacct.parse_sacct(data, "log")


def test_real_sample() -> None:
    frame, header, notes, _ = sacct.read_sacct(real_log("ubhpc-sacct_dump2110.log"))
    assert notes == {"steps_left_out": 2, "lines_with_bars_mended": 5, "repeated_lines": 4}
    assert header["Queue"] == "1 qos001"
    job = (7957382, 0, 0, 56, 2, -1, -1, 1, 86400, 4000 * 1024, 5, 1, 1, -1, 1, 1, -1, -1)
    assert frame.select(swf.COLUMNS).rows() == [job]
    assert frame.select("suspended", "nodes", "state").row(0) == (0, 1, "CANCELLED")


def test_a_log_without_any_submission_has_no_jobs() -> None:
    data = b"JobID|State|Submit|Start|End|AllocCPUS\n7|COMPLETED||2026-03-01T10:00:31|2026-03-01T11:00:30|8\n"
    frame, header, notes, _ = sacct.parse_sacct(data, "log")
    assert (frame.height, header["UnixStartTime"], notes["submission_unknown"]) == (0, "0", 1)
