"""Which jobs certainly had room when they were accepted, and that a late start of one of them is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from run_folders import MadeFolder, beside

from mirage.cluster_events.planned import PlannedEvent, as_csv
from mirage.records.record import RunRecord, Tables
from mirage.records.wait_causes import with_told_limits
from mirage.verdict.room_at_acceptance import with_room
from mirage.verdict.start_latency import start_latencies
from mirage.verdict.validity import judge
from slurm_mirage.rm.evidence import Layout, Node, WaitWord

NODES = {
    "n1": Node(4, 8000, features=frozenset({"old"})),
    "n2": Node(4, 8000, features=frozenset({"new"})),
    "g1": Node(4, 8000, (("a100", 2),), frozenset({"new"}), 1),
    "g2": Node(4, 8000, (("v100", 4),), frozenset({"new"})),
}
LAYOUT = Layout(NODES, {"batch": frozenset(NODES)})
LONG = {"due": 0.0, "start": 0.5, "runtime": 5000.0, "hosts": "n1", "nodes": 1}


def run(folder: Path, *jobs: dict[str, Any]) -> MadeFolder:
    """A run of these jobs, the last of which is due at 1000 and starts at 1060 unless it says otherwise."""
    made = MadeFolder(folder)
    for job in [*jobs[:-1], {"due": 1000.0, "start": 1060.0, "hosts": "n1", "nodes": 1} | jobs[-1]]:
        where = {name: job.pop(name) for name in ("start", "hosts", "nodes", "eligible") if name in job}
        number = made.job(nodes=job.pop("whole", None), **{"memory": 1000} | job)
        made.played(number, **where)
    return made


@pytest.mark.parametrize(
    ("others", "job", "judged"),
    [
        # 15 processors: one of g1 is set aside.
        ((), {"processors": 15}, True),
        ((), {"processors": 16}, False),
        (({"processors": 4},), {"processors": 11}, True),
        (({"processors": 4},), {"processors": 12}, False),
        # 8000 MiB of a node.
        ((), {"processors": 3, "memory": 4000}, True),
        ((), {"processors": 9, "memory": 4000}, False),
        ((), {"processors": 4, "request": "nodes=4 memory_per_node=8000"}, True),
        ((), {"processors": 4, "request": "nodes=4 memory_per_node=8001"}, False),
        (({"processors": 1, "memory": 1000},), {"processors": 4, "request": "nodes=4 memory_per_node=8000"}, False),
        # Without a request for memory a job may have all that a node has.
        (({"processors": 1, "memory": None},), {"processors": 4, "request": "nodes=4"}, False),
        (({"processors": 1, "memory": None},), {"processors": 3, "request": "nodes=3"}, True),
        ((), {"processors": 4, "memory": None, "request": "nodes=4"}, True),
        (({"processors": 1},), {"processors": 4, "memory": None, "request": "nodes=4"}, False),
        # A job on several nodes may have most of its processors on any one of them.
        (({"processors": 4, "hosts": "n[1-2]", "nodes": 2},), {"processors": 9}, True),
        (({"processors": 4, "hosts": "n[1-2]", "nodes": 2},), {"processors": 10}, False),
        # Tasks stay on one node each.
        ((), {"processors": 12, "request": "cpus_per_task=3"}, True),
        ((), {"processors": 15, "request": "cpus_per_task=3"}, False),
        ((), {"processors": 16, "request": "nodes=4 tasks_per_node=4"}, False),
        ((), {"processors": 12, "request": "nodes=3 tasks_per_node=4"}, True),
        # Whole nodes, and one job on n1.
        ((), {"processors": 3, "request": "nodes=4 exclusive=1"}, True),
        (({"processors": 1},), {"processors": 3, "request": "nodes=4 exclusive=1"}, False),
        (({"processors": 1},), {"processors": 3, "request": "nodes=3 exclusive=1"}, True),
        (({"processors": 1, "whole": 1},), {"processors": 11}, True),
        (({"processors": 1, "whole": 1},), {"processors": 12}, False),
        # GPUs of each node, of the job, and of each task; 2 a100 of g1 and 4 v100 of g2.
        ((), {"processors": 4, "request": "gres=gpu:a100:2"}, False),
        ((), {"processors": 3, "request": "gres=gpu:a100:2"}, True),
        ((), {"processors": 3, "request": "gres=gpu:a100:3"}, False),
        ((), {"processors": 7, "request": "gres=gpu:2"}, True),
        ((), {"processors": 2, "request": "gpus=v100:4"}, True),
        ((), {"processors": 2, "request": "gpus=a100:4"}, False),
        ((), {"processors": 2, "request": "gpus=6"}, False),
        ((), {"processors": 4, "request": "gpus_per_task=v100:1"}, True),
        ((), {"processors": 4, "request": "gpus_per_task=a100:1"}, False),
        (({"hosts": "g2", "request": "gres=gpu:v100:1", "processors": 1},), {"processors": 2, "request": "gpus=v100:4"}, False),
        (({"hosts": "g2", "request": "gres=gpu:v100:1", "processors": 1},), {"processors": 2, "request": "gpus=v100:3"}, True),
        (({"hosts": "g2", "request": "gpus=1", "processors": 1},), {"processors": 2, "request": "gpus=v100:4"}, False),
        ((), {"processors": 1, "request": "gres=nvme:1"}, False),
        # Features.
        ((), {"processors": 4, "request": "constraint=old"}, True),
        ((), {"processors": 5, "request": "constraint=old"}, False),
        ((), {"processors": 15, "request": "constraint=old|new"}, True),
        ((), {"processors": 2, "request": "constraint=[old*1&new*1]"}, False),
        # What is not looked at.
        ((), {"processors": 1, "request": "switches=1"}, False),
        ((), {"processors": 1, "request": "nodes=1 most_nodes=3"}, False),
        ((), {"processors": 1, "request": "reservation=r"}, False),
        ((), {"processors": 1, "request": "memory_per_gpu=100 gres=gpu:1"}, False),
        # It waits for something else, or nothing tells whether it does.
        ((), {"processors": 1, "request": "begin=50"}, False),
        ((), {"processors": 1, "request": "hold=50"}, False),
        ((), {"processors": 1, "request": "licences=matlab:1"}, False),
        (({"processors": 1},), {"processors": 1, "dependency": "afterany:1", "request": "nodes=1"}, False),
    ],
)
def test_jobs_that_had_room(tmp_path: Path, others: tuple[dict[str, Any], ...], job: dict[str, Any], judged: bool) -> None:
    found = start_latencies(run(tmp_path, *(LONG | other for other in others), job).collect(), LAYOUT).to_list()
    assert any(late > 50 for late in found) is judged


@pytest.mark.parametrize(
    ("waiting", "judged"),
    [
        # A job of 8 processors that waits on one node or on 4; the last one has 15 processors, or 11 beside it.
        ({"processors": 1, "request": "nodes=1"}, True),
        ({"processors": 8}, False),
        # It has no room, so that Slurm looks at none behind it.
        ({"processors": 1, "request": "gres=gpu:a100:3"}, False),
        ({"processors": 1, "request": "switches=1"}, False),
        # It could start from 950 or from 3900 on.
        ({"processors": 8, "request": "begin=50", "eligible": 950.0}, False),
        ({"processors": 8, "request": "begin=3000", "eligible": 3900.0}, True),
        ({"processors": 8, "request": "hold=3000", "eligible": 3900.0}, True),
    ],
)
def test_waiting_jobs_may_be_about_to_take_nodes(tmp_path: Path, waiting: dict[str, Any], judged: bool) -> None:
    made = run(tmp_path, {"due": 900.0, "start": 4000.5, "hosts": "n1", "nodes": 1} | waiting, {"processors": 11})
    assert any(50 < late < 100 for late in start_latencies(made.collect(), LAYOUT).to_list()) is judged


def test_licences_are_judged_where_the_log_tells_of_them(tmp_path: Path) -> None:
    made = run(tmp_path, LONG | {"processors": 1}, {"processors": 1, "request": "licences=matlab:1"})
    collected = made.collect()

    def judged(word: WaitWord) -> list[float]:
        told = pl.DataFrame({"job": [1, 2], "word": [WaitWord.AHEAD.value, word.value]})
        return start_latencies(with_told_limits(collected, told), LAYOUT).to_list()

    assert judged(WaitWord.NO_ROOM)[-1] > 50 and len(judged(WaitWord.LICENCE)) == 1


@pytest.mark.parametrize(
    ("nodes", "event", "judged"),
    [
        (3, (0.0, "drain", "n1", ""), True),
        (4, (0.0, "drain", "n1", ""), False),
        (3, (0.0, "reserve", "r", "StartTime=4000 Duration=100 Nodes=n1 Flags=MAINT"), True),
        (4, (0.0, "reserve", "r", "StartTime=4000 Duration=100 Nodes=n1 Flags=MAINT"), False),
        # It ended before, or the job ends before.
        (4, (0.0, "reserve", "r", "StartTime=300 Duration=100 Nodes=n1 Flags=MAINT"), True),
        (4, (0.0, "reserve", "r", "StartTime=8000 Duration=100 Nodes=n1 Flags=MAINT"), True),
        (4, (0.0, "set", "partition batch", "AllowAccounts=lab"), True),
        (4, (0.0, "set", "partition batch", "QOS=gpus AllowAccounts=lab"), False),
        (4, (0.0, "set", "partition batch", "MaxNodes=1"), False),
        (4, (500.0, "set", "partition batch", "AllowAccounts=lab"), False),
        (4, (500.0, "set", "account lab", "GrpJobs=1"), False),
    ],
)
def test_nodes_and_rules_of_events(tmp_path: Path, nodes: int, event: tuple[float, str, str, str], judged: bool) -> None:
    """Of four nodes one is away. What Slurm's log tells of each job leaves out nobody else."""
    made = run(tmp_path, {"processors": nodes, "request": f"nodes={nodes}"})
    (tmp_path / "events.csv").write_text(as_csv([PlannedEvent(*event, "SITE")]))
    for name in ("event_began", "event_done"):
        made.events.append({"event": name, "index": 0, "real": made.events[0]["real"] + event[0], "outcome": "done", "words": ""})
    collected = made.collect()
    assert any(late > 50 for late in start_latencies(collected, LAYOUT).to_list()) is judged
    is_told_rule = event[1] == "set" and "MaxNodes" not in event[3]
    told = with_told_limits(collected, pl.DataFrame({"job": [1], "word": [WaitWord.NO_ROOM.value]}))
    assert any(late > 50 for late in start_latencies(told, LAYOUT).to_list()) is (judged or is_told_rule)


@pytest.mark.parametrize(("at_once", "judged"), [(2, True), (3, False), (None, False)])
def test_tasks_beyond_the_limit_of_an_array_take_no_nodes(tmp_path: Path, at_once: int | None, judged: bool) -> None:
    """Two tasks run; if more may, those that wait may be about to have all nodes."""
    made = MadeFolder(tmp_path)
    for number in range(6):
        job = made.job(0.0, 1990.0, 4, memory=1000, array=1, at_once=at_once)
        made.played(job, number // 2 * 2000 + 0.5, hosts=f"n{number % 2 + 1}", nodes=1)
    made.played(made.job(1000.0, 10.0, 7, memory=1000), 1060.0, hosts="g[1-2]")
    assert any(50 < late < 100 for late in start_latencies(made.collect(), LAYOUT).to_list()) is judged


def test_without_the_nodes_of_a_job_nothing_is_certain(tmp_path: Path) -> None:
    for number, hosts in enumerate(("n1", "x1", "(null)")):
        (tmp_path / str(number)).mkdir()
        found = start_latencies(run(tmp_path / str(number), LONG | {"hosts": hosts}, {"request": "nodes=1"}).collect(), LAYOUT)
        assert any(late > 50 for late in found.to_list()) is (hosts == "n1")


@pytest.mark.parametrize(("late", "verdict"), [((), "valid"), ((3, 4, 5), "invalid")])
def test_late_starts_of_jobs_with_requests_make_a_run_invalid(tmp_path: Path, late: tuple[int, ...], verdict: str) -> None:
    """12 jobs that ask for GPUs find them idle; every other job waits for an hour, for the one before it."""
    made = MadeFolder(tmp_path)
    for number in range(12):
        due = 10000.0 * number
        made.played(
            made.job(due, 600.0, 2, memory=1000, request="gres=gpu:v100:1"),
            due + (900 if number in late else 1),
            hosts="g2",
            nodes=1,
        )
        waiting = made.job(due, 600.0, 2, memory=1000, dependency="afterany:1")
        made.played(waiting, due + 3600, hosts="n1", nodes=1, eligible=due + 3600)
    samples, cycles = pl.DataFrame({"nodes_not_responding": [0.0]}), pl.DataFrame({"backfill_last_cycle_us": [1.0]})
    found = judge(beside(samples, cycles, {"ended": 1.0, "messages": {}, "released": 0}), made.collect(), LAYOUT)
    assert (found["verdict"], found["start_latency_jobs"]) == (verdict, 12), found["reasons"]
    assert any(reason.startswith("mean start latency is ") for reason in found["reasons"]) is bool(late)


# ---- beside a machine of which all is known ----

_SIZES, _MEMORY = (2, 3, 4), (4, 4, 8)
_MACHINE = Layout(
    {f"n{place}": Node(size, memory) for place, (size, memory) in enumerate(zip(_SIZES, _MEMORY, strict=True))},
    {"batch": frozenset({"n0", "n1", "n2"})},
)
JOBS = st.lists(
    st.tuples(
        st.integers(0, 8), st.integers(0, 4), st.integers(1, 8), st.integers(1, 4), st.integers(1, 2), st.booleans(),
        st.permutations(range(3)),
    ),
    max_size=12,
)  # fmt: skip


def _allocation(free: list[list[int]], processors: int, memory: int, on_one: bool, order: list[int]) -> dict[int, int] | None:
    """Processors by node, for a job with so many MiB for each; None if there is no room. free: processors and MiB of each node"""
    found: dict[int, int] = {}
    for node in order:
        room = min(free[node][0], free[node][1] // memory)
        if on_one and room < processors:
            continue
        if part := min(room, processors - sum(found.values())):
            found[node] = part
    return found if sum(found.values()) == processors else None


def _played(drawn: list[tuple[int, int, int, int, int, bool, list[int]]]) -> list[dict[str, Any]]:
    """The jobs in a schedule in which they have room, with what they have on each node."""
    jobs: list[dict[str, Any]] = []
    for submit, wait, length, processors, memory, on_one, order in sorted(drawn, key=lambda one: one[:2]):
        for start in range(submit + wait, submit + wait + 500):
            free = _free(jobs, start)
            later = [_free(jobs, instant) for instant in range(start, start + length)]
            free = [[min(state[node][kind] for state in later) for kind in (0, 1)] for node in range(3)]
            if (on := _allocation(free, processors, memory, on_one, order)) is not None:
                jobs.append({
                    "submit": submit, "start": start, "end": start + length, "processors": processors, "memory": memory, "on": on,
                    "on_one": on_one,
                })  # fmt: skip
                break
    return jobs


def _free(jobs: list[dict[str, Any]], instant: float) -> list[list[int]]:
    free = [[size, memory] for size, memory in zip(_SIZES, _MEMORY, strict=True)]
    for job in jobs:
        if job["start"] <= instant < job["end"]:
            for node, part in job["on"].items():
                free[node][0] -= part
                free[node][1] -= part * job["memory"]
    return free


def _slowly(jobs: list[dict[str, Any]], job: dict[str, Any]) -> bool:
    """Whether a job and all that waited had room, whatever nodes the others that waited took."""
    now = job["submit"]
    waiting = [other for other in jobs if other is not job and other["submit"] <= now < other["start"]]
    return all(_fits(jobs, one, now, [other for other in waiting if other is not one]) for one in (job, *waiting))


def _fits(jobs: list[dict[str, Any]], job: dict[str, Any], now: float, others: list[dict[str, Any]]) -> bool:
    spoiled = sum(1 if other["on_one"] else other["processors"] for other in others)
    places = sorted(min(free, memory // job["memory"]) for free, memory in _free(jobs, now))
    left = places[: max(0, 3 - spoiled)]
    return bool((max(left, default=0) if job["on_one"] else sum(left)) >= job["processors"])


@given(JOBS, st.booleans())
@example([(0, 1, 5, 1, 1, True, [0, 1, 2]), (1, 3, 3, 4, 1, True, [2, 1, 0])], True)
def test_no_job_is_said_to_have_room_that_had_none(
    drawn: list[tuple[int, int, int, int, int, bool, list[int]]], all_on_one: bool
) -> None:
    """Where each job is on one node, the nodes tell all; else no more than what is true."""
    jobs = _played([(*one[:5], one[5] or all_on_one, one[6]) for one in drawn])
    rows = [
        (
            number, "batch", job["processors"], len(job["on"]), job["submit"], job["start"], job["start"], job["end"],
            job["submit"], job["memory"], "nodes=1" if job["on_one"] else "",
        )
        for number, job in enumerate(jobs)
    ]  # fmt: skip
    integers, texts = ("id", "processors", "nodes", "memory"), ("partition", "request")
    names = ("id", "partition", "processors", "nodes", "accepted", "left", "start", "end", "eligible", "memory", "request")
    kinds = {name: pl.Int64 if name in integers else pl.String if name in texts else pl.Float64 for name in names}
    frame = pl.DataFrame(rows, schema=kinds, orient="row").with_columns(
        whole_nodes=pl.lit(False), dependent=pl.lit(False), restarts=0, limit=pl.lit(1e3), array=pl.lit(None, pl.Int64),
        at_once=pl.lit(None, pl.Int64),
    )  # fmt: skip
    placements = [
        (number, float(job["start"]), float(job["end"]), ",".join(f"n{node}" for node in job["on"]), job["processors"])
        for number, job in enumerate(jobs)
    ]
    schema = {"job": pl.Int64, "start": pl.Float64, "end": pl.Float64, "hosts": pl.String, "processors": pl.Int64}
    collected = RunRecord(
        jobs=frame, evidence=frame, time=None,  # type: ignore[arg-type]
        tables=Tables(placements=pl.DataFrame(placements, schema=schema, orient="row")),
    )  # fmt: skip
    found = set(with_room(frame, frame, collected, _MACHINE, 0.0).to_list())
    had_room = {number for number, job in enumerate(jobs) if _slowly(jobs, job)}
    assert found <= had_room
    if all(len(job["on"]) == 1 for job in jobs):
        assert found == had_room
