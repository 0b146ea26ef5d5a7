"""When processors are free again: lines as slurmctld writes them with DebugFlags=TraceJobs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from journals import start_event

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.collection.archive import of_manager
from slurm_mirage.rm.api import Freed
from slurm_mirage.rm.slurm.collected import of_other_host
from slurm_mirage.rm.slurm.daemon_log import Span, complaints
from slurm_mirage.rm.slurm.freed_processors import FREED_FILE, instants_in_log, instants_of_second, read, to_csv
from slurm_mirage.rm.slurm.records import SlurmRecords

# What 22.05.8 wrote, without some of the lines for each node.
LOG = """\
[2026-11-22T10:17:32.274] sched: Allocate JobId=2 NodeList=n[2-11] #CPUs=160 Partition=batch
[2026-11-22T10:17:36.126] _job_complete: JobId=2 WEXITSTATUS 0
[2026-11-22T10:17:36.137] TRACE_JOBS: deallocate_nodes: JobId=2
[2026-11-22T10:17:36.144] _job_complete: JobId=2 done
[2026-11-22T10:17:36.265] _job_complete: JobId=1 WEXITSTATUS 0
[2026-11-22T10:17:36.283] TRACE_JOBS: deallocate_nodes: JobId=1
[2026-11-22T10:17:37.207] TRACE_JOBS: job_epilog_complete: enter JobId=1
[2026-11-22T10:17:37.209] TRACE_JOBS: make_node_idle: enter JobId=1
[2026-11-22T10:17:37.210] TRACE_JOBS: cleanup_completing: JobId=1
[2026-11-22T10:17:38.437] TRACE_JOBS: job_epilog_complete: enter JobId=2
[2026-11-22T10:17:38.457] TRACE_JOBS: cleanup_completing: JobId=2
"""
BEGAN = 1795342656.0  # 2026-11-22T10:17:36
INSTANTS = {1: (BEGAN + 0.283, BEGAN + 1.210), 2: (BEGAN + 0.137, BEGAN + 2.457)}


def of_log(folder: Path, text: str | bytes, offset: int = 0) -> dict[int, tuple[float, float]]:
    (folder / "slurmctld.log").write_bytes(text.encode() if isinstance(text, str) else text)
    return instants_in_log(folder, offset)


def test_both_instants_of_each_job(tmp_path: Path) -> None:
    assert of_log(tmp_path, LOG) == INSTANTS
    assert instants_in_log(tmp_path / "nosuch", 0) == {}


def test_lines_of_before_the_run_and_unfinished_completions_do_not_count(tmp_path: Path) -> None:
    after = LOG.index("[2026-11-22T10:17:36.265]")
    assert of_log(tmp_path, LOG, after) == {1: INSTANTS[1]}
    assert of_log(tmp_path, LOG[: LOG.rindex("[")]) == {1: INSTANTS[1]}


def test_of_several_runs_of_a_job_the_last_one_counts(tmp_path: Path) -> None:
    again = LOG.replace("10:17:", "10:25:")
    assert of_log(tmp_path, LOG + again)[2] == (BEGAN + 480.137, BEGAN + 482.457)
    unfinished = again[: again.rindex("[")]
    assert of_log(tmp_path, LOG + unfinished).keys() == {1}


def test_jobs_that_the_second_slurmctld_freed(tmp_path: Path) -> None:
    """Its log has also lines of earlier runs. A job that both logs have ended last in the log with the later time."""
    begin = "[2026-11-22T10:17:00.000] slurmctld version 22.05.8 started\n"
    later = LOG.replace("10:17:", "10:25:").replace("JobId=1", "JobId=7")
    (tmp_path / "slurmctld2.log").write_text("no time\n" + LOG.replace("10:17:", "09:17:").replace("JobId=1", "JobId=9") + later)
    assert of_log(tmp_path, begin + LOG) == {
        1: INSTANTS[1],
        7: (BEGAN + 480.283, BEGAN + 481.210),
        2: (BEGAN + 480.137, BEGAN + 482.457),
    }


def test_jobs_that_a_second_slurmctld_on_another_host_freed(tmp_path: Path) -> None:
    """Its log has also lines of earlier runs; a job that ran on until it took over has its last end in one of both records."""
    log = tmp_path / "log"
    log.mkdir()
    assert of_other_host(tmp_path, BEGAN) == {}
    (log / "slurmctld2.log").write_text(LOG.replace("10:17:", "09:17:") + LOG.replace("JobId=1", "JobId=7"))
    assert instants_of_second(log, BEGAN) == {7: INSTANTS[1], 2: INSTANTS[2]}
    assert instants_of_second(log, BEGAN + 10) == {}
    of_second = of_other_host(tmp_path, BEGAN)[FREED_FILE]
    earlier = {2: (BEGAN - 9.0, BEGAN - 8.0), 1: INSTANTS[1]}
    for parts in (to_csv(earlier) + of_second, of_second + to_csv(earlier)):
        (tmp_path / FREED_FILE).write_text(parts)
        assert read(tmp_path).instants == {**INSTANTS, 7: INSTANTS[1]}


@pytest.mark.parametrize(
    ("ended", "freed"),
    [
        ("TRACE_JOBS: deallocate_nodes: JobId=6+1(7)", "TRACE_JOBS: cleanup_completing: JobId=6+1(7)"),
        ("deallocate_nodes:  JobId=7", "cleanup_completing:  JobId=7"),  # 20.02
        ("deallocate_nodes:  JobID=7 State=0x8003 NodeCnt=2", "cleanup_completing:  JobID=7 State=0x8003 NodeCnt=0"),  # 17.11
    ],
)
def test_other_kinds_of_jobs_and_other_releases(tmp_path: Path, ended: str, freed: str) -> None:
    text = f"[2026-11-22T10:17:36.000] {ended}\n[2026-11-22T10:17:36.500] {freed}\n"
    assert of_log(tmp_path, text) == {7: (BEGAN, BEGAN + 0.5)}


def test_a_task_of_a_job_array(tmp_path: Path) -> None:
    ended, freed = "TRACE_JOBS: deallocate_nodes: JobId=12_3(7)", "TRACE_JOBS: cleanup_completing: JobId=12_3(7)"
    text = f"[2026-11-22T10:17:36.000] {ended}\n[2026-11-22T10:17:36.500] {freed}\n"
    assert of_log(tmp_path, text) == {12_00000_00003: (BEGAN, BEGAN + 0.5)}


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=200), st.integers(0, len(LOG)))
def test_a_damaged_log_is_read_without_an_error(tmp_path_factory: pytest.TempPathFactory, damage: bytes, place: int) -> None:
    folder = tmp_path_factory.mktemp("log")
    found = of_log(folder, LOG[:place].encode() + damage + LOG[place:].encode())
    assert all(freed >= ended for ended, freed in found.values())
    assert of_log(folder, LOG.replace("11-22", "19-42")) == {}


def test_the_record_of_a_run(tmp_path: Path) -> None:
    (tmp_path / FREED_FILE).write_text(to_csv(INSTANTS))
    assert SlurmRecords().freed(tmp_path) == Freed(INSTANTS, "")
    (tmp_path / FREED_FILE).write_text(to_csv(INSTANTS) + "7,x,1.0\n8,1.0")
    assert read(tmp_path).instants == INSTANTS


def test_why_nothing_is_known(tmp_path: Path) -> None:
    assert read(tmp_path) == Freed({}, "the run has no freed.csv")
    (tmp_path / FREED_FILE).write_text(to_csv({}))
    reason = "slurmctld's log does not tell: it needs SlurmctldDebug=verbose and DebugFlags=TraceJobs"
    assert read(tmp_path) == Freed({}, reason)


def test_lines_of_nodes_are_no_complaints(tmp_path: Path) -> None:
    (tmp_path / "slurmctld.log").write_text(LOG + "[2026-11-22T10:17:39.000] error: Nodes n1 not responding\n")
    assert [one.kind for one in complaints(tmp_path, Span(0.0, BEGAN))] == ["node silent"]


def test_the_record_of_a_run_begins_with_the_run(tmp_path: Path) -> None:
    folder = tmp_path / "runs/r1"
    folder.mkdir(parents=True)
    (tmp_path / "log").mkdir()
    before = "[2026-11-22T10:00:00.000] TRACE_JOBS: deallocate_nodes: JobId=1\n"
    (tmp_path / "log/slurmctld.log").write_text(before + LOG)
    with pytest.raises(WrongUse, match=f"run=r1: it has not begun in {tmp_path}"):
        of_manager(tmp_path, "r1", None, has_accounting=False)

    start = start_event(virtual=BEGAN, controller_log_offset=len(before))
    (folder / "journal.jsonl").write_text(json.dumps(start) + "\n")
    (tmp_path / FREED_FILE).write_text(of_manager(tmp_path, "r1", None, has_accounting=False)[FREED_FILE])
    assert read(tmp_path).instants == INSTANTS
