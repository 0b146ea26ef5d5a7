"""Tests of the routing rules that assign jobs to partitions and QOS."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.workloads import routing
from slurm_mirage.base.errors import WrongUse

JOBS = pl.DataFrame(
    {
        "id": [1, 2, 3, 4],
        "queue": [0, 1, 1, 3],
        "user": [7, 7, 8, 9],
        "group": [1, 1, 2, 2],
        "processors": [1, 16, 64, 128],
        "requested": [60.0, 600.0, 3600.0, 86400.0],
    }
)


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([], ["", "", "", ""]),
        ([{"partition": "a"}], ["a"] * 4),
        ([{"partition": "a", "queues": [1]}], ["", "a", "a", ""]),
        ([{"partition": "a", "users": [7, 9]}], ["a", "a", "", "a"]),
        ([{"partition": "a", "groups": [2]}], ["", "", "a", "a"]),
        ([{"partition": "a", "min_processors": 16, "max_processors": 64}], ["", "a", "a", ""]),
        ([{"partition": "a", "min_requested": 600, "max_requested": 3600}], ["", "a", "a", ""]),
        ([{"partition": "a", "queues": [1], "users": [8]}, {"partition": "b", "queues": [1]}], ["", "b", "a", ""]),
        ([{"partition": "a", "share": 0}], ["", "", "", ""]),
        ([{"partition": "a", "share": 1}], ["a"] * 4),
    ],
)
def test_the_first_rule_that_fits(rules: list[dict[str, Any]], expected: list[str]) -> None:
    assert routing.routes(JOBS, routing.check(rules, ["a", "b"], "x"), 1, "partition").to_list() == expected


def test_a_rule_names_a_partition_or_a_qos_or_both() -> None:
    rules = [
        {"qos": "high", "users": [9]},
        {"partition": "a", "qos": "low", "queues": [0]},
        {"partition": "b", "min_processors": 64},
    ]
    checked = routing.check(rules, ["a", "b"], "x", ["high", "low"])
    assert [routing.routes(JOBS, checked, 1, goal).to_list() for goal in routing.GOALS] == [
        ["a", "", "b", ""],
        ["low", "", "", "high"],
    ]


@given(st.integers(0, 2**40), st.floats(0.05, 0.95), st.integers(0, 9))
def test_a_share_has_its_size_and_depends_on_the_job_number_only(seed: int, share: float, first: int) -> None:
    jobs = pl.concat([JOBS.head(1)] * 4000).with_columns(id=pl.int_range(4000) + 1)
    rules = [{"partition": "a", "share": share}]
    taken = routing.routes(jobs, rules, seed, "partition")
    # Six standard deviations of a binomial count.
    assert abs((taken == "a").sum() - 4000 * share) <= 6 * (4000 * share * (1 - share)) ** 0.5 + 1
    assert routing.routes(jobs.slice(first), rules, seed, "partition").to_list() == taken.to_list()[first:]


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ({}, "not a list of rules"),
        (["a"], "not a list of rules"),
        ([{"partition": "a"}, {"partition": "c"}], "rule 2: partition 'c' is none of a, b"),
        ([{"queues": [1]}], "rule 1: partition None is none of"),
        ([{"qos": "c"}], "rule 1: qos 'c' is none of high"),
        ([{"qos": "high", "partition": "c"}], "rule 1: partition 'c' is none of"),
        ([{"partition": "a", "queue": 1}], "'queue' is none of the keys"),
        ([{"partition": "a", "queues": 1}], "queues is not a list"),
        ([{"partition": "a", "min_processors": "many"}], "min_processors is not a number"),
        ([{"partition": "a", "share": 1.5}], "share is not a number from 0 to 1"),
        ([{"partition": "a", "share": True}], "share is not a number from 0 to 1"),
    ],
)
def test_wrong_rules(rules: Any, words: str) -> None:
    with pytest.raises(WrongUse, match=rf"^CONFIG: x\.yml: routing.*{words}"):
        routing.check(rules, ["a", "b"], "CONFIG: x.yml", ["high"])
