"""mirage.site.archive: archives of mirage-capture, whole, torn, changed and of others."""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mirage.site.archive import open_archive
from slurm_mirage.base.errors import WrongUse

SACCT = b"JobID\tUser\tJobIDRaw\n3_1\tu_0123456789\t7\n8\tu_9876543210\t8\n"
FILES = {
    "conf/slurm.conf": (b"ClusterName=s_1\n\xff\n", 2),
    "sacct/20261101T000000Z.txt": (SACCT, 2),
    "sacct/20261102T000000Z.txt": (b"JobID\tUser\tJobIDRaw\n9\tu_0123456789\n", 1),
    "sshare.txt": (b"Account\n", 0),
}


def manifest(**changes: Any) -> dict[str, Any]:
    files = {
        name: {"rows": rows, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), "key": "a1"}
        for name, (data, rows) in FILES.items()
    }
    return {
        "format": "slurm-mirage-capture", "version": 1, "release": "22.05.8", "begin": 1793491200, "end": 1793664000,
        "piece": 86400, "zone": "Europe/Berlin", "taken_at": 1793700000, "by": "user", "private_data": ["jobs"],
        "not_allowed": ["jobs of other users"],
        "names": "pseudonyms", "key": "a1", "failed": {"sacctmgr/qos.txt": "error: no"}, "left_out": [], "files": files, **changes,
    }  # fmt: skip


def archive(path: Path, described: object = None, files: dict[str, bytes] | None = None, first: str = "manifest.json") -> Path:
    """Write an archive; `described` is its manifest, as JSON or as text."""
    text = described if isinstance(described, str) else json.dumps(manifest() if described is None else described)
    content = {first: text.encode(), **({name: data for name, (data, _) in FILES.items()} if files is None else files)}
    with tarfile.open(path, "w") as tar:
        for name, data in content.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def refusal(path: Path) -> str:
    with pytest.raises(WrongUse) as refused:
        open_archive(path)
    assert refused.value.parameter == "site" and refused.value.message.startswith(f"{path}: ")
    return refused.value.message.removeprefix(f"{path}: ")


def test_the_parts_of_an_archive(tmp_path: Path) -> None:
    taken = open_archive(archive(tmp_path / "a.tar"))
    assert (taken.release, taken.begin, taken.by, taken.is_clear, taken.zone) == (
        "22.05.8",
        1793491200,
        "user",
        False,
        "Europe/Berlin",
    )
    assert taken.not_allowed == ("jobs of other users",)
    assert taken.pieces("sacct") == ["sacct/20261101T000000Z.txt", "sacct/20261102T000000Z.txt"]
    first, second = taken.pieces("sacct")
    assert taken.data(first) == SACCT and taken.parts[first].rows == 2
    assert list(taken.rows(first)) == [
        {"jobid": "3_1", "user": "u_0123456789", "jobidraw": "7"},
        {"jobid": "8", "user": "u_9876543210", "jobidraw": "8"},
    ]
    with pytest.raises(WrongUse, match=r"20261102T000000Z\.txt:2: has 2 fields, the heading has 3"):
        list(taken.rows(second))
    with pytest.raises(WrongUse, match=r"conf/slurm\.conf:2: is not UTF-8 text"):
        taken.lines("conf/slurm.conf")
    with pytest.raises(WrongUse, match=r"sacctmgr/qos\.txt is not in it \(at the site: error: no\)"):
        taken.lines("sacctmgr/qos.txt")


def changed(**changes: Any) -> Callable[[Path], object]:
    return lambda path: archive(path, manifest(**changes))


def other_key(path: Path) -> None:
    described = manifest()
    described["files"]["sacct/20261102T000000Z.txt"]["key"] = "b2"
    archive(path, described)


def link(path: Path) -> None:
    archive(path)
    with tarfile.open(path, "a") as tar:
        info = tarfile.TarInfo("sacct/link.txt")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(info)


WITHOUT_SACCT = {name: described for name, described in manifest()["files"].items() if not name.startswith("sacct/")}
WITHOUT_JOBS = {name: {**described, "rows": 0} for name, described in manifest()["files"].items()}
KEPT = {name: data for name, (data, _) in FILES.items()}
REFUSED: list[tuple[Callable[[Path], object], str]] = [
    (lambda path: path.write_bytes(b""), "is not an archive of mirage-capture"),
    (lambda path: path.write_bytes(b"JobID|User\n" * 200), "is not an archive of mirage-capture"),
    (lambda path: archive(path, first="manifest.txt"), "is not an archive of mirage-capture"),
    (changed(format="other"), "manifest.json: format may be slurm-mirage-capture"),
    (changed(version=2), "has version 2, not 1: take it with the mirage-capture of this release"),
    (changed(begin="1793491200"), "manifest.json: begin may be a number"),
    (changed(begin=1793664000), "end is not after begin"),
    (lambda path: archive(path, '{"format":\n x}'), "manifest.json: is not JSON: .*line 2"),
    (changed(files=WITHOUT_SACCT), "sacct/20261101T000000Z.txt is not in manifest.json"),
    (lambda path: archive(path, manifest(files=WITHOUT_SACCT), {name: KEPT[name] for name in WITHOUT_SACCT}), "has no part sacct/"),
    (changed(files=WITHOUT_JOBS), "has no job in its window; the capture took it as user, who may not see jobs of other users"),
    (
        lambda path: archive(path, files={name: KEPT[name] for name in WITHOUT_SACCT}),
        "is torn: sacct/20261101T000000Z.txt of manifest",
    ),
    (lambda path: archive(path, files={**KEPT, "sshare.txt": b"account\n"}), "sshare.txt was changed"),
    (other_key, "sacct/20261102T000000Z.txt have pseudonyms of different keys"),
    (link, "sacct/link.txt is no file of a capture"),
]


@pytest.mark.parametrize(("write", "words"), REFUSED)
def test_other_files_are_refused(tmp_path: Path, write: Callable[[Path], object], words: str) -> None:
    path = tmp_path / "a.tar"
    write(path)
    assert re.search(words, refusal(path))


def test_an_archive_that_ends_too_early_is_refused_wherever_it_ends(tmp_path: Path) -> None:
    whole = archive(tmp_path / "whole.tar").read_bytes()
    end = whole.rindex(b"Account\n") + len(b"Account\n")
    for size in (*range(0, end, 211), end - 1, end):
        path = tmp_path / "a.tar"
        path.write_bytes(whole[:size])
        assert re.match("is torn|is not an archive", refusal(path))
