"""Why jobs waited: runs in which each cause occurs alone for a known time, and spans that cover each wait once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirage.metrics.jobs_frame import EXECUTIONS_SCHEMA, JOBS_SCHEMA, SUSPENSIONS_SCHEMA
from mirage.records.cluster_events import Absence, ClusterEvents, Reservation, RunEvent
from mirage.records.machine_room import condensed, during
from mirage.records.record import PLACEMENTS_SCHEMA, RunRecord, Tables
from mirage.records.time_map import TimeMap
from mirage.records.wait_causes import CAUSES, WAITS_SCHEMA, read_reasons, summary, waits, with_told_limits
from slurm_mirage.base.hostlist import expand
from slurm_mirage.clock.clock import Clock
from slurm_mirage.jobs import arrays
from slurm_mirage.jobs.plan import PlanRow
from slurm_mirage.replay.actions import DONE
from slurm_mirage.rm.evidence import Layout, Node, Scheduling, WaitWord
from slurm_mirage.rm.slurm.records import SlurmRecords

NODES = frozenset({"n1", "n2", "n3", "n4"})
LAYOUT = Layout({name: Node(4) for name in sorted(NODES)}, {"batch": NODES, "half": frozenset({"n1", "n2"})})
INTERVAL = 30.0
ZERO = 1_000_000_000.0
"""Virtual seconds of instant 0 of the trace."""
TIME = TimeMap(Clock(0, round(ZERO * 1e9)), 0.0)
MULTIFACTOR = Scheduling(backfills=True, start_delay=4.0)
IN_ORDER = replace(MULTIFACTOR, by_submission=True)
ALL = "n[1-4]"
HEADING = "virtual,job_id,about,reason"
INSTANTS = st.integers(0, 400).map(lambda eighths: eighths / 8)


class Made:
    """A run of jobs on four nodes with four processors each."""

    def __init__(self) -> None:
        self.jobs: list[dict[str, Any]] = []
        self.plan: list[PlanRow] = []
        self.placements: list[dict[str, Any]] = []
        self.executions: list[dict[str, Any]] = []
        self.suspensions: list[dict[str, Any]] = []
        self.reasons: list[tuple[float, int, str]] = []
        self.unreached: list[tuple[float, int, str]] = []
        self.events = ClusterEvents()
        self.layout = LAYOUT

    def job(
        self,
        submit: float,
        start: float | None,
        end: float | None,
        hosts: str = "",
        *,
        processors: int = 4,
        nodes: int | None = None,
        limit: float = 3600.0,
        partition: str = "batch",
        eligible: float | None = None,
        lag: float = 0.0,
        state: str = "COMPLETED",
        **plan: Any,
    ) -> int:
        number = len(self.jobs) + 1
        times = {"submit": submit, "eligible": submit if eligible is None else eligible, "start": start, "end": end}
        self.jobs.append(
            {"id": number, **times, "processors": processors, "state": state, "submit_lag": lag, "partition": partition,
             "runtime": 10.0, "limit": limit}
        )  # fmt: skip
        row = PlanRow(number - 1, number, submit, processors, nodes, 10.0, 60, None, "", f"r.{number}")
        self.plan.append(replace(row, **plan))
        if hosts:
            self.placements.append({"job": number, "start": start, "end": end, "hosts": hosts, "processors": processors})
        return number

    def collected(self) -> RunRecord:
        evidence = pl.DataFrame(self.jobs).select("id", "limit", user=pl.col("id") % 2, slurm_id=pl.col("id") + 100)
        return RunRecord(
            jobs=self.frame(),
            evidence=evidence,
            time=TIME,
            tables=Tables(
                suspensions=pl.DataFrame(self.suspensions, schema=SUSPENSIONS_SCHEMA),
                executions=pl.DataFrame(self.executions, schema=EXECUTIONS_SCHEMA),
                placements=pl.DataFrame(self.placements, schema=PLACEMENTS_SCHEMA),
            ),
            events=self.events,
        )

    def frame(self) -> pl.DataFrame:
        return pl.DataFrame([{name: job.get(name) for name in JOBS_SCHEMA} for job in self.jobs], schema=JOBS_SCHEMA)

    def waits(self, folder: Path, scheduling: Scheduling = MULTIFACTOR) -> pl.DataFrame:
        rows = [(at, job, "reason", reason) for at, job, reason in self.reasons]
        rows += [(at, job, "backfill", setting) for at, job, setting in self.unreached]
        lines = "".join(f"{ZERO + at:.3f},{100 + job},{about},{reason}\n" for at, job, about, reason in sorted(rows))
        (folder / "reasons.csv").write_text(f"{HEADING}\n{lines}")
        ids = self.collected().evidence.select("id", "slurm_id")
        reasons = read_reasons(folder / "reasons.csv", TIME, SlurmRecords(), ids)
        return waits(self.collected(), self.plan, self.frame(), reasons, self.layout, scheduling, INTERVAL)

    def of(self, job: int, folder: Path, scheduling: Scheduling = MULTIFACTOR) -> list[tuple[float, float, str]]:
        """The spans of a job: from, to, cause."""
        return self.waits(folder, scheduling).filter(pl.col("job") == job).select("from", "to", "cause").rows()


@pytest.fixture
def made() -> Made:
    return Made()


def busy(made: Made, until: float = 100.0) -> None:
    """A job that has the whole machine."""
    made.job(0.0, 0.0, until, ALL, processors=16, nodes=4)


def event(action: str, target: str, played: float) -> RunEvent:
    return RunEvent(0, played, action, target, "", "", DONE, played, played, None, "")


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("Resources", "resources"),
        ("Priority", "resources"),
        ("None", "resources"),
        ("Licenses", "licence"),
        ("QOSMaxCpuPerUserLimit", "user limit"),
        ("AssocMaxJobsLimit", "user limit"),
        ("AssocGrpCpuLimit", "account limit"),
        ("QOSGrpNodeLimit", "QOS limit"),
        ("PartitionNodeLimit", "partition limit"),
        ("JobArrayTaskLimit", "array limit"),
        ("JobHeldUser", "held"),
        ("Reservation", "reservation"),
        ("ReqNodeNotAvail UnavailableNodes", "nodes down"),
    ],
)
def test_what_slurm_says_while_the_machine_is_full(made: Made, tmp_path: Path, reason: str, cause: str) -> None:
    busy(made)
    job = made.job(10.0, 100.0, 110.0, "n1", nodes=1)
    made.reasons = [(10.5, job, reason)]
    assert made.of(job, tmp_path) == [(10.0, 100.0, cause)]
    told = made.waits(tmp_path)["reason"].to_list()
    assert told == [reason if cause not in ("resources", "priority", "held") else ""]


def test_without_slurms_words_the_order_says_who_is_next(made: Made, tmp_path: Path) -> None:
    busy(made)
    first = made.job(10.0, 100.0, 200.0, ALL, processors=16, nodes=4)
    second = made.job(20.0, 200.0, 210.0, ALL, processors=16, nodes=4)
    assert made.of(first, tmp_path, IN_ORDER) == [(10.0, 100.0, "resources")]
    assert made.of(second, tmp_path, IN_ORDER) == [(20.0, 100.0, "priority"), (100.0, 200.0, "resources")]
    assert made.of(second, tmp_path) == [(20.0, 200.0, "resources")]


def test_reasons_change_while_a_job_waits(made: Made, tmp_path: Path) -> None:
    busy(made)
    job = made.job(10.0, 100.0, 110.0, "n1", nodes=1)
    wide = made.job(9.0, 200.0, 210.0, ALL, processors=16, nodes=4)
    made.reasons = [(12.0, job, "Priority"), (40.0, job, "QOSGrpNodeLimit"), (70.0, job, "Resources"), (12.0, wide, "Resources")]
    assert made.of(job, tmp_path) == [(10.0, 40.0, "priority"), (40.0, 70.0, "QOS limit"), (70.0, 100.0, "resources")]


def test_processors_that_are_free_on_too_many_nodes(made: Made, tmp_path: Path) -> None:
    made.job(0.0, 0.0, 100.0, ALL, processors=4)
    whole = made.job(10.0, 100.0, 110.0, "n1", nodes=1)
    dense = made.job(10.0, 100.0, 110.0, "n2", processors=4, request="nodes=1 tasks=1 cpus_per_task=4")
    many = made.job(10.0, 100.0, 110.0, "n3", processors=8, request="cpus_per_task=4 tasks=2")
    made.reasons = [(10.0, job, "Resources") for job in (whole, dense, many)]
    for job in (whole, dense, many):
        assert made.of(job, tmp_path) == [(10.0, 100.0, "fragmentation")]


def test_nodes_that_events_took_out_of_service(made: Made, tmp_path: Path) -> None:
    made.events = ClusterEvents(absences=[Absence(0, "down", frozenset({"n1", "n2"}), 0.0, 60.0)])
    job = made.job(10.0, 60.0, 70.0, "n[1-3]", processors=12, nodes=3)
    other = made.job(10.0, 60.0, 70.0, "n1", partition="half", nodes=1)
    made.reasons = [(10.0, job, "Resources"), (10.0, other, "Nodes required for job are DOWN DRAINED")]
    assert made.of(job, tmp_path) == [(10.0, 60.0, "nodes down")]
    assert made.of(other, tmp_path) == [(10.0, 60.0, "nodes down")]


def test_a_reservation_in_force_and_one_to_come(made: Made, tmp_path: Path) -> None:
    made.events = ClusterEvents(reservations=[Reservation(0, "m", 0.0, 50.0, 80.0, NODES, True)])
    long = made.job(10.0, 80.0, 90.0, "n1", nodes=1, limit=100.0)
    short = made.job(10.0, 80.0, 90.0, "n2", nodes=1, limit=5.0)
    made.reasons = [(10.0, long, "Resources"), (10.0, short, "Resources")]
    assert made.of(long, tmp_path) == [(10.0, 80.0, "reservation")]
    # The short job fitted before the reservation until 45.
    assert made.of(short, tmp_path) == [(10.0, 45.0, "cycle"), (45.0, 80.0, "reservation")]


def test_dependency_begin_and_holds(made: Made, tmp_path: Path) -> None:
    dependent = made.job(10.0, 62.0, 70.0, "n1", eligible=60.0, dependency="afterany:1")
    begin = made.job(10.0, 42.0, 70.0, "n2", eligible=40.0, request="begin=30")
    held = made.job(10.0, 42.0, 70.0, "n3", request="hold=30")
    by_event = made.job(10.0, 62.0, 70.0, "n4")
    told = made.job(10.0, 62.0, 70.0, "n4", eligible=60.0)
    made.events = ClusterEvents([event("hold", str(by_event), 12.0), event("release-job", str(by_event), 60.0)])
    made.reasons = [(11.0, told, "Dependency"), (11.0, held, "JobHeldUser"), (61.0, by_event, "None")]
    assert made.of(dependent, tmp_path) == [(10.0, 60.0, "dependency"), (60.0, 62.0, "cycle")]
    assert made.of(begin, tmp_path) == [(10.0, 40.0, "begin"), (40.0, 42.0, "cycle")]
    assert made.of(held, tmp_path) == [(10.0, 40.0, "held"), (40.0, 42.0, "cycle")]
    assert made.of(by_event, tmp_path) == [(10.0, 12.0, "cycle"), (12.0, 60.0, "held"), (60.0, 62.0, "cycle")]
    assert made.of(told, tmp_path) == [(10.0, 60.0, "dependency"), (60.0, 62.0, "cycle")]


def test_tasks_of_an_array_with_a_limit(made: Made, tmp_path: Path) -> None:
    first = made.job(0.0, 0.0, 50.0, "n1", array=7, at_once=1)
    second = made.job(0.0, 52.0, 100.0, "n1", array=7, at_once=1)
    third = made.job(0.0, 101.0, 110.0, "n1", array=7, at_once=1)
    made.job(0.0, 40.0, 110.0, "n2", array=8, at_once=2)
    assert made.of(first, tmp_path) == []
    assert made.of(second, tmp_path) == [(0.0, 50.0, "array limit"), (50.0, 52.0, "cycle")]
    spans = [(0.0, 50.0, "array limit"), (50.0, 52.0, "cycle"), (52.0, 100.0, "array limit"), (100.0, 101.0, "cycle")]
    assert made.of(third, tmp_path) == spans
    assert "array limit" not in made.waits(tmp_path).filter(pl.col("job") == 4)["cause"].to_list()


def test_a_partition_that_events_close(made: Made, tmp_path: Path) -> None:
    closed = made.job(10.0, 62.0, 70.0, "n1", partition="half")
    other = made.job(10.0, 12.0, 70.0, "n3")
    states = [("State=DOWN", 5.0), ("MaxTime=1:00:00", 20.0), ("state=UP", 60.0)]
    made.events = ClusterEvents([replace(event("set", "partition half", at), argument=words) for words, at in states])
    assert made.of(closed, tmp_path) == [(10.0, 60.0, "partition limit"), (60.0, 62.0, "cycle")]
    assert made.of(other, tmp_path) == [(10.0, 12.0, "cycle")]


def test_the_next_cycle_and_what_nothing_explains(made: Made, tmp_path: Path) -> None:
    soon = made.job(10.0, 10.0 + INTERVAL, 90.0, "n1")
    late = made.job(10.0, 80.0, 90.0, "n2")
    asks = made.job(10.0, 80.0, 90.0, "n3", request="gres=gpu:1")
    made.reasons = [(10.0, asks, "Resources")]
    assert made.of(soon, tmp_path) == [(10.0, 40.0, "cycle")]
    assert made.of(late, tmp_path) == [(10.0, 80.0, "unexplained")]
    assert made.of(asks, tmp_path) == [(10.0, 80.0, "resources")]
    made.reasons.append((10.0, late, "None"))
    assert made.of(late, tmp_path) == [(10.0, 80.0, "backfill")]


def test_a_submission_that_took_long(made: Made, tmp_path: Path) -> None:
    job = made.job(10.0, 22.0, 30.0, "n1", lag=10.0, eligible=20.0)
    assert made.of(job, tmp_path) == [(10.0, 20.0, "submission"), (20.0, 22.0, "cycle")]


def behind_a_wide_job(made: Made) -> tuple[int, int]:
    """Jobs that would fit while the first job of the queue waits for the whole machine."""
    made.job(0.0, 0.0, 100.0, "n1", nodes=1, owner="a")
    made.job(5.0, 100.0, 110.0, ALL, processors=16, nodes=4, owner="a")
    one = made.job(10.0, 110.0, 120.0, "n1", nodes=1, limit=9000.0, owner="b")
    two = made.job(11.0, 120.0, 130.0, "n2", nodes=1, limit=600.0, owner="b")
    made.reasons = [(12.0, 2, "Resources"), (12.0, one, "Priority"), (12.0, two, "Priority")]
    return one, two


def test_jobs_that_backfill_did_not_reach(made: Made, tmp_path: Path) -> None:
    one, two = behind_a_wide_job(made)
    made.unreached = [(20.0, two, "bf_max_job_test"), (50.0, two, "")]
    assert made.of(one, tmp_path) == [(10.0, 100.0, "priority"), (100.0, 110.0, "resources")]
    spans = [(11.0, 20.0, "priority"), (20.0, 50.0, "backfill"), (50.0, 100.0, "priority")]
    assert made.of(two, tmp_path) == [*spans, (100.0, 110.0, "resources"), (110.0, 120.0, "cycle")]
    assert "bf_max_job_test" in made.waits(tmp_path)["reason"].to_list()


def test_a_job_beyond_the_window_is_not_kept_from_starting(made: Made, tmp_path: Path) -> None:
    one, _ = behind_a_wide_job(made)
    made.unreached = [(20.0, one, "bf_window")]
    spans = made.waits(tmp_path).filter(pl.col("job") == one)
    assert spans.select("from", "to", "cause", "reason").rows() == [
        (10.0, 20.0, "priority", ""),
        (20.0, 100.0, "priority", "bf_window"),
        (100.0, 110.0, "resources", "bf_window"),
    ]


def test_the_tasks_of_an_array_that_wait_have_its_reason(tmp_path: Path) -> None:
    path = tmp_path / "reasons.csv"
    path.write_text(f"{HEADING}\n{ZERO},-7,reason,Resources\n{ZERO + 1},{arrays.task_id(7, 2)},reason,Priority\n")
    ids = pl.DataFrame({"id": [1, 2, 3], "slurm_id": [arrays.task_id(7, 1), arrays.task_id(7, 2), 7]})
    found = read_reasons(path, TIME, SlurmRecords(), ids).select("job", "time", "word").rows()
    assert found == [(1, 0.0, "no room"), (2, 0.0, "no room"), (2, 1.0, "ahead")]


def test_a_job_that_was_put_back_waits_twice(made: Made, tmp_path: Path) -> None:
    busy(made, 50.0)
    job = made.job(10.0, 120.0, 130.0, "n1", nodes=1)
    made.executions = [{"job": job, "start": 50.0, "end": 70.0}]
    made.placements.append({"job": 1, "start": 70.0, "end": 120.0, "hosts": ALL, "processors": 16})
    made.reasons = [(10.0, job, "QOSGrpNodeLimit"), (75.0, job, "Resources")]
    assert made.of(job, tmp_path) == [(10.0, 50.0, "QOS limit"), (70.0, 120.0, "resources")]


def test_a_suspended_job_leaves_its_nodes(made: Made, tmp_path: Path) -> None:
    busy(made, 300.0)
    made.suspensions = [{"job": 1, "suspend": 100.0, "resume": 150.0}]
    job = made.job(10.0, 310.0, 320.0, "n1", nodes=1)
    made.reasons = [(10.0, job, "Resources")]
    assert made.of(job, tmp_path) == [
        (10.0, 100.0, "resources"), (100.0, 150.0, "unexplained"), (150.0, 300.0, "resources"), (300.0, 310.0, "cycle"),
    ]  # fmt: skip


def test_jobs_whose_wait_has_no_end_are_left_out(made: Made, tmp_path: Path) -> None:
    busy(made)
    waiting = made.job(10.0, None, None, state="PENDING")
    cancelled = made.job(10.0, None, 60.0, state="CANCELLED")
    made.job(10.0, None, None, state="LOST")
    assert made.of(waiting, tmp_path) == []
    assert made.of(cancelled, tmp_path) == [(10.0, 60.0, "resources")]


def test_only_jobs_that_waited_for_a_limit_are_limited(made: Made) -> None:
    """Without reasons all jobs under an account may have: the manager may not have told."""
    for _ in range(5):
        made.job(0.0, 5.0, 50.0)
    run = made.collected()
    run = replace(run, evidence=run.evidence.with_columns(limited=pl.col("id") > 1, array=pl.Series([None, None, None, 4, 4])))
    said = {1: WaitWord.AHEAD, 2: WaitWord.NO_ROOM, 3: WaitWord.QOS, 4: WaitWord.LICENCE}
    reasons = pl.DataFrame({"job": list(said), "word": [word.value for word in said.values()]})
    told, untold = with_told_limits(run, reasons), with_told_limits(run, reasons.clear())
    assert told.manager.limits_told and told.evidence["limited"].to_list() == [False, False, True, True, True]
    assert not untold.manager.limits_told and untold.evidence["limited"].to_list() == [False, True, True, True, True]


def test_torn_lines_of_reasons_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "reasons.csv"
    path.write_text(
        f"{HEADING}\n{ZERO},101,reason,Priority\n{ZERO + 1},102\nx,103,reason,None\n{ZERO},99,reason,None\n{ZERO + 2},101,reason,R"
    )
    ids = pl.DataFrame({"id": [1, 2, 3], "slurm_id": [101, 102, 103]})
    assert read_reasons(path, TIME, SlurmRecords(), ids).rows() == [(1, 0.0, "ahead", "Priority", None)]
    assert read_reasons(tmp_path / "none.csv", TIME, SlurmRecords(), ids).is_empty()


def test_shares_of_the_waiting_time(made: Made, tmp_path: Path) -> None:
    busy(made)
    wide = made.job(10.0, 100.0, 110.0, ALL, processors=16, nodes=4)
    small = made.job(90.0, 100.0, 110.0, "n1", processors=1, partition="half")
    made.reasons = [(10.0, wide, "Resources"), (90.0, small, "Priority")]
    spans = made.waits(tmp_path)
    found = summary(spans, made.frame(), made.collected().evidence.select("id", "user"), 16, has_reasons=True)
    assert (found["jobs"], found["waited"], found["unexplained"]) == (2, 100.0, 0.0)
    assert found["causes"] == {"priority": 0.1, "resources": 0.9}
    assert [(one["name"], one["causes"]) for one in found["by_size"]] == [("1", {"priority": 1.0}), ("5-16", {"resources": 1.0})]
    assert [(one["name"], one["waited"]) for one in found["by_partition"]] == [("batch", 90.0), ("half", 10.0)]
    assert [(one["name"], one["waited"]) for one in found["by_user"]] == [("0", 90.0), ("1", 10.0)]
    assert found["longest"][0]["job"] == wide and found["longest"][0]["causes"] == {"resources": 90.0}
    assert list(found["causes"]) == [cause for cause in CAUSES if cause in found["causes"]]


def test_a_run_in_which_nothing_waited(made: Made, tmp_path: Path) -> None:
    busy(made)
    spans = made.waits(tmp_path)
    assert spans.is_empty() and dict(spans.schema) == WAITS_SCHEMA
    assert summary(spans, made.frame(), made.collected().evidence.select("id", "user"), 16, has_reasons=False)["waited"] == 0.0


# ---- words that the machine's state contradicts ----

LATE = 36010.0


def test_nothing_was_before_a_job_that_is_alone(made: Made, tmp_path: Path) -> None:
    """Slurm said Priority once, and did not look again."""
    made.job(0.0, 0.0, 100.0, "n1", nodes=1)
    job = made.job(10.0, LATE, LATE + 9, "n2", nodes=1)
    made.reasons = [(11.0, job, "Priority")]
    assert made.of(job, tmp_path) == [(10.0, LATE, "unexplained")]


@pytest.mark.parametrize(
    ("told", "partition", "cause"),
    [
        ("Resources", "batch", "priority"),
        ("Resources", "half", "priority"),
        ("Resources", "rest", "unexplained"),
        ("BurstBufferResources", "batch", "priority"),
        ("Reservation", "batch", "priority"),
        ("QOSGrpNodeLimit", "batch", "unexplained"),
        ("Licenses", "batch", "unexplained"),
        ("JobHeldUser", "batch", "unexplained"),
        ("Priority", "batch", "unexplained"),
    ],
)
def test_only_a_job_that_can_use_the_nodes_is_before_another(
    made: Made, tmp_path: Path, told: str, partition: str, cause: str
) -> None:
    """The other job waits in its partition for the same nodes, for other ones, or not for nodes."""
    made.layout = replace(LAYOUT, partitions={**LAYOUT.partitions, "rest": frozenset({"n3", "n4"})})
    made.job(0.0, 0.0, 900.0, "n[3-4]", processors=8, nodes=2)
    made.job(0.0, 0.0, 900.0, "n1", nodes=1)
    other = made.job(5.0, 900.0, 950.0, "n[1-2]", processors=8, nodes=2, partition=partition)
    job = made.job(10.0, 901.0, 902.0, "n2", nodes=1, partition="half")
    made.reasons = [(10.0, other, told), (11.0, job, "Priority")]
    assert made.of(job, tmp_path)[0] == (10.0, 900.0, cause)


def test_a_job_that_still_waits_at_the_end_of_the_run_is_before_others(made: Made, tmp_path: Path) -> None:
    made.job(0.0, 0.0, 900.0, "n1", nodes=1)
    wide = made.job(5.0, None, None, processors=16, nodes=4, state="PENDING")
    job = made.job(10.0, 500.0, 900.0, "n2", nodes=1)
    made.reasons = [(10.0, wide, "Resources"), (11.0, job, "Priority")]
    assert made.of(job, tmp_path) == [(10.0, 500.0, "priority")]


def test_between_two_jobs_before_it_a_cycle_may_pass(made: Made, tmp_path: Path) -> None:
    busy(made, 900.0)
    one = made.job(0.0, 300.0, 310.0, "n1", nodes=1)
    two = made.job(300.0 + INTERVAL, 800.0, 810.0, "n1", nodes=1)
    job = made.job(10.0, 900.0, 910.0, "n1", nodes=1)
    made.reasons = [(1.0, one, "Resources"), (300.0 + INTERVAL, two, "Resources"), (11.0, job, "Priority")]
    assert made.of(job, tmp_path) == [(10.0, 800.0, "priority"), (800.0, 900.0, "resources")]


def test_a_limit_explains_nothing_before_it_is_named(made: Made, tmp_path: Path) -> None:
    busy(made, LATE - 10)
    job = made.job(10.0, LATE, LATE + 9, "n1", nodes=1)
    made.reasons = [(LATE - 1, job, "QOSMaxJobsPerUserLimit")]
    spans = [(10.0, LATE - 10, "resources"), (LATE - 10, LATE - 1, "cycle"), (LATE - 1, LATE, "user limit")]
    assert made.of(job, tmp_path) == spans


@pytest.mark.parametrize(
    ("reason", "cause", "over"),
    [
        ("AssocMaxJobsLimit", "user limit", 100.0),
        ("max jobs for user u1 of account a", "user limit", 100.0),
        ("AssocGrpJobsLimit", "account limit", 300.0),
        ("QOS q group max tres(cpu)", "QOS limit", 300.0),
        ("Licenses", "licence", 300.0),
        ("Reservation", "reservation", 300.0),
        ("PartitionNodeLimit", "partition limit", 50.0),
        ("QOS q group max tres(cpu) minutes", "QOS limit", None),
        ("AssocMaxWallDurationPerJobLimit", "user limit", None),
        ("group wall for account a", "account limit", None),
    ],
)
def test_a_word_ends_with_what_ends_it(made: Made, tmp_path: Path, reason: str, cause: str, over: float | None) -> None:
    """The last job of the user ends at 100, the last job at 300, and Slurm did not look again."""
    made.job(0.0, 0.0, 100.0, "n1", nodes=1, owner="u1")
    made.job(0.0, 0.0, 300.0, "n2", nodes=1, owner="u2")
    job = made.job(10.0, LATE, LATE + 9, "n3", nodes=1, owner="u1")
    made.reasons = [(11.0, job, reason)]
    made.events = ClusterEvents([event("set", "partition batch", 50.0)])
    spans = [(10.0, LATE, cause)] if over is None else [(10.0, over, cause), (over, LATE, "unexplained")]
    assert made.of(job, tmp_path) == spans


def test_a_word_that_was_said_after_the_last_change_holds(made: Made, tmp_path: Path) -> None:
    made.job(0.0, 0.0, 100.0, "n1", nodes=1, owner="u1")
    job = made.job(10.0, LATE, LATE + 9, "n3", nodes=1, owner="u1")
    made.reasons = [(11.0, job, "Resources"), (101.0, job, "AssocMaxJobsLimit")]
    assert made.of(job, tmp_path)[-1] == (101.0, LATE, "user limit")


def test_backfill_is_not_why_a_job_waits_whose_room_another_took(made: Made, tmp_path: Path) -> None:
    made.job(0.0, 0.0, 5000.0, "n1", nodes=1)
    wide = made.job(10.0, 5000.0, 5100.0, ALL, processors=16, nodes=4)
    job = made.job(20.0, 5101.0, 5200.0, "n2", nodes=1, limit=600.0)
    made.reasons = [(11.0, wide, "Resources"), (21.0, job, "Priority")]
    made.unreached = [(22.0, job, "bf_max_job_test")]
    rows = made.waits(tmp_path).filter(pl.col("job") == job).select("from", "to", "cause", "reason").rows()
    assert rows == [
        (20.0, 22.0, "priority", ""),
        (22.0, 5000.0, "backfill", "bf_max_job_test"),
        (5000.0, 5100.0, "resources", ""),
        (5100.0, 5101.0, "cycle", ""),
    ]


@pytest.mark.parametrize(
    ("nodes", "limit", "cause"),
    [(4, 4000.0, "priority"), (4, 3570.0, "backfill"), (3, 4000.0, "backfill")],
)
def test_backfill_keeps_no_job_that_would_delay_those_before(
    made: Made, tmp_path: Path, nodes: int, limit: float, cause: str
) -> None:
    """By the limits of the jobs that run the one before can start at 3,600, on all four nodes or on three."""
    for node in ("n1", "n2", "n3"):
        made.job(0.0, 0.0, 1000.0, node, nodes=1, limit=3600.0)
    wide = made.job(10.0, 1000.0, 1100.0, f"n[1-{nodes}]", processors=4 * nodes, nodes=nodes)
    job = made.job(20.0, 1000.0, 1200.0, "n4", nodes=1, limit=limit)
    made.reasons = [(11.0, wide, "Resources"), (21.0, job, "Priority")]
    made.unreached = [(22.0, job, "bf_max_job_test")]
    assert made.of(job, tmp_path)[-1] == (22.0 if cause == "backfill" else 20.0, 1000.0, cause)


@given(st.sampled_from(["Priority", "Resources", "None", "AssocMaxJobsLimit", "QOSGrpJobsLimit", "Licenses"]), INSTANTS)
@settings(max_examples=30, deadline=None)
def test_no_word_explains_an_idle_machine(tmp_path_factory: Any, reason: str, at: float) -> None:
    """Whatever Slurm said before the last job ended: what it says of is over, and nothing else keeps the job from starting."""
    made = Made()
    made.job(0.0, 0.0, 60.0, "n1", nodes=1)
    job = made.job(10.0, LATE, LATE + 9, "n2", nodes=1)
    made.reasons = [(min(at, 59.0), job, reason)]
    cause = "backfill" if reason == "None" else "unexplained"
    assert made.of(job, tmp_path_factory.getbasetemp())[-1][1:] == (LATE, cause)


# ---- any run ----

REASONS = st.sampled_from(["Priority", "Resources", "None", "Dependency", "QOSGrpNodeLimit", "JobHeldUser", "BeginTime"])


@st.composite
def drawn_runs(draw: st.DrawFn) -> Made:
    made = Made()
    for _ in range(draw(st.integers(1, 6))):
        times = sorted(draw(st.lists(INSTANTS, min_size=6, max_size=6)))
        is_put_back, ran = draw(st.booleans()), draw(st.booleans())
        hosts = draw(st.sampled_from(["n1", "n[1-2]", ALL]))
        width = len(expand(hosts))
        request = draw(st.sampled_from(["", "begin=3", "hold=2", "gres=gpu:1", "cpus_per_task=2"]))
        job = made.job(
            times[0],
            times[4] if ran else None,
            times[5],
            hosts if ran else "",
            processors=4 * width,
            nodes=draw(st.sampled_from([None, width])),
            partition=draw(st.sampled_from(["batch", "half", "other"])),
            eligible=draw(INSTANTS),
            lag=draw(st.integers(0, 3)) / 2,
            limit=draw(INSTANTS) + 1,
            request=request,
            state="COMPLETED" if ran else "CANCELLED",
        )
        if is_put_back:
            made.executions.append({"job": job, "start": times[2], "end": times[3]})
        for at in sorted(draw(st.lists(INSTANTS, max_size=3))):
            made.reasons.append((at, job, draw(REASONS)))
    settings_of_backfill = st.sampled_from(["", "bf_max_job_test", "bf_window"])
    made.unreached = draw(st.lists(st.tuples(INSTANTS, st.integers(1, len(made.jobs)), settings_of_backfill), max_size=5))
    begin, end = sorted((draw(INSTANTS), draw(INSTANTS)))
    absences = [Absence(0, "down", frozenset({"n1"}), begin, end)] if draw(st.booleans()) else []
    windows = [Reservation(1, "r", begin - 5, begin, end, frozenset({"n2", "n3"}), False)] if draw(st.booleans()) else []
    made.events = ClusterEvents(absences=absences, reservations=windows)
    return made


@given(st.lists(st.tuples(st.floats(0.01, 100), st.integers(0, 2)), min_size=1, max_size=300), st.floats(0, 50))
@settings(max_examples=60, deadline=None)
def test_changes_that_are_put_together_keep_their_sums(steps: Sequence[tuple[float, int]], begin: float) -> None:
    times = np.cumsum([0.0, *(length for length, _ in steps)])
    rows = pl.DataFrame({"key": [3], "begin": [begin], "end": [float(times[-1]) + 60.0]})
    part = during(rows, times, np.array([*(code for _, code in steps), 0]))
    found = condensed(part, rows, ["room"])
    assert found.height <= max(80, 20 * 3) and found["time"].is_sorted() and found["time"][0] == begin
    assert sums(found, rows) == pytest.approx(sums(part, rows), abs=1e-6)


def sums(part: pl.DataFrame, rows: pl.DataFrame) -> dict[int, float]:
    """Seconds of each code."""
    lengths = part.with_columns(length=pl.col("time").shift(-1).fill_null(rows["end"][0]) - pl.col("time"))
    return dict(lengths.group_by("room").agg(pl.col("length").sum()).iter_rows())


@given(drawn_runs(), st.sampled_from([MULTIFACTOR, IN_ORDER]))
@settings(max_examples=60, deadline=None)
def test_the_spans_of_a_job_are_disjoint_and_cover_its_wait(tmp_path_factory: Any, made: Made, scheduling: Scheduling) -> None:
    spans = made.waits(tmp_path_factory.getbasetemp(), scheduling)
    assert set(spans["cause"]) <= CAUSES.keys()
    for job in made.jobs:
        own = spans.filter(pl.col("job") == job["id"]).select("from", "to").rows()
        assert merged(own) == parts_of_wait(job, made.executions)
        assert all(end <= begin for (_, end), (begin, _) in pairwise(own))


def parts_of_wait(job: Mapping[str, Any], executions: Sequence[Mapping[str, Any]]) -> list[tuple[float, float]]:
    """The times in the queue: from the submission to the last start or the cancellation, but for lost executions."""
    leave = job["end"] if job["start"] is None else job["start"]
    edges = [job["submit"], *(one[name] for one in executions if one["job"] == job["id"] for name in ("start", "end")), leave]
    return merged([(begin, end) for begin, end in zip(edges[::2], edges[1::2], strict=True) if end > begin])


def merged(spans: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    found: list[tuple[float, float]] = []
    for begin, end in spans:
        if found and found[-1][1] == begin:
            found[-1] = (found[-1][0], end)
        else:
            found.append((begin, end))
    return found
