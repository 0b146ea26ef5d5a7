"""Every metric against a second, slow implementation: on random schedules, and on recorded logs."""

from __future__ import annotations

import gzip
import math
from typing import Any

import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from real_logs import KTH, real_log
from schedules import Job, Measured, as_frames, by_looking, by_sweeping, executions, slowly

from mirage.metrics import metrics, usage_over_time
from mirage.metrics.jobs_frame import frame_from_swf
from mirage.traces import trace
from slurm_mirage.base.errors import WrongUse

MACHINES = [(1, 1), (3, 2), (6, 6), (8, 4), (16, 3)]  # processors, nodes


# Earlier executions, as parts of the wait of an eligible job.
EARLIER: list[tuple[tuple[float, float], ...]] = [(), (), ((0.25, 0.5),), ((0.0, 0.5), (0.75, 1.0)), ((0.0, 1.0),)]


def _requeued(job: Job, ineligible: float, earlier: tuple[tuple[float, float], ...]) -> Job:
    """The job, not eligible for a part of its wait, and with earlier executions in the rest."""
    first, rest = ineligible * job.w, (1 - ineligible) * job.w
    return job._replace(ineligible=first, earlier=tuple((first + begin * rest, first + end * rest) for begin, end in earlier))


@st.composite
def schedules(draw: st.DrawFn, longest: int = 60) -> list[Job]:
    """Up to two cancelled jobs and presets, and one to twelve others, which run; their nodes are those of no machine."""
    times = st.integers(0, 60).map(float)
    runtimes = st.one_of(times, st.integers(0, longest).map(float))
    stopped = st.sampled_from([0.0, 0.0, 0.0, 5.0, 7.5])
    size = st.one_of(st.integers(1, 6), st.integers(1, 20))
    plain = st.builds(
        lambda *values, failed: Job(*values, failed=failed),
        times, times, runtimes, stopped, size, st.integers(1, 4), failed=st.sampled_from([False, False, True]),
    )  # fmt: skip
    job = st.builds(_requeued, plain, st.sampled_from([0.0, 0.0, 0.25, 1.0]), st.sampled_from(EARLIER))
    cancelled = job.map(lambda some: some._replace(t=0.0, z=0.0, cancelled=True))
    preset = job.map(lambda some: some._replace(a=0.0, preset=True))
    before = [*draw(st.lists(cancelled, max_size=2)), *draw(st.lists(preset, max_size=2))]
    return [*before, *draw(st.lists(job, min_size=1, max_size=12))]


def same(found: dict[str, Any], expected: dict[str, float | None], **tolerance: float) -> None:
    assert set(found) == set(expected)
    for name, value in expected.items():
        assert (found[name] is None) == (value is None), name
        assert value is None or found[name] == pytest.approx(value, **tolerance), name


def agree(found: dict[str, Any], expected: Measured, **tolerance: float) -> None:
    same(found["metrics"], expected.metrics, **tolerance)
    assert set(found["null_reasons"]) - {"distribution"} == {name for name, value in expected.metrics.items() if value is None}
    assert (found["distribution"] is None) == ("distribution" in found["null_reasons"]) == (expected.distribution is None)
    if expected.distribution is not None:
        assert found["distribution"]["nodes"] == list(expected.distribution)
        assert found["distribution"]["share"] == pytest.approx(list(expected.distribution.values()), **tolerance)
    rows = {(row.pop("size"), row.pop("runtime")): row for row in found["classes"]}
    assert rows.keys() == expected.classes.keys()
    for name, group in expected.classes.items():
        del rows[name]["size_max"], rows[name]["runtime_max"]
        same(rows[name], group, **tolerance)


@given(schedules(), st.integers(1, 30))
@settings(deadline=None, max_examples=30)
def test_changes_sorted_in_slices_give_the_same(jobs: list[Job], most: int) -> None:
    rows, periods = as_frames(jobs, with_nodes=True)

    def computed() -> dict[str, Any]:
        return metrics.compute(rows, 8, 4, suspensions=periods, executions=executions(jobs))

    whole = computed()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(usage_over_time, "_SLICE", most)
        assert computed() == whole


@given(schedules(), st.sampled_from(MACHINES), st.booleans())
@settings(deadline=None, max_examples=60)
def test_agrees_with_the_slow_implementation(jobs: list[Job], machine: tuple[int, int], recorded: bool) -> None:
    processors, nodes = machine
    if not recorded:
        jobs = [job._replace(c=math.ceil(job.p * nodes / processors)) for job in jobs]
    rows, periods = as_frames(jobs, with_nodes=recorded)
    expected = slowly(jobs, processors, nodes)
    assert expected is not None
    agree(metrics.compute(rows, processors, nodes, suspensions=periods, executions=executions(jobs)), expected, rel=1e-9, abs=1e-12)


@given(schedules(longest=100_000), st.sampled_from(MACHINES), st.sampled_from([1.0, 10.0, 60.0]))
@settings(deadline=None, max_examples=50)
def test_agrees_for_jobs_of_all_run_times(jobs: list[Job], machine: tuple[int, int], tau: float) -> None:
    rows, periods = as_frames(jobs, with_nodes=True)
    expected = slowly(jobs, *machine, tau=tau)
    assert expected is not None
    agree(metrics.compute(rows, *machine, tau=tau, suspensions=periods, executions=executions(jobs)), expected, rel=1e-9, abs=1e-12)


# Quarters of a second, so that the window's ends are exact in floats, and both on and between the jobs' instants.
cuts = st.integers(0, 400).map(lambda quarters: quarters / 4)


@given(schedules(), st.sampled_from(MACHINES), cuts, cuts)
@settings(deadline=None, max_examples=60)
def test_agrees_with_cuts(jobs: list[Job], machine: tuple[int, int], warmup: float, cooldown: float) -> None:
    rows, periods = as_frames(jobs, with_nodes=True)
    expected = slowly(jobs, *machine, warmup=warmup, cooldown=cooldown)
    options: dict[str, Any] = {"warmup_cut": warmup, "cooldown_cut": cooldown}
    options |= {"suspensions": periods, "executions": executions(jobs)}
    if expected is None:
        with pytest.raises(WrongUse, match=r"^warmup_cut, cooldown_cut: "):
            metrics.compute(rows, *machine, **options)
        return
    agree(metrics.compute(rows, *machine, **options), expected, rel=1e-9, abs=1e-12)


@given(schedules())
@settings(deadline=None, max_examples=50)
def test_both_slow_implementations_agree(jobs: list[Job]) -> None:
    plain = {"z": 0.0, "preset": False, "earlier": (), "ineligible": 0.0, "failed": False}
    jobs = [job._replace(**plain) for job in jobs if not job.cancelled]
    assert slowly(jobs, 6, 3, looks=by_sweeping) == slowly(jobs, 6, 3, looks=by_looking)


@given(schedules(), st.sampled_from([0.125, 0.5, 2.0, 64.0, 1024.0]))
@settings(deadline=None, max_examples=50)
def test_ratios_do_not_depend_on_the_unit_of_time(jobs: list[Job], unit: float) -> None:
    rows, periods = as_frames(jobs, with_nodes=False)
    scaled = rows.with_columns(pl.col("submit", "eligible", "start", "end", "suspended") * unit)
    there = metrics.compute(rows, 6, 6, tau=10, suspensions=periods, executions=executions(jobs))["metrics"]
    moved = periods.with_columns(pl.col("suspend", "resume") * unit)
    again = executions(jobs).with_columns(pl.col("start", "end") * unit)
    back = metrics.compute(scaled, 6, 6, tau=10 * unit, suspensions=moved, executions=again)["metrics"]
    for name in ("bounded_slowdown_mean", "weighted_slowdown", "utilisation", "goodput", "loss_of_capacity"):
        assert (back[name] is None) == (there[name] is None)
        assert back[name] is None or back[name] == pytest.approx(there[name], rel=1e-6, abs=1e-9)


@given(schedules(), st.integers(1, 40))
@settings(deadline=None, max_examples=50)
def test_utilisations_of_two_halves_add_up(jobs: list[Job], at: int) -> None:
    rows, periods = as_frames(jobs, with_nodes=True)
    whole = metrics.compute(rows, 6, 6, suspensions=periods, executions=executions(jobs))
    span = whole["metrics"]["makespan"]
    ran = [job for job in jobs if not job.cancelled]
    first = min(job.a for job in ran)
    assume(at < span and any(job.a >= first + at and not job.preset for job in ran))
    assume(any(job.a <= first + at and not job.preset for job in ran))
    parts = [
        metrics.compute(rows, 6, 6, suspensions=periods, executions=executions(jobs), **{cut: length})["metrics"]
        for cut, length in (("cooldown_cut", span - at), ("warmup_cut", float(at)))
    ]
    for name in ("utilisation", "loss_of_capacity"):
        total = sum(part[name] * part["makespan"] for part in parts)
        assert total == pytest.approx(whole["metrics"][name] * span, abs=1e-9)


# Recorded schedules.


def kth() -> list[Job]:
    """The log in plain Python: a job a line that is no comment; packed on nodes of one processor."""
    with gzip.open(real_log(KTH), "rt") as lines:
        rows = [line.split() for line in lines if line.strip() and not line.startswith(";")]
    jobs = [Job(float(r[1]), float(r[2]), float(r[3]), 0.0, int(r[4]), int(r[4])) for r in rows]
    assert len(jobs) == 28489
    return jobs


def without_suspensions(expected: Measured | None) -> Measured:
    """SWF does not record suspensions."""
    assert expected is not None
    names = ("suspensions_mean", "suspended_mean", "suspended_fraction")
    return expected._replace(metrics=expected.metrics | dict.fromkeys(names))


@pytest.mark.parametrize(("warmup", "cooldown"), [(0.0, 0.0), (1_000_000.0, 2_345_678.5)])
def test_kth_agrees_with_plain_python(warmup: float, cooldown: float) -> None:
    jobs = kth()
    log_read = trace.read_trace(real_log(KTH))
    cut = {"warmup_cut": warmup, "cooldown_cut": cooldown}
    found = metrics.compute(frame_from_swf(log_read.frame), *log_read.machine(), **cut)
    expected = slowly(jobs, 100, 100, warmup=warmup, cooldown=cooldown, looks=by_sweeping)
    agree(found, without_suspensions(expected), rel=1e-9)
    if not warmup:
        assert found["jobs"]["submitted"] == 28489
        assert found["excluded"]["run time of 0: not in the slowdowns"] == 8


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
    log_read = trace.read_trace(real_log(name))
    result = metrics.compute(frame_from_swf(log_read.frame), *log_read.machine())
    for metric, value in result["metrics"].items():
        assert (value is None) == (metric in result["null_reasons"])
        assert value is None or math.isfinite(value)
    if name.startswith(("NASA", "lublin")):
        assert result["excluded"] == {"no start": log_read.frame.height}
