"""Tests of the nodes of jobs over time, and of the raster, compared with a simple computation per node and instant."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.occupancy.machine import Machine
from mirage.records import node_lists
from mirage.reports import node_map
from mirage.reports.node_map import Boxes
from slurm_mirage.rm.evidence import Layout
from slurm_mirage.rm.slurm.layout import parse_layout
from slurm_mirage.rm.slurm.records import CUT_AT

CONF = """NodeName=n[1-3] NodeAddr=127.0.0.1 Port=[17001-17003] CPUs=4
NodeName=fat1 CPUs=8
"""
JOBCOMP = (
    "JobId=1 Name=other.7 JobState=COMPLETED NodeList=n1 NodeCnt=1 \n"
    "JobId=2 Name=r.7 JobState=NODE_FAIL NodeList=n1 NodeCnt=1 \n"
    "JobId=3 Name=r.7 JobState=COMPLETED NodeList=n[2-3] NodeCnt=2 \n"
    "JobId=4 Name=r.8 JobState=CANCELLED NodeList=(null) NodeCnt=0 \n"
    "torn Name=r.9 JobSt\n"
)


def parts(*rows: tuple[int, int, float, float]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["id", "processors", "begin", "end"], orient="row").sort("begin", "id")


def spans(boxes: Boxes) -> list[tuple[int, float, float, float, float, float]]:
    columns = (boxes.job, boxes.first, boxes.last, boxes.begin, boxes.end, boxes.share)
    return [tuple(row) for row in zip(*(column.tolist() for column in columns), strict=True)]  # type: ignore[misc]


def machine(conf: str = CONF) -> Machine:
    layout = parse_layout(conf)
    assert layout is not None
    return Machine(layout)


def equal(nodes: int, cpus: int) -> Machine:
    return Machine(Layout.of_equal(nodes * cpus, nodes))


def test_nodes_are_in_the_order_of_slurm_conf() -> None:
    assert list(machine().places) == ["n1", "n2", "n3", "fat1"]
    assert machine().processors.tolist() == [4, 4, 4, 8]


def test_the_last_execution_of_this_run_counts() -> None:
    assert node_lists.from_filetxt(JOBCOMP, "r").rows() == [(7, "n[2-3]")]


def test_a_list_of_nodes_that_slurm_cut_off_is_not_known() -> None:
    cut = f"JobId=5 Name=r.5 NodeList=n[{','.join(str(2 * node) for node in range(400))}]"[:CUT_AT]
    assert node_lists.from_filetxt(f"{cut}JobId=6 Name=r.6 NodeList=n7 NodeCnt=1\n", "r").rows() == [(6, "n7")]


def test_jobs_are_drawn_on_their_recorded_nodes() -> None:
    lists = pl.DataFrame({"id": [1, 2, 3], "node_list": ["n[1,3]", "fat1", "gone9"]})
    boxes = node_map.recorded(parts((1, 8, 0, 10), (2, 4, 5, 10), (3, 1, 0, 1), (4, 1, 0, 1)), lists, machine(), apart=False)
    assert spans(boxes) == [(1, 0, 1, 0, 10, 1), (1, 2, 3, 0, 10, 1), (2, 3, 4, 5, 10, 0.5)]
    assert boxes.missing == 2


def test_lists_of_nodes_as_slurm_writes_them() -> None:
    conf = "NodeName=n[1-8],gpu7 CPUs=2\nNodeName=n[20-21] CPUs=4\nNodeName=login CPUs=2\n"
    texts = ["n[2-3,5]", "n7", "gpu7,n[8,20-21]", "login", "n9", "n[8-20]", "x1"]
    lists = pl.DataFrame({"id": range(len(texts)), "node_list": texts})
    boxes = node_map.recorded(parts(*((k, 2, 0, 1) for k in range(len(texts)))), lists, machine(conf), apart=False)
    ranges = [(job, first, last) for job, first, last, *_ in spans(boxes)]
    assert sorted(ranges) == [(0, 1, 3), (0, 4, 5), (1, 6, 7), (2, 7, 8), (2, 8, 9), (2, 9, 11), (3, 11, 12)]
    assert boxes.share.tolist() == pytest.approx([2 / 6, 2 / 6, 1, 1 / 6, 1 / 6, 1 / 6, 1])
    assert boxes.missing == 3


def test_jobs_on_a_shared_node_are_drawn_apart() -> None:
    lists = pl.DataFrame({"id": [1, 2, 3], "node_list": ["n1", "n1", "n1"]})
    boxes = node_map.recorded(parts((1, 2, 0, 10), (2, 1, 5, 10), (3, 2, 10, 20)), lists, machine(), apart=True)
    assert spans(boxes) == [(1, 0, 0.5, 0, 10, 1), (2, 0.5, 0.75, 5, 10, 1), (3, 0, 0.5, 10, 20, 1)]


def test_without_nodes_the_lowest_free_processors_are_taken() -> None:
    boxes = node_map.lowest_first(parts((1, 4, 0, 10), (2, 4, 0, 20), (3, 8, 10, 20), (4, 13, 10, 20)), equal(5, 4))
    assert spans(boxes) == [(1, 0, 1, 0, 10, 1), (2, 1, 2, 0, 20, 1), (3, 0, 1, 10, 20, 1), (3, 2, 3, 10, 20, 1)]
    assert boxes.missing == 1


def test_a_suspended_job_is_not_drawn_while_suspended() -> None:
    jobs = pl.DataFrame({"id": [1, 2], "start": [0.0, 3.0], "end": [10.0, 4.0], "processors": [2, 2]})
    suspensions = pl.DataFrame({"job": [1, 1, 9], "suspend": [6.0, 3.0, 0.0], "resume": [8.0, 4.0, 9.0]})
    intervals = node_map.stretches(jobs, suspensions).select("id", "begin", "end").rows()
    assert intervals == [(1, 0, 3), (2, 3, 4), (1, 4, 6), (1, 8, 10)]
    assert node_map.stretches(jobs, None).select("id", "begin", "end").rows() == [(1, 0, 10), (2, 3, 4)]


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12), st.integers(0, 24), st.integers(0, 24)), max_size=8),
    st.integers(1, 12),
    st.integers(1, 24),
)
def test_the_raster_agrees_with_a_computation_per_node_and_second(
    drawn: list[tuple[int, int, int, int]], rows: int, columns: int
) -> None:
    boxes = Boxes.of([(1, min(a, b), max(a, b), min(c, d), max(c, d), 1 / 8) for a, b, c, d in drawn])
    shares = node_map.raster(boxes, (0.0, 24.0), 12, rows, columns)
    # 12 nodes x 24 s, so finely divided that each cell of the raster has whole parts of them.
    fine = np.zeros((12 * rows, 24 * columns))
    for _, first, last, begin, end, share in spans(boxes):
        fine[int(first) * rows : int(last) * rows, int(begin) * columns : int(end) * columns] += share
    wanted = fine.reshape(rows, 12, columns, 24).mean(axis=(1, 3))
    assert shares.shape == (rows, columns)
    np.testing.assert_allclose(shares, wanted.clip(0, 1), atol=1e-9)


def test_a_job_that_changes_its_size_has_a_rectangle_for_each() -> None:
    """Job 1 grows at 4, is suspended from 5 to 7, shrinks at 6; its other rows change nothing. Job 2 begins where job 1 was."""
    jobs = pl.DataFrame({"id": [1, 2], "start": [0.0, 5.0], "end": [10.0, 7.0], "processors": [2, 4]})
    suspensions = pl.DataFrame({"job": [1], "suspend": [5.0], "resume": [7.0]})
    rows = [(1, 4.0, 4), (1, 4.5, 4), (1, 6.0, 1), (1, 10.0, 9), (3, 1.0, 9)]
    changes = pl.DataFrame(rows, schema=["job", "from", "processors"], orient="row")
    found = node_map.stretches(jobs, suspensions, changes)
    assert found.rows() == [(1, 0, 4, 2), (1, 4, 5, 4), (2, 5, 7, 4), (1, 7, 10, 1)]
    assert found.columns == ["id", "begin", "end", "processors"]
    boxes = node_map.lowest_first(found, equal(2, 2))
    assert spans(boxes) == [(1, 0, 1, 0, 4, 1), (1, 0, 2, 4, 5, 1), (2, 0, 2, 5, 7, 1), (1, 0, 0.5, 7, 10, 1)]
    lists = pl.DataFrame({"id": [1], "node_list": ["n[1-2]"]})
    where = node_map.recorded(found.filter(pl.col("id") == 1), lists, equal(2, 2), apart=False)
    assert where.share.tolist() == [0.5, 1, 0.25]
