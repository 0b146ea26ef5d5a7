"""Tests of joining the lines of sacct that tell of one job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mirage.metrics import metrics
from mirage.records.schedule import Schedule, read_schedule
from mirage.traces import sacct
from mirage.traces.trace import read_trace

HEADING = "JobID|Submit|Start|End|State|NCPUS"


def line(number: str | int, submit: str, start: str, end: str, state: str, processors: int = 1) -> str:
    """A line of sacct; instants are HH:MM:SS of 1 March, or D HH:MM:SS, or Unknown."""

    def date(text: str) -> str:
        day, _, clock = text.rpartition(" ")
        return text if text == "Unknown" else f"2026-03-{int(day or 1):02}T{clock}"

    return "|".join((str(number), date(submit), date(start), date(end), state, str(processors)))


def schedule(folder: Path, *lines: str) -> Schedule:
    path = folder / "log"
    path.write_text("\n".join((HEADING, *lines)) + "\n")
    return read_schedule(path)


def measured(read: Schedule) -> dict[str, Any]:
    return metrics.compute(read.jobs, 8, 8, executions=read.executions, allocations=read.allocations, suspensions=read.suspensions)


@pytest.mark.parametrize("state", ["REQUEUED", "PREEMPTED", "NODE_FAIL", "FAILED"])
def test_executions_of_a_job_are_one_job(state: str, tmp_path: Path) -> None:
    read = schedule(
        tmp_path,
        line(7, "08:00:00", "08:00:10", "09:00:10", state),
        line(8, "08:00:00", "08:00:10", "08:30:10", "COMPLETED"),
        line(7, "09:00:11", "09:02:11", "10:02:11", state),
        line(7, "10:02:12", "10:04:12", "10:34:12", "COMPLETED"),
    )
    assert read.jobs.select("id", "submit", "start", "end", "state").rows() == [
        (7, 0, 7452, 9252, "COMPLETED"),
        (8, 0, 10, 1810, "COMPLETED"),
    ]
    assert read.executions is not None
    assert read.executions.rows() == [(7, 10, 3610), (7, 3731, 7331)]
    assert read.notes["requeued"] == 2
    found = measured(read)
    assert found["jobs"]["completed"] == found["jobs"]["submitted"] == 2
    assert found["metrics"]["wasted_fraction"] == 7200 / 10800
    assert read_trace(tmp_path / "log").machine()[0] == 2


def test_a_number_that_is_given_again_is_another_job(tmp_path: Path) -> None:
    first = line(7, "08:00:00", "08:00:10", "09:00:10", "FAILED")
    apart = schedule(tmp_path, first, line(7, "9 08:00:00", "9 08:00:10", "9 09:00:10", "COMPLETED"))
    at_once = schedule(tmp_path, first, line(7, "08:30:00", "08:30:10", "08:40:10", "COMPLETED"))
    completed = schedule(tmp_path, first.replace("FAILED", "COMPLETED"), line(7, "09:00:11", "09:01:00", "09:02:00", "COMPLETED"))
    for read in (apart, at_once, completed):
        assert (read.jobs.height, read.executions) == (2, None)


@pytest.mark.parametrize("others", [[], [line(8, "08:00:00", "08:00:10", "08:30:10", "COMPLETED")]])
def test_siblings_that_ran_on_another_cluster_are_left_out(others: list[str], tmp_path: Path) -> None:
    """Their start and end are the start there; without other lines there is no job."""
    read = schedule(tmp_path, line(7, "08:01:00", "10:00:00", "10:00:00", "REVOKED"), *others)
    assert read.notes["revoked"] == 1
    assert read.jobs["id"].to_list() == [8] * len(others)


def test_a_job_that_comes_back_from_another_cluster_was_submitted_when_it_came(tmp_path: Path) -> None:
    read = schedule(
        tmp_path, line(7, "08:00:00", "08:10:00", "08:10:00", "REVOKED"), line(7, "09:00:00", "09:01:00", "09:31:00", "COMPLETED")
    )
    assert read.jobs.select("submit", "start", "end").row(0) == (0, 60, 1860) and read.executions is None


def test_jobs_of_several_clusters(tmp_path: Path) -> None:
    lines = [f"{line(7, '08:00:00', '08:00:10', '08:30:10', 'COMPLETED')}|{cluster}" for cluster in ("a", "b", "")]
    (tmp_path / "log").write_text("\n".join((f"{HEADING}|Cluster", *lines)))
    read = read_trace(tmp_path / "log")
    assert (read.frame.height, read.notes["clusters_taken_as_one_machine"]) == (3, 2)
    (tmp_path / "log").write_text("\n".join((f"{HEADING}|Cluster", *lines[:1])))
    assert "clusters_taken_as_one_machine" not in read_trace(tmp_path / "log").notes


def test_numbers_differ_where_executions_refer_to_them(tmp_path: Path) -> None:
    read = schedule(
        tmp_path,
        line(7, "08:00:00", "08:00:10", "09:00:10", "REQUEUED"),
        line(7, "09:00:11", "09:02:11", "10:02:11", "COMPLETED"),
        line(7, "9 08:00:00", "9 08:00:10", "9 09:00:10", "COMPLETED"),
    )
    assert read.jobs["id"].to_list() == [7, 8]
    assert read.executions is not None
    assert read.executions["job"].to_list() == [7]


@pytest.mark.parametrize(
    "rest",
    [[], [line(7, "09:00:11", "Unknown", "Unknown", "PENDING")], [line(7, "09:00:11", "Unknown", "Unknown", "REQUEUE_HOLD")]],
)
def test_a_job_that_waits_after_its_last_execution(rest: list[str], tmp_path: Path) -> None:
    state = "PREEMPTED" if rest else "REQUEUED"
    other = line(8, "08:00:00", "08:00:10", "10:00:10", "COMPLETED")
    found = measured(schedule(tmp_path, line(7, "08:00:00", "08:00:10", "09:00:10", state), *rest, other))
    assert found["censored"] == {"jobs": 1, "share": 0.5}
    assert (found["jobs"]["completed"], found["jobs"]["other"]) == (1, 1)
    assert found["metrics"]["wasted_fraction"] == pytest.approx(3600 / 10800)


def test_a_job_that_is_cancelled_in_the_queue_after_a_requeue(tmp_path: Path) -> None:
    found = measured(
        schedule(
            tmp_path,
            line(7, "08:00:00", "08:00:10", "09:00:10", "PREEMPTED"),
            line(7, "09:00:11", "Unknown", "09:30:00", "CANCELLED by 5"),
            line(8, "08:00:00", "08:00:10", "10:00:10", "COMPLETED"),
        )
    )
    assert found["excluded"] == {"cancelled in the queue after a requeue": 1}
    assert found["censored"]["jobs"] == 1


def test_a_job_in_two_outputs_is_one_job(tmp_path: Path) -> None:
    """The output of each month has the jobs of that month, as they were then."""
    read = schedule(
        tmp_path,
        line(7, "08:00:00", "08:00:10", "Unknown", "RUNNING"),
        line(9, "08:00:00", "Unknown", "Unknown", "PENDING"),
        line(5, "08:00:00", "08:10:00", "08:20:00", "FAILED"),
        HEADING,
        line(5, "08:00:00", "08:10:00", "08:20:00", "FAILED"),
        line(7, "08:00:00", "08:00:10", "10:00:10", "COMPLETED"),
        line(9, "08:00:00", "09:00:00", "10:00:10", "TIMEOUT"),
    )
    assert read.jobs.select("id", "start", "end", "state").rows() == [
        (5, 600, 1200, "FAILED"),
        (7, 10, 7210, "COMPLETED"),
        (9, 3600, 7210, "TIMEOUT"),
    ]
    assert (read.executions, read.notes["repeated_lines"]) == (None, 3)


def test_array_tasks_are_jobs_of_their_own(tmp_path: Path) -> None:
    tasks = [line(f"7_{task}", "08:00:00", f"08:0{task}:00", "09:00:10", "FAILED") for task in range(3)]
    assert schedule(tmp_path, *tasks).jobs.height == 3


def test_jobs_of_two_clusters_are_not_joined(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(
        f"Cluster|{HEADING}\n"
        f"a|{line(7, '08:00:00', '08:00:10', '09:00:10', 'FAILED')}\n"
        f"b|{line(7, '09:00:11', '09:02:11', '10:02:11', 'COMPLETED')}\n"
    )
    assert read_schedule(tmp_path / "log").jobs.height == 2


def test_the_parts_of_an_execution_that_changed_its_size_are_one_execution(tmp_path: Path) -> None:
    read = schedule(
        tmp_path,
        line(7, "08:00:00", "08:00:10", "09:00:10", "RESIZING", 4),
        line(7, "08:00:00", "09:00:10", "10:00:10", "COMPLETED", 2),
    )
    assert read.jobs.select("start", "end", "processors").rows() == [(10, 7210, 4)]
    assert read.allocations is not None
    assert read.allocations.rows() == [(7, 3610, None, 2)]
    assert read.executions is None
    assert measured(read)["metrics"]["utilisation"] == pytest.approx((4 * 3600 + 2 * 3600) / (8 * 7210))


def test_41_lines_of_40_jobs(tmp_path: Path) -> None:
    jobs = [line(number, "08:00:00", "08:00:10", "09:00:10", "COMPLETED") for number in range(1, 41)]
    again = [jobs[0].replace("COMPLETED", "PREEMPTED"), line(1, "09:00:10", "09:01:00", "09:30:00", "COMPLETED")]
    read = schedule(tmp_path, *again, *jobs[1:])
    assert (len(again) + len(jobs[1:]), read.jobs.height) == (41, 40)


def _log(*rows: tuple[str, int, int, int, int, int, str], line: str = "sbatch --ntasks=1 script") -> bytes:
    heading = "JobID|JobIDRaw|Submit|Eligible|Start|End|State|AllocCPUS|SubmitLine"
    lines = ["|".join(map(str, (row[0], row[1], *(10**9 + instant for instant in row[2:6]), row[6], 1, line))) for row in rows]
    return "\n".join([heading, *lines, ""]).encode()


def test_tasks_have_the_numbers_of_their_array_in_order() -> None:
    # Slurm gives the array's own number to the last task that starts.
    rows = [("49_0", 50, 101), ("49_1", 51, 101), ("49_3", 49, 300), ("49_2", 60, 160)]
    log = _log(
        *((name, raw, 100, start, start, start + 50, "COMPLETED") for name, raw, start in rows),
        ("61", 61, 100, 100, 100, 150, "COMPLETED"),
        line="sbatch --array=0-3%2 script",
    )
    frame = sacct.parse_sacct(log, "log")[0].sort("job_number")
    assert frame.select("job_number", "array_task").rows() == [(49, 0), (50, 1), (51, 2), (60, 3), (61, None)]
    # They wait for each other, and not for an instant.
    assert "begin" not in frame.columns and frame["not_played"].to_list() == [["array_limit"]] * 5


def test_a_requeued_job_has_no_begin_time() -> None:
    rows = [("7", 7, 100, 100, 100, 200, "NODE_FAIL"), ("7", 7, 200, 321, 330, 400, "COMPLETED")]
    frame = sacct.parse_sacct(_log(*rows), "log")[0]
    assert frame["job_number"].to_list() == [7] and "not_played" not in frame.columns and "begin" not in frame.columns
    later = [("7", 7, 100, 900, 900, 950, "COMPLETED")]
    assert sacct.parse_sacct(_log(*later), "log")[0]["not_played"].to_list() == [["begin"]]
