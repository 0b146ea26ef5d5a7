"""OPENPBS_SOURCE: which archives are sources of OpenPBS, and what the playbooks are told of them."""

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

CONFIGURE = """\
#
# Copyright
#
AC_PREREQ([2.63])
AC_INIT([OpenPBS],
  [23.06.06],
  [pbssupport@altair.com],
  [openpbs],
  [http://www.openpbs.org/])
"""


def archive(path: Path, files: dict[str, str]) -> Path:
    """A tar archive, compressed as its name says."""
    with tarfile.open(path, f"w:{path.suffix[1:]}") as stream:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            stream.addfile(member, io.BytesIO(text.encode()))
    return path


@pytest.mark.parametrize("name", ["openpbs-23.06.06.tar.gz", "a.tar.xz"])
@pytest.mark.parametrize("folder", ["openpbs/", "openpbs-openpbs-cd7ab5e/", "./x/"])
def test_the_release_is_what_the_archive_says_whatever_its_names(tmp_path: Path, name: str, folder: str) -> None:
    path = archive(tmp_path / name, {f"{folder}src/configure.ac": "AC_INIT([OpenPBS], [1.0])", f"{folder}configure.ac": CONFIGURE})
    values = knobs.resolve({"RM": "openpbs", "OPENPBS_SOURCE": str(path)})
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert str(values.value("OPENPBS_SOURCE")) == f"23.06.06 sha256:{digest}"
    variables = cluster_variables(values)
    assert {key: value for key, value in variables.items() if key.startswith("openpbs_") or key == "mirage_rm"} == {
        "mirage_rm": "openpbs",
        "openpbs_version": "23.06.06",
        "openpbs_source_archive": str(path),
        "openpbs_source_checksum": f"sha256:{digest}",
    }


def test_without_one_the_playbooks_build_none() -> None:
    variables = cluster_variables(knobs.resolve({}))
    assert variables["mirage_rm"] == "slurm"
    assert not [key for key in variables if key.startswith("openpbs_")]


def test_what_is_no_source_of_openpbs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.tar.gz").write_text("no archive")
    archive(tmp_path / "cut.tar.gz", {"a/AUTHORS": os.urandom(9999).hex(), "a/configure.ac": CONFIGURE})
    whole = (tmp_path / "cut.tar.gz").read_bytes()
    (tmp_path / "cut.tar.gz").write_bytes(whole[: len(whole) // 2])
    archive(tmp_path / "slurm.tar.gz", {"slurm/META": "Version: 25.11.7\n", "slurm/configure.ac": "AC_INIT([slurm], [25.11.7])\n"})
    archive(tmp_path / "deep.tar.gz", {"other/deep/configure.ac": CONFIGURE})
    archive(tmp_path / "unversioned.tar.gz", {"a/configure.ac": CONFIGURE.replace("23.06.06", "m4_esyscmd(x)")})
    refused = {
        "nowhere.tar.gz": r"cannot be read \(No such file or directory\)",
        "text.tar.gz": "not an archive that tar can read",
        "cut.tar.gz": "not an archive that tar can read",
        "slurm.tar.gz": "holds no source of OpenPBS",
        "deep.tar.gz": "holds no source of OpenPBS",
        "unversioned.tar.gz": "holds no source of OpenPBS",
    }
    for name, words in refused.items():
        with pytest.raises(WrongUse, match=words) as error:
            knobs.parse("OPENPBS_SOURCE", str(tmp_path / name))
        assert str(error.value).startswith(f"OPENPBS_SOURCE: {tmp_path / name}: ")
        assert "\n" not in str(error.value)
