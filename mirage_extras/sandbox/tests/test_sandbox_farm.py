"""A farm of a sandbox: its folders, and daemons in the user namespace, which are adopted after a kill and end with the instance.

The daemons are programs that only wait.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from copies import left_out
from modules import Caller

from slurm_mirage.base import processes
from slurm_mirage.base.processes import NAMED_USERS
from slurm_mirage.clock import instance_clock
from slurm_mirage.extras.sandbox import users

ROOT = Path(__file__).parents[3]
USER = "nobody"
DAEMON = """
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int count, char **words)
{
    const char *name = strrchr(words[0], '/') + 1;
    char ready[200] = "run/slurmctld.pid";
    if (strcmp(name, "slurmd") == 0)
        snprintf(ready, sizeof ready, "run/slurmd.%s.pid", words[3]);
    for (int i = 1; i < count; i++)
        if (strncmp(words[i], "--socket=", 9) == 0)
            snprintf(ready, sizeof ready, "%s", words[i] + 9);
    if (strcmp(name, "slurmrestd") == 0) {
        struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = htons(atoi(strrchr(words[count - 1], ':') + 1))};
        place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        int s = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
        setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
        if (bind(s, (struct sockaddr *)&place, sizeof place) || listen(s, 5))
            return 1;
    } else if (open(ready, O_WRONLY | O_CREAT, 0644) < 0)
        return 1;
    sleep(300);
}
"""
PATIENCE = 60.0

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="only root makes a user namespace"),
    pytest.mark.skipif(Path("/run/systemd/system").is_dir(), reason="PID 1 is systemd, the farm would be a unit of this host"),
]


@pytest.fixture
def instance(call: Caller) -> Iterator[Path]:
    """An instance with users, in a folder that the farm's user may enter."""
    root = Path("/tmp", f"sandbox-farm-test-{os.getpid()}-{time.monotonic_ns()}")
    # The account does not exist yet, as before the first run of the role.
    made = call("slurm_instance", name="one", root=str(root), user="slurm-unit-test-nobody", nodes=2, users=True)
    directory = Path(made["directory"])
    root.chmod(0o755)
    for name in ("state", "spool", "log", "run", "runs", "home"):
        shutil.chown(directory / name, USER)
    shutil.chown(directory / "munge", USER, NAMED_USERS[10001])
    (directory / "etc/munge.key").write_text("secret")
    (directory / "sbin").mkdir()
    (directory / "sbin/daemon.c").write_text(DAEMON)
    for name in ("munged", "slurmctld", "slurmd", "slurmrestd"):
        subprocess.run(["cc", "-o", name, "daemon.c"], cwd=directory / "sbin", check=True)
    shutil.rmtree(directory / "lib/slurm_mirage")
    shutil.copytree(ROOT / "module_utils/slurm_mirage", directory / "lib/slurm_mirage", ignore=left_out)
    yield directory
    processes.end(processes.of_instance(str(directory)), 10)
    shutil.rmtree(root)


def _parameters(directory: Path) -> dict[str, Any]:
    sbin = str(directory / "sbin")
    nodes = [{"count": 2, "digest": "1"}]
    return {
        "directory": str(directory), "user": USER, "sbin": sbin, "munge_sbin": sbin, "nodes": nodes, "wait": 30,
        "extras": {"sandbox": {}},
    }  # fmt: skip


def _daemons(directory: Path, name: str) -> dict[int, int]:
    """Process ids of a daemon, each with its user outside of the namespace."""
    found = {pid: processes.users_of(pid) for pid in processes.of_instance(str(directory))}
    words = {pid: processes.environment(pid).get("SLURM_MIRAGE_DAEMON", "") for pid in found}
    return {pid: max(owner) for pid, owner in found.items() if owner and words[pid].rstrip("0123456789") == name}


def test_folders_and_secrets_of_an_instance_with_users(instance: Path, call: Caller) -> None:
    def mode(name: str) -> int:
        return stat.S_IMODE((instance / name).stat().st_mode)

    assert [mode(name) for name in ("state", "munge", "users", "etc/jwt_hs256.key")] == [0o700, 0o710, 0o755, 0o600]
    key, port = (instance / "etc/jwt_hs256.key").read_bytes(), json.loads((instance / "instance.json").read_text())["rest_port"]
    assert (len(key), 10000 <= port < 17000) == (32, True)
    again = {"name": "one", "root": str(instance.parent), "user": "slurm-unit-test-nobody", "nodes": 2}
    call("slurm_instance", **again, users=True)
    assert (instance / "etc/jwt_hs256.key").read_bytes() == key
    (instance / "etc/jwt_hs256.key").chmod(0o644)
    call("slurm_instance", **again, users=True)
    assert mode("etc/jwt_hs256.key") == 0o600
    assert (instance / "etc/jwt_hs256.key").read_bytes() != key, "others may have read it"
    assert "failed" not in call("slurm_instance", **again), call("slurm_instance", **again)
    assert (mode("state"), (instance / "munge").exists(), (instance / "etc/jwt_hs256.key").exists()) == (0o755, False, False)
    assert "rest_port" not in json.loads((instance / "instance.json").read_text())


def test_daemons_run_in_the_namespace_are_adopted_and_end(instance: Path, call: Caller) -> None:
    owner = processes.instance_user(str(instance))
    started = call("slurm_farm", **_parameters(instance))
    if "no user namespace" in started.get("msg", ""):
        pytest.skip("this host allows no user namespace")
    assert started["farm"]["failing"] == {}
    slurmd, rest = _daemons(instance, "n"), _daemons(instance, "slurmrestd")
    assert set(slurmd.values()) == {owner}
    assert set(rest.values()) == {users.REST}
    own = Path("/proc/self/ns/user").stat().st_ino
    inside = {Path(f"/proc/{pid}/ns/user").stat().st_ino for pid in (*slurmd, *rest)}
    assert len(inside) == 1
    assert own not in inside
    for pid in _daemons(instance, "slurmctld"):
        assert Path(f"/proc/{pid}/ns/user").stat().st_ino == own
    farm = json.loads((instance / "run/farm.json").read_text())["pid"]
    os.kill(farm, signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE
    while processes.start_time(farm) is not None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    call("slurm_farm", **_parameters(instance))
    assert (_daemons(instance, "n"), _daemons(instance, "slurmrestd")) == (slurmd, rest)
    call("slurm_farm", directory=str(instance), state="stopped")
    assert processes.of_instance(str(instance)) == {}
    assert [pid for pid in (*slurmd, *rest) if processes.start_time(pid) is not None] == []


def test_users_who_do_not_see_the_clock_file_read_its_copy(tmp_path: Path) -> None:
    for name in ("run", "state", "users"):
        (tmp_path / name).mkdir()
    for folder in takewhile(lambda one: one != Path(tempfile.gettempdir()), (tmp_path, *tmp_path.parents)):
        folder.chmod(0o755)
    for name in ("run", "state"):
        shutil.chown(tmp_path / name, USER)
    instance_clock.set_speed(tmp_path, 60)
    shutil.chown(tmp_path / "state/clock", USER)
    (tmp_path / "state").chmod(0o700)
    instance_clock.share(tmp_path)
    code = f"""
import os, sys
from pathlib import Path
from slurm_mirage.clock import instance_clock
os.setgroups([])
os.setgid({NAMED_USERS.start})
os.setuid({NAMED_USERS.start + 10})
print(instance_clock.both_times(Path(sys.argv[1])))
"""
    words = ["/usr/bin/python3", "-B", "-c", code, str(tmp_path)]
    environment = {"PYTHONPATH": str(ROOT / "module_utils")}
    result = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    assert "'speed': 60.0" in result.stdout, result.stderr
    (tmp_path / "state/clock").unlink()
    instance_clock.share(tmp_path)
    assert not (tmp_path / instance_clock.COPY).exists()
