"""SLURM_SOURCE: which archives are sources of Slurm, and what the playbooks are told of them."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from pathlib import Path

import pytest

from mirage.experiment.cluster_variables import cluster_variables
from mirage.knobs import resolve as knobs
from slurm_mirage.base.errors import WrongUse


def archive(path: Path, files: dict[str, str]) -> Path:
    """A tar archive, compressed as its name says."""
    with tarfile.open(path, f"w:{path.suffix[1:]}") as stream:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            stream.addfile(member, io.BytesIO(text.encode()))
    return path


META = "##\n  Api_age:\t0\n  Major:\t\t16\n  Name:\t\tslurm\n  Version:\t16.05.6\n  Release:\t1\n"


@pytest.mark.parametrize("name", ["slurm-16.05.6.tar.bz2", "a.tar.gz", "slurm-wlm_16.05.6.orig.tar.xz"])
@pytest.mark.parametrize("folder", ["slurm-16.05.6/", "slurm-slurm-16-05-6-1/", "./x/"])
def test_the_release_is_what_the_archive_says_whatever_its_names(tmp_path: Path, name: str, folder: str) -> None:
    path = archive(tmp_path / name, {f"{folder}AUTHORS": "x", f"{folder}src/META": "Version: 1\n", f"{folder}META": META})
    values = knobs.resolve({"SLURM_SOURCE": str(path)})
    source = values.scheduler.slurm_source
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert str(source) == f"16.05.6 sha256:{digest}"
    told = cluster_variables(values)
    assert {key: value for key, value in told.items() if key.startswith("slurm_")} == {
        "slurm_install": "source",
        "slurm_version": "16.05.6",
        "slurm_source_archive": str(path),
        "slurm_source_checksum": f"sha256:{digest}",
    }


def test_without_one_nothing_is_told_of_it() -> None:
    assert not [key for key in cluster_variables(knobs.resolve({})) if key.startswith("slurm_")]


def test_what_is_no_source_of_slurm_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.tar.gz").write_text("no archive")
    archive(tmp_path / "cut.tar.gz", {"a/AUTHORS": os.urandom(9999).hex(), "a/META": META})
    whole = (tmp_path / "cut.tar.gz").read_bytes()
    (tmp_path / "cut.tar.gz").write_bytes(whole[: len(whole) // 2])
    archive(tmp_path / "other.tar.gz", {"other/README": "x", "other/deep/er/META": META})
    archive(tmp_path / "old.tar.gz", {"slurm/META": META.replace("16.05.6", "2.6.9")})
    refused = {
        "nowhere.tar.gz": r"cannot be read \(No such file or directory\)",
        "text.tar.gz": "not an archive that tar can read",
        "cut.tar.gz": "not an archive that tar can read",
        "other.tar.gz": "holds no source of Slurm",
        "old.tar.gz": "2.6.9: it may be",
    }
    for name, words in refused.items():
        with pytest.raises(WrongUse, match=words) as error:
            knobs.parse("SLURM_SOURCE", str(tmp_path / name))
        assert str(error.value).startswith(f"SLURM_SOURCE: {tmp_path / name}: ")
        assert "\n" not in str(error.value)
