"""The /etc/hosts of the daemons, written by root into a folder of the instance's user."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.farm.hosts_file import HostsFile

MOUNT = """
import sys
from pathlib import Path
from slurm_mirage.farm.hosts_file import HostsFile
try:
    HostsFile(Path(sys.argv[1])).mount({"10.0.0.1": "somewhere"}, "nobody")
except OSError as error:
    sys.exit(str(error))
print(Path("/etc/hosts").read_text())
HostsFile(Path(sys.argv[1])).write({"10.0.0.1": "elsewhere"})
print(Path("/etc/hosts").read_text())
"""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file")


@pytest.fixture
def instance(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir()
    if os.geteuid() == 0:
        os.chown(tmp_path / "state", 65534, 65534)
    return tmp_path


def mount(instance: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", MOUNT, str(instance)], capture_output=True, text=True, check=False)


@needs_root
def test_the_file_is_seen_as_etc_hosts_by_the_process_only(instance: Path) -> None:
    before = Path("/etc/hosts").read_bytes()
    result = mount(instance)
    assert result.returncode == 0, result.stderr
    assert "10.0.0.1 somewhere" in result.stdout and "10.0.0.1 elsewhere" in result.stdout
    assert Path("/etc/hosts").read_bytes() == before
    assert (instance / "state/hosts").stat().st_uid == 65534


@needs_root
@pytest.mark.parametrize("found", ["a symbolic link", "a FIFO", "a hard link to a file of another user"])
def test_what_the_user_put_there_is_refused(instance: Path, found: str) -> None:
    secret, path = instance / "secret", instance / "state/hosts"
    secret.write_text("secret")
    secret.chmod(0o600)
    if found == "a FIFO":
        os.mkfifo(path)
    elif found == "a symbolic link":
        path.symlink_to(secret)
    else:
        os.link(secret, path)
    result = mount(instance)
    assert result.returncode == 1 and f"state/hosts: is {found}" in result.stderr
    status = secret.stat()
    assert (secret.read_text(), status.st_uid, status.st_mode & 0o777) == ("secret", 0, 0o600)


def test_a_change_follows_no_link(instance: Path) -> None:
    (instance / "other").write_text("other")
    (instance / "state/hosts").symlink_to(instance / "other")
    with pytest.raises(WrongUse, match="state/hosts: is a symbolic link"):
        HostsFile(instance).write({"10.0.0.1": "somewhere"})
    assert (instance / "other").read_text() == "other"


@pytest.mark.parametrize(
    "names",
    [{"10.0.0.1": "a\n10.0.0.2 b"}, {"10.0.0.1": "a  b"}, {"10.0.0.1\t": "a"}, {"10.0.0.1": ""}, {"x y": "a"}, {"10.0.0.1": "a#b"}],
)
def test_a_name_is_no_other_line(instance: Path, names: dict[str, str]) -> None:
    with pytest.raises(WrongUse, match=r"^addresses: .*: may have an IP address and names$"):
        HostsFile(instance).write(names)


def test_a_host_has_several_names(instance: Path) -> None:
    HostsFile(instance).write({"10.0.0.1": "head.wide slurmctld-wide"})
    assert "\n10.0.0.1 head.wide slurmctld-wide\n" in (instance / "state/hosts").read_text()
