"""Metrics against a schedule worked out on paper, a slow second implementation, and the mistakes of other tools."""

from __future__ import annotations

import gzip
import itertools
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_mirage import metrics, swf, trace
from slurm_mirage.errors import WrongUse
from slurm_mirage.sigsleep_log import Record, Suspension

TRACES = Path(__file__).parents[2] / ".." / "shared" / "traces"


def log(name: str) -> Path:
    path = TRACES / name
    if not path.exists():
        pytest.skip(f"skipped: ../shared/traces/{name} not there")
    return path


def frame(*jobs: dict[str, Any]) -> pl.DataFrame:
    """A jobs frame; what a row does not say is one processor, completed, never suspended, otherwise unknown."""
    base = {**dict.fromkeys(metrics.JOBS_SCHEMA), "processors": 1, "state": "COMPLETED", "suspended": 0.0}
    rows = [{**base, "id": number, **job} for number, job in enumerate(jobs, 1)]
    return pl.DataFrame(rows, schema=metrics.JOBS_SCHEMA)


def stops(*periods: tuple[int, float | None, float | None]) -> pl.DataFrame:
    schema = {"job": pl.Int64, "suspend": pl.Float64, "resume": pl.Float64}
    return pl.DataFrame(list(periods), schema=schema, orient="row")


# The worked example of metrics.py.
SIX = frame(
    {"submit": 0, "start": 0, "end": 10, "processors": 2},
    {"submit": 0, "start": 0, "end": 20, "processors": 2},
    {"submit": 5, "start": 10, "end": 30, "processors": 2},
    {"submit": 10, "start": 30, "end": 50, "processors": 4, "suspended": 4},
    {"submit": 12, "start": 50, "end": 51},
    {"submit": 20, "start": 20, "end": 30},
)
SIX_STOPS = stops((4, 40.0, 44.0))
ON_PAPER = {
    "wait_mean": 63 / 6,
    "wait_median": 2.5,
    "wait_p90": 29,
    "wait_p95": 33.5,
    "wait_p99": 37.1,
    "wait_max": 38,
    "response_mean": 144 / 6,
    "slowdown_mean": 45.75 / 6,
    "bounded_slowdown_mean": 10.65 / 6,
    "pp_bounded_slowdown_mean": 8.9 / 6,
    "weighted_slowdown": 319 / 175,
    "weighted_slowdown_processors": (2 + 2 + 2.5 + 10 + 39 + 1) / 12,
    "utilisation": 175 / (4 * 51),
    "loss_of_capacity": (1 * 10 + 1 * 4) / (4 * 51),
    "makespan": 51,
    "W": 63 / 6,
    "W1": 1.5 / 5,
    "W2": (5 / 10 + 20 / 10) / 5,
    "W3": (0.25 * 5 / 51 + 1.25 * 4 / 51) / 5,
    "W4": (0.25 * 3 / 4 + 1.25 * 1 / 4) / 5,
    "immediate_fraction": 3 / 6,
    "suspensions_mean": 1 / 6,
    "suspended_mean": 4 / 6,
    "suspended_fraction": 1 / 6,
}


def measure(jobs: pl.DataFrame, **options: Any) -> dict[str, Any]:
    """The metrics of a schedule on four nodes of one processor."""
    values: dict[str, Any] = metrics.compute(jobs, 4, 4, **options)["metrics"]
    return values


def test_six_jobs_on_paper() -> None:
    result = metrics.compute(SIX, 4, 4, suspensions=SIX_STOPS)
    assert result["metrics"] == pytest.approx(ON_PAPER, rel=1e-12)
    assert list(result["metrics"]) == list(metrics.MEANINGS)
    assert result["null_reasons"] == {}
    assert result["jobs"] == {
        "submitted": 6, "completed": 6, "failed": 0, "cancelled": 0, "timeout": 0, "lost": 0, "other": 0,
    }  # fmt: skip
    assert result["excluded"] == {"run time up to 1 s: not in W1 to W4": 1}
    assert result["settings"] == {
        "tau": 10.0, "w2_reading": "magnitude", "processors": 4, "nodes": 4, "warmup_cut": 0.0,
        "cooldown_cut": 0.0, "percentiles": "linear", "immediate_below": 1.0, "job_nodes": "packed",
    }  # fmt: skip


def test_the_order_of_the_jobs_does_not_matter() -> None:
    assert measure(SIX.reverse(), suspensions=SIX_STOPS) == pytest.approx(ON_PAPER, rel=1e-12)


def test_w2_as_logarithm() -> None:
    expected = (5 / math.log(20) + 20 / math.log(16)) / 5
    result = metrics.compute(SIX, 4, 4, suspensions=SIX_STOPS, w2_reading="log")
    assert result["metrics"]["W2"] == pytest.approx(expected)
    assert result["settings"]["w2_reading"] == "log"


@pytest.mark.parametrize(("runtime", "order"), [(2, 1), (9.9, 1), (10, 10), (999, 100), (1000, 1000), (1e6, 1e6)])
def test_w2_takes_the_order_of_the_run_time_exactly(runtime: float, order: float) -> None:
    jobs = frame({"submit": 0, "start": 70, "end": 70 + runtime})
    assert measure(jobs)["W2"] == pytest.approx(70 / order, rel=1e-12)


def test_recorded_nodes_are_used() -> None:
    jobs = frame({"submit": 0, "start": 8, "end": 12, "nodes": 3}, {"submit": 0, "start": 0, "end": 8, "nodes": 1})
    result = metrics.compute(jobs, 16, 4)
    # Job 1 waits twice its run time; fewer than 4 - 3 + 1 = 2 nodes are busy for 8 of 12 s.
    assert result["metrics"]["W3"] == pytest.approx(2 * 8 / 12 / 2)
    assert result["metrics"]["W4"] == pytest.approx(2 * 2 / 4 / 2)
    assert result["settings"]["job_nodes"] == "recorded"


# Decisions: who is counted, and in what.


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        ({"submit": 3, "end": 20, "state": "CANCELLED"}, "cancelled before start"),
        ({"submit": 3, "state": "CANCELLED"}, "cancelled before start"),
        ({"submit": 3, "state": "PENDING"}, "no start"),
        ({"submit": 3, "state": "LOST"}, "lost"),
        ({"submit": 3, "start": 4, "state": "RUNNING"}, "no end"),
        ({"submit": 3, "start": 1, "end": 9}, "negative wait"),
        ({"submit": 3, "start": 5, "end": 4}, "end before start"),
        ({"submit": 3, "start": 5, "end": 9, "processors": None}, "no processors"),
        ({"submit": 3, "start": 5, "end": 9, "processors": 0}, "no processors"),
        ({"submit": 3, "start": 5, "end": 9, "suspended": 5}, "suspended for longer than it ran"),
        ({"start": 5, "end": 9}, "no submission time"),
    ],
)
def test_a_job_that_cannot_be_measured_is_counted_and_changes_nothing(odd: dict[str, Any], reason: str) -> None:
    jobs = pl.concat([SIX, frame({"id": 99, **odd})])
    result = metrics.compute(jobs, 4, 4, suspensions=SIX_STOPS)
    assert result["excluded"][reason] == 1
    expected = dict(ON_PAPER)
    if odd.get("state") == "CANCELLED" and "end" in odd:
        # It asked for one processor until 20, and none was idle before.
        assert result["metrics"]["loss_of_capacity"] == pytest.approx(expected["loss_of_capacity"])
    assert result["metrics"] == pytest.approx(expected, rel=1e-12)


def test_a_job_cancelled_in_the_queue_waited_for_capacity() -> None:
    jobs = frame(
        {"submit": 0, "start": 0, "end": 10, "processors": 3},
        {"submit": 2, "end": 6, "processors": 4, "state": "CANCELLED"},
    )
    assert measure(jobs)["loss_of_capacity"] == pytest.approx(1 * 4 / (4 * 10))


@pytest.mark.parametrize("state", ["FAILED", "TIMEOUT", "NODE_FAIL", "CANCELLED", "COMPLETED"])
def test_a_job_that_ran_counts_however_it_ended(state: str) -> None:
    jobs = SIX.with_columns(state=pl.lit(state))
    assert measure(jobs, suspensions=SIX_STOPS) == pytest.approx(ON_PAPER, rel=1e-12)


def test_counts_of_states() -> None:
    states = [
        "COMPLETED", "COMPLETED", "FAILED", "NODE_FAIL", "CANCELLED", "TIMEOUT", "LOST", "PENDING", None,
    ]  # fmt: skip
    jobs = frame(*({"submit": 0, "start": 0, "end": 1, "state": state} for state in states))
    assert metrics.compute(jobs, 4, 4)["jobs"] == {
        "submitted": 9, "completed": 2, "failed": 2, "cancelled": 1, "timeout": 1, "lost": 1, "other": 2,
    }  # fmt: skip


def test_a_run_time_of_zero_is_in_waits_but_not_in_slowdowns() -> None:
    jobs = frame({"submit": 0, "start": 6, "end": 6}, {"submit": 0, "start": 0, "end": 20})
    result = metrics.compute(jobs, 4, 4)
    assert result["metrics"]["wait_mean"] == 3
    assert result["metrics"]["slowdown_mean"] == 1
    assert result["metrics"]["bounded_slowdown_mean"] == 1
    assert result["excluded"] == {
        "run time of 0: not in the slowdowns": 1, "run time up to 1 s: not in W1 to W4": 1,
    }  # fmt: skip


def test_suspended_time_is_response_but_not_run_time() -> None:
    jobs = frame({"submit": 0, "start": 10, "end": 50, "suspended": 20, "processors": 2})
    values = measure(jobs)
    assert values["response_mean"] == 50
    assert values["slowdown_mean"] == 50 / 20
    assert values["utilisation"] == 2 * 20 / (4 * 50)
    assert values["suspended_fraction"] == 1


def test_a_job_that_was_suspended_all_along_has_no_run_time() -> None:
    start, suspended = 7 * 35.604, 7.5 * 35.604
    # In floats the difference of start and end is not the time suspended.
    jobs = frame({"submit": 0, "start": start, "end": start + suspended, "suspended": suspended})
    result = metrics.compute(jobs, 4, 4)
    assert result["excluded"] == {
        "run time of 0: not in the slowdowns": 1, "run time up to 1 s: not in W1 to W4": 1,
    }  # fmt: skip
    assert result["metrics"]["slowdown_mean"] is None


def test_without_the_instants_of_suspensions_some_metrics_are_null() -> None:
    result = metrics.compute(SIX, 4, 4)
    expected = {**ON_PAPER, "W3": None, "loss_of_capacity": None, "suspensions_mean": None}
    assert result["metrics"] == pytest.approx(expected)
    assert set(result["null_reasons"]) == {"W3", "loss_of_capacity", "suspensions_mean"}
    half_known = metrics.compute(SIX, 4, 4, suspensions=stops((4, None, 44.0)))
    assert half_known["metrics"]["suspensions_mean"] == pytest.approx(1 / 6)
    assert set(half_known["null_reasons"]) == {"W3", "loss_of_capacity"}


def test_nothing_to_measure_gives_nulls_with_reasons() -> None:
    for jobs in (frame(), frame({"submit": 0, "state": "PENDING"})):
        result = metrics.compute(jobs, 4, 4)
        assert set(result["metrics"].values()) == {None}
        assert set(result["null_reasons"]) == set(metrics.MEANINGS)


def test_a_schedule_without_length() -> None:
    result = metrics.compute(frame({"submit": 5, "start": 5, "end": 5}), 4, 4)
    assert result["metrics"]["makespan"] == 0
    assert result["metrics"]["wait_mean"] == 0
    nulls = {name for name, value in result["metrics"].items() if value is None}
    assert nulls == set(result["null_reasons"])
    assert nulls >= {"utilisation", "loss_of_capacity", "slowdown_mean", "W1", "W3"}


def test_unknown_nodes_leave_out_w3_and_w4_only() -> None:
    result = metrics.compute(SIX, 4, None, suspensions=SIX_STOPS)
    assert set(result["null_reasons"]) == {"W3", "W4"}
    assert result["metrics"] == pytest.approx({**ON_PAPER, "W3": None, "W4": None})


@pytest.mark.parametrize(
    "wrong", [{"processors": 0}, {"nodes": 5}, {"nodes": 0}, {"tau": 0.0}, {"tau": math.nan}, {"w2_reading": "ln"}]
)
def test_settings_out_of_range(wrong: dict[str, Any]) -> None:
    with pytest.raises(WrongUse, match=f"^{next(iter(wrong))}: "):
        metrics.compute(SIX, **{"processors": 4, "nodes": 4, **wrong})


def test_partial_executions_are_no_jobs() -> None:
    jobs = pl.concat([SIX, frame({"id": 9, "submit": 0, "start": 30, "end": 90, "state": "PARTIAL"})])
    result = metrics.compute(jobs, 4, 4, suspensions=SIX_STOPS)
    assert result["jobs"]["submitted"] == 6
    assert result["excluded"]["partial execution"] == 1
    assert result["metrics"] == pytest.approx(ON_PAPER)


# Mistakes found in other tools.


def test_the_mean_is_not_the_last_job_over_n() -> None:
    jobs = frame({"submit": 0, "start": 90, "end": 91}, {"submit": 0, "start": 0, "end": 1})
    assert measure(jobs)["wait_mean"] == 45


def test_short_waits_are_not_dropped_from_the_mean() -> None:
    jobs = frame({"submit": 0, "start": 179, "end": 180}, {"submit": 0, "start": 181, "end": 182})
    assert measure(jobs)["wait_mean"] == 180


def test_jobs_with_a_slowdown_of_exactly_one_are_kept() -> None:
    jobs = frame({"submit": 0, "start": 0, "end": 20}, {"submit": 0, "start": 40, "end": 60})
    assert measure(jobs)["slowdown_mean"] == 2
    assert measure(jobs)["bounded_slowdown_mean"] == 2


def test_negative_waits_are_not_clamped_to_zero() -> None:
    jobs = frame({"submit": 9, "start": 5, "end": 20}, {"submit": 0, "start": 10, "end": 20})
    result = metrics.compute(jobs, 4, 4)
    assert result["metrics"]["wait_mean"] == 10
    assert result["metrics"]["immediate_fraction"] == 0
    assert result["excluded"]["negative wait"] == 1


@pytest.mark.parametrize("nodes", [1, 7, 166, 1000])
def test_the_number_of_nodes_is_not_built_in(nodes: int) -> None:
    jobs = frame({"submit": 0, "start": 10, "end": 20, "nodes": 1, "processors": 1})
    assert metrics.compute(jobs, nodes, nodes)["metrics"]["utilisation"] == pytest.approx(10 / (nodes * 20))


def test_the_makespan_begins_with_the_first_submission() -> None:
    assert measure(frame({"submit": 5, "start": 100, "end": 130}))["makespan"] == 125


def test_the_first_job_of_a_log_is_not_taken_for_a_heading(tmp_path: Path) -> None:
    path = tmp_path / "bare.swf"
    path.write_text("1 0 5 10 1 -1 -1 1 20 -1 1 1 1 -1 -1 -1 -1 -1\n2 1 6 10 1 -1 -1 1 20 -1 1 1 1 -1 -1 -1 -1 -1\n")
    values = measure(metrics.frame_from_swf(trace.read_trace(path).frame))
    assert values["wait_mean"] == 5.5


# A second implementation, slow and obvious.

JobTuple = tuple[float, float, float, float, int]  # submit, wait, run, suspended (before the run), processors


@st.composite
def schedules(draw: st.DrawFn) -> list[JobTuple]:
    times = st.integers(0, 60).map(float)
    job = st.tuples(times, times, times, st.sampled_from([0.0, 0.0, 0.0, 5.0, 7.5]), st.integers(1, 6))
    return draw(st.lists(job, min_size=1, max_size=12))


def as_frames(jobs: Sequence[JobTuple]) -> tuple[pl.DataFrame, pl.DataFrame]:
    rows = [{"submit": a, "start": a + w, "end": a + w + z + t, "suspended": z, "processors": p} for a, w, t, z, p in jobs]
    periods = [(n, a + w, a + w + z) for n, (a, w, _, z, _) in enumerate(jobs, 1) if z]
    return frame(*rows), stops(*periods)


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def slowly(jobs: Sequence[JobTuple], processors: int, tau: float = 10.0) -> dict[str, float | None]:
    """All metrics, job by job and moment by moment; every node has one processor."""
    first = min(a for a, *_ in jobs)
    last = max(a + w + z + t for a, w, t, z, p in jobs)
    span = last - first
    waits = [w for a, w, t, z, p in jobs]
    runs = [(w, w + z + t, t, p) for a, w, t, z, p in jobs if t > 0]
    long = [(w, t, p) for a, w, t, z, p in jobs if t > 1]
    bounded = [((w + z + t) / max(tau, t), p) for a, w, t, z, p in jobs]

    def running(moment: float) -> int:
        return sum(p for a, w, t, z, p in jobs if a + w + z <= moment < a + w + z + t)

    def waiting(moment: float) -> int:
        return sum(p for a, w, t, z, p in jobs if a <= moment < a + w)

    marks = sorted({m for a, w, t, z, p in jobs for m in (a, a + w, a + w + z, a + w + z + t)})
    pieces = [(begin, end - begin) for begin, end in itertools.pairwise(marks)]
    lost = math.fsum(min(waiting(m), max(0, processors - running(m))) * dt for m, dt in pieces)

    def chance(x: int) -> float:
        return math.fsum(dt for m, dt in pieces if min(processors, running(m)) < x) / span

    return {
        "wait_mean": mean(waits),
        "wait_median": statistics.median(waits),
        **{f"wait_p{n}": percentile(waits, n / 100) for n in (90, 95, 99)},
        "wait_max": max(waits),
        "response_mean": mean([w + z + t for a, w, t, z, p in jobs]),
        "slowdown_mean": mean([r / t for w, r, t, p in runs]),
        "bounded_slowdown_mean": mean([max(1, b) for b, p in bounded]),
        "pp_bounded_slowdown_mean": mean([max(1, b / p) for b, p in bounded]),
        "weighted_slowdown": sum(p * t * r / t for w, r, t, p in runs) / sum(p * t for w, r, t, p in runs)
        if runs else None,
        "weighted_slowdown_processors": sum(p * r / t for w, r, t, p in runs) / sum(p for w, r, t, p in runs)
        if runs else None,
        "utilisation": sum(p * t for a, w, t, z, p in jobs) / (processors * span) if span else None,
        "loss_of_capacity": lost / (processors * span) if span else None,
        "makespan": span,
        "W": mean(waits),
        "W1": mean([w / t for w, t, p in long]),
        "W2": mean([w / 10 ** (len(str(int(t))) - 1) for w, t, p in long]),
        "W3": mean([w / t * chance(processors - p + 1) for w, t, p in long]) if span else None,
        "W4": mean([w / t * max(0, min(1, (processors - p + 1) / processors)) for w, t, p in long]),
        "immediate_fraction": mean([float(w == 0) for w in waits]),
        "suspensions_mean": mean([float(z > 0) for a, w, t, z, p in jobs]),
        "suspended_mean": mean([z for a, w, t, z, p in jobs]),
        "suspended_fraction": mean([float(z > 0) for a, w, t, z, p in jobs]),
    }  # fmt: skip


@given(schedules(), st.integers(1, 8))
@settings(deadline=None, max_examples=150)
def test_agrees_with_the_slow_implementation(jobs: list[JobTuple], processors: int) -> None:
    rows, periods = as_frames(jobs)
    result = metrics.compute(rows, processors, processors, suspensions=periods)
    expected = slowly(jobs, processors)
    assert set(result["metrics"]) == set(expected)
    for name, value in expected.items():
        found = result["metrics"][name]
        assert (found is None) == (value is None), name
        assert value is None or found == pytest.approx(value, rel=1e-9, abs=1e-12), name
    assert set(result["null_reasons"]) == {name for name, value in result["metrics"].items() if value is None}


@given(schedules(), st.sampled_from([0.125, 0.5, 2.0, 64.0, 1024.0]))
@settings(deadline=None, max_examples=50)
def test_ratios_do_not_depend_on_the_unit_of_time(jobs: list[JobTuple], unit: float) -> None:
    rows, periods = as_frames(jobs)
    scaled = rows.with_columns(pl.col("submit", "start", "end", "suspended") * unit)
    there = metrics.compute(rows, 6, 6, tau=10, suspensions=periods)["metrics"]
    moved = periods.with_columns(pl.col("suspend", "resume") * unit)
    back = metrics.compute(scaled, 6, 6, tau=10 * unit, suspensions=moved)["metrics"]
    for name in ("bounded_slowdown_mean", "weighted_slowdown", "utilisation", "loss_of_capacity"):
        assert (back[name] is None) == (there[name] is None)
        assert back[name] is None or back[name] == pytest.approx(there[name], rel=1e-6, abs=1e-9)


# Recorded schedules.


def test_kth_agrees_with_plain_python() -> None:
    path = log("KTH-SP2-1996.unfiltered.swf.gz")
    with gzip.open(path, "rt") as lines:
        rows = [line.split() for line in lines if line.strip() and not line.startswith(";")]
    jobs = [(float(r[1]), float(r[2]), float(r[3]), 0.0, int(r[4])) for r in rows]
    assert len(jobs) == 28489
    log_read = trace.read_trace(path)
    result = metrics.compute(metrics.frame_from_swf(log_read.frame), *log_read.machine())
    expected = plainly(jobs, 100)
    for name, value in expected.items():
        assert result["metrics"][name] == pytest.approx(value, rel=1e-9), name
    assert result["excluded"]["run time of 0: not in the slowdowns"] == 8


def plainly(jobs: Sequence[JobTuple], processors: int) -> dict[str, float]:
    """As `slowly`, with one sweep over sorted events in place of a look at every job at every moment."""
    changes: dict[float, list[int]] = {}
    for a, w, t, _, p in jobs:
        for moment, waiting, busy in ((a, p, 0), (a + w, -p, p), (a + w + t, 0, -p)):
            change = changes.setdefault(moment, [0, 0])
            change[0] += waiting
            change[1] += busy
    marks = sorted(changes)
    span = marks[-1] - marks[0]
    waiting = busy = 0
    lost = 0.0
    time_at = [0.0] * (processors + 1)
    for begin, end in itertools.pairwise(marks):
        waiting += changes[begin][0]
        busy += changes[begin][1]
        lost += min(waiting, max(0, processors - busy)) * (end - begin)
        time_at[min(processors, busy)] += end - begin
    long = [(w, t, p) for _, w, t, _, p in jobs if t > 1]
    waits = [w for _, w, _, _, _ in jobs]
    runs = [(w + t, t, p) for _, w, t, _, p in jobs if t > 0]
    return {
        "wait_mean": math.fsum(waits) / len(waits),
        "wait_median": statistics.median(waits),
        **{f"wait_p{n}": percentile(waits, n / 100) for n in (90, 95, 99)},
        "wait_max": max(waits),
        "response_mean": math.fsum(w + t for _, w, t, _, _ in jobs) / len(jobs),
        "slowdown_mean": math.fsum(r / t for r, t, _ in runs) / len(runs),
        "bounded_slowdown_mean": math.fsum(max(1, (w + t) / max(10, t)) for _, w, t, _, _ in jobs) / len(jobs),
        "pp_bounded_slowdown_mean": math.fsum(max(1, (w + t) / (p * max(10, t))) for _, w, t, _, p in jobs) / len(jobs),
        "weighted_slowdown": math.fsum(p * r for r, _, p in runs) / math.fsum(p * t for _, t, p in runs),
        "weighted_slowdown_processors": math.fsum(p * r / t for r, t, p in runs) / sum(p for _, _, p in runs),
        "utilisation": math.fsum(p * t for _, _, t, _, p in jobs) / (processors * span),
        "loss_of_capacity": lost / (processors * span),
        "makespan": span,
        "W": math.fsum(waits) / len(waits),
        "W1": math.fsum(w / t for w, t, _ in long) / len(long),
        "W2": math.fsum(w / 10 ** (len(str(int(t))) - 1) for w, t, _ in long) / len(long),
        "W3": math.fsum(w / t * sum(time_at[: max(0, processors - p + 1)]) / span for w, t, p in long) / len(long),
        "W4": math.fsum(w / t * (processors - p + 1) / processors for w, t, p in long) / len(long),
        "immediate_fraction": sum(w == 0 for w in waits) / len(waits),
    }


@pytest.mark.parametrize(
    "name",
    [
        "alea-hpc2n-part.swf.gz",
        "NASA-iPSC-1993-3.1-cln.swf.gz",
        "lublin_256.swf.gz",
        "ubhpc-sacct_dump2110.log",
    ],
)
def test_real_logs_give_numbers_or_reasons(name: str) -> None:
    log_read = trace.read_trace(log(name))
    result = metrics.compute(metrics.frame_from_swf(log_read.frame), *log_read.machine())
    for metric, value in result["metrics"].items():
        assert (value is None) == (metric in result["null_reasons"])
        assert value is None or math.isfinite(value)
    if name.startswith(("NASA", "lublin")):
        assert result["excluded"] == {"no start": log_read.frame.height}


def swf_frame(*jobs: dict[str, Any]) -> pl.DataFrame:
    base = dict.fromkeys(swf.COLUMNS, -1)
    return pl.DataFrame([{**base, **job} for job in jobs], schema=swf.SCHEMA)


def test_schedule_of_a_log() -> None:
    jobs = metrics.frame_from_swf(
        swf_frame(
            {"job_number": 1, "submit": 5, "wait": 2, "run_time": 3, "allocated_processors": 4, "status": 1},
            {"job_number": 2, "submit": 5, "wait": 9, "requested_processors": 8, "status": 5},
            {"job_number": 3, "submit": 5, "wait": -4, "run_time": 3, "status": 0},
            {"job_number": 4, "submit": 5, "run_time": 3, "status": 1},
            {"job_number": 5, "submit": 5, "wait": 1, "run_time": 3, "status": 3},
        )
    )
    assert jobs.schema == metrics.JOBS_SCHEMA
    assert jobs.select("id", "start", "end", "processors", "state").rows() == [
        (1, 7, 10, 4, "COMPLETED"),
        (2, None, 14, 8, "CANCELLED"),
        (3, 1, 4, None, "FAILED"),
        (4, None, None, None, "COMPLETED"),
        (5, 6, 9, None, "PARTIAL"),
    ]


def test_suspended_time_of_a_log_is_part_of_its_schedule() -> None:
    log_frame = swf_frame({"job_number": 1, "submit": 0, "wait": 2, "run_time": 3, "allocated_processors": 1})
    jobs = metrics.frame_from_swf(log_frame.with_columns(suspended=pl.lit(10.0)))
    assert jobs.select("start", "end", "suspended").row(0) == (2, 15, 10)


def record(number: int, submission: float, start: float, end: float, executed: float, **more: Any) -> Record:
    """A record with times in seconds after some instant."""
    base = 1_700_000_000 * 10**9

    def ns(seconds: float) -> int:
        return base + round(seconds * 1e9)

    periods = tuple(Suspension(*(0 if i is None else ns(i) for i in p)) for p in more.pop("suspensions", ()))
    fields = {"cores": 2, "priority": "normal", "completed": True, "runtime_ns": round(executed * 1e9), **more}
    return Record(
        id=number,
        submission_ns=ns(submission),
        start_ns=ns(start),
        end_ns=ns(end),
        executed_ns=round(executed * 1e9),
        suspensions=periods,
        **fields,
    )


def test_schedule_of_a_sigsleep_log() -> None:
    records = [
        record(7, 3, 4, 9.5, 5.5, completed=False),
        record(5, 1, 2, 12, 7, suspensions=[(3, 4), (6, 8)]),
        record(6, 2, 2, 12, 6, suspensions=[(None, 8)], cores=4),
    ]
    jobs = metrics.frame_from_sigsleep(records)
    assert jobs.schema == metrics.JOBS_SCHEMA
    columns = ["id", "submit", "start", "end", "suspended", "processors", "runtime", "state"]
    assert jobs.select(columns).rows() == [
        (5, 0, 1, 11, 3, 2, 7, "COMPLETED"),
        (6, 1, 1, 11, 4, 4, 6, "COMPLETED"),
        (7, 2, 3, 8.5, 0, 2, 5.5, "CANCELLED"),
    ]
    assert metrics.suspensions_from_sigsleep(records).rows() == [(5, 2, 3), (5, 5, 7), (6, None, 7)]
    assert jobs.equals(metrics.frame_from_sigsleep(records[::-1]))


def test_a_requeued_job_is_one_job() -> None:
    records = [record(5, 0, 20, 30, 10, restart=1), record(5, 0, 1, 5, 4, completed=False)]
    rows = metrics.frame_from_sigsleep(records)
    assert rows.select("id", "start", "end", "suspended", "state").rows() == [(5, 1, 30, 15, "COMPLETED")]


def test_an_empty_sigsleep_log() -> None:
    jobs = metrics.frame_from_sigsleep([])
    assert jobs.height == 0
    assert metrics.compute(jobs, 4, 4)["jobs"]["submitted"] == 0


def test_table_for_the_terminal() -> None:
    rows = metrics.table(metrics.compute(SIX, 4, None, suspensions=SIX_STOPS))
    assert [row[0] for row in rows] == list(metrics.MEANINGS)
    by_name = {row[0]: row[1:] for row in rows}
    assert by_name["makespan"] == (51, "s", "first submission to last end")
    assert by_name["W3"] == (None, "", "the machine's number of nodes is not known")
