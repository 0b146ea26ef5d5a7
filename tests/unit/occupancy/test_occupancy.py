"""What is taken of nodes by each bound, compared with a machine of which all is known, and host lists as ranges of places."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.occupancy.machine import Machine
from mirage.occupancy.needs import Needs
from mirage.occupancy.occupancy import Bound, Occupancy
from slurm_mirage.base.hostlist import compress
from slurm_mirage.jobs.request import Request
from slurm_mirage.rm.evidence import Layout, Node

SIZES = (2, 4, 4, 8)
MACHINE = Machine(Layout({f"n{place}": Node(size) for place, size in enumerate(SIZES)}, {"half": frozenset({"n0", "n1"})}))
ASKED = (Needs.of(1, None, 0, Request()), Needs.of(4, None, 0, Request(nodes=2)), Needs.of(4, 1, 0, Request()))
"""One processor, two nodes with two processors each, and an idle node."""
SCHEMA = {"job": pl.Int64, "start": pl.Float64, "end": pl.Float64, "hosts": pl.String, "processors": pl.Int64}
Parts = dict[int, int]
"""Processors of a job on its nodes."""


@st.composite
def jobs_in_turn(draw: st.DrawFn) -> list[tuple[float, float, Parts, bool]]:
    """Start, end, parts, and whether it has whole nodes, of jobs of which none has what another one has."""
    jobs: list[tuple[float, float, Parts, bool]] = []
    for _ in range(draw(st.integers(0, 8))):
        start = draw(st.integers(0, 9))
        end, is_whole = start + draw(st.integers(1, 5)), draw(st.booleans())
        free = [min(SIZES[node] - taken(jobs, node, instant) for instant in range(start, end)) for node in range(4)]
        usable = [node for node in range(4) if (free[node] == SIZES[node] if is_whole else free[node] > 0)]
        nodes = [node for node in usable if draw(st.booleans())]
        if nodes:
            parts = {node: SIZES[node] if is_whole else draw(st.integers(1, free[node])) for node in nodes}
            jobs.append((start, end, parts, is_whole))
    return jobs


def taken(jobs: list[tuple[float, float, Parts, bool]], node: int, instant: float) -> int:
    return sum(parts.get(node, 0) for start, end, parts, _ in jobs if start <= instant < end)


def occupancy(jobs: list[tuple[float, float, Parts, bool]], bound: Bound, **more: Any) -> Occupancy:
    rows = [
        (number, start, end, compress(f"n{node}" for node in parts), sum(parts.values()))
        for number, (start, end, parts, _) in enumerate(jobs)
    ]
    needs = {
        number: Needs.of(sum(parts.values()), len(parts) if is_whole else None, 0, Request())
        for number, (_, _, parts, is_whole) in enumerate(jobs)
    }
    return Occupancy.of(MACHINE, pl.DataFrame(rows, schema=SCHEMA, orient="row"), needs, bound, **more)


@given(jobs_in_turn())
def test_what_is_known_is_the_same_by_both_bounds(jobs: list[tuple[float, float, Parts, bool]]) -> None:
    """Of a job on one node, on whole nodes, or with all processors of its nodes, nothing else is possible."""
    known = [job for job in jobs if len(job[2]) == 1 or job[3] or sum(job[2].values()) == sum(SIZES[node] for node in job[2])]
    instants = [float(instant) for instant in range(-1, 16)]
    for bound in Bound:
        one = occupancy(known, bound)
        for instant, state in zip(instants, one.at(instants), strict=True):
            free = [size - taken(known, node, instant) for node, size in enumerate(SIZES)]
            assert one.free(state).tolist() == pytest.approx(free)


@given(jobs_in_turn())
def test_certain_room_is_room(jobs: list[tuple[float, float, Parts, bool]]) -> None:
    """By LARGEST no node has more than it had, nor more places than by EVEN."""
    instants = [float(instant) for instant in range(16)]
    even, largest = (occupancy(jobs, bound) for bound in Bound)
    for instant, one, other in zip(instants, even.at(instants), largest.at(instants), strict=True):
        assert all(largest.free(other)[node] <= size - taken(jobs, node, instant) for node, size in enumerate(SIZES))
        for needs in ASKED:
            assert (largest.places(needs, other) <= even.places(needs, one)).all()


@given(jobs_in_turn(), st.integers(-1, 8), st.integers(1, 9))
def test_states_are_those_at_their_instants(jobs: list[tuple[float, float, Parts, bool]], begin: int, length: int) -> None:
    one, end = occupancy(jobs, Bound.LARGEST), begin + length
    of_span = next(one.between([(begin, end)]))
    instants = np.arange(-1.0, 16.0)
    for instant, now in zip(instants, one.at(instants.tolist()), strict=True):
        for states in (one.states, *([of_span] if begin <= instant < end else [])):
            rows = [np.flatnonzero((states.node == node) & (states.values["time"] <= instant))[-1] for node in now.node]
            for thing, values in now.values.items():
                assert states.values[thing][rows].tolist() == values.tolist()


def test_a_suspended_job_gives_its_processors_up() -> None:
    """The second one ends before it is resumed; of the third one it is not known when it ended."""
    jobs = [(0.0, 9.0, {1: 3}, False), (0.0, 6.0, {2: 2}, False)]
    rows = [(0, 2.0, 4.0), (1, 5.0, 8.0), (1, 7.0, 7.5), (1, None, 3.0)]
    suspensions = pl.DataFrame(rows, schema={"job": pl.Int64, "suspend": pl.Float64, "resume": pl.Float64}, orient="row")
    found = occupancy(jobs, Bound.EVEN, suspensions=suspensions)
    instants = [1.0, 3.0, 4.0, 5.5, 6.5, 9.0]
    free = [found.free(state).tolist()[1:3] for state in found.at(instants)]
    assert free == [[1, 2], [4, 2], [1, 2], [1, 4], [1, 4], [4, 4]]


@pytest.mark.parametrize(
    ("hosts", "ranges"),
    [
        ("n[0-1]", [(0, 2, 2, True)]),
        ("n[0,2-3]", [(0, 1, 3, True), (2, 4, 3, True)]),
        ("n3,n[0-0]", [(0, 1, 2, True), (3, 4, 2, True)]),
        ("n[3-9]", [(3, 4, 1, False)]),
        ("n[0-1],x[1-2]", [(0, 2, 2, False)]),
        ("n99999999999999999999", [(None, None, None, None)]),
        ("n", [(None, None, None, None)]),
        ("(null)", [(None, None, None, None)]),
        (None, [(None, None, None, None)]),
    ],
)
def test_host_lists_are_ranges_of_places(hosts: str | None, ranges: list[tuple[int | None, ...]]) -> None:
    table = pl.DataFrame({"hosts": [hosts]}, schema={"hosts": pl.String})
    found = MACHINE.placed(table, "hosts").select("first", "last", "nodes", "is_known")
    assert found.rows() == ranges
    row = table.select(job=0, start=0.0, end=1.0, hosts="hosts", processors=2)
    one = Occupancy.of(MACHINE, row, {0: ASKED[0]}, Bound.LARGEST)
    assert one.is_complete is bool(ranges[0][3])


def test_partitions_of_which_the_nodes_are_not_known_have_all() -> None:
    assert MACHINE.members("half").tolist() == [True, True, False, False] and MACHINE.members("other").all()
    assert MACHINE.overlap("half", "other")
