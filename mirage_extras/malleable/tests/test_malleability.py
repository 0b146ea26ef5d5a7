"""MALLEABLE and MALLEABLE_JOBS: which jobs of a run may change their size, with which nodes they are submitted, what is refused."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.experiment.cluster_variables import cluster_variables
from mirage.experiment.prepare import Prepared
from mirage.experiment.remarks import remarks
from mirage.knobs import resolve as knobs
from mirage.traces.swf import parse_swf
from mirage.traces.trace import Trace
from mirage.workloads import requests
from mirage_extras.malleable import experiment as malleability
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.extras.malleable.words import Malleable


def log(*processors: int, run: float = 600, requested: float = 1200) -> Trace:
    """An SWF log of jobs with these processors, submitted a minute apart."""
    lines = (
        f"{number} {60 * number} 0 {run} {count} -1 -1 {count} {requested} -1 1 1 1 -1 -1 -1 -1 -1\n"
        for number, count in enumerate(processors, 1)
    )
    return Trace(parse_swf("".join(lines).encode(), "log")[0], {}, {}, "swf", "")


def prepared(trace: Trace, **given: object) -> Prepared:
    values = knobs.resolve({"NODES": "16", "CPUS": "4", **{name: str(value) for name, value in given.items()}})
    return Prepared.make(values, trace, values.jobs.shrinks[0])


MIXED = log(*([4, 8, 16, 32] * 25))
WORDS = "1:16:2:- check=30"


@pytest.mark.parametrize(
    ("text", "share"), [("0", "0"), ("1", "1"), ("0.25", "0.25"), ("50%", "0.5"), ("50", "0.5"), ("100", "1"), ("0.5%", "0.005")]
)
def test_a_share_is_from_0_to_1_or_per_cent(text: str, share: str) -> None:
    assert knobs.parse("MALLEABLE", text) == Decimal(share)


@pytest.mark.parametrize("text", ["-1", "101", "101%", "half", ""])
def test_no_other_share_is_possible(text: str) -> None:
    with pytest.raises(WrongUse, match=r"MALLEABLE: .* is not possible; it may be a share from 0 to 1 \(0.5\), or per cent"):
        knobs.parse("MALLEABLE", text)


@given(st.integers(0, 100), st.integers(0, 5))
def test_exactly_the_share_is_malleable_and_larger_shares_have_the_jobs_of_smaller_ones(percent: int, seed: int) -> None:
    def chosen(share: int) -> set[int]:
        jobs = prepared(MIXED, MALLEABLE=f"{share}%", MALLEABLE_JOBS=WORDS, SEED=seed).workload.jobs
        return set() if share == 0 else set(jobs.filter(pl.col("malleable") != "")["id"])

    assert len(chosen(percent)) == percent
    assert chosen(percent // 2) <= chosen(percent) <= chosen(100)


def test_the_seed_chooses() -> None:
    def chosen(seed: int) -> list[str]:
        return prepared(MIXED, MALLEABLE="30%", MALLEABLE_JOBS=WORDS, SEED=seed).workload.jobs["malleable"].to_list()

    assert chosen(1) == chosen(1) != chosen(2)


def test_without_malleable_the_plan_is_as_it_was() -> None:
    run = prepared(MIXED)
    assert "malleable" not in run.jobs.columns
    assert not any(row.extras for row in run.plan("first"))
    assert "slurm_mirage_extras" not in cluster_variables(run.knobs)


def test_malleable_jobs_have_whole_nodes_and_rigid_ones_shared_ones() -> None:
    """Three processors of nodes of 4 are a node, five are two."""
    run = prepared(log(3, 5, 8), MALLEABLE=1, MALLEABLE_JOBS=WORDS)
    assert [(row.nodes, row.processors) for row in run.plan("first")] == [(1, 4), (2, 8), (2, 8)]
    assert {row.extras["malleable"] for row in run.plan("first")} == {WORDS}
    assert "malleable jobs take whole nodes: the processors of 2 jobs are rounded up" in remarks(run)
    assert cluster_variables(run.knobs)["slurm_mirage_extras"] == {"malleable": {}}
    rigid = next(row for row in prepared(MIXED, MALLEABLE="30%", MALLEABLE_JOBS=WORDS).plan("first") if not row.extras)
    assert rigid.nodes is None


def test_jobs_submitted_at_their_maximum_have_the_work_of_the_log() -> None:
    """Amdahl's speed-up with F = 0.9 is 1.82 on 2 nodes, and 6.4 on 16."""
    [row] = prepared(log(8), MALLEABLE=1, MALLEABLE_JOBS=f"{WORDS} speedup=amdahl:0.9 start=max").plan("first")
    speed = Malleable.parse(row.extras["malleable"]).speedup
    assert (row.nodes, row.processors) == (16, 64)
    assert row.runtime == pytest.approx(600 * speed.of(2) / speed.of(16)) == pytest.approx(170.45, abs=0.01)
    # 1200 s of requested time become 340.9 s: 6 minutes.
    assert row.limit_minutes == 6


def test_points_at_which_jobs_ask_the_broker_take_real_time() -> None:
    """Two jobs of 600 s ask every 30 s."""

    def replay(**given: object) -> float:
        length = prepared(log(8, 8), SPEED="event", **given).length()
        assert length is not None
        return length.replay

    assert replay(MALLEABLE=1, MALLEABLE_JOBS=WORDS) - replay() == pytest.approx(40 * malleability.CHECKED)


def test_a_rule_by_the_recorded_size() -> None:
    rows = prepared(MIXED, MALLEABLE=1).plan("first")
    for row in rows:
        words = Malleable.parse(row.extras["malleable"])
        assert row.nodes in words.sizes(row.nodes or 0)
        assert words.maximum <= 16


def test_jobs_that_no_rule_changes_stay_rigid() -> None:
    """A job of 15 of 16 nodes has no other size by the factor 2."""
    run = prepared(log(60, 8, 8), MALLEABLE=1)
    assert [bool(row.extras) for row in run.plan("first")] == [False, True, True]
    assert "malleable: 1 jobs fewer than MALLEABLE asks for, the others have no other size on this machine" in remarks(run)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"MALLEABLE_JOBS": "8:2:2:-"}, "malleable job 8:2:2:-: the minimum 8 is above the maximum 2"),
        ({"MALLEABLE_JOBS": "3:3:2:-"}, "job 1: no size from 3 to 3 is reached from 2 nodes by the factor 2"),
        ({"MALLEABLE_JOBS": "1:8:2:9"}, "malleable job 1:8:2:9: the preferred size 9 is not within 1 to 8"),
        ({"MALLEABLE_JOBS": "32:64:2:-"}, "job 1: its minimum is 32 nodes, and the machine has 16"),
        ({"MALLEABLE_JOBS": "1:32:2:- start=max"}, "job 1: it starts with 32 nodes, and the machine has 16"),
        ({"MALLEABLE_JOBS": "1:16:2:- start=often"}, "'start=often' may be start=min or start=max"),
        ({"MALLEABLE_JOBS": "sometimes"}, "sometimes"),
    ],
)
def test_wrong_words_are_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(WrongUse) as refused:
        prepared(log(8), MALLEABLE=1, **given)
    assert message in refused.value.message
    assert "\n" not in refused.value.message


def test_a_minimum_above_the_partition_is_refused() -> None:
    jobs = prepared(log(8), MALLEABLE=1, MALLEABLE_JOBS="4:8:2:-").workload.jobs
    small = requests.Partition((requests.Nodes(2, 4, 1),))
    there = requests.Offer({"all": requests.Partition((requests.Nodes(16, 4, 1),)), "small": small}, "small", False, None)
    malleability.check_partitions(jobs, ["all"], there)
    with pytest.raises(WrongUse, match="job 1: its minimum of 4 nodes is above the 2 of partition small"):
        malleability.check_partitions(jobs, [""], there)


def test_gres_and_nodes_of_several_sizes_are_refused(tmp_path: Path) -> None:
    machine = tmp_path / "machine.yml"
    for text, message in (
        ("[{count: 2, cpus: 4}, {count: 2, cpus: 8, prefix: b}]", "whole nodes of one size, and the nodes have 4, 8 processors"),
        ("[{count: 2, cpus: 4, extra: {Gres: 'gpu:2'}}]", "the nodes have GRES, and Slurm refuses to expand jobs there"),
    ):
        machine.write_text(text)
        values = knobs.resolve({"CLASSES": str(machine), "MALLEABLE": "1"})
        with pytest.raises(WrongUse, match=message):
            Prepared.make(values, log(4), Decimal(100))


def test_front_ends_and_several_hosts_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match="malleable jobs need a slurmd for each of their nodes; leave out FRONT_END, or MALLEABLE"):
        malleability.check(knobs.resolve({"MALLEABLE": "1", "FRONT_END": "2"}))
    hosts = tmp_path / "hosts.yml"
    hosts.write_text("{all: {children: {mirage: {children: {head: {hosts: {a: }}, compute: {hosts: {a: , b: }}}}}}}")
    with pytest.raises(WrongUse, match="the broker serves one host, and the cluster has 2"):
        malleability.check(knobs.resolve({"MALLEABLE": "1", "INVENTORY": str(hosts)}))
