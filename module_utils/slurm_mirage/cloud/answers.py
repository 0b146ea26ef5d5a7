"""Which of a cloud's servers answer by SSH, and where cloud-init has ended."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

CONNECT, LOOK, PAUSE = 10, 20, 2
"""Seconds that a connection may take, that a look at a server may take with it, and between two looks."""
AT_ONCE = 32
# Without cloud-init there is nothing to wait for.
ASK = "if command -v cloud-init >/dev/null; then cloud-init status 2>/dev/null; fi; :"
# ssh says it of each host key that is new.
REMARK = "Warning: Permanently added"
UNFINISHED = ("running", "not run", "not started")


class Way(NamedTuple):
    """How Ansible reaches the servers: their `addresses` by name, the file of a private `key` or none, further `arguments` of ssh.

    With a name as `through`, the others are reached through that server.
    """

    addresses: dict[str, str]
    user: str
    key: str
    arguments: str
    through: str = ""

    def command(self, name: str) -> list[str]:
        """Words that ask a server."""
        own = ["-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT}"]
        ssh = ["ssh", *own, *shlex.split(self.arguments), *(["-i", self.key] if self.key else []), "-l", self.user]
        if self.through in ("", name):
            return [*ssh, self.addresses[name], ASK]
        # ssh puts the other server's address and port in the place of %h:%p.
        proxy = shlex.join([*ssh, "-W", "%h:%p", self.addresses[self.through]])
        return [*ssh, "-o", f"ProxyCommand={proxy}", self.addresses[name], ASK]


class State(NamedTuple):
    """`word` is silent, busy (cloud-init works), incomplete (it failed in part) or done; `why` is what ssh says of a silent one."""

    word: str
    why: str = ""


def state(code: int, output: str, errors: str) -> State:
    """What ssh's end tells."""
    if code != 0:
        # The first line is of what went wrong first: the head's connection, and not the one through it.
        said = [line.strip("@ ") for line in errors.splitlines() if line.strip("@ ") and not line.startswith(REMARK)]
        return State("silent", said[0] if said else f"ssh ended with {code}")
    told = {line.partition(":")[2].strip() for line in output.splitlines() if line.startswith("status:")}
    if told.intersection(UNFINISHED):
        return State("busy")
    return State("incomplete" if "error" in told else "done")


def look(command: Sequence[str], seconds: float) -> State:
    """One look at a server."""
    # Of its own session: it cannot ask on a terminal, and what it starts to go through the head ends with it.
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


def is_at(stage: str, one: State) -> bool:
    return one.word != "silent" and (stage == "answer" or one.word != "busy")


def look_at_all(way: Way, stage: str, seconds: float) -> dict[str, State]:
    """State of each server by its name, when all are at the stage or the time is over."""
    end = time.monotonic() + seconds
    states: dict[str, State] = {}
    waiting = list(way.addresses)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        while waiting:
            looks = pool.map(lambda name: look(way.command(name), max(1.0, min(LOOK, end - time.monotonic()))), waiting)
            states.update(zip(waiting, looks))
            waiting = [name for name in waiting if not is_at(stage, states[name])]
            if time.monotonic() + PAUSE >= end:
                break
            if waiting:
                time.sleep(PAUSE)
    return states


def told(states: Mapping[str, State]) -> dict[str, str]:
    """`waiting`: which servers are not ready, and why; `incomplete`: names of those where cloud-init failed in part."""

    def named(word: str, why: str = "") -> str:
        return ", ".join(name for name, one in states.items() if one == State(word, why))

    reasons = dict.fromkeys(one.why for one in states.values() if one.word == "silent")
    silent = ", ".join(f"{named('silent', why)} ({why})" for why in reasons)
    parts = [
        f"no answer by SSH from {silent}" if silent else "",
        f"cloud-init still works on {named('busy')}" if named("busy") else "",
    ]
    return {"waiting": ", and ".join(part for part in parts if part), "incomplete": named("incomplete")}
