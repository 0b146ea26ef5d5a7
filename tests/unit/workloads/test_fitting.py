"""What of a log's requests a machine can fulfil, and which jobs can never run there."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.workloads.constraints import allows, features_in
from mirage.workloads.fitting import fitted
from mirage.workloads.requests import Offer, offer
from slurm_mirage.rm.slurm.node_classes import node_classes

PLAIN = {"count": 4, "cpus": 8, "extra": {"RealMemory": 16000, "Feature": "skl"}}
WITH_GPUS = {"count": 2, "cpus": 16, "prefix": "g", "extra": {"RealMemory": 64000, "Feature": ["rome", "ib"], "Gres": "gpu:a100:4"}}
OTHERS = {"count": 2, "cpus": 8, "prefix": "v", "extra": {"RealMemory": 16000, "Feature": ["skl", "ib"], "Gres": "gpu:v100:2"}}
PARTITIONS = [{"name": "batch", "Default": True}, {"name": "gpu", "Nodes": "g[1-2],v[1-2]"}]
RICH = offer(node_classes([PLAIN, WITH_GPUS, OTHERS]), PARTITIONS, "CR_CPU_Memory", None, "matlab:4,ansys")
POOR = offer(node_classes([{"count": 4, "cpus": 8}]), [{"name": "batch"}], "", None)


def of(request: str, processors: int, offered: Offer | None = RICH) -> tuple[str, list[str], str | None]:
    jobs = pl.DataFrame({"request": [request], "allocated_processors": [processors], "requested_processors": [-1]})
    row = fitted(jobs, offered).row(0, named=True)
    return row["request"], row["played"], row["impossible"]


@pytest.mark.parametrize(
    ("request_", "processors", "kinds"),
    [
        ("nodes=2", 8, ["node_count"]),
        ("nodes=2 most_nodes=4 tasks=8 cpus_per_task=2", 16, ["node_count", "tasks"]),
        ("nodes=2 tasks_per_node=4", 8, ["node_count"]),
        ("nodes=2 exclusive=1", 16, ["node_count", "exclusive"]),
        ("constraint=skl&ib", 8, ["constraint"]),
        ("gres=gpu:a100:4 constraint=rome", 32, ["gres", "constraint"]),
        ("gpus=8", 8, ["gres"]),
        ("gpus=12", 48, ["gres"]),
        ("licences=matlab:4,ansys", 1, ["licence"]),
        ("contiguous=1 nice=4", 1, ["placement", "nice"]),
    ],
)
def test_requests_that_the_machine_fulfils(request_: str, processors: int, kinds: list[str]) -> None:
    played, found, impossible = of(request_, processors)
    assert (set(played.split()), found, impossible) == (set(request_.split()), kinds, None)


@pytest.mark.parametrize(
    ("request_", "processors", "why"),
    [
        ("gres=gpu:h100:1", 4, "asks for gpu:h100, which no node has"),
        ("gres=gpu:8", 4, "asks for gpu:8, and no node has more than 4"),
        ("gpus=h100:2", 4, "asks for gpu:h100, which no node has"),
        ("gpus=13", 64, "asks for gpus=13, and no partition has enough such nodes"),
        ("constraint=skl|milan", 4, "asks for the feature milan, which no node has"),
        ("constraint=rome", 40, "asks for rome, and no partition has enough such nodes"),
        ("constraint=rome&skl", 4, "asks for rome&skl, and no partition has enough such nodes"),
        ("licences=matlab:5", 4, "asks for the licence matlab:5, and there are 4"),
        ("licences=abaqus:1", 4, "asks for the licence abaqus:1, and there are 0"),
    ],
)
def test_jobs_that_can_never_run(request_: str, processors: int, why: str) -> None:
    assert of(request_, processors)[1:] == ([], why)


@pytest.mark.parametrize(
    ("request_", "processors", "played", "kinds"),
    [
        ("nodes=9 gres=gpu:1", 4, "gres=gpu:1", ["gres"]),
        ("nodes=2 tasks=3 cpus_per_task=2 gpus_per_task=1", 8, "nodes=2 gpus=3", ["gres", "node_count"]),
        ("memory_per_node=99000 nodes=2", 8, "nodes=2", ["node_count"]),
        ("nodes=1", 30, "", []),
        ("cpus_per_task=8", 8, "tasks=1 cpus_per_task=8", ["tasks"]),
        ("nodes=2 tasks=8 tasks_per_node=4", 8, "nodes=2 tasks_per_node=4", ["node_count"]),
        ("tasks=8", 8, "", []),
        ("reservation=maint nice=1", 8, "nice=1", ["nice"]),
        ("gres=gpu:1,nvme:3", 8, "gres=gpu:1", []),
    ],
)
def test_parts_that_do_not_fit_are_left_out(request_: str, processors: int, played: str, kinds: list[str]) -> None:
    assert of(request_, processors) == (played, kinds, None)


def test_kinds_that_a_machine_does_not_have_are_left_out() -> None:
    asked = "nodes=2 constraint=skl licences=matlab:1 gres=gpu:2,nvme:1 gpus=a100:4 memory_per_node=4000 memory_per_gpu=10"
    assert of(asked, 8, POOR) == ("nodes=2", ["node_count"], None)


def test_a_manager_without_such_requests() -> None:
    jobs = pl.DataFrame({"request": ["nodes=2"], "begin": [5.0], "hold": [None]})
    assert fitted(jobs, None).columns == []


@pytest.mark.parametrize(
    ("constraint", "features", "is_allowed"),
    [
        ("", "", True),
        ("a", "a", True),
        ("a&b", "a", False),
        ("a|b", "b", True),
        ("[a|b]", "b", True),
        ("(a|b)&c", "b", False),
        ("(a|b)&c", "b c", True),
        ("a&(b|(c&d))", "a c d", True),
        ("[a*2&b*4]", "b", True),
        ("a*2", "c", False),
        ("2080ti", "2080ti", True),
        ("a&(", "a", False),
    ],
)
def test_constraints(constraint: str, features: str, is_allowed: bool) -> None:
    assert allows(constraint, frozenset(features.split())) is is_allowed


@given(
    st.lists(st.sampled_from(["a", "b", "c1"]), min_size=1, max_size=5),
    st.sampled_from("&|"),
    st.sets(st.sampled_from(["a", "b", "c1"])),
)
def test_one_operator(names: list[str], operator: str, features: set[str]) -> None:
    text = operator.join(names)
    assert features_in(text) == names
    combined = all if operator == "&" else any
    assert allows(text, frozenset(features)) is combined(name in features for name in names)
