"""Probing servers of a cloud by SSH, with the real ssh, and the report about servers that are not ready."""

from __future__ import annotations

import json
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slurm_mirage.base import processes
from slurm_mirage.cloud import answers as cloud_answers
from slurm_mirage.cloud.answers import SshAccess, State

ROOT = Path(__file__).parents[3]
ACCESS = SshAccess(
    {"head": "203.0.113.5", "c1": "10.77.0.6"}, "mirage", "/keys/my own", "-o UserKnownHostsFile=/keys/known", "head"
)


def test_the_head_is_reached_directly() -> None:
    words = ACCESS.command("head")
    assert words[0] == "ssh"
    assert words[-6:] == ["-i", "/keys/my own", "-l", "mirage", "203.0.113.5", cloud_answers.STATUS_COMMAND]
    assert "UserKnownHostsFile=/keys/known" in words
    assert not [word for word in words if word.startswith("ProxyCommand")]


def test_the_other_servers_are_reached_through_the_head_with_the_same_key() -> None:
    *_, proxy, address, _ = ACCESS.command("c1")
    inner = shlex.split(proxy.removeprefix("ProxyCommand="))
    assert address == "10.77.0.6"
    assert inner[-3:] == ["-W", "%h:%p", "203.0.113.5"]
    assert inner[inner.index("-i") + 1] == "/keys/my own"
    assert "UserKnownHostsFile=/keys/known" in inner


def test_without_a_key_file_ssh_gets_no_identity_option() -> None:
    words = ACCESS._replace(key="", through="").command("c1")
    assert "-i" not in words
    assert words[-2:] == ["10.77.0.6", cloud_answers.STATUS_COMMAND]


@pytest.mark.parametrize(
    ("code", "output", "errors", "state"),
    [
        (0, "status: done\n", "", State("done")),
        (0, "", "", State("done")),
        (0, "status: disabled\n", "", State("done")),
        (0, "status: running\n", "Warning: Permanently added '10.77.0.6'", State("busy")),
        (0, "Welcome\nstatus: not started\n", "", State("busy")),
        (0, "status: not run\n", "", State("busy")),
        (0, "status: error\n", "", State("incomplete")),
        (
            255,
            "",
            "ssh: connect to host c port 22: No route to host\nConnection closed",
            State("silent", "ssh: connect to host c port 22: No route to host"),
        ),
        (255, "", "Warning: Permanently added 'c'\nPermission denied", State("silent", "Permission denied")),
        (255, "", "@@@@@@@@\n@    WARNING: IT HAS CHANGED!    @\n@@@@", State("silent", "WARNING: IT HAS CHANGED!")),
        (255, "", "", State("silent", "ssh ended with 255")),
    ],
)
def test_state(code: int, output: str, errors: str, state: State) -> None:
    assert cloud_answers.state(code, output, errors) == state


@pytest.mark.parametrize(
    ("name", "answers", "done"),
    [("silent", False, False), ("busy", True, False), ("incomplete", True, True), ("done", True, True)],
)
def test_stages(name: str, answers: bool, done: bool) -> None:
    assert (cloud_answers.has_reached("answer", State(name)), cloud_answers.has_reached("done", State(name))) == (answers, done)


def test_the_report_groups_silent_servers_by_reason() -> None:
    states = {
        "head": State("silent", "timed out"),
        "c1": State("busy"),
        "c2": State("silent", "timed out"),
        "c3": State("silent", "refused"),
        "c4": State("incomplete"),
    }
    assert cloud_answers.report(states) == {
        "waiting": "no answer by SSH from head, c2 (timed out), c3 (refused), and cloud-init still runs on c1",
        "incomplete": "c4",
    }
    assert cloud_answers.report({"head": State("done")}) == {"waiting": "", "incomplete": ""}


def test_a_closed_port_is_reported_as_no_answer() -> None:
    """The program runs as the role starts it, with the real ssh."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        access = SshAccess({"head": "127.0.0.1"}, "nobody", "", f"-F none -o Port={bound.getsockname()[1]}")
        ended = subprocess.run(
            [sys.executable, "-m", "slurm_mirage.programs.cloud_answers", "answer", "1"],
            input=json.dumps(access._asdict()),
            capture_output=True,
            text=True,
            check=False,
        )
    assert ended.returncode == 1, ended.stderr
    assert json.loads(ended.stdout)["waiting"].startswith("no answer by SSH from head (ssh: connect to host 127.0.0.1 port ")
    assert "refused" in ended.stdout


def test_a_timeout_ends_ssh_and_its_proxy_command(tmp_path: Path) -> None:
    """The proxy command between ssh and the server never ends by itself."""
    pid = tmp_path / "pid"
    program = f"echo $$ > {pid}; exec sleep 600"
    command = ["ssh", "-F", "none", "-o", f"ProxyCommand=sh -c '{program}'", "nowhere"]
    assert cloud_answers.probe(command, 2) == State("silent", "timed out")
    # The signal has been sent; the process ends when it is scheduled.
    while processes.start_time(int(pid.read_text())) is not None:
        time.sleep(0.01)
