"""Malleable jobs in the records of a run: their sizes and starts, what the broker did, and how long they should have taken."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from malleable_folders import MalleableFolder
from run_folders import ORIGIN, kinds, ns, row

from mirage.records import run_files
from mirage.records.collect import collect
from mirage.records.record import RunRecord
from mirage.records.run_folder import RunFolder
from mirage.records.schedule import read_schedule
from mirage.verdict.dispatch_gaps import dispatch_gaps
from mirage.verdict.start_latency import start_latencies
from mirage_extras.malleable import records as resizes
from mirage_extras.malleable import verdict
from slurm_mirage.jobs.sigsleep_log import MalleableRecord, Size, SizeKind
from slurm_mirage.rm.evidence import Layout, Scheduling

WORDS = "1:8:2:-"


def own(run: RunRecord) -> resizes.Resizes:
    """What malleable jobs did in the run, which has some."""
    found = run.of(resizes.Resizes)
    assert found is not None
    return found


def sizes(start: float, first: int, *changes: tuple[float, int], **numbers: Any) -> MalleableRecord:
    """sigsleep's record of a job's sizes: (instant in virtual seconds, nodes)."""
    entries, before = [Size(ns(start), first, SizeKind.STARTED)], first
    for at, nodes in changes:
        entries.append(Size(ns(at), nodes, SizeKind.EXPANDED if nodes > before else SizeKind.SHRUNK))
        before = nodes
    return MalleableRecord(tuple(entries), **numbers)


def resized_job(
    made: MalleableFolder, *, end: float = 75.03, words: str = WORDS, waited: float = 0.0, runtime: float = 100.0
) -> int:
    """A job that grows from 2 to 4 nodes after half of its 100 s: it needs 25 s more. Slurm started it at 0.02."""
    number = made.job(due=0.0, runtime=runtime, processors=32, nodes=2, extras={"malleable": words})
    made.record(number, 0.03, end, malleable=sizes(0.03, 2, (50.03, 4), waited_ns=round(waited * 1e9)))
    # The start that Slurm prints of both parts is the instant of the change.
    made.slurm(number, start=50.03, end=50.03, state="RESIZING", nodes=2)
    made.slurm(number, start=50.03, end=end + 0.01, nodes=4)
    made.scontrol(number, "COMPLETED", start=0.02, end=end + 0.01, suspend_time=None, before=0)
    made.resized(number, 2, 4, asked=50.0, done=50.03)
    return number


def test_the_start_of_a_resized_job_is_its_first_one(tmp_path: Path) -> None:
    """Every line of the completion log has the instant of the last change as the start."""
    made = MalleableFolder(tmp_path)
    number = resized_job(made)
    run = made.collect()
    job = row(run, number)
    assert job["start"] == pytest.approx(ORIGIN + 0.03, abs=1e-6)
    assert job["end"] == pytest.approx(ORIGIN + 75.03, abs=1e-6)
    assert (job["processors"], job["nodes"], job["state"]) == (32, 2, "COMPLETED")
    assert run.evidence["restarts"].item() == 0
    assert kinds(run) == []


def test_without_the_managers_details_the_start_is_sigsleeps(tmp_path: Path) -> None:
    made = MalleableFolder(tmp_path)
    number = resized_job(made)
    made.suspended = ""
    assert row(made.collect(), number)["start"] == pytest.approx(ORIGIN + 0.03, abs=1e-6)


REAL_LINES = """\
JobId=5 UserId=m(992) GroupId=m(991) Name=mirage-resizer-101 JobState=RESIZING Partition=batch TimeLimit=59 StartTime={30} EndTime={30} NodeList=n[3-4] NodeCnt=2 ProcCnt=32 WorkDir=/h ReservationName= Tres=cpu=2,mem=2M,node=2,billing=2 Account=default QOS=normal WcKey= Cluster=h SubmitTime={30} EligibleTime={30} DerivedExitCode=0:0 ExitCode=0:0 
JobId=101 UserId=m(992) GroupId=m(991) Name=RUN.1 JobState=RESIZING Partition=batch TimeLimit=60 StartTime={30} EndTime={30} NodeList=n[1-2] NodeCnt=2 ProcCnt=32 WorkDir=/h ReservationName= Tres=cpu=2,mem=2M,node=2,billing=2 Account=default QOS=normal WcKey= Cluster=h SubmitTime={27} EligibleTime={27} DerivedExitCode=0:0 ExitCode=0:0 
JobId=6 UserId=m(992) GroupId=m(991) Name=mirage-resizer-101 JobState=RESIZING Partition=batch TimeLimit=59 StartTime={32} EndTime={32} NodeList=n[5-8] NodeCnt=4 ProcCnt=64 WorkDir=/h ReservationName= Tres=cpu=4,mem=4M,node=4,billing=4 Account=default QOS=normal WcKey= Cluster=h SubmitTime={32} EligibleTime={32} DerivedExitCode=0:0 ExitCode=0:0 
JobId=101 UserId=m(992) GroupId=m(991) Name=RUN.1 JobState=RESIZING Partition=batch TimeLimit=60 StartTime={32} EndTime={32} NodeList=n[1-4] NodeCnt=4 ProcCnt=64 WorkDir=/h ReservationName= Tres=cpu=2,mem=2M,node=2,billing=2 Account=default QOS=normal WcKey= Cluster=h SubmitTime={27} EligibleTime={27} DerivedExitCode=0:0 ExitCode=0:0 
JobId=101 UserId=m(992) GroupId=m(991) Name=RUN.1 JobState=RESIZING Partition=batch TimeLimit=60 StartTime={34} EndTime={34} NodeList=n[1-8] NodeCnt=8 ProcCnt=128 WorkDir=/h ReservationName= Tres=cpu=2,mem=2M,node=2,billing=2 Account=default QOS=normal WcKey= Cluster=h SubmitTime={27} EligibleTime={27} DerivedExitCode=0:0 ExitCode=0:0 
JobId=101 UserId=m(992) GroupId=m(991) Name=RUN.1 JobState=CANCELLED Partition=batch TimeLimit=60 StartTime={34} EndTime={40} NodeList=n1 NodeCnt=1 ProcCnt=16 WorkDir=/h ReservationName= Tres=cpu=2,mem=2M,node=2,billing=2 Account=default QOS=normal WcKey= Cluster=h SubmitTime={27} EligibleTime={27} DerivedExitCode=0:0 ExitCode=0:0 
"""  # noqa: E501
"""Slurm 22.05.8's own but for ids, names and dates: a job that started at 27 s with 2 nodes, had 4, 8 and 1, and was cancelled."""


def test_real_lines_of_a_job_that_was_cancelled(tmp_path: Path) -> None:
    """It left no record of its own: its sizes are those that the broker told."""
    made = MalleableFolder(tmp_path)
    number = made.job(due=0.0, runtime=3600.0, processors=32, nodes=2, cancel_after=13.0, extras={"malleable": WORDS})
    made.jobcomp = "".join(
        line.format(*[made.printed(second - 27) for second in range(41)]) + "\n" for line in REAL_LINES.splitlines()
    )
    made.scontrol(number, "CANCELLED", start=0.01, end=13.3, suspend_time=None, before=0)
    made.resized(number, 2, 4, asked=2.9, done=3.2)
    made.resized(number, 4, 8, asked=5.0, done=5.3)
    made.resized(number, 8, 1, asked=7.0, done=7.3)
    made.ended(23.0)
    run = made.collect()
    job = row(run, number)
    assert (job["state"], job["nodes"], job["processors"]) == ("CANCELLED", 2, 32)
    assert (job["start"], job["end"]) == (pytest.approx(ORIGIN + 0.01, abs=0.6), pytest.approx(ORIGIN + 13.0, abs=0.6))
    # The jobs by which it got its nodes are the broker's.
    assert run.tables.foreign.is_empty()
    assert run.tables.allocations["nodes"].to_list() == [4, 8, 1]
    assert run.tables.allocations["processors"].to_list() == [64, 128, 16]
    assert run.evidence["allocated"].item() == 32
    assert kinds(run) == []


def test_allocations_are_within_the_seconds_that_slurm_printed(tmp_path: Path) -> None:
    made = MalleableFolder(tmp_path)
    number = resized_job(made)
    run = made.collect()
    assert run.tables.allocations.rows() == [(number, pytest.approx(ORIGIN + 50.03, abs=1e-6), 4, 64)]
    # sigsleep was told of the change two seconds later: it is in the middle of Slurm's second.
    late = MalleableFolder(tmp_path)
    number = late.job(due=0.0, runtime=100.0, processors=32, nodes=2, extras={"malleable": WORDS})
    late.record(number, 0.03, 76.0, malleable=sizes(0.03, 2, (52.03, 4), waited_ns=2 * 10**9))
    late.slurm(number, start=50.03, end=50.03, state="RESIZING", nodes=2)
    late.slurm(number, start=50.03, end=76.01, nodes=4)
    late.scontrol(number, "COMPLETED", start=0.02, end=76.01, suspend_time=None, before=0)
    assert late.collect().tables.allocations["from"].to_list() == [pytest.approx(ORIGIN + 50.0, abs=1e-6)]


def test_records_with_other_sizes_disagree(tmp_path: Path) -> None:
    made = MalleableFolder(tmp_path)
    number = made.job(due=0.0, runtime=100.0, processors=32, nodes=2, extras={"malleable": WORDS})
    made.record(number, 0.03, 75.03, malleable=sizes(0.03, 2, (50.03, 4)))
    made.slurm(number, start=0.02, end=75.04, nodes=2)
    assert kinds(made.collect()) == [(number, "sizes")]


# ---- how long a job should take ----


def stretch(made: MalleableFolder) -> float:
    return float(made.collect().evidence["stretch"].item())


def test_a_job_that_took_what_its_sizes_make_it_need_has_no_stretch(tmp_path: Path) -> None:
    made = MalleableFolder(tmp_path)
    resized_job(made)
    run = made.collect()
    assert run.evidence["expected"].item() == pytest.approx(75.0, abs=1e-6)
    assert abs(run.evidence["stretch"].item()) <= 1.0  # Slurm's whole seconds


@pytest.mark.parametrize("too_long", [-20.0, 30.0])
def test_a_job_that_took_another_time_is_found(tmp_path: Path, too_long: float) -> None:
    """Neither the planned run time nor the length of its own record would show it."""
    made = MalleableFolder(tmp_path)
    resized_job(made, end=75.03 + too_long)
    assert stretch(made) == pytest.approx(too_long, abs=1.0)


def test_costs_and_waits_for_the_broker_are_no_stretch(tmp_path: Path) -> None:
    """It waits for 5 s with 2 nodes, and pays 3 + 2 x 1 s with 4."""
    made = MalleableFolder(tmp_path)
    number = made.job(due=0.0, runtime=100.0, processors=32, nodes=2, extras={"malleable": f"{WORDS} cost=3:1"})
    made.record(number, 0.03, 85.03, malleable=sizes(0.03, 2, (55.03, 4), waited_ns=5 * 10**9, paid_ns=5 * 10**9))
    made.slurm(number, start=55.0, end=55.0, state="RESIZING", nodes=2)
    made.slurm(number, start=55.0, end=85.04, nodes=4)
    made.scontrol(number, "COMPLETED", start=0.02, end=85.04, suspend_time=None, before=0)
    made.resized(number, 2, 4, asked=50.0, done=55.0, cost=5.0)
    run = made.collect()
    assert abs(run.evidence["stretch"].item()) <= 1.0
    assert run.evidence["own_waits"].item() == pytest.approx(5.0)
    made.broker.clear()
    assert kinds(run) == []


def test_a_job_that_kept_its_size_takes_its_run_time(tmp_path: Path) -> None:
    made = MalleableFolder(tmp_path)
    number = made.job(due=0.0, runtime=100.0, processors=32, nodes=2, extras={"malleable": WORDS})
    made.record(number, 0.03, 100.03, malleable=sizes(0.03, 2))
    made.slurm(number, start=0.02, end=100.04)
    run = made.collect()
    assert run.evidence["expected"].item() == pytest.approx(100.0, abs=1e-6)
    assert run.tables.allocations.is_empty()
    assert kinds(run) == []


def test_suspensions_are_no_work(tmp_path: Path) -> None:
    made = MalleableFolder(tmp_path)
    number = made.job(due=0.0, runtime=100.0, processors=32, nodes=2, extras={"malleable": WORDS})
    made.record(number, 0.03, 95.03, (10.0, 30.0), malleable=sizes(0.03, 2, (70.03, 4)))
    made.slurm(number, start=70.0, end=70.0, state="RESIZING", nodes=2)
    made.slurm(number, start=70.0, end=95.04, nodes=4)
    made.scontrol(number, "COMPLETED", start=0.02, end=95.04, suspend_time=30.0, before=10)
    assert made.collect().evidence["expected"].item() == pytest.approx(75.0, abs=1e-6)


# ---- the broker's journal ----


def test_resizes_of_the_run_in_trace_seconds(tmp_path: Path) -> None:
    made = MalleableFolder(tmp_path, speed=10.0, shrink=50.0)
    number = made.job(due=0.0, runtime=100.0, processors=32, nodes=2, extras={"malleable": WORDS})
    made.record(number, 0.3, 80.3, malleable=sizes(0.3, 2))
    made.resized(number, 2, 2, asked=20.0, done=20.5)
    made.resized(number, 2, 4, asked=40.0, done=44.0, cost=6.0)
    made.resized(number, 4, 2, asked=60.0, done=61.0, cost=2.0, **{"for": 100 + number})
    made.resized(number, 2, 8, asked=70.0, done=75.0, outcome="aborted", reason="no nodes")
    table = own(made.collect()).changes
    assert list(table.columns) == list(resizes.RESIZES_SCHEMA)
    assert table.select("job", "from", "to", "kind", "outcome", "reason", "for").rows() == [
        (number, 2, 4, "expand", "done", "", None),
        (number, 4, 2, "shrink", "done", "", number),
        (number, 2, 8, "expand", "aborted", "no nodes", None),
    ]
    assert table["asked"].to_list() == [pytest.approx(ORIGIN + 2 * at) for at in (40, 60, 70)]
    assert table["instant"].to_list() == [pytest.approx(ORIGIN + 2 * at) for at in (44, 61, 75)]
    assert table["cost"].to_list() == [pytest.approx(12.0), pytest.approx(4.0), None]
    counts = own(made.collect()).summary()
    assert (counts["malleable_jobs"], counts["checks"], counts["none"]["count"]) == (1, 4, 1)
    assert (counts["expand"]["count"], counts["expand"]["not_done"], counts["expand"]["mean"]) == (1, 1, 4.0)


def test_lines_of_earlier_runs_other_jobs_and_of_nobody_are_left_out(tmp_path: Path) -> None:
    made = MalleableFolder(tmp_path)
    number = resized_job(made)
    made.resized(number, 4, 8, asked=-1000.0, done=-999.0)
    made.broker += [{**made.broker[0], "job": 999}, {"begun": "expand", **made.broker[0]}]
    folder = made.write()
    with (folder / "resizes.jsonl").open("a") as journal:
        for wrong in ("", "{", "[]", "null", '{"asked": "x"}', json.dumps({**made.broker[0], "asked": 1e300}), '{"x": ' * 50_000):
            journal.write(wrong + "\n")
    made.broker = []
    (folder / "resizes.jsonl").rename(tmp_path / "kept")
    made.write()
    (tmp_path / "kept").rename(folder / "resizes.jsonl")
    assert own(collect(RunFolder(folder))).changes["job"].to_list() == [number]


# ---- never more than the machine ----

MACHINE = Layout.of_equal(64, 4)


def with_jobs(spans: list[tuple[float, float, int, list[tuple[float, int]]]], folder: Path) -> RunRecord:
    """A run of jobs of start, end, nodes and changes of size (instant, nodes) on nodes of 16 processors."""
    made = MalleableFolder(folder)
    for start, end, nodes, changes in spans:
        number = made.job(due=0.0, runtime=end - start, processors=16 * nodes, nodes=nodes, extras={"malleable": WORDS})
        made.record(number, start, end, malleable=sizes(start, nodes, *changes))
        made.slurm(number, start, end, nodes=nodes)
    return made.collect()


def test_more_processors_than_the_machine_has_are_found(tmp_path: Path) -> None:
    run = with_jobs([(0.5, 100.5, 2, [(50.5, 4)]), (10.5, 90.5, 2, [])], tmp_path)
    assert verdict.reasons(run, MACHINE) == [
        "96 processors were allocated at once, 5052 s into the trace, and the machine has 64: see resizes.csv"
    ]
    fits = with_jobs([(0.5, 100.5, 2, [(90.5, 4)]), (10.5, 90.5, 2, [])], tmp_path)
    assert verdict.reasons(fits, MACHINE) == []
    assert verdict.most_allocated(fits) is not None


@given(st.data())
def test_what_a_machine_can_hold_is_never_too_much_and_one_node_more_is_found(data: st.DataObject) -> None:
    """Jobs get what is free at random instants, and give some of it back: as Slurm's record has it, in whole seconds."""
    instants = data.draw(st.lists(st.integers(1, 400), min_size=4, max_size=24, unique=True).map(sorted))
    free, running, changes = 4, {}, []
    rows: list[tuple[int, int, int | None]] = []
    for at in instants:
        growing = data.draw(st.booleans()) and free > 0
        if growing and data.draw(st.booleans()):
            nodes = data.draw(st.integers(1, free))
            rows.append((at, nodes, None))
            running[len(rows) - 1] = nodes
            free -= nodes
        elif growing and running:
            job = data.draw(st.sampled_from(sorted(running)))
            more = data.draw(st.integers(1, free))
            running[job] += more
            free -= more
            changes.append((job, at, running[job]))
        elif running:
            job = data.draw(st.sampled_from(sorted(running)))
            less = data.draw(st.integers(1, running[job]))
            free += less
            running[job] -= less
            if running[job]:
                changes.append((job, at, running[job]))
            else:
                rows[job] = (rows[job][0], rows[job][1], at)
                del running[job]
    ended = [(start, nodes, end or 500) for start, nodes, end in rows]
    if not ended:
        return
    run = _collected(ended, changes)
    found = verdict.most_allocated(run)
    assert found is not None
    assert found[0] <= 64
    assert verdict.reasons(run, MACHINE) == []
    longest = max(ended, key=lambda one: one[2] - one[0])
    if longest[2] - longest[0] > 4:
        beside = _collected([*ended, (longest[0], 4, longest[2])], changes)
        assert verdict.reasons(beside, MACHINE)


def _collected(jobs: list[tuple[int, int, int]], changes: list[tuple[int, int, int]]) -> RunRecord:
    """What the check reads of a run: jobs of start, nodes and end, and changes of a job's size at an instant."""
    with tempfile.TemporaryDirectory() as folder:
        made = MalleableFolder(Path(folder))
        for start, nodes, end in jobs:
            made.job(due=0.0, runtime=float(end - start), processors=16 * nodes, nodes=nodes, extras={"malleable": WORDS})
        for number, (start, nodes, end) in enumerate(jobs, 1):
            own = [(float(at), size) for job, at, size in changes if job == number - 1]
            made.record(number, float(start), float(end), malleable=sizes(float(start), nodes, *own))
            made.slurm(number, float(start), float(end), nodes=nodes)
        return made.collect()


def test_a_job_that_found_processors_taken_by_a_grown_one_had_to_wait(tmp_path: Path) -> None:
    """Job 1 has 2 of 4 nodes, all of them from 20 s to 50 s, and 1 to its end. Job 2 comes at 30 s and waits until 50 s. Jobs 3
    and 4 come at 60 s and 110 s, when there are enough."""
    made = MalleableFolder(tmp_path)
    first = made.job(due=0.0, runtime=100.0, processors=32, nodes=2, extras={"malleable": WORDS})
    made.record(first, 0.5, 100.5, malleable=sizes(0.5, 2, (20.5, 4), (50.5, 1)))
    for second, nodes in ((20.5, 2), (50.5, 4)):
        made.slurm(first, 50.5, second, state="RESIZING", nodes=nodes)
    made.slurm(first, 50.5, 100.5, nodes=1)
    made.scontrol(first, "COMPLETED", start=0.5, end=100.5, suspend_time=None, before=0)
    for due, start, processors in ((30.0, 50.6, 32), (60.0, 60.4, 16), (110.0, 110.4, 64)):
        number = made.job(due=due, runtime=20.0, processors=processors)
        made.record(number, start, start + 20)
        made.slurm(number, start, start + 20, nodes=processors // 16)
    found = start_latencies(made.collect(), MACHINE).to_list()
    assert len(found) == 3
    assert max(found) < 1.0


def test_rigid_runs_are_not_judged(tmp_path: Path) -> None:
    made = MalleableFolder(tmp_path)
    made.played(made.job(due=0.0), start=0.1)
    run = made.collect()
    assert verdict.most_allocated(run) is None
    assert run.tables.allocations.is_empty()


@pytest.mark.parametrize("recorded", [True, False])
def test_a_resized_job_that_was_requeued_has_an_execution_with_both_ends(tmp_path: Path, recorded: bool) -> None:
    """Slurm tells no start of the execution that changed its size: it is the program's, or else that of the last part."""
    made = MalleableFolder(tmp_path)
    number = made.job(due=0.0, runtime=100.0, processors=32, nodes=2, extras={"malleable": WORDS})
    made.slurm(number, start=50.03, end=50.03, state="RESIZING", nodes=2)
    made.slurm(number, start=50.03, end=60.0, state="PENDING", nodes=4)
    if recorded:
        made.record(number, 0.03, 60.0, completed=False, malleable=sizes(0.03, 2, (50.03, 4)))
    made.record(number, 80.03, 180.03, restart=1, malleable=sizes(80.03, 2))
    made.slurm(number, start=80.0, end=180.03, submit=60.0)
    run = made.collect()
    [lost] = run.tables.executions.to_dicts()
    assert lost["job"] == number
    assert lost["start"] == pytest.approx(ORIGIN + (0.03 if recorded else 50.03), abs=0.6)
    assert lost["end"] == pytest.approx(ORIGIN + 60.0, abs=0.6)
    files = run_files.render(run, 64, 4)
    for name in ("jobs.csv", "executions.csv"):
        (tmp_path / name).write_bytes(files[name])
    read_schedule(tmp_path / "jobs.csv")


def test_a_run_on_a_full_machine_is_known_by_its_waiting_jobs(tmp_path: Path) -> None:
    """The first job of each pair fills the machine, and the second one starts when it has shrunk, 5 s late in the last pair."""
    made = MalleableFolder(tmp_path)
    for pair in range(15):
        first = made.job(due=10.0 * pair, runtime=100.0, processors=64, nodes=4, extras={"malleable": WORDS})
        second = made.job(due=10.0 * pair + 1, runtime=50.0, processors=32, nodes=2, extras={"malleable": WORDS})
        start, late = 100.5 * pair + 0.5, 5.0 * (pair == 14)
        made.record(first, start, start + 100, malleable=sizes(start, 4, (start + 50, 2)))
        made.slurm(first, start=start + 50, end=start + 50, state="RESIZING", nodes=4)
        made.slurm(first, start=start + 50, end=start + 100, nodes=2)
        made.scontrol(first, "COMPLETED", start=start, end=start + 100, suspend_time=None, before=0)
        made.resized(first, 4, 2, asked=start + 49.9, done=start + 50)
        made.record(second, start + 50 + late, start + 100 + late, malleable=sizes(start + 50 + late, 2))
        made.slurm(second, start + 50 + late, start + 100 + late)
    run = made.collect()
    found = dispatch_gaps(run, Layout.of_equal(64, 4), Scheduling(by_submission=True), 0.0)
    assert found.filter("waited")["gap"].count() == 29, "all jobs but the first one"
    assert found["gap"].to_list() == [*[pytest.approx(0.0, abs=0.6)] * 29, pytest.approx(5.0, abs=0.1)]


@pytest.mark.parametrize(("processors", "is_known"), [(1, True), (16, False)])
def test_rigid_jobs_beside_malleable_ones_wait_for_processors_where_a_node_has_one(
    tmp_path: Path, processors: int, is_known: bool
) -> None:
    """Malleable jobs take whole nodes. Where others share nodes, it is not known which free processors they can have."""
    made = MalleableFolder(tmp_path)
    for number in range(6):
        words = WORDS if number % 2 else ""
        job = made.job(
            due=1.0 * number, runtime=100.0, processors=4 * processors, nodes=4 if words else None, extras={"malleable": words}
        )
        start = 0.1 + 100.5 * number
        made.record(job, start, start + 100, **({"malleable": sizes(start, 4)} if words else {}))
        made.slurm(job, start, start + 100)
    found = dispatch_gaps(made.collect(), Layout.of_equal(4 * processors, 4), Scheduling(by_submission=True), 0.0)
    assert found.height == (6 if is_known else 0)
