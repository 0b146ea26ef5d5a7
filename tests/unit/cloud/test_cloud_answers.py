"""How a cloud's servers are asked whether they answer, with the real ssh, and what is said of those that do not."""

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
from slurm_mirage.cloud.answers import State, Way

ROOT = Path(__file__).parents[3]
WAY = Way({"head": "203.0.113.5", "c1": "10.77.0.6"}, "mirage", "/keys/my own", "-o UserKnownHostsFile=/keys/known", "head")


def test_the_head_is_reached_directly() -> None:
    words = WAY.command("head")
    assert words[0] == "ssh"
    assert words[-6:] == ["-i", "/keys/my own", "-l", "mirage", "203.0.113.5", cloud_answers.ASK]
    assert "UserKnownHostsFile=/keys/known" in words
    assert not [word for word in words if word.startswith("ProxyCommand")]


def test_the_others_are_reached_through_the_head_with_the_same_key() -> None:
    *_, proxy, address, _ = WAY.command("c1")
    inner = shlex.split(proxy.removeprefix("ProxyCommand="))
    assert address == "10.77.0.6"
    assert inner[-3:] == ["-W", "%h:%p", "203.0.113.5"]
    assert inner[inner.index("-i") + 1] == "/keys/my own"
    assert "UserKnownHostsFile=/keys/known" in inner


def test_without_a_file_the_agent_has_the_key() -> None:
    words = WAY._replace(key="", through="").command("c1")
    assert "-i" not in words
    assert words[-2:] == ["10.77.0.6", cloud_answers.ASK]


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
    ("word", "answers", "done"),
    [("silent", False, False), ("busy", True, False), ("incomplete", True, True), ("done", True, True)],
)
def test_stages(word: str, answers: bool, done: bool) -> None:
    assert (cloud_answers.is_at("answer", State(word)), cloud_answers.is_at("done", State(word))) == (answers, done)


def test_servers_that_are_silent_for_one_reason_are_named_together() -> None:
    states = {
        "head": State("silent", "timed out"),
        "c1": State("busy"),
        "c2": State("silent", "timed out"),
        "c3": State("silent", "refused"),
        "c4": State("incomplete"),
    }
    assert cloud_answers.told(states) == {
        "waiting": "no answer by SSH from head, c2 (timed out), c3 (refused), and cloud-init still works on c1",
        "incomplete": "c4",
    }
    assert cloud_answers.told({"head": State("done")}) == {"waiting": "", "incomplete": ""}


def test_a_closed_port_is_silence() -> None:
    """The program as the role starts it, with the real ssh."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        way = Way({"head": "127.0.0.1"}, "nobody", "", f"-F none -o Port={held.getsockname()[1]}")
        ended = subprocess.run(
            [sys.executable, "-m", "slurm_mirage.programs.cloud_answers", "answer", "1"],
            input=json.dumps(way._asdict()),
            capture_output=True,
            text=True,
            check=False,
        )
    assert ended.returncode == 1, ended.stderr
    assert json.loads(ended.stdout)["waiting"].startswith("no answer by SSH from head (ssh: connect to host 127.0.0.1 port ")
    assert "refused" in ended.stdout


def test_a_server_that_says_nothing_is_given_up_with_what_led_to_it(tmp_path: Path) -> None:
    """A program between ssh and the server, which never ends by itself."""
    pid = tmp_path / "pid"
    program = f"echo $$ > {pid}; exec sleep 600"
    command = ["ssh", "-F", "none", "-o", f"ProxyCommand=sh -c '{program}'", "nowhere"]
    assert cloud_answers.look(command, 2) == State("silent", "timed out")
    # It has been sent the signal by then, and takes it when its turn comes.
    while processes.start_time(int(pid.read_text())) is not None:
        time.sleep(0.01)
