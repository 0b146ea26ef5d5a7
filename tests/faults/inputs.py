"""Inputs that are not regular files, too large, or already in use."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from mirage.knobs.table import BY_NAME
from slurm_mirage.base.files import read_json

from .lane import DONE, Lane, expect, quick_refusal, unix_socket
from .table import Wrong, fault

TARGETS = {
    "TRACE": "metrics",
    "CLASSES": "cluster",
    "SLURM_CONF": "cluster",
    **dict.fromkeys((name for name in BY_NAME if name.endswith("_SOURCE")), "cluster"),
    "INVENTORY": "cluster",
}
"""Knobs that name a file, each with a target that reads it."""
SECONDS = 10.0
"""For a refusal, with the start of make and Python on a busy host."""
MEBIBYTES = 500.0
HUGE = 1 << 36
PROTECTED = ("prlimit", f"--as={8 << 30}")
"""Prefix of a command that might fill the memory of this machine."""


def _refused(lane: Lane, path: Path, *without: str) -> None:
    """Give the path to each knob that names a file, but to those of `without`."""
    wrong = []
    for knob, target in TARGETS.items():
        if knob in without:
            continue
        # A hanging command is ended by `end`, which is not an error of the lane here: all knobs are tried.
        try:
            command = lane.start(target, PROTECTED, **{knob: str(path)})
            ended = lane.ended(command, 2 * SECONDS, knob)
            expect(ended, ("wrong use",), f"^{knob}\\b")
            quick_refusal(ended, SECONDS, MEBIBYTES)
        except Wrong as error:
            wrong.append(f"{knob}: {error}")
    if wrong:
        raise Wrong("; ".join(wrong))


@fault("fifo-as-input", "a FIFO for each knob that names a file", "`wrong use:` names the knob, at once", quick=True)
def fifo_as_input(lane: Lane) -> None:
    path = lane.scratch / "fifo"
    os.mkfifo(path)
    _refused(lane, path)


@fault("socket-as-input", "a socket for each knob that names a file", "`wrong use:` names the knob, at once", quick=True)
def socket_as_input(lane: Lane) -> None:
    path = lane.scratch / "socket"
    lane.stack.enter_context(unix_socket(path))
    _refused(lane, path)


@fault(
    "device-as-input",
    "/dev/zero, which never ends, for each knob that names a file",
    "`wrong use:` names the knob, at once",
    quick=True,
)
def device_as_input(lane: Lane) -> None:
    _refused(lane, Path("/dev/zero"))


@fault(
    "folder-as-input",
    "a folder for each knob that names a file (INVENTORY may be one)",
    "`wrong use:` names the knob, at once",
    quick=True,
)
def folder_as_input(lane: Lane) -> None:
    path = lane.scratch / "folder"
    path.mkdir()
    _refused(lane, path, "INVENTORY")


@fault(
    "huge-input",
    "a sparse file of 64 GiB for each knob that names a file",
    "`wrong use:` names the knob, at once, within 500 MiB",
    quick=True,
)
def huge_input(lane: Lane) -> None:
    path = lane.scratch / "huge"
    with path.open("wb") as stream:
        stream.truncate(HUGE)
    _refused(lane, path)


@fault(
    "huge-host-list", "SLURM_CONF with the nodes n[1-99999999]", "`wrong use:` names the knob, at once, within 500 MiB", quick=True
)
def huge_host_list(lane: Lane) -> None:
    path = lane.scratch / "slurm.conf"
    path.write_text(
        "ClusterName=big\nSlurmctldHost=head\nNodeName=n[1-99999999] CPUs=4\nPartitionName=batch Nodes=n[1-99999999] Default=YES\n"
    )
    ended = lane.ended(lane.start("cluster", PROTECTED, SLURM_CONF=path), 2 * SECONDS)
    expect(ended, ("wrong use",), r"SLURM_CONF|n\[1-99999999\]")
    quick_refusal(ended, SECONDS, MEBIBYTES)


@fault("too-many-nodes", "NODES=1000000", "`wrong use:` says what the host can hold", quick=True)
def too_many_nodes(lane: Lane) -> None:
    ended = lane.make("cluster", NODES=1_000_000, CPUS=4)
    expect(ended, ("wrong use",), r"NODES|memory|processes")


@fault("port-taken", "PORT of another program", "`wrong use:` names the port; no instance is left", quick=True)
def port_taken(lane: Lane) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        port = listener.getsockname()[1]
        ended = lane.make("cluster", NODES=lane.nodes, CPUS=4, PORT=port)
    expect(ended, ("wrong use",), f"PORT.*{port}|{port}.*taken")


@fault(
    "run-of-other-inputs", "RUN of a finished run with other inputs", "`wrong use:` names the input that differs; the results stay"
)
def run_of_other_inputs(lane: Lane) -> None:
    expect(lane.experiment(), DONE)
    before = read_json(lane.results() / "status.json")
    expect(lane.experiment(label="with JOBS=5", JOBS=5), ("wrong use",), "JOBS")
    if read_json(lane.results() / "status.json") != before:
        raise Wrong("the results of the finished run were changed")
    lane.complete()
