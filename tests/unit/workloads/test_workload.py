"""Tests of the preparation of the jobs to submit: selection, shrinking, limits, cancellations, sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from real_logs import KTH, real_log

from mirage.traces import swf, trace
from mirage.traces.trace import Trace
from mirage.workloads import workload
from mirage.workloads.selection import Selection
from slurm_mirage.base.errors import WrongUse

JOB = {
    **dict.fromkeys(swf.COLUMNS, -1),
    "submit": 0,
    "run_time": 100,
    "allocated_processors": 4,
    "requested_time": 600,
    "status": 1,
}


def log(*jobs: Mapping[str, float]) -> pl.DataFrame:
    return pl.DataFrame([{**JOB, "job_number": n, **job} for n, job in enumerate(jobs, 1)], schema=swf.SCHEMA)


def prepare(*jobs: Mapping[str, float], **options: Any) -> workload.Workload:
    """Prepares these jobs; `options` are those of Selection and of prepare, and `header` of the log."""
    place = Selection(**{field.name: options.pop(field.name) for field in fields(Selection) if field.name in options})
    whole = Trace(log(*jobs), options.pop("header", {}), {}, "swf", "")
    return workload.prepare(whole, place, **{"classes": [(10, 16)], "slack": 5, **options})


def only(*jobs: Mapping[str, float], **options: Any) -> dict[str, Any]:
    rows = prepare(*jobs, **options).jobs
    assert rows.height == 1
    return rows.row(0, named=True)


def test_a_job_without_shrinking() -> None:
    ready = prepare({"submit": 50, "user": 3, "group": 4, "executable": 5, "queue": 6, "partition": 7})
    assert ready.jobs.row(0, named=True) == {
        "id": 1, "submit": 50, "processors": 4, "nodes_wanted": None, "runtime": 100, "requested": 600,
        "submit_virtual": 0, "runtime_virtual": 100, "limit_minutes": 10, "limit_extended": False,
        "cancel_after_virtual": None, "ran": True, "preset": "", "status": 1, "user": 3, "group": 4, "executable": 5, "queue": 6,
        "partition": 7, "dependency": "", "follows": None, "think_virtual": None, "memory": None, "partition_name": "",
        "qos_name": "", "not_played": "",
    }  # fmt: skip
    assert (ready.excluded, ready.notes, ready.limits) == ({}, {}, {"before": 1, "after": 1})


def test_jobs_are_submitted_in_order_and_within_a_second_in_the_logs_order() -> None:
    ready = prepare({"submit": 9}, {"submit": 4}, {"submit": 9}, {"submit": 4})
    assert ready.jobs["id"].to_list() == [2, 4, 1, 3]
    assert ready.jobs["submit_virtual"].to_list() == [0, 0, 5, 5]


def test_shrinking_multiplies_gaps_requests_and_run_times_alike() -> None:
    ready = prepare({"submit": 1000}, {"submit": 4000, "run_time": 3000, "requested_time": 36000}, shrink_percent=0.2)
    assert ready.jobs["submit"].to_list() == [1000, 4000]
    assert ready.jobs["submit_virtual"].to_list() == pytest.approx([0, 6])
    assert ready.jobs["runtime_virtual"].to_list() == pytest.approx([0.2, 6])
    assert ready.jobs["runtime"].to_list() == [100, 3000]
    assert ready.jobs["limit_minutes"].to_list() == [1, 2]


def test_shrinking_reduces_the_number_of_limits_which_is_reported() -> None:
    requests = [{"requested_time": 60.0 * minutes} for minutes in range(1, 101)]
    assert prepare(*requests, overrun="kill").limits == {"before": 100, "after": 100}
    assert prepare(*requests, overrun="kill", shrink_percent=10).limits == {"before": 100, "after": 10}


def test_processors_are_the_allocated_ones_or_else_the_requested() -> None:
    ready = prepare(
        {"allocated_processors": 8, "requested_processors": 4},
        {"allocated_processors": -1, "requested_processors": 4},
        {"allocated_processors": 0, "requested_processors": 2},
    )
    assert ready.jobs["processors"].to_list() == [8, 4, 2]


@pytest.mark.parametrize(("processors", "nodes"), [(1, 1), (16, 1), (17, 2), (160, 10)])
def test_whole_nodes(processors: int, nodes: int) -> None:
    assert only({"allocated_processors": processors}, whole_nodes=True)["nodes_wanted"] == nodes


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 9)), min_size=1, max_size=3), st.data())
@settings(deadline=None)
def test_whole_nodes_of_several_classes_hold_the_job_whichever_they_are(
    classes: list[tuple[int, int]], data: st.DataObject
) -> None:
    """The number of nodes is the one needed if Slurm takes the smallest ones."""
    sizes = sorted(cpus for count, cpus in classes for _ in range(count))
    processors = data.draw(st.integers(1, sum(sizes)))
    nodes = only({"allocated_processors": processors}, classes=classes, whole_nodes=True)["nodes_wanted"]
    assert sum(sizes[: nodes - 1]) < processors <= sum(sizes[:nodes])


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        ({"run_time": 0}, "no run time"),
        ({"run_time": -1}, "no run time"),
        ({"run_time": -20}, "no run time"),
        ({"allocated_processors": -1}, "no processors"),
        ({"submit": -1}, "no submission time"),
        ({"status": 5, "run_time": -1}, "cancelled at an unknown time"),
        ({"run_time": 29}, "shorter than MIN_RUNTIME"),
        ({"status": 5, "run_time": 0, "wait": 7}, "shorter than MIN_RUNTIME"),
    ],
)
def test_unusable_jobs_are_left_out_and_counted(odd: dict[str, float], reason: str) -> None:
    ready = prepare({"run_time": 30}, odd, {}, odd, min_runtime=30)
    assert ready.jobs["id"].to_list() == [1, 3]
    assert ready.excluded == {reason: 2}


# Time limits.


@pytest.mark.parametrize(
    ("run", "requested", "slack", "minutes", "extended"),
    [
        (100, 600, 5, 10, False),
        (595, 600, 5, 10, False),  # just fits
        (596, 600, 5, 11, True),
        (600, 600, 5, 11, True),
        (700, 600, 5, 12, True),
        (700, 600, 100, 14, True),
        (655, 601, 5, 11, False),  # rounding up to whole minutes is enough
        (1, 1, 5, 1, False),
        (100, -1, 5, 2, False),
        (100, 0, 30, 3, False),
    ],
)
def test_limits_when_extending(run: float, requested: float, slack: float, minutes: int, extended: bool) -> None:
    job = only({"run_time": run, "requested_time": requested}, slack=slack)
    assert (job["limit_minutes"], job["limit_extended"]) == (minutes, extended)
    assert job["limit_minutes"] * 60 >= job["runtime_virtual"] + slack


@pytest.mark.parametrize(
    ("run", "requested", "minutes"), [(100, 600, 10), (700, 600, 10), (700, 601, 11), (700, 1, 1), (100, -1, 2)]
)
def test_limits_when_slurm_may_kill(run: float, requested: float, minutes: int) -> None:
    job = only({"run_time": run, "requested_time": requested}, overrun="kill")
    assert (job["limit_minutes"], job["limit_extended"]) == (minutes, False)


def test_an_unknown_request_is_the_run_time_with_slack() -> None:
    job = only({"requested_time": -1}, slack=5, shrink_percent=10)
    assert job["requested"] == pytest.approx(100 + 5 * 10)  # 5 virtual seconds are 50 of the trace


def test_extended_limits_are_counted() -> None:
    assert prepare({"run_time": 700}, {}, {"run_time": 800}).notes == {"limits_extended": 2}


@pytest.mark.parametrize("percent", [0.1, 0.3, 1 / 3, 7, 10, 33.3, 70])
def test_whole_minutes_stay_whole_under_any_factor(percent: float) -> None:
    for minutes in (1, 3, 7, 60, 1440):
        job = only({"requested_time": minutes * 60 * 100 / percent}, overrun="kill", shrink_percent=percent)
        assert job["limit_minutes"] == minutes


# Cancelled jobs.


def test_cancelled_while_it_waited() -> None:
    ready = prepare({"status": 5, "run_time": -1, "wait": 70, "allocated_processors": -1, "requested_processors": 8})
    job = ready.jobs.row(0, named=True)
    assert (job["processors"], job["runtime"], job["cancel_after_virtual"], job["ran"]) == (8, 600, 70, False)
    assert not job["limit_extended"]
    assert ready.notes == {"never_ran": 1, "to_be_cancelled": 1}


def test_cancelled_while_it_waited_without_a_request() -> None:
    job = only({"status": 5, "run_time": 0, "wait": 70, "requested_time": -1}, shrink_percent=50, slack=5)
    assert (job["runtime_virtual"], job["cancel_after_virtual"], job["limit_minutes"]) == (5, 35, 1)


def test_cancelled_while_it_ran() -> None:
    job = only({"status": 5, "run_time": 30, "wait": 70}, shrink_percent=50)
    assert (job["runtime_virtual"], job["cancel_after_virtual"], job["ran"]) == (15, 50, True)


def test_cancelled_while_it_ran_but_no_wait_known() -> None:
    assert only({"status": 5, "run_time": 30, "wait": -1})["cancel_after_virtual"] is None


@pytest.mark.parametrize("status", [-1, 0, 1])
def test_other_jobs_are_not_cancelled(status: int) -> None:
    assert only({"status": status, "wait": 5})["cancel_after_virtual"] is None


# Selection.


def test_offset_counts_the_logs_jobs_and_jobs_those_submitted() -> None:
    jobs = [{"submit": n, "run_time": 0 if n % 2 else 10} for n in range(12)]
    ready = prepare(*jobs, offset=3, jobs=3)
    assert ready.jobs["submit"].to_list() == [4, 6, 8]
    assert ready.excluded == {"no run time": 3}
    assert ready.jobs["submit_virtual"].to_list() == [0, 2, 4]
    everything = prepare(*jobs, offset=3)
    assert everything.jobs["submit"].to_list() == [4, 6, 8, 10]
    assert everything.excluded == {"no run time": 5}


def test_the_offset_is_the_same_place_under_every_min_runtime() -> None:
    jobs = [{"submit": n, "run_time": n + 1} for n in range(20)]
    assert prepare(*jobs, offset=10, jobs=2).jobs["submit"].to_list() == [10, 11]
    assert prepare(*jobs, offset=10, jobs=2, min_runtime=13).jobs["submit"].to_list() == [12, 13]


def test_repeated_and_missing_numbers_become_new_ones() -> None:
    ready = prepare({"job_number": 7}, {"job_number": 3}, {"job_number": 7}, {"job_number": -1}, {"job_number": 3})
    assert ready.jobs["id"].to_list() == [7, 3, 8, 9, 10]
    assert ready.notes == {"renumbered": 3}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"jobs": 4}, "jobs: 4 may be up to 3, the log has no more usable jobs from OFFSET=0 on"),
        ({"jobs": 3, "offset": 1}, "jobs: 3 may be up to 2,"),
        ({"jobs": 0}, "jobs: 0 may be 1 or more"),
        ({"offset": 4}, "offset: 4 may be up to 3, the log has 4 jobs"),
        ({"offset": -1}, "offset: -1 may be"),
        ({"min_runtime": 101}, "min_runtime: none of the log's jobs from OFFSET=0 on can be used with 101"),
        ({"min_runtime": -1}, "min_runtime: -1 may be"),
        ({"shrink_percent": 0}, "shrink: 0 may be"),
        ({"shrink_percent": float("nan")}, "shrink: nan may be"),
        ({"overrun": "ignore"}, "overrun: 'ignore' may be extend or kill"),
        ({"sizes": "shrink"}, "sizes: 'shrink' may be keep, scale or fit"),
        ({"classes": [(3, 1)]}, r"cpus: job 1 needs 4 processors, the cluster has 3 \(NODES=3 of CPUS=1\); NODES=4 or CPUS=2 "),
    ],
)  # fmt: skip
def test_wrong_use_names_the_knob(options: dict[str, Any], message: str) -> None:
    with pytest.raises(WrongUse, match=f"^{message}"):
        prepare({}, {}, {"run_time": 0}, {}, **options)


def test_the_suggested_cluster_size_holds_every_job() -> None:
    jobs = [{"allocated_processors": n} for n in (1, 128, 100)]
    with pytest.raises(WrongUse, match=r"job 2 needs 128 .*NODES=13 or CPUS=13 "):
        prepare(*jobs, classes=[(10, 10)])
    assert prepare(*jobs, classes=[(13, 10)]).jobs.height == 3
    assert prepare(*jobs, classes=[(10, 13)], whole_nodes=True).jobs["nodes_wanted"].max() == 10


def test_the_width_of_a_cluster_with_several_classes() -> None:
    jobs = [{"allocated_processors": n} for n in (1, 128)]
    assert prepare(*jobs, classes=[(4, 16), (2, 32)]).jobs.height == 2
    with pytest.raises(WrongUse, match=r"^classes: job 2 needs 128 processors, the cluster has 127;"):
        prepare(*jobs, classes=[(4, 16), (1, 32), (1, 31)])


def test_only_selected_jobs_have_to_fit() -> None:
    assert prepare({}, {"submit": 1, "allocated_processors": 999}, jobs=1).jobs["id"].to_list() == [1]


# Sizes of another machine.


@pytest.mark.parametrize(
    ("machine", "classes", "sizes", "scaled"),
    [
        (100, [(10, 20)], [1, 3, 50, 100], [2, 6, 100, 200]),
        (100, [(3, 10)], [1, 3, 5, 49, 50, 51, 100], [1, 1, 2, 15, 15, 15, 30]),  # 0.3, 0.9, 1.5, 14.7, 15, 15.3
        (512, [(1, 128)], [1, 2, 4, 8, 256, 512], [1, 1, 1, 2, 64, 128]),
        (128, [(2, 256)], [1, 2, 64, 128], [4, 8, 256, 512]),
        (128, [(1, 127)], [1, 64, 127, 128], [1, 64, 126, 127]),  # 63.5 and 126.0 are the middle ones
        (3, [(2, 8), (2, 4)], [1, 2, 3], [8, 16, 24]),
    ],
)
def test_sizes_are_scaled(machine: int, classes: list[tuple[int, int]], sizes: list[int], scaled: list[int]) -> None:
    jobs = [{"allocated_processors": size} for size in sizes]
    ready = prepare(*jobs, classes=classes, sizes="scale", header={"MaxProcs": str(machine)})
    assert ready.jobs["processors"].to_list() == scaled
    assert ready.size_factor == sum(count * cpus for count, cpus in classes) / machine
    assert ready.notes == {}


def test_a_job_wider_than_the_logs_machine_is_scaled_to_the_whole_cluster_and_counted() -> None:
    jobs = [{"allocated_processors": size} for size in (50, 101, 100)]
    ready = prepare(*jobs, classes=[(1, 10)], sizes="scale", header={"MaxProcs": "100"})
    assert ready.jobs["processors"].to_list() == [5, 10, 10]
    assert ready.notes == {"wider_than_the_logs_machine": 1}
    # Without a header the machine has the size of the largest job.
    assert prepare(*jobs, classes=[(1, 101)], sizes="scale").jobs["processors"].to_list() == [50, 101, 100]


@given(st.integers(1, 10_000), st.integers(1, 10_000), st.data())
@settings(deadline=None)
def test_scaled_sizes_keep_their_order_and_fit(machine: int, available: int, data: st.DataObject) -> None:
    sizes = sorted(data.draw(st.lists(st.integers(1, machine), min_size=1, max_size=6)))
    jobs = [{"allocated_processors": size} for size in sizes]
    scaled = prepare(*jobs, classes=[(1, available)], sizes="scale", header={"MaxProcs": str(machine)}).jobs["processors"].to_list()
    assert scaled == sorted(scaled)
    assert all(abs(new - old * available / machine) <= 0.5 or new == 1 for old, new in zip(sizes, scaled, strict=True))
    assert scaled[0] >= 1 and scaled[-1] <= available


def test_jobs_that_do_not_fit_are_left_out_and_counted() -> None:
    jobs = [{"allocated_processors": size} for size in (4, 161, 160, 999, 5)]
    ready = prepare(*jobs, sizes="fit")
    assert ready.jobs["processors"].to_list() == [4, 160, 5]
    assert ready.excluded == {"wider than the cluster": 2}
    # JOBS counts the submitted jobs.
    assert prepare(*jobs, sizes="fit", jobs=2).jobs["id"].to_list() == [1, 3]


# The workload as SWF.

job_fields = st.fixed_dictionaries(
    {
        "job_number": st.integers(-1, 5),
        "submit": st.integers(0, 5000),
        "wait": st.integers(-2, 300),
        "run_time": st.integers(-2, 3000),
        "allocated_processors": st.integers(-1, 100),
        "requested_processors": st.integers(-1, 100),
        "requested_time": st.integers(-1, 3000),
        "status": st.integers(-1, 5),
        "user": st.integers(-1, 9),
    }
)


@given(
    st.lists(job_fields, max_size=8).map(lambda jobs: [*jobs, {}]),
    st.sampled_from([100.0, 37.5, 10.0, 0.2]),
    st.sampled_from(["extend", "kill"]),
    st.sampled_from([0.5, 5.0, 60.0]),
)
@settings(deadline=None)
def test_a_prepared_workload_can_be_prepared_again(jobs: list[dict[str, float]], shrink: float, overrun: str, slack: float) -> None:
    options: dict[str, Any] = {"classes": [(6, 10), (5, 8)], "slack": slack, "overrun": overrun}
    first = prepare(*jobs, shrink_percent=shrink, **options)
    assert first.jobs.height + sum(first.excluded.values()) == len(jobs)
    assert first.jobs["id"].is_unique().all()
    again = workload.prepare(Trace(first.to_swf(), {}, {}, "swf", ""), Selection(), **options)
    assert again.excluded == {}
    same = ["id", "processors", "limit_minutes", "ran", "status", "user"]
    assert again.jobs.select(same).rows() == first.jobs.select(same).rows()
    for column in ("submit_virtual", "cancel_after_virtual"):
        assert again.jobs[column].to_list() == pytest.approx(first.jobs[column].to_list())
    ran = [jobs.jobs.filter("ran")["runtime_virtual"].to_list() for jobs in (first, again)]
    assert ran[1] == pytest.approx(ran[0])
    assert not again.jobs["limit_extended"].any()


def test_the_workload_as_swf() -> None:
    frame = prepare(
        {"submit": 10},
        {"submit": 30, "status": 5, "wait": 40, "run_time": 20},
        {"submit": 50, "status": 5, "wait": 40, "run_time": -1, "requested_time": 61},
        shrink_percent=50,
    ).to_swf()
    assert frame.schema == swf.SCHEMA
    shown = ["submit", "wait", "run_time", "allocated_processors", "requested_processors", "requested_time", "status"]
    assert frame.select(shown).rows() == [
        (0, -1, 50, 4, 4, 300, 1),
        (10, 20, 10, 4, 4, 300, 5),
        (20, 20, -1, 4, 4, 60, 5),
    ]


def test_a_place_in_the_kth_log() -> None:
    log = trace.read_trace(real_log(KTH))
    ready = workload.prepare(log, Selection(offset=19151, jobs=200), classes=[(100, 1)], slack=10)
    jobs = ready.jobs
    assert (jobs.height, jobs["id"][0], jobs["id"][-1]) == (200, 19152, 19351)
    # Submissions span seven hours; without waits the last job would end after sixteen.
    assert jobs["submit_virtual"].max() == 25519
    assert (jobs["submit_virtual"] + jobs["runtime_virtual"]).max() == 57368
    everything = workload.prepare(log, Selection(), classes=[(100, 1)], slack=10, shrink_percent=0.2)
    assert everything.jobs.height == 28481
    assert everything.excluded == {"no run time": 8}
    assert everything.limits == {"before": 270, "after": 8}
