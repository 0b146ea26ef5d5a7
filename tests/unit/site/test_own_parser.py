"""What a release of Slurm says of a slurm.conf, by its own parser; the settings in force of two releases."""

from __future__ import annotations

import os
import pwd
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.site import own_parser
from mirage.site.conf_lines import ConfFiles, Line, parsed
from mirage.site.own_parser import complaints, only_of, other_defaults
from mirage.site.site_words import NODE_TAKEN, OVERRIDDEN, PARTITION_TAKEN, TAKEN
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.rm.slurm.setting_names import RETIRED

COMMANDS = Path("/usr/bin")
needs_slurm = pytest.mark.skipif(not (COMMANDS / "scontrol").exists(), reason="skipped: needs Slurm's packages")


def lines_of(path: Path) -> list[Line]:
    return list(ConfFiles(path).lines())


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
def test_a_value_that_it_refuses_is_named_by_its_word(tmp_path: Path) -> None:
    refused = "KillWait=soon\nPriorityWeightAge=9999999999\nPartitionName=q Nodes=ALL MaxTime=later\n"
    (tmp_path / "slurm.conf").write_text(KNOWN + refused)
    path = tmp_path / "slurm.conf"
    assert complaints(COMMANDS, lines_of(path)) == [
        f"{path} line 5: the value of killwait is refused",
        f"{path} line 6: the value of priorityweightage is refused",
        f"{path} line 7: the value of maxtime is refused",
    ]


@needs_slurm
def test_what_slurm_loads_runs_or_writes_does_not_reach_it(tmp_path: Path) -> None:
    """Its own words, with values that would end it, are known and of no effect; so is a line that would include a file."""
    others = [name for _, _, names in OVERRIDDEN for name in names if name not in ("ClusterName", "SlurmctldHost")]
    file = tmp_path / "out"
    text = "".join(f"{name}={file}\n" for name in others) + f"include={file}\n"
    (tmp_path / "slurm.conf").write_text(f"{KNOWN}{text}NodeName=m1 NodeAddr=192.0.2.1 Gres=gpu:1 State=UNKNOWN GresConf={file}\n")
    told = complaints(COMMANDS, lines_of(tmp_path / "slurm.conf"))
    assert all(line.endswith(("is not known", own_parser.RETIRED)) for line in told), told
    known = {"PluginDir", "PlugStackConfig", "Prolog", "SlurmUser", "AuthType", "SlurmdLogFile", "StateSaveLocation", "TmpFS"}
    assert not [line for line in told if line.split(": ")[1].split()[0] in known]
    assert not file.exists()


@pytest.fixture
def release(tmp_path: Path) -> Iterator[Path]:
    """Folder of the commands of a release whose scontrol is a script that everybody may run."""
    with tempfile.TemporaryDirectory() as readable:
        Path(readable).chmod(0o755)
        (Path(readable) / "bin").mkdir(mode=0o755)
        (Path(readable) / "bin").chmod(0o755)
        yield Path(readable, "bin")


def script(release: Path, text: str) -> None:
    (release / "scontrol").write_text(f"#!/bin/sh\n{text}\n")
    (release / "scontrol").chmod(0o755)


def given_to(release: Path, text: str) -> list[str]:
    """The lines that a release is given of a slurm.conf."""
    script(release, r"""sed 's/[^A-Za-z0-9]/_/g; s/^/x: error: unrecognized key: /' "$SLURM_CONF" >&2""")
    found = [line.split(": ")[1] for line in complaints(release, list(parsed(text, "slurm.conf")))]
    return [line.removesuffix(" is not known") for line in found]


def test_of_other_words_than_those_of_scheduling_a_release_gets_the_name_alone(release: Path) -> None:
    words = [name for _, _, names in OVERRIDDEN for name in names] + [*RETIRED, "NobodyKnows"]
    text = "".join(f"{name}=/evil/{name}\n" for name in words) + "NodeName=a1 CPUs=2 GresConf=/evil Wobble=/evil\n"
    given = given_to(release, f"{text}PartitionName=p Nodes=a1 Wobble=/evil Alternate=q\nDownNodes=a1 Reason=/evil\n")
    assert not [line for line in given if "evil" in line]
    assert {"Prolog_1", "NobodyKnows_1", "ClusterName_parsed"} <= set(given)
    assert not [line for line in given if line.lower().startswith(("plugindir", "plugstackconfig", "include"))]
    assert "NodeName_a1_CPUs_2" in given and "PartitionName_p_Nodes_a1_Alternate_q" in given
    assert any(line.endswith("_GresConf_1") for line in given) and any(line.startswith("DownNodes_n") for line in given)


@given(st.sampled_from(TAKEN), st.text(st.sampled_from('ab/\\#" \t,=[]\r\v'), min_size=1, max_size=8))
def test_what_it_gets_is_read_back_as_it_was(key: str, value: str) -> None:
    """A value cannot begin a comment or another line, or end in the next one."""
    try:
        given = list(parsed(f"{key}={value}\n", "x"))
    except WrongUse:
        return
    given = [line for line in given if own_parser._has_value("", *line.words[0])]
    node = Line("x", (("NodeName", "n1"), (NODE_TAKEN[0], "1")))
    read = parsed(own_parser._with_values([*given, node]), "x")
    assert [line.words for line in read] == [line.words for line in (*given, node)]


def test_no_word_that_it_gets_with_a_value_names_a_file() -> None:
    with_values = {name.lower() for name in TAKEN} | {*NODE_TAKEN, *PARTITION_TAKEN}
    named = re.compile("dir|path|file$|prog|plugin|prolog|epilog|user$|host$|conf$|type$")
    assert {name for name in with_values if named.search(name)} == set(own_parser._PLUGINS)


def test_a_plugin_is_one_of_the_release(release: Path) -> None:
    text = "SchedulerType=sched/builtin\nSelectType=/tmp/evil\nPriorityType=priority/../evil\n"
    assert given_to(release, text) == ["SchedulerType_sched_builtin", "SelectType_1", "PriorityType_1"]


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("sleep 600 & sleep 600", {"LONGEST": 0.5}),
        ("while :; do echo 'x: error: unrecognized key: Endless'; done >&2", {"LARGEST": 4096}),
        ("x=$(head -c 300000000 /dev/zero | tr '\\0' x); echo 'x: error: unrecognized key: Large' >&2", {"MOST_MEMORY": 100 << 20}),
    ],
)
def test_it_is_bounded(release: Path, monkeypatch: pytest.MonkeyPatch, text: str, limit: dict[str, float]) -> None:
    """In time, together with what it has started, in what it writes, and in memory."""
    for name, value in limit.items():
        monkeypatch.setattr(own_parser, name, value)
    script(release, text)
    found = complaints(release, list(parsed(KNOWN, "slurm.conf")))
    assert found == (["slurm.conf: Endless is not known"] if "LARGEST" in limit else [])


def test_it_runs_as_nobody_in_a_folder_of_its_own(release: Path) -> None:
    script(release, 'echo "x: error: unrecognized key: $(id -u)_$(ls)_$(touch own 2>/dev/null && echo writes)" >&2')
    uid = pwd.getpwnam(own_parser.NOBODY).pw_uid if os.geteuid() == 0 else os.geteuid()
    (found,) = complaints(release, list(parsed(KNOWN, "slurm.conf")))
    assert found.startswith(f"slurm.conf: {uid}_slurm"), found


@needs_slurm
def test_what_a_release_has_retired_is_named_as_its_daemons_do(release: Path, tmp_path: Path) -> None:
    """By slurmd of a release of another time, whose message is that of Slurm 25.11."""
    (release.parent / "sbin").mkdir()
    release.rmdir()
    release.symlink_to(COMMANDS)
    slurmd = release.parent / "sbin/slurmd"
    said = r'[2026-11-27T09:24:18.699] error: The option "KillWait" is defunct, please remove it from slurm.conf.'
    slurmd.write_text(f"#!/bin/sh\ngrep -q KillWait \"$5\" && echo '{said}' >&2\n")
    slurmd.chmod(0o755)
    (tmp_path / "slurm.conf").write_text(KNOWN + "KillWait=30\n")
    assert complaints(release, lines_of(tmp_path / "slurm.conf")) == [
        f"{tmp_path}/slurm.conf line 5: KillWait is retired, and has no effect"
    ]


def test_a_parser_that_cannot_be_asked_is_named(tmp_path: Path) -> None:
    (found,) = complaints(tmp_path, list(parsed("ClusterName=x\n", "x")))
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
