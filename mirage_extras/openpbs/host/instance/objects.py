"""Creates and changes the nodes, the queues and the server's attributes of a running OpenPBS, by qmgr. For root."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ....farm.network import entrance
from ....instance.instance import refuse_during_run
from ....rm.api import Unavailable
from .. import qmgr
from ..node_classes import node_classes

QUESTIONS = "print server", "print sched", "print node @default"
NO_NODES = "Server has no node list"
TIMEOUT = 600.0
"""Seconds after which a qmgr without an answer is ended; it takes several for a thousand nodes."""


def ensure(parameters: Mapping[str, Any], write: bool) -> list[str]:
    """Return the lines that qmgr needs, and give them to it if `write` is true. Raises WrongUse, RuntimeError."""
    directory = Path(parameters["directory"])
    server = {"operators": f"{parameters['user']}@*", **parameters["server"]}
    clock = parameters["speed"], parameters["event_clock"]
    want = qmgr.wanted(node_classes(parameters["nodes"]), server, parameters["partitions"], *clock)
    try:
        with entrance(directory, as_root=True) as inside:
            command = [*inside.words, "/usr/bin/env", f"PBS_CONF_FILE={directory}/etc/pbs.conf", f"{parameters['bin']}/qmgr"]
            printed = "".join(run(command, question + "\n", inside.descriptors) for question in QUESTIONS)
            lines = list(qmgr.commands(qmgr.printed(printed), want))
            if lines:
                refuse_during_run(directory)
            if lines and write:
                run(command, "".join(line + "\n" for line in lines), inside.descriptors)
            return lines
    except Unavailable as error:
        if write:
            raise RuntimeError(f"the server cannot be reached: {error}") from error
        return list(qmgr.commands(qmgr.State(), want))


def run(command: list[str], text: str, descriptors: Sequence[int]) -> str:
    """Give qmgr a text and return its answer; it inherits `descriptors`. Raises RuntimeError with its first complaint."""
    try:
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            cwd="/",
            timeout=TIMEOUT,
            pass_fds=descriptors,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"qmgr: the server has not answered within {TIMEOUT:.0f} s") from error
    complaints = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    if complaints and not any(NO_NODES in line for line in complaints):
        raise RuntimeError(f"qmgr: {'; '.join(complaints[:3])}")
    if done.returncode and not complaints:
        raise RuntimeError(f"qmgr: ended with code {done.returncode}, without a message")
    return done.stdout
