"""Which nodes leave, which jobs that would cost, and what slurmctld's answers say. On a cluster: molecule/local/side_effect.yml."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.instance.node_removal import Change, all_stay, check, configured_nodes, plan, wanted_hardware
from slurm_mirage.rm.slurm.conf import Nodes, render
from slurm_mirage.rm.slurm.node_classes import NodeClass
from slurm_mirage.rm.slurm.node_commands import REASON, Hardware, Node, PlacedJob, parse_jobs, parse_nodes

FOUR = Hardware(4, 4, 1, 1)
GPU_EXTRA = (("CoresPerSocket", "8"), ("ThreadsPerCore", "2"), ("Gres", "gpu:v100:4"))
# As Slurm 22.05.8 answers.
NODES = (
    "NodeName=n1 CoresPerSocket=1 CPUAlloc=0 CPUTot=4 CPULoad=0.50 AvailableFeatures=(null) ActiveFeatures=(null) Gres=(null) "
    "NodeAddr=127.0.0.1 NodeHostName=n1 Port=17001 RealMemory=1 Sockets=4 Boards=1 State=IDLE ThreadsPerCore=1 Partitions=batch \n"
    "NodeName=gpu2 Arch=x86_64 CoresPerSocket=8 CPUAlloc=2 CPUTot=32 Gres=gpu:v100:4(S:0-1) RealMemory=64000 Sockets=2 "
    "State=MIXED+DRAIN ThreadsPerCore=2 Partitions=batch Reason=leaves the cluster (Slurm Mirage) [root@2026-11-20T21:57:16]\n"
    "NodeName=n3 CPUTot=4 CoresPerSocket=1 Gres=(null) Sockets=4 State=DOWN+DRAIN+NOT_RESPONDING ThreadsPerCore=1 "
    "Reason=broken fan = repair [admin@2026-11-20T21:57:16] Comment=x\n"
)


def node(name: str, drained: str | None = None, hardware: Hardware = FOUR) -> Node:
    return Node(name, hardware, drained is not None, drained or "")


def test_what_slurmctld_says_of_nodes() -> None:
    assert parse_nodes(NODES) == [
        replace(node("n1"), address="127.0.0.1"),
        node("gpu2", REASON, Hardware(32, 2, 8, 2, "gpu:v100:4")),
        node("n3", "broken fan = repair"),
    ]


WRITTEN = render(
    {"ClusterName": "x"},
    [Nodes("n", 1, 3, 4, "127.0.0.1", 17001), Nodes("gpu", 2, 1, 32, "127.0.0.1", 17004, GPU_EXTRA)],
    [{"name": "batch"}],
)


def test_the_nodes_of_a_slurm_conf_as_it_is_written() -> None:
    found = {one.name: (one.hardware, one.address) for one in configured_nodes(WRITTEN)}
    wanted = wanted_hardware([NodeClass("n", 1, 3, 4, ()), NodeClass("gpu", 2, 1, 32, GPU_EXTRA)])
    assert found == {name: (hardware, "127.0.0.1") for name, hardware in wanted.items()}
    assert all_stay(WRITTEN, wanted, ["127.0.0.1"])
    assert all_stay(WRITTEN, wanted_hardware([NodeClass("n", 1, 9, 4, ())]) | wanted), "more nodes"
    assert not all_stay(WRITTEN, wanted_hardware([NodeClass("n", 1, 3, 4, ())]))
    assert not all_stay(WRITTEN, wanted | wanted_hardware([NodeClass("n", 1, 3, 8, ())]))
    assert not all_stay(WRITTEN.replace("127.0.0.1", "10.0.0.1"), wanted, ["10.0.0.2"])


def test_what_slurmctld_says_of_jobs() -> None:
    text = "12|R|n[1-2]|\n13_4|CG|n7|n7\n14_[1-9]|PD||n[3-4]\n15|PD||\n"
    assert parse_jobs(text) == [
        PlacedJob("12", frozenset({"n1", "n2"}), False),
        PlacedJob("13_4", frozenset({"n7"}), False),
        PlacedJob("14_[1-9]", frozenset({"n3", "n4"}), True),
        PlacedJob("15", frozenset(), True),
    ]


def test_hardware_of_classes() -> None:
    classes = [
        NodeClass("n", 1, 2, 4),
        NodeClass("gpu", 3, 1, 32, (("Gres", "gpu:4"), ("CoresPerSocket", "8"), ("ThreadsPerCore", "2"))),
    ]
    assert wanted_hardware(classes) == {"n1": FOUR, "n2": FOUR, "gpu3": Hardware(32, 2, 8, 2, "gpu:4")}


def test_nodes_leave_stay_and_change() -> None:
    present = [node("n1"), node("n2", REASON), node("n3", REASON), node("n4", "broken"), node("n5"), node("n6")]
    wanted = {"n1": FOUR, "n2": FOUR, "n6": Hardware(8, 8, 1, 1), "n9": FOUR}
    change = plan(present, wanted)
    assert change.going == {"n3", "n4", "n5"}
    assert change.drain == {"n5"}, "n3 is drained already, n4 by somebody else"
    assert change.resume == {"n2"}
    assert change.reshaped == {"n6"}
    assert change.drained_by_us == {"n2", "n3"}


@given(st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)))
def test_what_has_to_be_done_follows_from_both_sides(there: set[int], wanted: set[int]) -> None:
    change = plan([node(f"n{i}") for i in there], {f"n{i}": FOUR for i in wanted})
    assert change.going == change.drain == {f"n{i}" for i in there - wanted}
    assert not change.reshaped and not change.resume


@pytest.mark.parametrize(
    ("addresses", "moving"),
    [
        (["10.0.0.1", "10.0.0.2"], {"n3", "n4"}),
        (["10.0.0.1", "10.0.0.3"], {"n2", "n4"}),
        (["127.0.0.1"], {"n1", "n2", "n3"}),
        ([], set()),
    ],
)
def test_nodes_of_a_host_that_leaves_move_to_another(addresses: list[str], moving: set[str]) -> None:
    at = {"n1": "10.0.0.1", "n2": "10.0.0.2", "n3": "10.0.0.3", "n4": "127.0.0.5", "n5": "n5"}
    change = plan([replace(node(name), address=address) for name, address in at.items()], dict.fromkeys(at, FOUR), addresses)
    assert change.moving == moving
    assert not (change.going or change.drain or change.reshaped), "nodes that move are wanted, where they are and as they are"


GOING = frozenset(f"n{i}" for i in range(81, 121))
NONE: frozenset[str] = frozenset()


def jobs(*names: str, on: str = "n90", waits: bool = False) -> list[PlacedJob]:
    return [PlacedJob(name, frozenset({on}), waits) for name in names]


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (jobs("12", "15", "16"), "nodes=80: jobs 12, 15, 16 (3 in all) run on n[81-120]; wait for them or scancel them"),
        (jobs("12", "15"), "nodes=80: jobs 12, 15 run on n[81-120]; wait for them or scancel them"),
        (jobs("12") + jobs("13", on="n1"), "nodes=80: job 12 runs on n[81-120]; wait for it or scancel it"),
        (
            jobs(*(str(i) for i in range(100, 130))),
            "nodes=80: jobs 100, 101, 102, 103, 104 (30 in all) run on n[81-120]; wait for them or scancel them",
        ),
        (jobs("7", waits=True), "nodes=80: job 7 waits for nodes of n[81-120] by name (sbatch -w); scancel it"),
        (
            jobs("7", on="n1"),
            "nodes=80: job 7 runs on n1, whose processors or GRES would change; wait for it or scancel it",
        ),
        (
            jobs("7", "8", on="n2"),
            "nodes=80: jobs 7, 8 run on n2, which would move to another host; wait for them or scancel them",
        ),
    ],
)
def test_jobs_that_would_be_lost_are_named_in_one_line(found: list[PlacedJob], line: str) -> None:
    change = Change(GOING, frozenset({"n1"}), GOING, NONE) if "whose" in line else Change(GOING, NONE, GOING, NONE)
    change = replace(change, moving=frozenset({"n2"}))
    with pytest.raises(WrongUse) as refusal:
        check(change, found, 80)
    assert str(refusal.value) == line


@pytest.mark.parametrize("found", [[], jobs("1", on="n80"), jobs("2", on="n1", waits=True), [PlacedJob("3", NONE, True)]])
def test_other_jobs_are_no_hindrance(found: list[PlacedJob]) -> None:
    check(Change(GOING, NONE, GOING, NONE), found, 80)
