"""The modules run_folder and run_records, on folders in which the instance's user has planted something."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tarfile
from pathlib import Path
from typing import Any

import pytest
from modules import Caller
from other_managers import KNOWN, OTHERS

from mirage.records.archives import unpack
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.collection import archive
from slurm_mirage.rm import registry
from slurm_mirage.rm.managers import MANAGERS

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")

PLAN = b"index,id\n0,1\n"


@pytest.fixture
def instance(tmp_path: Path) -> Path:
    """The directory of an instance of nobody; beside it the folder `outside` with a secret of root."""
    directory = tmp_path / "instance"
    for name in ("runs", "log", "state"):
        (directory / name).mkdir(parents=True)
        os.chown(directory / name, 65534, 65534)
    (directory / "transfer").mkdir()
    (directory / "transfer/plan.csv").write_bytes(PLAN)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text("secret")
    (tmp_path / "outside/secret").chmod(0o600)
    return directory


def params(instance: Path, **more: Any) -> dict[str, Any]:
    return {"instance": str(instance), "run": "first", "user": "nobody", **more}


def with_plan(instance: Path, plan: bytes = PLAN) -> dict[str, Any]:
    (instance / "transfer/plan.csv").write_bytes(plan)
    return params(instance, plan=str(instance / "transfer/plan.csv"), plan_sha256=hashlib.sha256(plan).hexdigest())


def secret_is_untouched(instance: Path) -> bool:
    folder, secret = instance.parent / "outside", instance.parent / "outside/secret"
    statuses = [(path.stat().st_uid, stat.S_IMODE(path.stat().st_mode)) for path in (folder, secret)]
    return statuses == [(0, 0o755), (0, 0o600)] and secret.read_text() == "secret" and os.listdir(folder) == ["secret"]  # noqa: PTH208


def test_a_run_gets_its_folder_plan_and_settings_once(call: Caller, instance: Path) -> None:
    wanted = {**with_plan(instance), "settings": json.dumps({"speed": 50.0})}
    folder = instance / "runs/first"
    assert call("run_folder", check=True, **wanted)["changed"] and not folder.exists()
    assert call("run_folder", **wanted)["changed"]
    assert (folder.stat().st_uid, stat.S_IMODE(folder.stat().st_mode)) == (65534, 0o755)
    assert (folder / "plan.csv").read_bytes() == PLAN
    assert json.loads((folder / "run.json").read_text()) == {"speed": 50.0}
    for check in (True, False):
        assert not call("run_folder", check=check, **wanted)["changed"]
    assert call("run_folder", **params(instance, settings="{}"))["changed"]
    assert (folder / "run.json").read_text() == "{}\n" and (folder / "plan.csv").read_bytes() == PLAN


def test_another_plan_is_refused(call: Caller, instance: Path) -> None:
    call("run_folder", **with_plan(instance))
    result = call("run_folder", **with_plan(instance, b"another"))
    assert result["failed"] and "belongs to a run with other inputs; remove the folder, or choose another RUN" in result["msg"]
    assert (instance / "runs/first/plan.csv").read_bytes() == PLAN


def test_a_folder_that_is_a_link_is_refused(call: Caller, instance: Path) -> None:
    (instance / "runs/first").symlink_to(instance.parent / "outside")
    for check in (True, False):
        result = call("run_folder", check=check, **with_plan(instance))
        assert result["msg"] == f"{instance}/runs/first: is a symbolic link; remove it"
    assert secret_is_untouched(instance)


@pytest.mark.parametrize("name", ["plan.csv", "run.json"])
def test_a_file_that_is_a_link_is_not_followed(call: Caller, instance: Path, name: str) -> None:
    (instance / "runs/first").mkdir()
    (instance / "runs/first" / name).symlink_to(instance.parent / "outside/secret")
    call("run_folder", **{**with_plan(instance), "settings": "{}"})
    assert secret_is_untouched(instance)


def test_the_folders_of_an_earlier_attempt_are_removed(call: Caller, instance: Path) -> None:
    call("run_folder", **with_plan(instance))
    (instance / "state/link").symlink_to(instance.parent / "outside")
    (instance / "log").rmdir()
    (instance / "log").symlink_to(instance.parent / "outside")
    absent = params(instance, state="absent", folders=["state", "log", "missing"])
    assert call("run_folder", check=True, **absent)["changed"] and (instance / "state").exists()
    assert call("run_folder", **absent)["changed"]
    assert sorted(path.name for path in instance.iterdir()) == ["runs", "transfer"]
    assert not call("run_folder", **absent)["changed"]
    assert secret_is_untouched(instance)


def test_records_are_packed_for_root_only(call: Caller, instance: Path, tmp_path: Path) -> None:
    call("run_folder", **with_plan(instance))
    (instance / "log/jobcomp.log").write_bytes(b"line\n" * 1_000_000)
    dest = instance / "transfer/first.tar.gz"
    files = ["runs/first/plan.csv", "log/jobcomp.log", "runs/first/result.json"]
    wanted = {"instance": str(instance), "run": "first", "files": files, "host": "other", "span": {}, "dest": str(dest)}
    call("run_records", check=True, **wanted)
    assert not dest.exists()
    for _ in range(2):
        assert call("run_records", **wanted)["names"] == ["plan.csv", "jobcomp.log", "complaints.json"]
    assert stat.S_IMODE(dest.stat().st_mode) == 0o600
    (tmp_path / "results/.records").mkdir(parents=True)
    dest.rename(tmp_path / "results/.records/other.tar.gz")
    unpack(tmp_path / "results")
    assert (tmp_path / "results/plan.csv").read_bytes() == PLAN
    assert (tmp_path / "results/jobcomp.log").read_bytes() == b"line\n" * 1_000_000
    assert not (tmp_path / "results/.records").exists()


def test_a_record_whose_copy_would_need_space_that_it_does_not_is_refused(call: Caller, instance: Path) -> None:
    (instance / "runs/first").mkdir()
    record, dest = instance / "runs/first/samples.csv", instance / "transfer/first.tar.gz"
    wanted = {"instance": str(instance), "run": "first", "files": ["runs/first/samples.csv"], "host": "other", "span": {}}
    for size, begin in ((2 << 30, b""), (2 << 20, b"real,virtual\n")):
        record.write_bytes(begin)
        os.truncate(record, size)
        result = call("run_records", **wanted, dest=str(dest))
        assert result["failed"] and "runs/first/samples.csv: has holes, which no record has; remove it" in result["msg"]
        assert os.listdir(dest.parent) == ["plan.csv"]  # noqa: PTH208
    record.write_bytes(bytes(2 << 20))
    assert call("run_records", **wanted, dest=str(dest))["names"] == ["samples.csv", "complaints.json"]


def test_the_size_of_all_records_is_bounded(instance: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    (instance / "runs/first").mkdir()
    for name in ("a", "b", "c"):
        (instance / f"runs/first/{name}").write_bytes(bytes(400))
    monkeypatch.setattr(archive, "LARGEST", 1000)
    dest = instance / "transfer/first.tar.gz"
    files = [(instance, f"runs/first/{name}") for name in ("a", "b", "c")]
    assert archive.write(dest, files[:2], {}) == ["a", "b"]
    with pytest.raises(WrongUse, match="runs/first/c: the records of the run are larger than 1000 bytes"):
        archive.write(dest, files, {})


@pytest.mark.parametrize("is_planted", [False, True])
def test_the_record_of_ended_jobs_in_a_folder_that_hosts_share(instance: Path, tmp_path: Path, is_planted: bool) -> None:
    """The folder of records in it belongs to the instance's user: a link there is not followed."""
    shared, secret = tmp_path / "shared/wide", instance.parent / "outside/secret"
    (shared / "log").mkdir(parents=True)
    (instance / "etc").mkdir(exist_ok=True)
    (instance / "log/jobcomp.log").write_text("of before\n")
    (instance / "etc/slurm.conf").write_text(f"ClusterName=wide\nJobCompLoc={shared}/log/jobcomp.log\n")
    record, dest = shared / "log/jobcomp.log", instance / "transfer/first.tar.gz"
    files = registry.tools("slurm").files(instance, "first")
    if is_planted:
        record.symlink_to(secret)
        with pytest.raises(WrongUse, match=f"{record}: .*symbolic link"):
            archive.write(dest, files, {})
        return
    record.write_text("JobId=1\n")
    assert archive.write(dest, files, {}) == ["jobcomp.log", "slurm.conf"]
    with tarfile.open(dest) as tar:
        content = tar.extractfile("jobcomp.log")
        assert content is not None and content.read() == b"JobId=1\n"


@pytest.mark.parametrize("planted", ["a symbolic link", "a FIFO", "a hard link to a file of another user"])
def test_a_record_that_is_no_file_of_the_user_is_not_read(call: Caller, instance: Path, planted: str) -> None:
    (instance / "runs/first").mkdir()
    path, secret = instance / "runs/first/sdiag.csv", instance.parent / "outside/secret"
    if planted == "a FIFO":
        os.mkfifo(path)
    elif planted == "a symbolic link":
        path.symlink_to(secret)
    else:
        os.link(secret, path)
    dest = instance / "transfer/first.tar.gz"
    files = ["runs/first/sdiag.csv"]
    result = call("run_records", instance=str(instance), run="first", files=files, host="other", span={}, dest=str(dest))
    assert result["failed"] and f"runs/first/sdiag.csv: is {planted}" in result["msg"]
    assert os.listdir(dest.parent) == ["plan.csv"]  # noqa: PTH208


@pytest.mark.parametrize("manager", ["slurm", *OTHERS])
def test_settings_of_the_resource_manager_are_added_as_the_filter_would_write_them(
    call: Caller, instance: Path, manager: str
) -> None:
    from ansible.plugins.filter.core import to_nice_json

    given = {"speed": 50.0, "run": "first", "hosts": {"a": 1}, "label": "é", "launch_cost": None}
    call("run_folder", **params(instance, settings=to_nice_json(given), rm=manager))
    own = {"slurm_conf": f"{instance}/etc/slurm.conf"} if manager == "slurm" else MANAGERS[manager].run_settings(instance)
    assert (instance / "runs/first/run.json").read_text() == to_nice_json({**given, **own}) + "\n"
    assert not call("run_folder", **params(instance, settings=to_nice_json(given), rm=manager))["changed"]
    result = call("run_folder", **params(instance, settings="{}", rm="torque"))
    assert result["msg"] == f"wrong use: RM=torque: one of {KNOWN}"


def test_outputs_of_commands_among_the_events_are_records(instance: Path) -> None:
    folder = instance / "runs/first"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("event-3.output", "event-12.output", "event-3.exit", "event-x.output", "samples.csv"):
        (folder / name).touch()
    assert archive.outputs_of_commands(instance, "first") == ["runs/first/event-12.output", "runs/first/event-3.output"]
    assert archive.outputs_of_commands(instance, "other") == []
