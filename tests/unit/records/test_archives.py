"""The archives of records of several hosts, on the control machine."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

from mirage.records import archives
from mirage.records.archives import FOLDER, unpack
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.collection.archive import write


def packed(folder: Path, host: str, made: dict[str, str]) -> None:
    write(folder / FOLDER / f"{host}.tar.gz", [], made)


def complaints(host: str, count: int, **more: str) -> str:
    return json.dumps({**more, "counts": {host: {"munge": count}}, "lines": {host: []}, "events": {host: []}})


def test_records_of_several_hosts_become_one(tmp_path: Path) -> None:
    packed(tmp_path, "head", {"sigsleep.log": "b", "complaints.json": complaints("head", 1, head="head"), "run.json": "{}"})
    packed(tmp_path, "c1", {"sigsleep.log": "a", "complaints.json": complaints("c1", 2), "freed.csv": "1,2,3\n"})
    packed(tmp_path, "c2", {"freed.csv": "4,5,6\n"})
    unpack(tmp_path)
    assert (tmp_path / "sigsleep.log").read_text() == "ab"
    assert (tmp_path / "freed.csv").read_text() == "1,2,3\n4,5,6\n"
    assert (tmp_path / "run.json").read_text() == "{}"
    content = json.loads((tmp_path / "complaints.json").read_text())
    assert content["head"] == "head" and content["counts"] == {"head": {"munge": 1}, "c1": {"munge": 2}}
    assert not (tmp_path / FOLDER).exists()


def test_a_kill_while_the_archives_are_removed_loses_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever of them it has removed, the same command makes the same files again."""
    for host, record in (("c1", "a"), ("head", "b")):
        packed(tmp_path, host, {"sigsleep.log": record, "complaints.json": complaints(host, 1)})

    def killed(path: Path, **_: object) -> None:
        if path.exists():
            next(iter(sorted(path.iterdir()))).unlink()
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(archives.shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            unpack(tmp_path)
    unpack(tmp_path)
    assert (tmp_path / "sigsleep.log").read_text() == "ab"
    assert set(json.loads((tmp_path / "complaints.json").read_text())["counts"]) == {"c1", "head"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["complaints.json", "sigsleep.log"]


def test_names_with_a_folder_and_links_are_left_out(tmp_path: Path) -> None:
    results = tmp_path / "results"
    (results / FOLDER).mkdir(parents=True)
    with tarfile.open(results / FOLDER / "head.tar.gz", "w:gz") as tar:
        for name in ("../outside", "/tmp/outside", "good.csv"):
            entry = tarfile.TarInfo(name)
            entry.size = 1
            tar.addfile(entry, io.BytesIO(b"x"))
        link = tarfile.TarInfo("link.csv")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    unpack(results)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["good.csv", "results"]


def test_a_damaged_archive_is_wrong_use(tmp_path: Path) -> None:
    packed(tmp_path, "head", {"run.json": "{}"})
    path = tmp_path / FOLDER / "head.tar.gz"
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(WrongUse, match=r"head.tar.gz: cannot be read .*; run the same command again"):
        unpack(tmp_path)
