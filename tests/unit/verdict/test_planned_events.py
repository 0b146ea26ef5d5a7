"""Events of a run: absences, reservations, what they did to jobs, and what the verdict takes as planned."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_folders import ORIGIN, REAL_ZERO, VIRTUAL_ZERO, MadeFolder, beside

from mirage.cluster_events.planned import PlannedEvent, as_csv
from mirage.metrics.availability import EMPTIED, OUT
from mirage.records.cluster_events import (
    CONTROLLER_CHANGED,
    END_UNKNOWN,
    NODE_FAILURE,
    OTHER,
    REQUEUED,
    UNPLANNED_FAILURE,
    Absence,
    ClusterEvents,
    Reservation,
    availability,
)
from mirage.records.record import RunRecord
from mirage.records.run_folder import RunFolder
from mirage.records.time_map import TimeMap
from mirage.verdict import events, run_results
from mirage.verdict.start_latency import start_latencies
from mirage.verdict.thresholds import Thresholds
from mirage.verdict.validity import judge
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.clock.clock import Clock
from slurm_mirage.rm.evidence import Layout, Node

LAYOUT = Layout({f"n{number}": Node(4) for number in range(1, 5)})
WINDOW = "StartTime=500 Duration=100 Nodes=n[1-4] Flags=MAINT,IGNORE_JOBS Users=root"


def made(folder: MadeFolder, *planned: tuple[float, str, str, str], outcomes: dict[int, tuple[str, str]] | None = None) -> None:
    """Give the run events (instant, action, target, argument), each carried out at its instant unless `outcomes` says otherwise."""
    rows = [
        PlannedEvent(at, action, target, argument, f"e.csv:{line}")
        for line, (at, action, target, argument) in enumerate(planned, 1)
    ]
    (folder.folder / "events.csv").write_text(as_csv(rows))
    for number, row in enumerate(rows):
        outcome, words = (outcomes or {}).get(number, ("done", ""))
        if outcome:
            real = REAL_ZERO + row.instant / folder.speed
            folder.events.append({"event": "event_began", "index": number, "real": real, "seen": 0})
            folder.events.append({"event": "event_done", "index": number, "real": real, "outcome": outcome, "words": words})


def sampled(instants: list[float], **columns: list[float]) -> pl.DataFrame:
    return pl.DataFrame({"virtual": [VIRTUAL_ZERO + instant for instant in instants], **columns})


def test_absences_and_reservations_follow_from_what_was_carried_out(tmp_path: Path) -> None:
    folder = MadeFolder(tmp_path, shrink=50.0)
    folder.played(folder.job(0.0), 1.0)
    made(
        folder,
        (10, "drain", "n[1-3]", ""),
        (20, "resume", "n2", ""),
        (30, "fail", "n4", ""),
        (40, "drain", "n3", "again"),
        (60, "return", "n4", ""),
        (70, "reserve", "week", WINDOW),
        (80, "down", "n2", ""),
        (90, "resume", "n[1-2]", ""),
        outcomes={6: ("refused", "no")},
    )
    found = folder.collect().events
    at = ORIGIN
    assert [(one.action, sorted(one.nodes), one.begin - at, one.end - at) for one in found.absences] == [
        ("drain", ["n2"], 20.0, 40.0), ("drain", ["n1"], 20.0, 180.0), ("drain", ["n3"], 20.0, math.inf),
        ("fail", ["n4"], 60.0, 120.0),
    ]  # fmt: skip
    (one,) = found.reservations
    assert (one.name, one.announced - at, one.begin - at, one.end - at, one.is_maintenance) == ("week", 140.0, 500.0, 600.0, True)
    assert found.counts() == {"done": 7, "refused": 1}


@pytest.fixture
def run(tmp_path: Path) -> MadeFolder:
    """One job, which starts at once."""
    run = MadeFolder(tmp_path)
    run.played(run.job(0.0), 1.0)
    return run


@pytest.fixture
def folder(tmp_path: Path) -> MadeFolder:
    """Job 1 is put back by the failure of n1 at 100 and noticed at 130, job 2 is requeued at 200, job 3 without a cause at 350."""
    run = MadeFolder(tmp_path)
    for due in (0.0, 50.0, 60.0):
        run.job(due, runtime=100.0)
    run.slurm(1, 10.0, 130.0, "NODE_FAIL")
    run.record(1, 400.0, 500.0, restart=1)
    run.slurm(1, 400.0, 500.0)
    run.slurm(2, 150.0, 201.0, "PENDING")
    run.record(2, 410.0, 510.0, restart=1)
    run.slurm(2, 410.0, 510.0)
    run.slurm(3, 300.0, 350.0, "PENDING")
    run.record(3, 420.0, 520.0, restart=1)
    run.slurm(3, 420.0, 520.0)
    made(run, (100, "fail", "n1", ""), (120, "return", "n1", ""), (200, "requeue", "2", ""))
    return run


def test_each_lost_execution_has_the_event_that_caused_it(folder: MadeFolder) -> None:
    collected = folder.collect()
    rows = collected.events.caused.select("job", "number", "cause", "end").rows()
    at = ORIGIN - (VIRTUAL_ZERO % 1)
    assert rows == [(1, 0, NODE_FAILURE, at + 130), (2, 2, REQUEUED, at + 201), (3, None, OTHER, at + 350)]
    found = events.summary(collected, {"start forgotten": 2})
    assert found["lost"] == {
        NODE_FAILURE: {"executions": 1, "processor_hours": pytest.approx(120 * 4 / 3600, abs=1e-4)},
        OTHER: {"executions": 1, "processor_hours": pytest.approx(50 * 4 / 3600, abs=1e-4)},
        REQUEUED: {"executions": 1, "processor_hours": pytest.approx(51 * 4 / 3600, abs=1e-4)},
    }
    assert [(row["number"], row["jobs"]) for row in found["events"]] == [(0, 1), (1, 0), (2, 1)]
    assert events.forgotten_words(found) == "; 2 starts that the controller had not saved when it ended"
    assert events.forgotten_words(events.summary(collected, {})) == ""


def judged(collected: RunRecord, samples: pl.DataFrame, result: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    finished = {"ended": 1.0, "released": 0, "messages": {}}
    return judge(beside(samples, pl.DataFrame(), result or finished, **more), collected, LAYOUT, Thresholds.of({}))


def test_planned_absence_is_no_disturbance_and_what_nobody_asked_for_is(folder: MadeFolder) -> None:
    collected = folder.collect()
    instants = [0.0, 105.0, 400.0]
    planned = judged(collected, sampled(instants, nodes_not_responding=[0, 1, 0], nodes_down=[0, 1, 0]))
    assert planned["nodes_not_responding"] == 0 and planned["nodes_lacking"] == 0.0
    more = judged(collected, sampled(instants, nodes_not_responding=[0, 2, 1], nodes_down=[0, 2, 1]))
    assert more["nodes_not_responding"] == 1 and more["nodes_lacking_most"]["down"] == 1
    assert any("1 of 4 nodes were down" in reason for reason in more["reasons"])
    # That one node failed by an event does not explain that another one is drained.
    other = judged(collected, sampled(instants, nodes_not_responding=[0, 0, 0], nodes_drained=[0, 1, 0]))
    assert other["nodes_lacking_most"] == {"drained": 1}


def test_a_node_that_an_event_takes_down_is_shown_as_drained(run: MadeFolder) -> None:
    made(run, (100, "drain", "n1", ""), (100, "down", "n2", ""), (5000, "resume", "n[1-2]", ""))
    collected, instants = run.collect(), [0.0, 1000.0, 2000.0, 9000.0]
    assert judged(collected, sampled(instants, nodes_drained=[0, 2, 2, 0]))["nodes_lacking"] == 0
    assert judged(collected, sampled(instants, nodes_drained=[0, 3, 3, 0]))["nodes_lacking_most"] == {"drained": 1}


def test_a_drained_node_does_not_explain_that_another_one_is_silent(run: MadeFolder) -> None:
    made(
        run,
        (100, "drain", "n1", ""),
        (100, "reserve", "r", "StartTime=110 Duration=200 Nodes=n1"),
        (100, "set", "node n2", "State=DOWN Reason=x"),
        (4000, "kill-controller", "", ""),
    )
    collected, instants = run.collect(), [0.0, 150.0, 4050.0, 9000.0]
    found = judged(
        collected,
        sampled(instants, nodes_not_responding=[0, 1, 4, 0], nodes_drained=[0, 1, 0, 0], nodes_down=[0, 1, 0, 1]),
    )
    assert found["nodes_not_responding"] == 1 and found["nodes_lacking_most"] == {"not_responding": 1}
    # Either kind alone has a node by events: both together have one more.
    both = judged(collected, sampled(instants, nodes_drained=[0, 1, 0, 0], nodes_down=[0, 1, 0, 0], nodes_reserved=[0, 1, 0, 0]))
    assert sum(both["nodes_lacking_most"].values()) == 1


def test_a_node_is_silent_for_a_moment_when_it_returns_to_service(run: MadeFolder) -> None:
    made(run, (100, "drain", "n[1-2]", ""), (2000, "resume", "n[1-2]", ""))
    collected = run.collect()
    assert judged(collected, sampled([0.0, 2000.0], nodes_not_responding=[0, 2]))["nodes_not_responding"] == 0
    assert judged(collected, sampled([0.0, 1000.0], nodes_not_responding=[0, 2]))["nodes_not_responding"] == 2


def test_messages_and_ends_of_the_controller_count_beyond_what_events_explain(run: MadeFolder) -> None:
    made(run, (100, "fail", "n1", ""), (120, "return", "n1", ""), (200, "kill-controller", "", ""))
    collected, samples = run.collect(), sampled([0.0, 300.0], nodes_not_responding=[0, 0])
    killed = {"event": "ended", "daemon": "slurmctld", "kind": "slurmctld", "exit": None, "signal": 9, "out_of_memory": False}
    end = {**killed, "words": "", "real": REAL_ZERO + 201}

    def reasons(ends: int, messages: dict[str, int]) -> list[str]:
        complaints = {"head": "h", "counts": {}, "lines": {}, "events": {"h": [end] * ends}}
        result = {"ended": 1.0, "released": 0, "messages": messages}
        found: list[str] = judged(collected, samples, result, complaints=complaints)["reasons"]
        return [reason for reason in found if "slurmctld" in reason]

    assert reasons(1, {"node silent": 4, "node down": 1}) == []
    ended, complained = reasons(2, {"time-out": 60})
    assert "slurmctld ended 1 time" in ended and "complained 20 times" in complained
    assert reasons(1, {"node down": 2}) == ["slurmctld set nodes down 1 time: see its log"]
    end["real"] = REAL_ZERO + 150
    # It ended before the event.
    (ended, _) = reasons(1, {"time-out": 60})
    assert "slurmctld ended 1 time" in ended


def test_a_restart_for_another_configuration_explains_an_end_of_the_controller(run: MadeFolder) -> None:
    made(run, (100, "configure", "tuned", "reconfigure"), (200, "configure", "fifo", "restart"))
    collected = run.collect()
    assert [(round(begin - ORIGIN), round(end - ORIGIN)) for begin, end in events.controller_ends(collected)] == [
        (200, 200),
        (100, 100),
    ]
    ended = {"slurmctld": [("", {"real": REAL_ZERO + second}) for second in (101, 201, 202)]}
    left = events.remaining_ends(ended, collected, "slurmctld")
    assert [one[1]["real"] - REAL_ZERO for one in left["slurmctld"]] == [101, 202]
    assert events.explained_complaints(collected) == events.COMPLAINTS_EACH


def test_start_latencies_after_another_configuration_are_not_judged(tmp_path: Path) -> None:
    run = MadeFolder(tmp_path)
    for due in (0.0, 1000.0, 9000.0):
        run.played(run.job(due), due + 1)
    made(run, (900, "configure", "fifo", "reconfigure"))
    collected = run.collect()
    jobs = collected.jobs.with_columns(accepted="submit").join(collected.evidence.select("id", "limit"), on="id")
    assert jobs.filter(events.left_out_of_latency(collected, LAYOUT))["id"].to_list() == [2, 3]


def test_starts_that_absent_nodes_postponed_are_no_delays_of_the_emulation(tmp_path: Path) -> None:
    def error(name: str, *, with_events: bool) -> float:
        folder = tmp_path / name
        folder.mkdir()
        run, absences = MadeFolder(folder), []
        for due in range(0, 20_000, 1000):
            run.played(run.job(due), due + 400)
            absences += [(due, "drain", "n[1-4]", ""), (due + 399, "resume", "n[1-4]", "")]
        if with_events:
            made(run, *absences)
        found = run_results.results(RunFolder(run.write()), 16, 4, 10.0, {}).metrics
        return float(found["errors"]["wait_mean"]["emulation"])

    assert error("undisturbed", with_events=False) > 400
    assert 0 < error("absences", with_events=True) < 10


def test_on_an_event_clock_the_end_of_the_controller_is_matched_in_real_time(run: MadeFolder) -> None:
    """The journal has the cluster's time there, and the farm has real time."""
    made(run, (200, "kill-controller", "", ""))
    for line in run.events[-2:]:
        line["outside"] = 1.5e9
    ended = {"slurmctld": [("", {"real": 1.5e9 + 1}), ("", {"real": REAL_ZERO + 201})]}
    left = events.remaining_ends(ended, run.collect(), "slurmctld")
    assert [one[1]["real"] for one in left["slurmctld"]] == [REAL_ZERO + 201]


def test_what_the_absence_of_the_first_controller_did_to_jobs(tmp_path: Path) -> None:
    """Job 1 ended while no controller answered, and the second one ended it at its limit. The nodes of job 2 asked the first
    controller before the second. Job 3 began after the take-back, and a registration of before did not have it. Jobs 4 and 5 had
    the same much later, of which no event is the cause."""
    run = MadeFolder(tmp_path)
    for due, runtime in ((0.0, 110.0), (0.0, 500.0), (900.0, 200.0), (2000.0, 100.0), (2000.0, 200.0)):
        run.job(due, runtime=runtime, limit_minutes=2 if runtime == 110.0 else 60)
    run.record(1, 1.0, 111.0)
    run.slurm(1, 1.0, 171.0, "TIMEOUT")
    run.record(2, 1.0, 501.0)
    run.slurm(2, 1.0, 503.0)
    run.slurm(3, 920.0, 960.0, "NODE_FAIL")
    run.record(3, 1100.0, 1300.0, restart=1)
    run.slurm(3, 1100.0, 1300.0)
    run.record(4, 2001.0, 2101.0)
    run.slurm(4, 2001.0, 2130.0)
    run.slurm(5, 2001.0, 2040.0, "NODE_FAIL")
    run.record(5, 2200.0, 2400.0, restart=1)
    run.slurm(5, 2200.0, 2400.0)
    made(run, (100, "failover", "", ""), (900, "take-back", "", ""))
    collected = run.collect()
    assert collected.events.caused.select("job", "number", "cause", "is_lost").rows() == [
        (3, 1, CONTROLLER_CHANGED, True), (5, None, UNPLANNED_FAILURE, True), (1, 0, END_UNKNOWN, False),
    ]  # fmt: skip
    assert collected.tables.disagreements.select("id", "kind").rows() == [(4, "end")]
    found = judged(collected, sampled([0.0]))
    assert found["broken"]["false timeout"] == 0
    (run.folder / "events.csv").unlink()
    without = run.collect()
    assert {(job, kind) for job, kind in without.tables.disagreements.select("id", "kind").rows()} == {
        (1, "end"), (2, "end"), (4, "end"),
    }  # fmt: skip
    assert judged(without, sampled([0.0]))["broken"]["false timeout"] == 1


def test_events_that_were_not_carried_out_make_a_run_inconclusive(run: MadeFolder) -> None:
    made(
        run,
        (5, "resume", "n3", ""),
        (6, "run", "", "date"),
        (1000, "kill-controller", "", ""),
        (1001, "resume", "n1", ""),
        outcomes={0: ("refused", "Invalid node state specified"), 1: ("unknown", ""), 2: ("", ""), 3: ("", "")},
    )
    assert events.not_carried_out(run.collect()) == [
        "1 event not carried out, Slurm refused it: e.csv:1: resume n3 (Invalid node state specified)",
        "1 event not carried out, the replay was killed, and whether it was carried out is not known: e.csv:2: run",
        "1 event not carried out, all jobs had ended before: e.csv:3: kill-controller",
    ]


def test_jobs_that_waited_for_an_event_are_left_out_of_the_start_latency(tmp_path: Path) -> None:
    run = MadeFolder(tmp_path)
    dues = (0.0, 1000.0, 5000.0, 9000.0, 10000.0, 15000.0, 20000.0, 24000.0, 29000.0, 29990.0, 31000.0)
    for due in dues:
        run.played(run.job(due, limit_minutes=10), due + 1)
    made(
        run,
        (1010, "kill-controller", "", ""),
        (2000, "reserve", "w", "StartTime=30000 Duration=60 Nodes=ALL Flags=MAINT"),
        (2000, "reserve", "small", "StartTime=2500 Duration=90000 Nodes=n1"),
        (4000, "hold", "3", ""),
        (8000, "set", "partition batch", "PriorityTier=4 State=DOWN"),
        (9500, "set", "partition batch", "State=UP"),
        (14000, "set", "partition other", "State=DOWN"),
        (19000, "drain", "n1", ""),
        (35000, "set", "partition batch", "MaxNodes=1"),
    )
    collected = run.collect()
    jobs = collected.jobs.with_columns(accepted="submit").join(collected.evidence.select("id", "limit"), on="id")
    left_out = jobs.filter(events.left_out_of_latency(collected, LAYOUT))["id"]
    assert [dues[job - 1] for job in left_out] == [1000.0, 5000.0, 9000.0, 29990.0]


def test_jobs_that_find_what_they_need_beside_absent_nodes_are_judged(tmp_path: Path) -> None:
    """Of 16 processors 8 are out of service from 1000 to 2000. A job of 8 processors starts late then; one of 12 waits for them."""
    run = MadeFolder(tmp_path)
    for due, processors, start in ((0.0, 12, 0.5), (1500.0, 8, 1530.0), (1600.0, 12, 2000.0), (4000.0, 12, 4000.5)):
        run.played(run.job(due, processors=processors), start)
    made(run, (1000, "fail", "n1", ""), (1000, "drain", "n[1-2]", ""), (2000, "resume", "n[1-2]", ""), (2000, "return", "n1", ""))
    latencies = start_latencies(run.collect(), LAYOUT).to_list()
    assert latencies == [pytest.approx(late, abs=0.6) for late in (0.5, 30.0, 0.5)]


SPANS = st.lists(
    st.tuples(st.sets(st.sampled_from(["n1", "n2", "n3"]), min_size=1), st.integers(0, 50), st.integers(1, 50)), max_size=5
)


@given(SPANS)
def test_availability_agrees_with_a_count_at_each_instant(spans: list[tuple[set[str], int, int]]) -> None:
    absences = [Absence(0, "drain", frozenset(nodes), float(begin), float(begin + length)) for nodes, begin, length in spans[:3]]
    windows = [
        Reservation(0, "r", 0.0, float(begin), float(begin + length), frozenset(nodes), True) for nodes, begin, length in spans[3:]
    ]
    found, processors = ClusterEvents((), absences, windows), {"n1": 1, "n2": 10, "n3": 100}
    lines = pl.DataFrame(schema={"s_ran": pl.Boolean, "s_start": pl.Int64, "s_end": pl.Int64, "hosts": pl.String})
    time = TimeMap(Clock(), 0.0)
    table = availability(found, lines, time, Layout({name: Node(count) for name, count in processors.items()}))
    spans_of: list[Absence | Reservation] = [*absences, *windows]
    for instant in np.arange(0.5, 110):
        rows = table.filter(pl.col("begin") <= instant, pl.col("end") > instant)
        out = {node for one in spans_of if one.begin <= instant < one.end for node in one.nodes}
        before = {node for one in windows if instant < one.begin for node in one.nodes} - out
        for kind, nodes in ((OUT, out), (EMPTIED, before)):
            assert rows.filter(kind=kind)["processors"].sum() == sum(processors[node] for node in nodes)
        assert found.out_of_service(np.array([instant]))[0] == len(out)


def test_a_file_that_is_not_that_of_a_run(tmp_path: Path) -> None:
    run = MadeFolder(tmp_path)
    run.played(run.job(0.0), 1.0)
    (tmp_path / "events.csv").write_text("number,instant\n1,x\n")
    with pytest.raises(WrongUse, match=r"is not the events\.csv of a run"):
        run.collect()
