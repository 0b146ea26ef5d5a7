"""What a release of Slurm says of a slurm.conf, by its own parser; the settings in force of two releases."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from mirage.site.own_parser import complaints, only_of, other_defaults
from mirage.site.site_conf import lines_of

COMMANDS = Path("/usr/bin")
needs_slurm = pytest.mark.skipif(not (COMMANDS / "scontrol").exists(), reason="skipped: needs Slurm's packages")
KNOWN = "ClusterName=x\nSlurmctldHost=localhost\nNodeName=n[1-4] CPUs=2\nPartitionName=batch Nodes=ALL\n"


@needs_slurm
def test_each_line_with_an_unknown_word_is_named(tmp_path: Path) -> None:
    (tmp_path / "more.conf").write_text("NodeName=fat CPUs=8 \\\n  Wobble=3\n")
    (tmp_path / "slurm.conf").write_text(f"{KNOWN}# a comment\nFooBar=1\nInclude more.conf\nPartitionName=b Nodes=fat Banana=2\n")
    assert complaints(COMMANDS, lines_of(tmp_path / "slurm.conf")) == [
        f"{tmp_path}/slurm.conf line 6: FooBar is not known",
        f"{tmp_path}/more.conf line 1: Wobble is not known",
        f"{tmp_path}/slurm.conf line 8: Banana is not known",
    ]


@needs_slurm
def test_of_a_file_that_it_reads_it_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text(KNOWN + 'SchedulerParameters="bf_interval=30, bf_window=1440"\n')
    assert complaints(COMMANDS, lines_of(tmp_path / "slurm.conf")) == []


@needs_slurm
def test_a_value_that_it_refuses_is_named(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text(KNOWN + "KillWait=soon\n")
    (found,) = complaints(COMMANDS, lines_of(tmp_path / "slurm.conf"))
    assert "soon" in found or "KillWait" in found


@needs_slurm
def test_what_a_release_has_retired_is_named_as_its_daemons_do(tmp_path: Path) -> None:
    """By slurmd of a release of another time, whose message is that of Slurm 25.11."""

    with tempfile.TemporaryDirectory() as readable:
        Path(readable).chmod(0o755)
        folder = Path(readable, "bin")
        (folder.parent / "sbin").mkdir()
        folder.symlink_to(COMMANDS)
        slurmd = folder.parent / "sbin/slurmd"
        said = r'[2026-11-27T09:24:18.699] error: The option "KillWait" is defunct, please remove it from slurm.conf.'
        slurmd.write_text(f"#!/bin/sh\ngrep -q KillWait \"$5\" && echo '{said}' >&2\n")
        slurmd.chmod(0o755)
        (tmp_path / "slurm.conf").write_text(KNOWN + "KillWait=30\n")
        assert complaints(folder, lines_of(tmp_path / "slurm.conf")) == [
            f"{tmp_path}/slurm.conf line 5: KillWait is retired, and has no effect"
        ]


def test_a_parser_that_cannot_be_asked_is_named(tmp_path: Path) -> None:
    (found,) = complaints(tmp_path, [("line 1", "ClusterName=x")])
    assert found.startswith(f"{tmp_path}/scontrol cannot be asked: ")


def test_what_all_releases_say_is_of_the_machine() -> None:
    found = only_of(
        {"22.05.8": ["no user slurm", "line 3: B is not known"], "25.11.7": ["no user slurm", "line 2: A is not known"]}
    )
    assert found == {"22.05.8": ["line 3: B is not known"], "25.11.7": ["line 2: A is not known"]}
    assert only_of({"22.05.8": ["no user slurm"]}) == {"22.05.8": ["no user slurm"]}


BEFORE = """Configuration data as of 2026-11-27T08:00:00
BOOT_TIME               = 2026-11-27T07:00:00
PriorityType            = priority/basic
KillWait                = 30 sec
MCSPlugin               = mcs/none
DisableRootJobs         = Yes
LaunchType              = launch/slurm
SLURM_VERSION           = 22.05.8
SlurmSchedLogFile       = /var/lib/slurm-mirage/up-2/log/scheduler.log
Slurmctld(primary) at host is UP
"""
AFTER = """BOOT_TIME               = 2026-11-27T09:00:00
CertmgrType             = (null)
PriorityType            = priority/multifactor
KillWait                = 30 sec
MCSPlugin               = (null)
DisableRootJobs         = yes
SLURM_VERSION           = 25.11.7
SlurmSchedLogFile       = /var/lib/slurm-mirage/up/log/scheduler.log
"""


def test_settings_that_differ_are_named() -> None:
    assert other_defaults(BEFORE, AFTER) == [
        "PriorityType: priority/basic -> priority/multifactor",
        "no longer there: LaunchType",
        "new: CertmgrType",
    ]
    assert other_defaults(BEFORE, BEFORE.replace("07:00:00", "08:00:00")) == []
