"""Checks which servers of a cloud answer by SSH, and on which cloud-init has finished."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

CONNECT_TIMEOUT, PROBE_TIMEOUT, PAUSE = 10, 20, 2
"""Seconds for an SSH connection, for a probe including its connection, and between two rounds of probes."""
PARALLEL_PROBES = 32
# The command that a server runs. A server without cloud-init is ready when it answers.
STATUS_COMMAND = "if command -v cloud-init >/dev/null; then cloud-init status 2>/dev/null; fi; :"
# Warning of ssh about each new host key.
NEW_KEY_WARNING = "Warning: Permanently added"
UNFINISHED = ("running", "not run", "not started")


class SshAccess(NamedTuple):
    """How Ansible connects to the servers.

    addresses: address by name of a server; key: path of a private key, or empty; arguments: further arguments of ssh, as one text;
    through: name of the server by which the others are reached (ProxyCommand), or empty
    """

    addresses: dict[str, str]
    user: str
    key: str
    arguments: str
    through: str = ""

    def command(self, name: str) -> list[str]:
        """Return the command that runs STATUS_COMMAND on the server `name`."""
        options = ["-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_TIMEOUT}"]
        ssh = ["ssh", *options, *shlex.split(self.arguments), *(["-i", self.key] if self.key else []), "-l", self.user]
        if self.through in ("", name):
            return [*ssh, self.addresses[name], STATUS_COMMAND]
        # ssh replaces %h:%p with the other server's address and port.
        proxy = shlex.join([*ssh, "-W", "%h:%p", self.addresses[self.through]])
        return [*ssh, "-o", f"ProxyCommand={proxy}", self.addresses[name], STATUS_COMMAND]


class State(NamedTuple):
    """State of a server.

    name: silent (no answer by SSH), busy (cloud-init has not finished), incomplete (cloud-init finished with errors) or done;
    reason: ssh's error message for a silent server
    """

    name: str
    reason: str = ""


def state(code: int, output: str, errors: str) -> State:
    """Return a server's state from the exit code, the standard output and the standard error of ssh."""
    if code != 0:
        # The first message is about the first connection that failed: that to the head rather than the one through it.
        messages = [line.strip("@ ") for line in errors.splitlines() if line.strip("@ ") and not line.startswith(NEW_KEY_WARNING)]
        return State("silent", messages[0] if messages else f"ssh ended with {code}")
    statuses = {line.partition(":")[2].strip() for line in output.splitlines() if line.startswith("status:")}
    if statuses.intersection(UNFINISHED):
        return State("busy")
    return State("incomplete" if "error" in statuses else "done")


def probe(command: Sequence[str], seconds: float) -> State:
    """Run the command of a server (see `SshAccess.command`) for at most `seconds` seconds and return the server's state."""
    # In its own session, ssh cannot prompt on a terminal, and its proxy command can be killed with it.
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as ssh:
        try:
            output, errors = ssh.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(ssh.pid, signal.SIGKILL)
            return State("silent", "timed out")
        return state(ssh.returncode, output, errors)


def has_reached(stage: str, server: State) -> bool:
    """Return whether a server has reached the stage `answer` (SSH answers) or `done` (cloud-init has finished as well)."""
    return server.name != "silent" and (stage == "answer" or server.name != "busy")


def wait_for_all(access: SshAccess, stage: str, seconds: float) -> dict[str, State]:
    """Probe all servers until each has reached `stage`, for at most `seconds` seconds; returns the state of each by its name."""
    end = time.monotonic() + seconds
    states: dict[str, State] = {}
    waiting = list(access.addresses)
    with ThreadPoolExecutor(PARALLEL_PROBES) as pool:
        while waiting:
            results = pool.map(
                lambda name: probe(access.command(name), max(1.0, min(PROBE_TIMEOUT, end - time.monotonic()))), waiting
            )
            states.update(zip(waiting, results))
            waiting = [name for name in waiting if not has_reached(stage, states[name])]
            if time.monotonic() + PAUSE >= end:
                break
            if waiting:
                time.sleep(PAUSE)
    return states


def report(states: Mapping[str, State]) -> dict[str, str]:
    """Summarise the states of servers, by their names, as {"waiting", "incomplete"}.

    waiting: the servers that are not ready, with the reason; incomplete: names of the servers on which cloud-init failed
    """

    def names(state_name: str, reason: str = "") -> str:
        return ", ".join(name for name, server in states.items() if server == State(state_name, reason))

    reasons = dict.fromkeys(server.reason for server in states.values() if server.name == "silent")
    silent = ", ".join(f"{names('silent', reason)} ({reason})" for reason in reasons)
    parts = [
        f"no answer by SSH from {silent}" if silent else "",
        f"cloud-init still runs on {names('busy')}" if names("busy") else "",
    ]
    return {"waiting": ", and ".join(part for part in parts if part), "incomplete": names("incomplete")}
