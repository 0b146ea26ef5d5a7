"""The three verdicts: what makes a run invalid although its means look well, and what makes it inconclusive."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_folders import beside

from mirage.metrics.jobs_frame import JOBS_SCHEMA
from mirage.records.record import Launches, ManagerFacts, RunRecord, Tables
from mirage.records.time_map import TimeMap
from mirage.verdict import resolution
from mirage.verdict.resolution import Resolution, Scales, metrics_too_coarse, too_coarse
from mirage.verdict.start_latency import start_latencies
from mirage.verdict.thresholds import Thresholds
from mirage.verdict.validity import judge
from slurm_mirage.clock.clock import Clock
from slurm_mirage.rm.api import NEVER_TOLD
from slurm_mirage.rm.evidence import Layout, Node, Scheduling
from slurm_mirage.rm.slurm.layout import parse_layout

RUN_TIMES = [30.0, 60.0, 150.0, 300.0, 300.0, 300.0, 900.0, 3600.0, 10800.0, 46000.0]
"""As in a log with a heavy tail: the median is 300 s, the mean 6244 s."""
SAMPLES = pl.DataFrame({"nodes_not_responding": [0.0], "cpu_busy": [0.4]})
DIAGNOSTICS = pl.DataFrame({"backfill_last_cycle_us": [1.0], "backfill_max_cycle_us": [1.0]})
FINISHED: dict[str, Any] = {"ended": 1.0, "messages": {}}
LAYOUT = Layout.of_equal(1000, 1000)


def collected(
    count: int = 1000,
    *,
    stretch: float = 0.0,
    lag: float = 0.0,
    wait: float = 2.0,
    run_times: list[float] = RUN_TIMES,
    speed: float = 500.0,
    shrink: float = 100.0,
    memory: int | list[int | None] | None = None,
    disagreements: list[str] | None = None,
    launch_cost: float = 0.0,
    clipped: int = 0,
    freed: float | None = 0.01,
    **columns: list[Any],
) -> RunRecord:
    """Jobs of one processor, 600 s apart, that wait `wait` s from acceptance, `lag` s after they were due.

    columns: of jobs and evidence, in place of what the other arguments give
    """
    run = [run_times[place % len(run_times)] for place in range(count)]
    due = [600.0 * place for place in range(count)]
    start = [instant + lag + wait for instant in due]
    end = [begin + length for begin, length in zip(start, run, strict=True)]
    jobs: dict[str, Any] = {
        "id": range(1, count + 1), "submit": due, "eligible": [instant + lag for instant in due], "start": start, "end": end,
        "suspended": 0.0, "processors": 1, "nodes": 1, "requested": 7200.0, "runtime": run, "priority": "d", "partition": "batch",
        "state": "COMPLETED", "submit_lag": lag, "preset": None,
    }  # fmt: skip
    evidence: dict[str, Any] = {
        "id": range(1, count + 1), "slurm_id": range(1, count + 1), "restarts": 0, "recorded": True, "cancel_wanted": False,
        "limit_extended": False, "allocated": 1, "run_time": run, "launch": 0.02, "stretch": float(stretch), "limit": 14400.0,
        "slurm_submit": [instant + lag for instant in due], "slurm_end": end, "own_end": end, "whole_nodes": False,
        "dependent": False, "request": "", "array": None, "at_once": None, "limited": False, "launch_cost": launch_cost,
        "clipped": [place < clipped for place in range(count)],
    }  # fmt: skip
    frames = []
    for content in (jobs, evidence):
        content = {name: columns.get(name, value) for name, value in content.items()}
        series = {name: value for name, value in content.items() if not isinstance(value, (str, int, float, type(None)))}
        same = {name: pl.lit(value) for name, value in content.items() if name not in series}
        frames.append(pl.DataFrame({name: list(value) for name, value in series.items()}).with_columns(**same))
    kinds = disagreements or []
    return RunRecord(
        jobs=frames[0].select(pl.col(name).cast(kind) for name, kind in JOBS_SCHEMA.items()),
        evidence=frames[1].with_columns(
            memory=pl.Series(memory if isinstance(memory, list) else [memory] * count, dtype=pl.Int64),
            freed=pl.lit(freed, pl.Float64),
            suspended_apart=pl.lit(None, pl.Float64),
            expected=pl.lit(None, pl.Float64),
            broker_waited=pl.lit(None, pl.Float64),
        ),
        time=TimeMap(Clock(0, 0, speed=speed, shrink=shrink), 0.0),
        tables=Tables(
            disagreements=pl.DataFrame(
                {"id": range(1, len(kinds) + 1), "kind": kinds, "seconds": [None] * len(kinds)},
                schema={"id": pl.Int64, "kind": pl.String, "seconds": pl.Float64},
            )
        ),
        launches=Launches(launch_cost, 0.0),
    )


def verdict(run: RunRecord, layout: Layout = LAYOUT, **more: Any) -> dict[str, Any]:
    return judge(beside(SAMPLES, DIAGNOSTICS, FINISHED), run, layout, **more)


def waiting(**more: Any) -> RunRecord:
    """A run of which nothing is known to be wrong: every second job waits for an hour, for another one that it depends on."""
    run = collected(more.pop("count", 1000), **({"speed": 50.0} | more))
    dependent = pl.col("id") % 2 == 0
    jobs = run.jobs.with_columns(
        start=pl.when(dependent).then(pl.col("start") + 3600).otherwise("start"),
        end=pl.when(dependent).then(pl.col("end") + 3600).otherwise("end"),
    )
    return replace(run, jobs=jobs, evidence=run.evidence.with_columns(dependent=dependent))


# ---- what means hide ----


def test_a_run_that_waits_long_is_valid() -> None:
    found = verdict(waiting())
    assert (found["verdict"], found["valid"], found["reasons"], found["inconclusive"]) == ("valid", True, [], [])


@pytest.mark.parametrize("stretch", [-100.0, 60.0])
def test_jobs_that_are_too_short_or_too_long_make_a_run_invalid(stretch: float) -> None:
    """60 s are 1 % of the mean run time, but a fifth of the median job's."""
    found = verdict(waiting(stretch=stretch))
    assert found["verdict"] == "invalid"
    assert found["stretch_share_p50"] == pytest.approx(stretch / 300)
    assert any(reason.startswith("run-time stretch p50 is ") for reason in found["reasons"])
    assert any(reason.startswith("run-time stretch of ") for reason in found["reasons"])


def test_a_systematic_error_of_one_class_makes_a_run_invalid() -> None:
    """Jobs of up to a minute run a tenth too long, and all others as long as they should."""
    stretch = [6.0 if place % 10 < 2 else 0.0 for place in range(1000)]
    run = waiting(speed=50.0)
    assert verdict(run)["valid"]
    run = replace(run, evidence=run.evidence.with_columns(stretch=pl.Series(stretch)))
    found = verdict(run)
    assert found["reasons"] == [
        "run-time stretch of 1 class of jobs (run time up to 1 min: p50 12.5 %, over 5 %): lower SPEED to 20 or less"
    ]
    [row] = [row for row in found["stretch_classes"] if row["runtime"] == "up to 1 min"]
    assert (row["jobs"], row["judged"], row["p50"]) == (200, "all", pytest.approx(0.125, abs=0.001))


def test_a_class_of_few_jobs_is_shown_and_not_judged() -> None:
    run = waiting(speed=50.0, count=90)
    stretch = [6.0 if place % 10 < 2 else 0.0 for place in range(90)]
    run = replace(run, evidence=run.evidence.with_columns(stretch=pl.Series(stretch)))
    found = verdict(run)
    [row] = [row for row in found["stretch_classes"] if row["runtime"] == "up to 1 min"]
    assert (row["jobs"], row["judged"]) == (18, "nothing")
    assert found["valid"]


def test_submissions_that_are_late_make_a_run_invalid() -> None:
    found = verdict(collected(lag=300.0, wait=2.0))
    assert found["verdict"] == "invalid"
    assert found["resolution"]["mean_wait"] == pytest.approx(302.0)
    assert [reason.split(" is ")[0] for reason in found["reasons"][:-1]] == ["mean submit lag", "submit lag p99"]
    assert found["reasons"][-1] == "lower SPEED to 33 or less"


@pytest.mark.parametrize("memory", [None, 2000])
def test_start_latency_is_measured_with_and_without_memory(memory: int | None) -> None:
    found = verdict(collected(wait=200.0, memory=memory))
    assert (found["verdict"], found["start_latency_p50"], found["start_latency_jobs"]) == ("invalid", 200.0, 1000)
    assert any(reason.startswith("start latency p50 is 200 trace s, over 20 s") for reason in found["reasons"])


def test_a_start_latency_that_cannot_be_measured_is_no_good_one() -> None:
    run = waiting()
    run = replace(run, evidence=run.evidence.with_columns(dependent=pl.lit(True)))
    found = verdict(run)
    assert found["verdict"] == "inconclusive"
    [reason] = found["reasons"]
    assert reason.startswith("start latency could not be measured")


@pytest.mark.parametrize(
    ("kind", "count", "wanted"),
    [
        ("ran under another job number too", 10, "invalid"),
        ("ran under another job number too", 1, "invalid"),
        ("in Slurm's record only", 1, "invalid"),
        ("in sigsleep's record only", 1, "invalid"),
        ("state", 1, "invalid"),
        ("no job of this run", 1, "invalid"),
        ("ran again after its end", 1, "invalid"),
        ("start", 10, "valid"),
        ("start", 11, "invalid"),
    ],
)
def test_disagreements(kind: str, count: int, wanted: str) -> None:
    assert verdict(waiting(disagreements=[kind] * count))["verdict"] == wanted


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({"launch_cost": 29.0}, ""),
        ({"launch_cost": 31.0}, "the launch cost that was taken off each job"),
        ({"clipped": 10}, ""),
        ({"clipped": 11}, "the share of jobs that are shorter than a launch"),
        ({"freed": 80.0}, ""),
        ({"freed": 100.0}, "the time until processors are free after a job's end, p50,"),
    ],
)
def test_launches_and_completions_have_bounds(more: dict[str, Any], name: str) -> None:
    """The median job runs for 300 s, and the mean wait is 1802 s."""
    found = verdict(waiting(**more))
    assert found["verdict"] == ("invalid" if name else "valid")
    assert not name or found["reasons"][0].startswith(name)


# ---- too coarse ----


DENSER = "jobs hardly wait: take a denser workload (larger LOAD, or fewer NODES)"


def coarse(speed: float, shrink: float, wait: float, runtime: float = 1e6, own: float = 0.0) -> list[str]:
    clock = Clock(speed=speed, shrink=shrink)
    run = Resolution(clock.virtual_to_trace(1.0), clock.real_to_trace(resolution.START), shrink)
    return too_coarse(run, Scales(wait, wait, runtime), own, Thresholds())


@pytest.mark.parametrize(
    ("speed", "shrink", "wait", "runtime", "advice"),
    [
        (50, 100, 292, 1e6, None),
        (364, 100, 292, 1e6, None),
        (500, 100, 292, 1e6, "SPEED=360 or less would do"),
        (500, 50, 292, 1e6, "SHRINK=100 SPEED=360 or less would do"),
        (1, 0.2, 748, 1e6, "SHRINK=100 SPEED=930 or less would do"),
        (500, 100, 1e6, 300, "SPEED=370 or less would do"),
        (500, 100, 292, 300, "SPEED=360 or less would do"),
        (0.5, 100, 21, 1e6, None),
        (0.5, 100, 19, 1e6, f"no SPEED resolves times below 20 s; {DENSER}"),
        (1, 100, 0, 1e6, f"no SPEED resolves times below 20 s; {DENSER}"),
        (1, 200, 9, 1e6, f"no SPEED resolves times below 10 s; {DENSER}"),
        (1, 100, 100, 12, "no SPEED resolves times below 20 s; most jobs are too short: leave out short ones (MIN_RUNTIME)"),
    ],
)  # fmt: skip
def test_what_would_resolve_the_waits(speed: float, shrink: float, wait: float, runtime: float, advice: str | None) -> None:
    found = coarse(speed, shrink, wait, runtime)
    assert len(found) == (0 if advice is None else 1)
    assert advice is None or found[0].endswith(f"at most 5% is conclusive: {advice}")


def test_the_speed_that_would_do_is_that_of_the_waits_without_the_emulations_part() -> None:
    """A mean wait of 60 s, of which 25 s are lag and start latency, is one of 35 s at a lower SPEED."""
    assert coarse(500, 100, 60)[0].endswith(": SPEED=75 or less would do")
    assert coarse(500, 100, 60, own=25.0)[0].endswith(": SPEED=43 or less would do")


@given(st.floats(0.01, 1000), st.floats(0.01, 10_000), st.floats(0, 1e6), st.floats(1, 1e6))
def test_the_advice_is_enough(speed: float, shrink: float, wait: float, runtime: float) -> None:
    """What is named resolves the same waits and run times; where no SPEED is named there is none."""
    found = coarse(speed, shrink, wait, runtime)
    if not found:
        return
    advice = found[0].rpartition("is conclusive: ")[2]
    if advice.startswith("no SPEED"):
        assert coarse(1, max(100.0, shrink), wait, runtime)
        return
    named = dict(word.split("=") for word in advice.removesuffix(" or less would do").split())
    assert not coarse(float(named["SPEED"]), float(named.get("SHRINK", shrink)), wait, runtime)


def test_a_coarse_run_is_inconclusive_although_no_bound_is_exceeded() -> None:
    """At SHRINK=0.2 Slurm's second is 500 s."""
    found = verdict(waiting(speed=1.0, shrink=0.2, run_times=[40_000.0]))
    assert (found["verdict"], found["valid"]) == ("inconclusive", False)
    assert found["reasons"] == found["inconclusive"]
    assert found["reasons"][0] == (
        "too coarse: this run resolves 500 trace s (Slurm's record has whole seconds at SHRINK=0.2), which is 28 % of the mean "
        "wait (1800 s); at most 5% is conclusive: SHRINK=100 SPEED=1000 or less would do"
    )


def test_an_invalid_run_tells_what_is_inconclusive_too() -> None:
    found = verdict(collected(stretch=-100.0))
    assert found["verdict"] == "invalid"
    assert found["inconclusive"][0].startswith("too coarse: ") and found["inconclusive"][0] not in found["reasons"]


def test_what_slurm_itself_may_cause_is_inconclusive() -> None:
    """A start latency of 3 s may be batch_sched_delay."""
    run = waiting(speed=1.0, wait=3.0)
    jobs = run.jobs.with_columns(
        start=pl.when(pl.col("id") % 2 == 0).then(pl.col("start") - 3526).otherwise("start"),
        end=pl.when(pl.col("id") % 2 == 0).then(pl.col("end") - 3526).otherwise("end"),
    )
    found = verdict(replace(run, jobs=jobs))
    assert found["verdict"] == "inconclusive"
    assert found["reasons"] == [
        f"{name} is 3 trace s, over 2 s (5 % of the mean wait), which Slurm itself may cause (4 s of Slurm's time): "
        "take a workload that waits longer"
        for name in ("start latency p50", "mean start latency")
    ]


def test_a_median_stretch_within_slurms_second_is_inconclusive() -> None:
    found = verdict(waiting(speed=1.0, stretch=0.9, run_times=[50.0]))
    assert found["verdict"] == "inconclusive"
    assert found["reasons"][0].startswith(
        "run-time stretch p50 is 1.8 % of a job's run time, over 1 %, which Slurm itself may cause"
    )


@pytest.mark.parametrize(
    ("speed", "below", "found"),
    [(75.0, 60.0, False), (76.0, 60.0, True), (1.0, 20.0, False), (1.0, 19.0, True)],
)
def test_a_metric_can_be_too_coarse_in_a_valid_run(speed: float, below: float, found: bool) -> None:
    run = waiting(speed=speed)
    told = verdict(run, immediate_below=below)
    assert told["verdict"] == "valid"
    assert ("immediate_fraction" in told["inconclusive_metrics"]) is found
    assert metrics_too_coarse(Resolution.of(run), None, Thresholds()) == {}


def test_no_jobs_that_started() -> None:
    run = collected(10)
    never = replace(
        run,
        jobs=run.jobs.with_columns(start=pl.lit(None, pl.Float64), end=pl.lit(None, pl.Float64), state=pl.lit("CANCELLED")),
        evidence=run.evidence.with_columns(cancel_wanted=pl.lit(True), stretch=pl.lit(None, pl.Float64)),
    )
    assert verdict(never)["reasons"] == ["no job started: there are no waits to measure"]


# ---- what a median hides ----


def test_starts_that_are_late_for_less_than_half_of_the_jobs_make_a_run_invalid() -> None:
    """Of the jobs that need not wait, 45 % wait for 300 s."""
    run = waiting()
    late = (pl.col("id") % 2 == 1) & (pl.col("id") % 20 < 9)
    moved = [(pl.col(name) + pl.when(late).then(300.0).otherwise(0.0)).alias(name) for name in ("start", "end")]
    found = verdict(replace(run, jobs=run.jobs.with_columns(moved)))
    assert (found["verdict"], found["start_latency_p50"]) == ("invalid", 2.0)
    assert found["start_latency_mean"] > 100 and found["start_latency_p99"] == pytest.approx(302.0)
    assert [reason.split(" is ")[0] for reason in found["reasons"][:-1]] == ["mean start latency", "start latency p99"]


@pytest.mark.parametrize(("share", "wanted"), [(0.005, "valid"), (0.045, "invalid"), (-0.045, "invalid")])
def test_few_long_jobs_that_are_most_of_the_load_have_a_bound(share: float, wanted: str) -> None:
    """Jobs of 46,000 s, a tenth of the jobs, are three quarters of the load."""
    stretch = pl.Series([length * share if length > 40_000 else 0.0 for length in RUN_TIMES] * 100)
    run = waiting()
    found = verdict(replace(run, evidence=run.evidence.with_columns(stretch=stretch)))
    assert found["verdict"] == wanted and found["stretch_share_p50"] == 0
    assert found["stretch_of_load"] == pytest.approx(share * 46_000 / sum(RUN_TIMES), abs=1e-6)
    names = [] if wanted == "valid" else ["run-time stretch of all jobs together"]
    assert [reason.split(" is ")[0] for reason in found["reasons"]] == names


@pytest.mark.parametrize(("known", "wanted"), [(900, "valid"), (899, "inconclusive"), (1, "inconclusive")])
@pytest.mark.parametrize(("name", "words"), [("stretch", "run-time stretch is known of"), ("freed", "when processors were free")])
def test_a_figure_of_few_jobs_is_not_measured(name: str, words: str, known: int, wanted: str) -> None:
    run = waiting()
    few = run.evidence.with_columns(pl.when(pl.col("id") <= known).then(name).alias(name))
    found = verdict(replace(run, evidence=few))
    assert (found["verdict"], found[f"{name}_known"]) == (wanted, known / 1000)
    assert all(reason.startswith(words) for reason in found["reasons"])


@pytest.mark.parametrize(("count", "known", "wanted"), [(1000, 10, "valid"), (1000, 9, "inconclusive"), (4, 2, "inconclusive")])
def test_the_start_latency_of_few_jobs_is_not_measured(count: int, known: int, wanted: str) -> None:
    run = waiting(count=count, run_times=[300.0])
    others = (pl.col("id") % 2 == 0) | (pl.col("id") > 2 * known)
    found = verdict(replace(run, evidence=run.evidence.with_columns(dependent=others)), immediate_below=None)
    assert found["start_latency_jobs"] == known
    assert found["verdict"] == wanted
    words = f"how late jobs were started is known of {known} jobs only, of at least {min(count, 10)}"
    assert all(reason.startswith(words) for reason in found["reasons"])


# ---- what could not be measured ----


def test_figures_that_could_not_be_measured() -> None:
    run = waiting()
    assert judge(beside(SAMPLES, pl.DataFrame(), FINISHED, scheduling=Scheduling(has_cycles=True)), run, LAYOUT)["reasons"] == [
        "no sample of the scheduler's diagnostics: the longest backfill cycle is not known"
    ]
    assert judge(beside(SAMPLES, pl.DataFrame(), FINISHED), run, LAYOUT)["valid"], "strict FIFO has no backfill cycles"
    found = judge(beside(SAMPLES, DIAGNOSTICS, {"ended": 1.0}), run, LAYOUT)
    assert (found["verdict"], found["reasons"]) == ("inconclusive", ["the daemons' error messages were not counted"])
    unknown = replace(run, evidence=run.evidence.with_columns(stretch=pl.lit(None, pl.Float64)))
    assert verdict(unknown)["reasons"] == ["run-time stretch could not be measured: no job completed in its first run"]
    [reason] = verdict(replace(run, launches=Launches(reason="why")))["reasons"]
    assert reason.startswith("what a launch costs could") and reason.endswith(": why")


@pytest.mark.parametrize("reason", ["", NEVER_TOLD, "why"])
def test_completions_that_were_not_measured_are_not_known_to_be_short(reason: str) -> None:
    found = verdict(replace(waiting(freed=None), manager=ManagerFacts(freed_reason=reason)))
    assert found["verdict"] == "inconclusive"
    words = "when the processors of jobs were free again is not known"
    assert found["reasons"] == [f"{words}: {reason or 'no job has a record of it'}"]


def test_the_clock_of_jobs_that_come_together_is_measured_by_their_ends() -> None:
    run = waiting(speed=50.0)
    together = {"submit": pl.lit(0.0), "eligible": pl.lit(0.0)}
    jobs = run.jobs.with_columns(**together)
    wrong = run.evidence.with_columns(slurm_submit=pl.lit(0.0), slurm_end=pl.col("own_end") * 1.1)
    found = verdict(replace(run, jobs=jobs, evidence=wrong))
    assert "Slurm's clock ran 55 times as fast as real time, not 50 times (to 1.00%)" in found["reasons"]
    few = replace(run, jobs=jobs.head(1), evidence=run.evidence.head(1))
    assert any(reason.startswith("the speed of Slurm's clock could not be measured") for reason in verdict(few)["inconclusive"])


# ---- start latency by partition, limits and memory ----

CONF = """
# comment
AccountingStorageEnforce=associations,limits
NodeName=n[1-2] CPUS=4 RealMemory=8000
NodeName=fat1 CPUs=8 RealMemory=64000
PartitionName=batch Nodes=n[1-2] Default=YES
PartitionName=fat Nodes=fat1
PartitionName=all Nodes=ALL
PartitionName=part Nodes=n1 QOS=small
"""


def test_the_machine_of_a_slurm_conf() -> None:
    found = parse_layout(CONF)
    assert found is not None
    assert found.nodes == {"n1": Node(4, 8000), "n2": Node(4, 8000), "fat1": Node(8, 64000)}
    assert found.partitions["batch"] == {"n1", "n2"} and found.partitions["all"] == {"n1", "n2", "fat1"}
    assert found.limited == {"part"} and found.enforces_limits
    with_gpus = parse_layout("NodeName=g[1-2] CPUs=4 Gres=gpu:a100:4,nvme:1\nNodeName=v1 CPUs=4 Gres=gpu:v100:2\n")
    assert with_gpus is not None and with_gpus.gpus == {"a100": 8, "v100": 2} and found.gpus == {}
    assert parse_layout("NodeName=n[1-") is None and parse_layout("NodeName=n1") is None


def latencies(layout: Layout | None, jobs: list[dict[str, Any]]) -> list[float]:
    """Jobs with submit, start, end, and what else differs from one processor in partition batch."""
    columns = {name: [job[name] for job in jobs] for name in ("submit", "start", "end")}
    defaults = {"processors": 1, "nodes": 1, "partition": "batch", "whole_nodes": False, "limited": False, "memory": None}
    defaults["restarts"] = 0
    columns |= {name: [job.get(name, value) for job in jobs] for name, value in defaults.items()}
    assert layout is not None
    return start_latencies(collected(len(jobs), eligible=columns["submit"], **columns), layout).to_list()


LONG = {"submit": 0.0, "start": 1.0, "end": 1000.0}
LATE = {"submit": 10.0, "start": 40.0, "end": 50.0}


@pytest.mark.parametrize(
    ("first", "second", "judged"),
    [
        # The processors of its own partition were taken, or those of another one.
        ({"processors": 8, "nodes": 2}, {}, False),
        ({"processors": 8, "partition": "fat"}, {}, True),
        ({"processors": 9, "nodes": 3, "partition": "all"}, {}, False),
        ({"processors": 1, "partition": "all"}, {}, True),
        ({}, {"partition": "part"}, False),
        # A requeued job has its last start.
        ({}, {"restarts": 1}, False),
        # Limits of an account or a QOS, which are not known, can only hold if another job is there.
        ({"limited": True}, {"limited": True}, False),
        ({"end": 5.0, "limited": True}, {"limited": True}, True),
        ({"limited": True}, {}, True),
        # 4 processors of an idle node with 2000 MiB each; with 4000 MiB a node has only 2.
        ({}, {"memory": 2000, "processors": 4}, True),
        ({}, {"memory": 4000, "processors": 2}, True),
        ({}, {"memory": 4000, "processors": 3}, False),
        ({"processors": 2, "nodes": 2}, {"memory": 100}, False),
        ({}, {"whole_nodes": True}, True),
        ({"processors": 2, "nodes": 2}, {"whole_nodes": True}, False),
    ],
)
def test_jobs_that_need_not_have_waited(first: dict[str, Any], second: dict[str, Any], judged: bool) -> None:
    found = latencies(parse_layout(CONF), [LONG | first, LATE | second])
    assert (30.0 in found) is judged


def test_a_partition_that_is_not_known_is_judged_only_where_it_is_the_only_one() -> None:
    equal = Layout.of_equal(16, 4)
    assert latencies(equal, [LONG, LATE]) == [1.0, 30.0]
    assert latencies(equal, [LONG | {"partition": "other"}, LATE]) == []


def test_two_digits_of_a_speed_are_safe() -> None:
    assert math.isclose(float(coarse(500, 100, 100)[0].rpartition("SPEED=")[2].split()[0]), 120.0)
