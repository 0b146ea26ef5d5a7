"""SLURMS: which words name a release, how its builds are called, and what is refused."""

from __future__ import annotations

import io
import re
import tarfile
from pathlib import Path

import pytest

from mirage.campaign import releases
from mirage.campaign.releases import Build, by_label, notes, read
from mirage.knobs.resolve import user_message
from mirage.knobs.slurm_source import SlurmSource
from slurm_mirage.base.errors import WrongUse

ONE, OTHER = "1" * 64, "2" * 64


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose packages have Slurm 22.05.8, and which has built 25.11.7."""
    packaged = tmp_path / "slurmctld"
    packaged.write_text("#!/bin/sh\necho slurm-wlm 22.05.8\n")
    packaged.chmod(0o755)
    monkeypatch.setattr(releases, "PACKAGED", packaged)
    monkeypatch.setattr(releases, "PREFIXES", tmp_path / "prefixes")
    build(tmp_path, "25.11.7", ONE)
    return tmp_path


def build(machine: Path, version: str, checksum: str) -> Path:
    """A finished build of the role."""
    folder = machine / f"prefixes/slurm-{version}-{checksum[:8]}"
    folder.mkdir(parents=True)
    (folder / releases.STAMP).write_text(f"{version} sha256:{checksum}\n")
    return folder


def archive(path: Path, version: str) -> str:
    with tarfile.open(path, "w:gz") as stream:
        member = tarfile.TarInfo("slurm/META")
        text = f"  Version: {version}\n".encode()
        member.size = len(text)
        stream.addfile(member, io.BytesIO(text))
    return str(path)


@pytest.mark.parametrize("words", ["22.05 25.11", "packages 25.11.7", "22.05.8 25.11"])
def test_installed_releases_are_named(machine: Path, words: str) -> None:
    packages, built = read(words, is_here=True)
    assert packages == Build("22.05.8", None)
    prefix = machine / f"prefixes/slurm-25.11.7-{ONE[:8]}"
    assert built == Build("25.11.7", SlurmSource("", "25.11.7", ONE, str(prefix)))
    assert built.source is not None and built.source.role_variables()["slurm_prefix"] == str(prefix)
    assert built.commands == prefix / "bin"


def test_an_archive_is_one_and_its_build_is_found_by_its_content(machine: Path) -> None:
    path = archive(machine / "slurm.tar.gz", "24.11.7")
    (build_of_it, _) = read(f"{path} packages", is_here=True)
    assert build_of_it.version == "24.11.7" and build_of_it.commands is None
    assert build_of_it.source is not None
    folder = build(machine, "24.11.7", build_of_it.source.sha256)
    assert build_of_it.commands == folder / "bin"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("22.05", r"^SLURMS=22.05: names fewer than two"),
        (
            "22.05 24.11",
            r"^SLURMS=24.11: is not installed here, where there is 22.05.8 \(packages\), 25.11.7; it may be two or more",
        ),
        ("22.05 2", r"^SLURMS: 2: cannot be read"),
        ("22.05 /nosuch.tar.gz", r"^SLURMS: /nosuch.tar.gz: cannot be read"),
        ("22.05 text.tar.gz", r"^SLURMS: text.tar.gz: not an archive that tar can read"),
        ("22.05 other.tar.gz", r"^SLURMS: other.tar.gz: holds no source of Slurm \(no META with its Version\)"),
        ("22.05 old.tar.gz", r"^SLURMS: old.tar.gz: slurm_version=2.6.9: it may be a release of Slurm"),
    ],
)
def test_what_names_no_release_is_refused_in_one_line(
    machine: Path, monkeypatch: pytest.MonkeyPatch, words: str, reason: str
) -> None:
    monkeypatch.chdir(machine)
    Path("text.tar.gz").write_text("no archive")
    with tarfile.open("other.tar.gz", "w:gz") as stream:
        stream.addfile(tarfile.TarInfo("other/README"))
    archive(Path("old.tar.gz"), "2.6.9")
    with pytest.raises(WrongUse) as refusal:
        read(words, is_here=True)
    assert re.search(reason, user_message(refusal.value))
    assert "\n" not in user_message(refusal.value)


def test_a_name_of_two_builds_is_refused(machine: Path) -> None:
    build(machine, "25.11.7", OTHER)
    with pytest.raises(WrongUse, match="2 builds of it are here, of different sources"):
        read("22.05 25.11", is_here=True)


def test_on_other_hosts_only_packages_and_archives_are_known(machine: Path) -> None:
    path = archive(machine / "slurm.tar.gz", "25.11.7")
    assert [one.version for one in read(f"packages {path}", is_here=False)] == ["", "25.11.7"]
    with pytest.raises(WrongUse, match="what other hosts have is not known"):
        read("22.05 packages", is_here=False)


def test_two_builds_of_one_release_are_told_apart() -> None:
    one, other = (Build("25.11.7", SlurmSource("a", "25.11.7", sha256)) for sha256 in (ONE, OTHER))
    assert list(by_label([Build("22.05.8", None), one])) == ["22.05.8", "25.11.7"]
    both = by_label([one, other])
    assert list(both) == ["25.11.7-111111", "25.11.7-222222"]
    assert notes(both) == ["note: 2 arms are builds of one release, Slurm 25.11.7: what differs comes from their sources"]
    same = by_label([one, one])
    assert list(same) == ["25.11.7-111111", "25.11.7-111111-b"]
    assert notes(same) == ["note: 2 arms are one build of Slurm 25.11.7: equal schedules are expected"]
    assert not notes(by_label([Build("22.05.8", None), one]))
