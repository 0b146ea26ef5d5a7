"""Runs the hosts as systemd-nspawn machines. This machine's init need not be systemd.

Every host has its own control group, because otherwise its systemd would find the processes of other hosts in its groups.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from slurm_mirage.base import processes

from .commands import BedError, run
from .layout import Bed, Host
from .trees import ACCOUNT

SHUTDOWN = 20
"""Seconds after which a host that does not shut down is killed."""
BOOT = 90
"""Time limit for the start of a host's sshd in seconds."""
SHARED = "/srv/shared"
"""Folder that all hosts of a bed have in common, as the hosts of a cluster have a shared file system."""
KEPT = [Path("/run/systemd/nspawn/propagate"), Path("/run/systemd/nspawn/unix-export")]
"""Folders with a subfolder for each running machine, which systemd-nspawn does not remove when it is killed."""


def mount_points() -> list[Path]:
    """Return the mount points of this machine in the order of mounting."""
    # Spaces in a path are encoded as \\040 (proc(5)); the beds' folders have none.
    return [Path(line.split()[1]) for line in Path("/proc/self/mounts").read_text().splitlines()]


def prepare_folder(bed: Bed) -> None:
    """Mount a tmpfs for the hosts' files, which is fast, supports overlayfs everywhere, and is removed by one unmount."""
    bed.machines.mkdir(exist_ok=True)
    if bed.machines not in mount_points():
        run("mount", "-t", "tmpfs", "-o", "mode=0700,size=6g", bed.table, str(bed.machines))
    bed.shared.mkdir(mode=0o755, exist_ok=True)


def prepare(host: Host, tree: Path, public_key: str) -> None:
    """Mount the host's root file system: an overlay above the shared tree, with the host's own files."""
    if host.tree in mount_points():
        return
    upper, work = host.folder / "upper", host.folder / "work"
    for folder in (upper, work, host.tree):
        folder.mkdir(parents=True, exist_ok=True)
    options = f"lowerdir={tree},upperdir={upper},workdir={work}"
    run("mount", "-t", "overlay", "-o", options, host.machine, str(host.tree))
    _personalise(host, public_key)


def _personalise(host: Host, public_key: str) -> None:
    identity = hashlib.sha256(f"{host.bed.name} {host.name}".encode()).hexdigest()[:32]
    network = f"[Match]\nName=host0\n[Network]\nAddress={host.address}/24\nGateway={host.bed.network}.1\nLinkLocalAddressing=no\n"
    # Debian's installer assigns 127.0.1.1 to the host's own name.
    texts = {
        "etc/hostname": f"{host.name}\n",
        "etc/hosts": f"127.0.0.1 localhost\n127.0.1.1 {host.name}\n",
        "etc/machine-id": f"{identity}\n",
        "etc/resolv.conf": _name_servers(),
        "etc/systemd/network/10-host0.network": network,
        # sshd requires that only root and the account can write this file.
        f"home/{ACCOUNT}/.ssh/authorized_keys": public_key,
    }
    for name, text in texts.items():
        path = host.tree / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # An existing symbolic link could point outside of the tree.
        path.unlink(missing_ok=True)
        path.write_text(text)
    # All hosts of the bed have the same host key, so that known_hosts can be written in advance.
    for suffix, mode in (("", 0o600), (".pub", 0o644)):
        place = host.tree / f"etc/ssh/ssh_host_ed25519_key{suffix}"
        shutil.copy(host.bed.folder / f"host_key{suffix}", place)
        place.chmod(mode)


def _name_servers() -> str:
    """Return this machine's resolv.conf, or systemd-resolved's, if the former has a local name server that hosts cannot reach."""
    for path in (Path("/etc/resolv.conf"), Path("/run/systemd/resolve/resolv.conf")):
        with suppress(OSError):
            text = path.read_text()
            if "nameserver 127." not in text:
                return text
    return ""


def start(host: Host) -> None:
    """Boot the host. Its process is recorded before it runs, so that it can be stopped even if this program is killed."""
    command = [
        "systemd-nspawn",
        "--quiet",
        "--boot",
        # systemd-machined does not exist where init is not systemd.
        "--register=no",
        "--keep-unit",
        f"--machine={host.machine}",
        f"--hostname={host.name}",
        f"--directory={host.tree}",
        f"--network-bridge={host.bed.bridge}",
        "--resolv-conf=off",
        "--timezone=off",
        "--link-journal=no",
        "--console=pipe",
        f"--bind={host.bed.shared}:{SHARED}",
        "--capability=CAP_CHECKPOINT_RESTORE",
    ]
    # The shell waits for a line on stdin, then becomes systemd-nspawn with the same process id and start time. Without it, it ends.
    waiting = ["sh", "-c", 'read -r go && exec "$@" </dev/null', "sh", *command]
    # CRIU cannot save processes under a filter of system calls (PTRACE_O_SUSPEND_SECCOMP needs a tracer without one).
    environment = {**os.environ, "SYSTEMD_SECCOMP": "0"}
    with host.console.open("ab") as console:
        process = subprocess.Popen(
            waiting, stdin=subprocess.PIPE, stdout=console, stderr=console, start_new_session=True, env=environment
        )
    started = processes.start_time(process.pid)
    if started is None or process.stdin is None:
        raise BedError(f"{host.name}: systemd-nspawn could not be started")
    host.bed.processes[host.name] = [(process.pid, started)]
    host.bed.save()
    for group in _groups(host):
        group.mkdir(exist_ok=True)
        (group / "cgroup.procs").write_text(f"{process.pid}\n")
    process.stdin.write(b"go\n")
    process.stdin.close()


def wait_for_ssh(host: Host) -> None:
    """Wait until the host's sshd answers, and record the host's init.

    Raises BedError when the host ends or the time limit is exceeded.
    """
    deadline = time.monotonic() + BOOT
    while not _answers(host.address):
        nspawn = host.bed.processes[host.name][0]
        if not processes.is_alive(*nspawn):
            raise BedError(f"{host.name} ended during the boot: {_last_words(host)}")
        if time.monotonic() > deadline:
            raise BedError(f"{host.name}: no sshd at {host.address} after {BOOT} s: {_last_words(host)}")
        time.sleep(0.1)
    nspawn = host.bed.processes[host.name][0]
    children = [pid for pid, parent in processes.parents().items() if parent == nspawn[0]]
    inits = [(pid, started) for pid in children if (started := processes.start_time(pid)) is not None]
    host.bed.processes[host.name] = [nspawn, *inits]
    host.bed.save()


def _last_words(host: Host) -> str:
    lines = host.console.read_text(errors="replace").split("\n")
    return " | ".join([line.strip() for line in lines if line.strip()][-5:]) or "its console is empty"


def _answers(address: str) -> bool:
    try:
        with socket.create_connection((address, 22), timeout=1) as connection:
            return connection.recv(4).startswith(b"SSH")
    except OSError:
        return False


def runs(host: Host) -> bool:
    known = host.bed.processes.get(host.name, [])
    return bool(known) and processes.is_alive(*known[0])


def stop(hosts: Iterable[Host], patience: float = SHUTDOWN) -> None:
    """Shut down the hosts in parallel, and kill those that still run after `patience` seconds. Their files stay."""
    hosts = list(hosts)
    known = {host.name: host.bed.processes.get(host.name, []) for host in hosts}
    # On SIGTERM, systemd-nspawn shuts down its machine.
    supervisors = [pid for found in known.values() for pid, started in found[:1] if processes.is_alive(pid, started)]
    if patience > 0:
        processes.end(supervisors, patience)
    for found in known.values():
        processes.send_all(found, (signal.SIGKILL,))
    for host in hosts:
        _wait_until_gone(known[host.name])
        _remove_groups(host)
        host.bed.processes.pop(host.name, None)
        host.bed.save()


def _wait_until_gone(found: list[tuple[int, int]]) -> None:
    deadline = time.monotonic() + SHUTDOWN
    while any(processes.is_alive(*process) for process in found):
        if time.monotonic() > deadline:
            raise BedError(f"processes {found} (id, start time) do not end")
        time.sleep(0.05)


def group_folders() -> list[Path]:
    """Return the folders of the control group hierarchies: version 2, and systemd's of version 1 if it exists."""
    lines = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    wanted = [line for line in lines if line[2] == "cgroup2" or (line[2] == "cgroup" and "name=systemd" in line[3].split(","))]
    return [Path(line[1]) for line in wanted]


def _groups(host: Host) -> list[Path]:
    return [folder / host.machine for folder in group_folders()]


def supervisors() -> list[tuple[int, Path]]:
    """Return the process id and the root folder of every systemd-nspawn with a root folder on this machine."""
    lines = [(pid, processes.command_line(pid)) for pid in processes.parents()]
    words = [(pid, word) for pid, line in lines if "systemd-nspawn" in line for word in line]
    return [(pid, Path(word.partition("=")[2])) for pid, word in words if word.startswith("--directory=")]


def _remove_groups(host: Host) -> None:
    """Kill the remaining processes in the machine's control groups, and remove the groups."""
    for group in _groups(host):
        if not group.exists():
            continue
        with suppress(OSError):
            (group / "cgroup.kill").write_text("1\n")
        deadline = time.monotonic() + SHUTDOWN
        while group.exists():
            # The innermost group first. A group stays busy for a moment after its last process was killed.
            for folder, _, _ in os.walk(group, topdown=False):
                with suppress(OSError):
                    Path(folder).rmdir()
            if group.exists():
                if time.monotonic() > deadline:
                    raise BedError(f"{group} is still in use by {(group / 'cgroup.procs').read_text().split()}")
                time.sleep(0.05)


def remove_files(bed: Bed) -> None:
    """Unmount the hosts' files, and remove systemd-nspawn's files of killed machines."""
    for host in bed.hosts:
        with suppress(FileNotFoundError):
            seen = host.tree.stat()
            Path(f"/run/systemd/nspawn/locks/inode-{seen.st_dev}:{seen.st_ino}").unlink()
    for point in reversed(mount_points()):
        if bed.folder in point.parents:
            run("umount", str(point))
    for host in bed.hosts:
        for kept in KEPT:
            shutil.rmtree(kept / host.machine, ignore_errors=True)
