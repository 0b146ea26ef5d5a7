"""The command of make shell, for an instance of each resource manager."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from other_managers import OTHERS

from mirage.commands import shell
from mirage.experiment.endings import Failed
from slurm_mirage.base.processes import command_line, instance_user
from slurm_mirage.farm import namespaces, network
from slurm_mirage.rm.managers import MANAGERS


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An instance whose farm is this process."""
    monkeypatch.setattr(shell, "read_state", lambda directory: {"pid": 4711})
    monkeypatch.setattr(shell, "users_of", lambda pid: {instance_user(str(tmp_path))})
    (tmp_path / "run").mkdir()
    (tmp_path / "etc").mkdir()
    (tmp_path / "state").mkdir()
    return tmp_path


def test_a_shell_of_slurm_enters_the_host_name_only(directory: Path) -> None:
    (directory / "instance.json").write_text(json.dumps({"user": "slurm-a"}))
    (directory / "etc/farm.json").write_text(json.dumps({"daemons": []}))
    words = shell.command(directory, "a")
    assert f"SLURM_CONF={directory}/etc/slurm.conf" in words and "--uts" in words and "--net" not in words
    assert not [word for name in OTHERS for word in words if word.startswith(MANAGERS[name].variable)]


@pytest.fixture
def process(directory: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    """The farm is a process in namespaces of its own, made with the options of unshare(1) that the test names."""
    (directory / "instance.json").write_text(json.dumps({"user": "slurm-a", "rm": [*MANAGERS][-1]}))
    (directory / "etc/farm.json").write_text(json.dumps({"daemons": [], "network": {"address": "10.77.0.1"}}))
    with subprocess.Popen(["unshare", *request.param, "--net", "--mount", "--uts", "sleep", "60"]) as farm:
        while command_line(farm.pid)[:1] != ["sleep"]:
            assert farm.poll() is None, "unshare failed"
            time.sleep(0.01)
        state = {"pid": farm.pid}
        for module in (shell, network):
            monkeypatch.setattr(module, "read_state", lambda directory: state)
        monkeypatch.setattr(network, "PATIENCE", 0.1)
        noted = {name: Path(f"/proc/{farm.pid}/ns/{name}").stat() for name in namespaces.NAMES}
        record = {name: [one.st_dev, one.st_ino] for name, one in noted.items()}
        (directory / namespaces.RECORD).write_text(json.dumps(record))
        yield
        farm.kill()


@pytest.mark.skipif(os.getuid() != 0, reason="skipped: needs root for namespaces")
@pytest.mark.parametrize("process", [[]], indirect=True)
def test_a_shell_enters_the_network_of_an_instance_and_names_its_configuration(directory: Path, process: None) -> None:
    words = shell.command(directory, "a")
    assert [word.partition("=")[0] for word in words[1:4]] == ["--net", "--mount", "--uts"]
    manager = [*MANAGERS.values()][-1]
    assert f"{manager.variable}={directory}/{manager.file}" in words
    for word in words[1:4]:
        descriptor = int(word.rpartition("/")[2])
        assert os.get_inheritable(descriptor)
        os.close(descriptor)
    assert manager.variable == "SLURM_CONF" or not any(word.startswith("SLURM_CONF=") for word in words)


@pytest.mark.skipif(os.getuid() != 0, reason="skipped: needs root for namespaces")
@pytest.mark.parametrize("process", [["--user"]], indirect=True)
def test_a_shell_enters_no_mounts_that_a_user_can_have_made(directory: Path, process: None) -> None:
    with pytest.raises(Failed, match="is not the farm's"):
        shell.command(directory, "a")
