"""Tests of reading events of slurm_sim_tools."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.records.schedule import read_schedule
from mirage.traces.trace import Trace, read_trace
from mirage.workloads.requests import names
from slurm_mirage.base.errors import WrongUse

WEEK = """# the week
-dt   10.50 -e submit_batch_job | -sim-walltime  100.50 --uid=u2 -J jobid_00007 -N1 -n 32 -t 3-0 -qgeneral -p main --mem=500G a.job

-dt         10.75 -e submit_batch_job | -sim-walltime   -1 --uid=u1 -J job_8 -N2 -n18 -t 90 -q debug -p gpus --mem-per-cpu=2G a.job
-dt 11 -e submit_batch_job | -jid 12 -sim-walltime 0 --uid=u1 -A lab -t 00:07:00 -N 4 --ntasks-per-node=12 -c 2 -C CPU-N a.job
-dt 12 -e submit_batch_job | -sim-walltime 300 -cancel-in 10.5 --uid=u1 -J name -t 5:00 --gres=gpu:2 --exclusive a.job -x 7
"""
COLUMNS = (
    "job_number", "submit", "wait", "run_time", "requested_processors", "requested_time", "requested_memory", "user", "status",
)  # fmt: skip


def read(text: str, folder: Path, name: str = "w.events") -> Trace:
    (folder / name).write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return read_trace(folder / name)


@pytest.mark.parametrize("name", ["w.events", "w.gz"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_file(end: str, name: str, tmp_path: Path) -> None:
    log = read(WEEK.replace("\n", end), tmp_path, name)
    assert log.format == "events"
    assert log.frame.select(COLUMNS).rows() == [
        (7, 10.5, -1, 100.5, 32, 259200, 500 * 1024**2 / 32, 2, -1),
        (8, 10.75, -1, 5400, 18, 5400, 2 * 1024**2, 1, -1),
        (12, 11, -1, 0, 96, 420, -1, 1, -1),
        (6, 12, 10.5, -1, 1, 300, -1, 1, 5),
    ]
    assert log.frame["request"].to_list() == [
        "nodes=1 tasks=32 memory_per_node=512000", "nodes=2 tasks=18",
        "nodes=4 cpus_per_task=2 tasks_per_node=12 constraint=CPU-N", "exclusive=1 gres=gpu:2",
    ]  # fmt: skip
    kinds = [["node_count"], ["node_count"], ["constraint", "node_count", "tasks"], ["gres", "exclusive"]]
    assert [set(found) for found in log.frame["not_played"].to_list()] == [set(one) for one in kinds]
    assert log.frame["account"].to_list() == [None, None, "lab", None]
    assert log.frame.with_columns(names(log)).select("partition_name", "qos_name").rows() == [
        ("main", "general"), ("gpus", "debug"), ("", ""), ("", ""),
    ]  # fmt: skip
    assert log.notes["runs_until_its_limit"] == 1 and log.unread.count == 0
    assert "not_ended" not in log.notes and log.machine()[0] == 96


def test_it_has_no_schedule(tmp_path: Path) -> None:
    read(WEEK, tmp_path)
    jobs = read_schedule(tmp_path / "w.events").jobs
    assert jobs["start"].null_count() == jobs.height == 4
    assert jobs["state"].to_list() == [None, None, None, "CANCELLED"]


def test_arguments_that_are_not_read_are_counted_by_name(tmp_path: Path) -> None:
    line = "-dt 1 -e submit_batch_job | -sim-walltime 5 -n 1 -t 5 --comment=x"
    others = ("--frob=1", "--frob=2 --hold", "--é=3 -Y", "--begin=now+1hour", "--reboot")
    text = "".join(f"{line} {more} a.job\n" for more in others)
    log = read(text, tmp_path)
    counted = {note: count for note, count in log.notes.items() if note.startswith("argument")}
    assert counted == {"argument_--frob_not_read": 2, "argument_-Y_not_read": 1, "argument_of_others_not_read": 1}
    assert log.frame["not_played"].to_list() == [[], [], [], ["begin"], ["other_option"]]


def test_what_is_no_submission_is_left_out(tmp_path: Path) -> None:
    good = "-dt 1 -e submit_batch_job | -sim-walltime 5 -n 1 a.job\n"
    log = read(good * 3 + "-dt 2 -e node_down | n1\n" + "-dt x -e submit_batch_job | -n 1 a.job\n", tmp_path)
    assert log.frame.height == 3 and (log.unread.lines, log.unread.count) == (5, 2)
    assert log.unread.faults == {
        4: "the event 'node_down' is not read, only submit_batch_job is",
        5: "'-dt x -e submit_batch_job | -n' is not -dt SECOND -e submit_batch_job | ARGUMENTS",
    }
    with pytest.raises(WrongUse, match="line 1: the event 'wait' is not read"):
        read("-dt 2 -e wait | 1\n", tmp_path)


numbers = st.integers(0, 10**6)


job = st.tuples(numbers, numbers, st.integers(1, 500), st.integers(1, 9), st.integers(1, 64), numbers)


@given(st.lists(job, min_size=1, max_size=9))
def test_any_jobs(jobs: list[tuple[int, int, int, int, int, int]]) -> None:
    text = "".join(
        f"-dt {at / 4:.2f} -e submit_batch_job | -J jobid_{place} -sim-walltime {runs / 4:.2f} --uid=u{place % 2} "
        f"-N {nodes} -n {nodes * each} -t {minutes} --mem={memory}M a.job\n"
        for place, (at, runs, minutes, nodes, each, memory) in enumerate(jobs)
    )
    with tempfile.TemporaryDirectory() as folder:
        frame = read(text, Path(folder)).frame
    columns = ("job_number", "submit", "run_time", "requested_processors", "requested_time", "requested_memory")
    assert frame.select(columns).rows() == [
        (place, at / 4, runs / 4, nodes * each, minutes * 60, memory * 1024 / each if memory else -1)
        for place, (at, runs, minutes, nodes, each, memory) in enumerate(jobs)
    ]
