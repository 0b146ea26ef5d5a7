"""What differs between two configurations."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirage.experiment.configuration_changes import Changes, changes
from mirage.knobs.knobs import Knobs
from mirage.knobs.machine import Machine
from mirage.knobs.resolve import resolve
from mirage.site import site_conf

CONF = """
SchedulerType=sched/backfill
SchedulerParameters=bf_continue,bf_interval=30,bf_window=1440
PriorityWeightAge=1000
SlurmctldDebug=info
NodeName=n[1-4] CPUs=2 RealMemory=1000 State=UNKNOWN
NodeName=fat CPUs=8
PartitionName=batch Nodes=ALL Default=YES MaxTime=1-0
PartitionName=fat Nodes=fat AllowGroups=staff
"""


def of_file(folder: Path, *replacements: tuple[str, str]) -> Knobs:
    text = CONF
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    path = folder / f"{len(list(folder.iterdir()))}.conf"
    path.write_text(text)
    machine = Machine(tuple(site_conf.read(path).nodes), str(path))
    return resolve({"CONFIG": "site"}).with_values(
        {"SLURM_CONF": str(path), "CLASSES": machine, "NODES": machine.nodes, "CPUS": None}
    )


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("bf_interval=30", "bf_interval=60", "SchedulerParameters: bf_interval=30 -> bf_interval=60"),
        (",bf_window=1440", "", "SchedulerParameters: bf_window=1440 -> not set"),
        (
            "bf_continue,bf_interval=30",
            "bf_interval=30,bf_continue",
            "SchedulerParameters: bf_continue,bf_interval=30,bf_window=1440 -> bf_interval=30,bf_continue,bf_window=1440",
        ),
        ("PriorityWeightAge=1000\n", "", "PriorityWeightAge: 1000 -> not set"),
        ("PriorityWeightAge=1000", "priorityweightage=2000", "priorityweightage: 1000 -> 2000"),
        ("SlurmctldDebug", "KillWait=10\nSlurmctldDebug", "KillWait: not set -> 10"),
        ("RealMemory=1000", "RealMemory=2000", "NodeName=n[1-4] RealMemory: 1000 -> 2000"),
        ("MaxTime=1-0", "MaxTime=2-0", "PartitionName=batch MaxTime: 1-0 -> 2-0"),
        ("MaxTime=1-0", "", "PartitionName=batch MaxTime: 1-0 -> not set"),
    ],
)
def test_a_setting_that_differs_is_named(tmp_path: Path, old: str, new: str, line: str) -> None:
    assert changes(of_file(tmp_path), of_file(tmp_path, (old, new))) == Changes([line], [], [])


def test_the_order_of_lines_of_nodes_is_a_difference(tmp_path: Path) -> None:
    lines = ("NodeName=n[1-4] CPUs=2 RealMemory=1000 State=UNKNOWN\n", "NodeName=fat CPUs=8\n")
    found = changes(of_file(tmp_path), of_file(tmp_path, ("".join(lines), "".join(reversed(lines)))))
    assert [line.partition(":")[0] for line in found.played] == ["order of nodes"]


def test_a_file_without_changes_differs_in_nothing(tmp_path: Path) -> None:
    same = of_file(tmp_path, ("SchedulerType", "# a comment\nSchedulerType"))
    assert changes(of_file(tmp_path), same) == Changes([], [], [])


def test_what_is_left_out_is_told_apart(tmp_path: Path) -> None:
    """Only what differs; other words of both files are left out too."""
    other = of_file(
        tmp_path, ("SlurmctldDebug=info", "SlurmctldDebug=debug"), ("=staff", "=guests"), ("State=UNKNOWN", "State=DOWN")
    )
    found = changes(of_file(tmp_path), other)
    assert found.played == []
    assert [line.partition(":")[0] for line in found.left_out] == ["State=DOWN", "AllowGroups=guests", "AllowGroups=staff"]
    assert found.rest == ["SlurmctldDebug=debug", "SlurmctldDebug=info"]


def test_configurations_are_compared_by_name() -> None:
    before, after = (resolve({"CONFIG": name}) for name in ("backfill", "multifactor"))
    found = changes(before, after).played
    assert "accounting: no -> yes" in found and "PriorityType: priority/basic -> priority/multifactor" in found
    assert not [line for line in found if line.startswith("SchedulerParameters")]
