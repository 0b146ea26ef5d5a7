"""Which files a slurm.conf may name: those below its own folder. And that no message quotes one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from captures import CONF, capture
from hypothesis import given
from hypothesis import strategies as st

from mirage.site import site_conf
from mirage.site.conf_lines import ConfFiles
from mirage.text.input_file import read_below
from slurm_mirage.base.errors import WrongUse

SECRET = "TopSecret-x1"
MACHINE = "NodeName=a[1-4] CPUs=8\nPartitionName=p Nodes=ALL Default=YES\n"
HIDDEN = "NodeName=hidden1\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a slurm.conf; beside it, outside, are a file that could be included and one that has a secret."""
    (tmp_path / "etc/parts").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/nodes.conf").write_text(HIDDEN)
    (tmp_path / "outside/secret").write_text(f"{SECRET}\n")
    return tmp_path / "etc"


def read(folder: Path, text: str) -> list[str]:
    """Names of the nodes of a slurm.conf in the folder."""
    (folder / "slurm.conf").write_text(text + MACHINE)
    return [one.names for one in site_conf.read(folder / "slurm.conf").nodes]


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(WrongUse) as error:
        read(folder, text)
    line = str(error.value)
    assert SECRET.lower() not in line.lower() and len(line.splitlines()) == 1
    return line.removeprefix(f"slurm_conf: {folder}/")


@pytest.mark.parametrize("name", ["secret", "nodes.conf", "nothing"])
@pytest.mark.parametrize("path", ["../outside/{}", "{outside}/{}", "parts/../../outside/{}", "{outside}/{:.3}*", "../*/{}"])
def test_a_file_outside_is_refused_whether_it_is_there_or_not(folder: Path, path: str, name: str) -> None:
    include = path.format(name, outside=folder.parent / "outside")
    assert refusal(folder, f"\nInclude {include}\n") == f"slurm.conf line 2: Include: there is no such file below {folder}"


@pytest.mark.parametrize("path", ["/etc/shadow", "/etc/passwd", "/proc/self/environ", "/dev/stdin", "/root/*", "~/.netrc"])
def test_files_of_the_machine_are_refused(folder: Path, path: str) -> None:
    assert refusal(folder, f"Include {path}\n") == f"slurm.conf line 1: Include: there is no such file below {folder}"


def test_a_link_that_leads_outside_is_refused(folder: Path) -> None:
    (folder / "parts/nodes.conf").symlink_to("../../outside/nodes.conf")
    assert refusal(folder, "Include parts/nodes.conf\n") == f"slurm.conf line 1: Include: leads out of {folder}"
    assert refusal(folder, "Include parts/*.conf\n") == f"slurm.conf line 1: Include: leads out of {folder}"
    (folder / "away").symlink_to("../outside")
    assert refusal(folder, "Include away/nodes.conf\n") == f"slurm.conf line 1: Include: there is no such file below {folder}"
    (folder / "gone").symlink_to("/nowhere/at/all")
    assert refusal(folder, "Include gone\n") == f"slurm.conf line 1: Include: leads out of {folder}"


@pytest.mark.parametrize("name", ["gres.conf", "topology.conf", "topology.yaml"])
def test_a_link_beside_slurm_conf_that_leads_outside_is_refused(folder: Path, name: str) -> None:
    (folder / name).symlink_to("../outside/secret")
    assert refusal(folder, "TopologyPlugin=topology/tree\n") == f"{name}: leads out of {folder}"


def test_what_a_site_has_below_its_folder_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative and absolute paths, links that stay inside, and files in sub-folders that include others, relative to their own
    folder or to that of slurm.conf."""
    (folder / "parts/one.conf").write_text("Include two.conf\nInclude three.conf\nInclude ../four.conf\n")
    (folder / "parts/two.conf").write_text("NodeName=b2\n")
    (folder / "three.conf").write_text("NodeName=b3\n")
    (folder / "four.conf").write_text("NodeName=b4\n")
    (folder / "link.conf").symlink_to("parts/five.conf")
    (folder / "parts/five.conf").write_text("NodeName=b5\n")
    text = f"Include {folder}/parts/one.conf\nInclude link.conf\n"
    names = ["b[2-5]", "a[1-4]"]
    assert read(folder, text) == names
    monkeypatch.chdir(folder)
    assert [one.names for one in site_conf.read("slurm.conf").nodes] == names
    monkeypatch.chdir(folder / "parts")
    assert [one.names for one in site_conf.read("../slurm.conf").nodes] == names


def test_a_slurm_conf_that_is_a_link_has_the_files_of_both_folders(folder: Path) -> None:
    """/etc/slurm/slurm.conf, a link to a file of a shared file system; and /etc/slurm a link to a folder of it."""
    (folder / "b.conf").write_text("NodeName=b1\n")
    read(folder, "Include b.conf\n")
    host = folder.parent / "host"
    host.mkdir()
    (host / "slurm.conf").symlink_to(folder / "slurm.conf")
    (folder.parent / "whole").symlink_to(folder)
    for path in (host / "slurm.conf", folder.parent / "whole/slurm.conf"):
        assert [one.names for one in site_conf.read(path).nodes] == ["b1", "a[1-4]"]
    (host / "b.conf").write_text("NodeName=c1\n")
    assert [one.names for one in site_conf.read(host / "slurm.conf").nodes] == ["c1", "a[1-4]"]


def test_a_slurm_conf_of_another_name_is_called_so(folder: Path) -> None:
    (folder / "changed.conf").write_text(f"{MACHINE}Include slurm.conf\n")
    (folder / "slurm.conf").write_text("nonsense")
    with pytest.raises(WrongUse, match=rf"{folder}/slurm\.conf line 1: is not"):
        site_conf.read(folder / "changed.conf")
    assert next(ConfFiles(folder / "changed.conf").lines()).where == f"{folder}/changed.conf line 1"


def test_a_copy_is_read_with_its_own_files_where_the_machine_has_such_a_path_too(folder: Path) -> None:
    (folder / "nodes.conf").write_text("NodeName=own1\n")
    assert read(folder, f"Include {folder.parent}/outside/nodes.conf\n") == ["own1", "a[1-4]"]


@pytest.mark.parametrize(
    "text",
    [
        SECRET,
        f"SchedulerType=sched/backfill {SECRET}",
        f"{SECRET}=1 2",
        f"NodeName={SECRET}[",
        f"NodeName=b1 CPUs={SECRET}",
        f"NodeName=b1 {SECRET}",
        f"NodeName={SECRET}[1-99999999]",
        f"NodeName={SECRET},{SECRET}",
        f"NodeName=/{SECRET}",
        f"PartitionName=q Nodes={SECRET}",
        f"PartitionName=q Nodes={SECRET}[2-1]",
        f"NodeSet={SECRET} Nodes={SECRET}2\nPartitionName=q Nodes={SECRET}",
        f"Include {SECRET}",
        f"Include {SECRET}/*",
        f"PartitionName={SECRET}|x Nodes=a1",
        f'PartitionName={SECRET} SelectTypeParameters="{SECRET}\x1b"',
        f"{{{{ {SECRET} }}}}",
    ],
)
def test_no_line_of_an_included_file_is_quoted(folder: Path, text: str) -> None:
    (folder / "parts/one.conf").write_text(f"# a comment\n{text}\n")
    assert refusal(folder, "Include parts/one.conf\n").startswith("parts/one.conf line 2: ")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gres.conf", SECRET),
        ("gres.conf", f"Name=gpu Type=a NodeName={SECRET}["),
        ("gres.conf", f"Name=gpu Type=a File=/dev/{SECRET}["),
        ("topology.conf", f"SwitchName={SECRET} Nodes={SECRET}["),
        ("topology.conf", f"SwitchName={SECRET} Nodes=a1\nSwitchName={SECRET}"),
        ("topology.yaml", f"{SECRET}: ["),
        ("topology.yaml", f"- topology: {SECRET}"),
    ],
)
def test_no_line_of_a_file_beside_is_quoted(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"{text}\n")
    assert refusal(folder, "TopologyPlugin=topology/tree\n").startswith(name)


def test_an_archive_includes_its_own_files_only(tmp_path: Path) -> None:
    """No path of this machine is looked at, not even for a pattern."""
    (tmp_path / "secret").write_text(HIDDEN)
    path = capture(tmp_path, {"conf/slurm.conf": f"Include /site/etc/more.conf\n{CONF}", "conf/more.conf": "NodeName=more1\n"})
    assert ("NodeName", "more1") in [line.words[0] for line in ConfFiles(path).lines()]
    for name in (f"{tmp_path}/secret", f"{tmp_path}/sec*", "/etc/passwd", "../manifest.json", ".."):
        with pytest.raises(WrongUse, match=r"conf/slurm\.conf line 1: Include: the archive has no such file\Z"):
            site_conf.read(capture(tmp_path, {"conf/slurm.conf": f"Include {name}\n{CONF}"}))


@given(st.text(st.sampled_from("./*?[ab~%c-"), min_size=1, max_size=12))
def test_no_include_leads_outside(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    outside = tmp_path_factory.mktemp("any")
    folder = outside / "a"
    for place in (outside, folder, folder / "b", outside / "b"):
        place.mkdir(exist_ok=True)
        (place / "c").write_text("NodeName=inside[1-2]\n" if place.is_relative_to(folder) else HIDDEN)
    (folder / "ab").symlink_to("../b")
    (folder / "slurm.conf").write_text(f"ClusterName=c\nInclude {name}\n{MACHINE}")
    try:
        assert [one.names for one in site_conf.read(folder / "slurm.conf").nodes] == ["inside[1-2]", "a[1-4]"]
    except WrongUse as error:
        assert "hidden" not in str(error)


@pytest.mark.parametrize("swapped", ["parts", "parts/nodes.conf"])
def test_what_is_replaced_by_a_link_once_it_was_looked_at_is_not_followed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, swapped: str
) -> None:
    """Another user who may write there replaces a folder, or the file, between the look and the reading."""
    (folder / "parts/nodes.conf").write_text("inside")
    assert read_below(folder / "parts/nodes.conf", [folder], 1 << 10) == b"inside"
    really = os.path.realpath

    def looked_at(path: Path) -> str:
        found = really(path)
        (folder / swapped).rename(folder / "away")
        (folder / swapped).symlink_to(folder.parent / "outside" / ("nodes.conf" if "/" in swapped else ""))
        return found

    monkeypatch.setattr(os.path, "realpath", looked_at)
    with pytest.raises((OSError, ValueError), match=r"Not a directory|is a link; it must be a regular file"):
        read_below(folder / "parts/nodes.conf", [folder], 1 << 10)
