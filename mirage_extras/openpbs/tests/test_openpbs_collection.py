"""What the verdict learns of OpenPBS from the configuration of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_mirage.extras.openpbs import collection
from slurm_mirage.extras.openpbs.collection import ConfiguredRecords
from slurm_mirage.rm.evidence import Layout, Node

SERVER = """\
#
# Create queues and set their attributes.
#
create queue workq
set queue workq queue_type = Execution
set queue workq enabled = True
set queue workq started = True
create queue urgent
set queue urgent queue_type = Execution
set queue urgent max_run = [o:PBS_ALL=4]
create queue short
set queue short resources_max.walltime = 01:00:00
set server default_queue = workq
set server backfill_depth = {depth}
"""
NODES = """\
#
# Create and define nodes
#
create node n1 Mom=n1,Port=2000
set node n1 state = free
set node n1 resources_available.arch = linux
set node n1 resources_available.ncpus = 8
create node fat1 Mom=fat1,Port=2002
set node fat1 resources_available.ncpus = 16
"""
SCHEDULER = """\
# strict_ordering
#
#       Run jobs exactly in the order of job_sort_key
# version
#
strict_ordering: {strict}   ALL
by_queue: True         prime
"""


def configuration(depth: str = "0", strict: str = "True") -> str:
    return collection.joined(
        {
            collection.VERSION: "pbs_version = 23.06.06\n",
            collection.SERVER: SERVER.format(depth=depth),
            collection.NODES: NODES,
            collection.SCHEDULER: SCHEDULER.format(strict=strict),
        }
    )


def test_the_parts_are_found_again() -> None:
    parts = collection.parts_of(configuration())
    assert parts[collection.VERSION].strip() == "pbs_version = 23.06.06"
    assert parts[collection.NODES].startswith("#\n# Create and define nodes")
    assert parts[collection.SCHEDULER].strip() == SCHEDULER.format(strict="True").strip()
    assert collection.parts_of("") == dict.fromkeys(collection.PARTS, "")


@pytest.mark.parametrize(
    ("depth", "strict", "backfills"), [("0", "True", False), ("1", "true", True), ("100", "True", True), ("0", "false", True)]
)
def test_jobs_start_in_order_only_with_strict_ordering_and_no_depth(depth: str, strict: str, backfills: bool) -> None:
    found = ConfiguredRecords().scheduling(configuration(depth, strict))
    assert found.backfills is backfills and found.has_cycles and found.version == "23.06.06"


def test_a_server_without_a_depth_has_that_of_the_release() -> None:
    text = configuration().replace("set server backfill_depth = 0\n", "")
    assert ConfiguredRecords().scheduling(text).backfills


def test_the_machine_has_nodes_of_different_sizes_and_queues_on_all_of_them(tmp_path: Path) -> None:
    (tmp_path / "qmgr.txt").write_text(configuration())
    every = frozenset({"n1", "fat1"})
    assert ConfiguredRecords().layout(tmp_path) == Layout(
        {"n1": Node(8), "fat1": Node(16)}, {"workq": every, "urgent": every, "short": every}, frozenset({"urgent"})
    )


def test_without_nodes_the_machine_is_not_known(tmp_path: Path) -> None:
    assert ConfiguredRecords().layout(tmp_path) is None
    assert ConfiguredRecords().configuration(tmp_path) == ""
