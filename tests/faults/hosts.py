"""Hosts of a cluster of several (machines of systemd-nspawn)."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from testbed.layout import Host

from .bed import BedLane, of_host, signal_host
from .lane import ENDED, INSTANCES, Lane, Snapshot, checked, expect, until
from .table import Wrong, fault

AWAY = 30.0
"""Seconds for which a host is cut off or frozen; SlurmdTimeout is shorter."""
SLOWLY = 480.0
"""Longest duration of an experiment on several hosts, in seconds."""


def _on_bed(lane: Lane) -> BedLane:
    assert isinstance(lane, BedLane)
    return lane


def _cut_off(host: Host, seconds: float) -> None:
    """Cut a host's network for some seconds."""
    link = f"vb-{host.machine}"
    checked(["ip", "link", "set", link, "down"])
    try:
        time.sleep(seconds)
    finally:
        checked(["ip", "link", "set", link, "up"])


@fault(
    "network-cut",
    "the network of a compute host cut for 30 s during the replay",
    "`invalid:` names the nodes that did not respond; each job once",
    on_bed=True,
)
def network_cut(lane: Lane) -> None:
    host = _on_bed(lane).machines.hosts[1]
    command = lane.start_experiment()
    lane.until_submitted(command)
    _cut_off(host, AWAY)
    expect(lane.ended(command, SLOWLY), ("invalid",), r"node.*(respond|fail)|requeue")
    lane.complete()


@fault(
    "host-frozen",
    "all processes of a compute host stopped for 30 s during the replay",
    "`invalid:` names the nodes that did not respond; each job once",
    on_bed=True,
)
def host_frozen(lane: Lane) -> None:
    host = _on_bed(lane).machines.hosts[1]
    command = lane.start_experiment()
    lane.until_submitted(command)
    signal_host(host, signal.SIGSTOP)
    try:
        time.sleep(AWAY)
    finally:
        signal_host(host, signal.SIGCONT)
    expect(lane.ended(command, SLOWLY), ("invalid",), r"node.*(respond|fail)|requeue|stretch")
    lane.complete()


@fault(
    "head-cut",
    "the network of the head cut for 40 s during the replay",
    "the command waits or ends with `failed:` and names the head; the same command finishes",
    on_bed=True,
)
def head_cut(lane: Lane) -> None:
    host = _on_bed(lane).machines.hosts[0]
    command = lane.start_experiment()
    lane.until_submitted(command)
    _cut_off(host, AWAY + 10)
    ended = expect(lane.ended(command, SLOWLY), ("failed", *ENDED))
    if ended.word == "failed":
        expect(ended, ("failed",), f"unreachable|{host.name}|ssh|connect")
    lane.goes_on()


@fault(
    "link-hosts-file",
    "the instance's user plants state/hosts and run/hosts as links to a file of root, then SIGKILL to the farm",
    "the file keeps its owner and content; `make experiment` ends in one line",
    on_bed=True,
)
def link_hosts_file(lane: Lane) -> None:
    head = _on_bed(lane).machines.hosts[0]
    lane.build()
    victims = head.tree / "etc/faults-victims"
    victims.mkdir(exist_ok=True)
    (victims / "file").write_text("root's\n")
    snapshot = Snapshot(victims)
    owner = (lane.directory / "runs").stat()
    for folder in ("state", "run"):
        link = lane.directory / folder / "hosts"
        if os.path.lexists(link):
            link.unlink()
        link.symlink_to("/etc/faults-victims/file")
        os.chown(link, owner.st_uid, owner.st_gid, follow_symlinks=False)
    farms = [
        pid for pid in of_host(head) if b"slurm_mirage.programs.farm" in _command(pid) and str(INSTANCES).encode() in _command(pid)
    ]
    if not farms:
        raise Wrong("there is no farm on the head")
    for pid in farms:
        os.kill(pid, signal.SIGKILL)
    until(lambda: not any(_command(pid) for pid in farms), "end of the farm")
    expect(lane.experiment(longest=SLOWLY), (*ENDED, "failed", "wrong use"))
    snapshot.unchanged()


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
