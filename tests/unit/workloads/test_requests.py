"""Tests of the partitions, QOS, memory and limits with which a log's jobs are submitted."""

from __future__ import annotations

import math
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.traces import swf
from mirage.traces.trace import Trace
from mirage.workloads import requests
from mirage.workloads.requests import Nodes, Offer, Partition, minutes_of, offer
from slurm_mirage.rm.slurm.node_classes import node_classes

SMALL = {"count": 4, "cpus": 4, "extra": {"RealMemory": 16000}}
CLASSES = node_classes([SMALL, {"count": 1, "cpus": 16, "prefix": "fat", "extra": {"RealMemory": 64000}}])
PARTITIONS = [
    {"name": "batch", "Default": True, "MaxTime": "1-0"},
    {"name": "debug", "Nodes": "n[1-2]", "MaxTime": 30},
    {"name": "one", "MaxNodes": 1},
]
OFFERED = offer(CLASSES, PARTITIONS, "CR_CPU_Memory", ["normal", "high"])


def submitted(jobs: list[dict[str, Any]], offered: Offer = OFFERED, route: str = "", rule: str = "") -> requests.Requests:
    usual: dict[str, Any] = {"processors": 1, "limit_minutes": 10, "memory": None, "partition_name": "", "qos_name": ""}
    usual |= {"requested": 600.0, "limit_extended": False}
    frame = pl.DataFrame([{**usual, **job} for job in jobs], schema_overrides={"memory": pl.Float64})
    routed, rules = (pl.Series([word] * len(jobs), dtype=pl.String) for word in (route, rule))
    return requests.requests_of(frame, routed, rules, offered)


def test_the_offer_of_a_cluster() -> None:
    small, fat = Nodes(4, 4, 16000), Nodes(1, 16, 64000)
    assert dict(OFFERED.partitions) == {
        "batch": Partition((small, fat), math.inf, 1440),
        "debug": Partition((Nodes(2, 4, 16000),), math.inf, 30),
        "one": Partition((small, fat), 1, math.inf),
    }
    assert (OFFERED.default, OFFERED.memory, OFFERED.qos) == ("batch", True, {"normal", "high"})


@pytest.mark.parametrize("select", ["", "CR_CPU", ["CR_Core", "CR_ONE_TASK_PER_CORE"]])
def test_memory_that_is_not_consumable(select: Any) -> None:
    assert not offer(CLASSES, PARTITIONS, select, None).memory


@pytest.mark.parametrize("select", ["CR_CPU_Memory", "cr_core_memory", ["CR_Memory"]])
def test_memory_of_nodes_without_real_memory(select: Any) -> None:
    assert not offer(node_classes([{"count": 4, "cpus": 4}]), PARTITIONS, select, None).memory
    assert offer(CLASSES, PARTITIONS, select, None).memory


@pytest.mark.parametrize(
    ("limit", "minutes"),
    [
        ("90", 90),
        ("30:30", 30.5),
        ("12:30:00", 750),
        ("2-12", 3600),
        ("2-12:30", 3630),
        ("2-12:30:00", 3630),
        ("UNLIMITED", math.inf),
        ("INFINITE", math.inf),
    ],
)
def test_time_limits(limit: str, minutes: float) -> None:
    assert minutes_of(limit) == minutes


@pytest.mark.parametrize(
    ("job", "partition", "counted"),
    [
        ({"partition_name": "debug"}, "debug", "partitions_played"),
        ({"partition_name": "debug", "processors": 8}, "debug", "partitions_played"),
        ({"partition_name": "debug", "processors": 9}, "", "partitions_too_small"),
        ({"partition_name": "debug", "limit_minutes": 31}, "", "partitions_too_small"),
        ({"partition_name": "one", "processors": 16}, "one", "partitions_played"),
        ({"partition_name": "one", "processors": 17}, "", "partitions_too_small"),
        ({"partition_name": "gpu"}, "", "partitions_not_there"),
        ({"partition_name": "debug,gpu,batch"}, "debug,batch", "partitions_played"),
        ({"partition_name": "debug,batch", "processors": 20}, "batch", "partitions_played"),
    ],
)
def test_partitions_by_name(job: dict[str, Any], partition: str, counted: str) -> None:
    requests_made = submitted([job])
    assert (requests_made.partitions, requests_made.counts) == ([partition], {counted: 1})


@pytest.mark.parametrize(
    ("job", "partition", "limit", "counts"),
    [
        # Its own limit is the partition's, and it ran for as long.
        (
            {"requested": 1800, "limit_minutes": 31, "limit_extended": True},
            "debug",
            30,
            {"limits_capped": 1, "partitions_played": 1},
        ),
        ({"requested": 1200, "limit_minutes": 21, "limit_extended": True}, "debug", 21, {"partitions_played": 1}),
        ({"requested": 1860, "limit_minutes": 32, "limit_extended": True}, "", 32, {"partitions_too_small": 1}),
        ({"requested": 1860, "limit_minutes": 31}, "", 31, {"partitions_too_small": 1}),
    ],
)
def test_extended_limits_stay_within_those_of_the_partition(
    job: dict[str, Any], partition: str, limit: int, counts: dict[str, int]
) -> None:
    requests_made = submitted([{"partition_name": "debug", **job}])
    assert (requests_made.partitions, requests_made.limits, requests_made.counts) == ([partition], [limit], counts)
    default = submitted([{"requested": 86400, "limit_minutes": 1441, "limit_extended": True}])
    assert (default.limits, default.counts) == ([1440], {"limits_capped": 1})


def test_routing_rules_override_the_log() -> None:
    requests_made = submitted([{"partition_name": "debug", "qos_name": "high"}], route="batch", rule="normal")
    assert (requests_made.partitions, requests_made.qos, requests_made.counts) == (["batch"], ["normal"], {})


@pytest.mark.parametrize(
    ("name", "level", "counts"),
    [
        ("high", "high", {"qos_played": 1}),
        ("HIGH", "high", {"qos_played": 1}),
        ("low", "", {"qos_not_there": 1}),
        ("normal", "", {}),
        ("", "", {}),
    ],
)
def test_qos(name: str, level: str, counts: dict[str, int]) -> None:
    requests_made = submitted([{"qos_name": name}])
    assert (requests_made.qos, requests_made.counts) == ([level], counts)


def test_qos_needs_accounting() -> None:
    offered = offer(CLASSES, PARTITIONS, "", None)
    assert submitted([{"qos_name": "high"}], offered).counts == {"qos_not_played": 1}
    assert submitted([{}], offered, rule="high").qos == [""], "a rule's too"


@pytest.mark.parametrize(
    ("job", "memory", "counted"),
    [
        ({"memory": 1000 * 1024}, 1000, {"memory_played": 1}),
        ({"memory": 2666.7 * 1024}, 2666, {"memory_played": 1}),
        ({"memory": 0.5}, 1, {"memory_played": 1}),
        ({"memory": 64000 * 1024}, 64000, {"memory_played": 1}),
        ({"memory": 65000 * 1024}, 64000, {"memory_played": 1, "memory_reduced": 1}),
        # Two such processors are on the fat node, or each on one of its own.
        ({"memory": 32000 * 1024, "processors": 2}, 32000, {"memory_played": 1}),
        ({"memory": 33000 * 1024, "processors": 2}, 32000, {"memory_played": 1, "memory_reduced": 1}),
        ({"memory": 16000 * 1024, "processors": 8}, 16000, {"memory_played": 1}),
        ({"memory": 16000 * 1024, "processors": 9}, 12800, {"memory_played": 1, "memory_reduced": 1}),
        ({"memory": 9000 * 1024, "processors": 2, "partition_name": "debug"}, 9000, {"memory_played": 1, "partitions_played": 1}),
        (
            {"memory": 9000 * 1024, "processors": 3, "partition_name": "debug"},
            8000,
            {"memory_played": 1, "memory_reduced": 1, "partitions_played": 1},
        ),
    ],
)
def test_memory(job: dict[str, Any], memory: int, counted: dict[str, int]) -> None:
    requests_made = submitted([job])
    assert (requests_made.memory, requests_made.counts) == ([memory], counted)


def test_jobs_without_a_memory_request() -> None:
    assert submitted([{}]).memory == [None]
    assert submitted([{"memory": 1000.0}], offer(CLASSES, PARTITIONS, "", None)).counts == {"memory_not_played": 1}


_nodes = st.lists(st.builds(Nodes, st.integers(1, 5), st.integers(1, 8), st.integers(1, 500)), min_size=1, max_size=3).map(tuple)


@given(_nodes, st.integers(1, 30), st.integers(1, 600))
def test_memory_is_reduced_only_if_it_does_not_fit(nodes: tuple[Nodes, ...], processors: int, memory: int) -> None:
    offered = Partition(nodes)
    most = offered.most_memory(processors, memory)
    fitting = [less for less in range(memory, 0, -1) if offered.holds(processors, 0, less)]
    assert most == (fitting[0] if fitting else 0)


def test_memory_is_divided_among_the_allocated_processors() -> None:
    """A job requested 4,000 MiB for one processor and was given a core with two threads."""
    columns = ("processors", "requested_processors", "requested_memory")
    frame = pl.DataFrame([(2, 1, 4000.0), (3, 3, 500.0), (2, -1, 10.0), (2, 1, -1.0)], schema=columns, orient="row")
    assert frame.select(requests.memory())["memory"].to_list() == [2000, 500, 10, None]


def test_names() -> None:
    frame = pl.DataFrame({"partition": [1, 2, -1], "queue": [1, 1, 2]})
    header = {"Partition": "1 a,b\n2 c", "Queue": "1 normal\n2 high"}
    trace = Trace(pl.DataFrame(schema=swf.SCHEMA), header, {}, "sacct", "")
    assert frame.select(requests.names(trace)).rows() == [("a,b", "normal"), ("c", "normal"), ("", "high")]
    trace = Trace(pl.DataFrame(schema=swf.SCHEMA), header, {}, "swf", "")
    assert frame.with_columns(requests.names(trace))["partition_name"].to_list() == ["", "", ""], "SWF has numbers"


@pytest.mark.parametrize(
    ("job", "partition"),
    [
        ({"processors": 4}, ""),
        ({"processors": 5}, "wide"),
        ({"processors": 17}, "all"),
        ({"limit_minutes": 61}, "wide"),
        ({"processors": 99}, ""),
        ({"processors": 5, "partition_name": "all"}, "all"),
        ({"processors": 17, "partition_name": "wide"}, "all"),
    ],
)
def test_what_the_default_partition_cannot_hold_goes_to_the_smallest_that_can(job: dict[str, Any], partition: str) -> None:
    """Slurm would refuse it, and end the run."""
    narrow = {"name": "narrow", "Default": True, "Nodes": "n[1-4]", "MaxNodes": 1, "MaxTime": 60}
    others = [{"name": "all"}, {"name": "wide", "Nodes": "n[1-4]"}]
    asked = submitted([job], offer(CLASSES, [narrow, *others], "", None))
    assert asked.partitions == [partition]
    assert asked.counts.get("partitions_instead_of_default", 0) == (partition not in ("", job.get("partition_name")))
