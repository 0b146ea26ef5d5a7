"""The role instance and the folder that the hosts of a cluster share. All hosts of the playbook are this machine."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
USER = "daemon"
"""An account with a group of its name."""
NAME = "wide"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="makes folders of root and of another user")


def play(folder: Path, parts: list[str], hosts: dict[str, Path]) -> str:
    """Run parts of the role on hosts, the head first, each of which has the folder at a path; returns the output."""
    variables: dict[str, Any] = {"ansible_python_interpreter": sys.executable, "instance_name": NAME, "instance_user": USER}
    variables |= {"instance_head": next(iter(hosts)), "instance_cluster_nodes": 1}
    tasks = [{"ansible.builtin.include_role": {"name": "instance", "tasks_from": part}} for part in parts]
    content = [{"hosts": "all", "connection": "local", "gather_facts": False, "vars": variables, "tasks": tasks}]
    (folder / "play.yml").write_text(yaml.safe_dump(content))
    inventory = {"all": {"hosts": {host: {"instance_shared_folder": f"{path}/{NAME}"} for host, path in hosts.items()}}}
    (folder / "hosts.yml").write_text(yaml.safe_dump(inventory, sort_keys=False))
    command = [str(Path(sys.executable).with_name("ansible-playbook")), str(folder / "play.yml"), "-i", str(folder / "hosts.yml")]
    environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_ROLES_PATH": str(ROOT / "roles")}
    return subprocess.run(command, env=environment, cwd=ROOT, check=False, capture_output=True, text=True).stdout


def failed(output: str) -> set[str]:
    return {line.split("[")[1].split("]")[0] for line in output.splitlines() if line.startswith(("fatal: [", "failed: ["))}


def test_only_a_folder_that_only_root_can_write_to(tmp_path: Path) -> None:
    folders = {name: tmp_path / name for name in ("good", "open", "of_another_user", "with a blank")}
    for path in folders.values():
        path.mkdir(mode=0o755)
    folders["open"].chmod(0o777)
    os.chown(folders["of_another_user"], 65534, 65534)
    (tmp_path / "link").symlink_to(folders["of_another_user"])
    folders |= {"link": tmp_path / "link", "missing": tmp_path / "missing", "up": folders["good"] / ".."}
    output = play(tmp_path, ["preflight"], folders)
    assert failed(output) == folders.keys() - {"good"}
    assert output.count("that belongs to root and that only root can write to") >= len(folders) - 1


def test_its_folders_are_made_once_and_seen_by_all_hosts(tmp_path: Path) -> None:
    shared, elsewhere = tmp_path / "shared", tmp_path / "elsewhere"
    for path in (shared, elsewhere, elsewhere / NAME, elsewhere / NAME / "state"):
        path.mkdir(mode=0o755)
    assert failed(play(tmp_path, ["shared_folder"], {"head": shared, "second": shared, "third": elsewhere})) == {"third"}
    made = {path.name: path.stat() for path in (shared / NAME, shared / NAME / "state", shared / NAME / "log")}
    modes = {name: (stat.S_IMODE(status.st_mode), status.st_uid == 0) for name, status in made.items()}
    assert modes == {NAME: (0o755, True), "state": (0o700, False), "log": (0o755, False)}
    again = play(tmp_path, ["shared_folder"], {"head": shared, "second": shared})
    assert not failed(again) and "changed=0" in again and "changed=1" not in again


def test_root_makes_no_folder_through_a_link(tmp_path: Path) -> None:
    """A process of the instance's user cannot make this link, whose folder is root's; a leftover of another tool can be there."""
    shared, outside = tmp_path / "shared", tmp_path / "outside"
    for path in (shared, shared / NAME, outside):
        path.mkdir(mode=0o755)
    (shared / NAME / "state").symlink_to(outside)
    before = outside.stat()
    assert failed(play(tmp_path, ["shared_folder"], {"head": shared})) == {"head"}
    assert (outside.stat().st_uid, outside.stat().st_mode) == (before.st_uid, before.st_mode)
