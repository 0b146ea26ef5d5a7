"""The clock of one host against another's: real programs that answer and ask, over UDP on this machine."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from modules import ROOT, Caller

from slurm_mirage.base import processes
from slurm_mirage.clock import clock_offset
from slurm_mirage.clock.clock_offset import ANSWER, FORMAT, QUESTION, Offset

USER = "nobody" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
NUMBER = b"0123456789abcdef"


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def answering() -> Iterator[int]:
    """Port of a program that answers."""
    command = [sys.executable, "-m", "slurm_mirage.programs.clock_answers", str(free_port()), "50", "600"]
    environment = dict(os.environ)
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as program:
        assert program.stdout is not None
        yield int(program.stdout.readline())
        program.terminate()


# ---- questions and answers ----


def test_an_answer_has_the_questions_number_and_the_time() -> None:
    answer = clock_offset.answer_to(FORMAT.pack(QUESTION, NUMBER, 0), 1_800_000_000_123_456_789)
    assert answer is not None and len(answer) == FORMAT.size
    assert clock_offset.time_in(answer, NUMBER) == 1_800_000_000_123_456_789
    assert clock_offset.time_in(answer, NUMBER[::-1]) is None


@pytest.mark.parametrize(
    "packet",
    [
        b"",
        FORMAT.pack(QUESTION, NUMBER, 0)[:-1],
        FORMAT.pack(QUESTION, NUMBER, 0) + b"\0",
        FORMAT.pack(QUESTION, NUMBER, 1),
        FORMAT.pack(ANSWER, NUMBER, 0),
    ],
    ids=["empty", "short", "long", "with a time", "an answer"],
)
def test_what_is_no_question_has_no_answer(packet: bytes) -> None:
    assert clock_offset.answer_to(packet, 1) is None


@given(st.binary(max_size=40))
def test_noise_is_neither_question_nor_answer(packet: bytes) -> None:
    assert clock_offset.answer_to(packet, 1) is None
    assert clock_offset.time_in(packet, NUMBER) is None


# ---- measuring ----


def test_a_clock_agrees_with_itself(answering: int) -> None:
    """The measurement's own error covers what it finds, however slow this machine is."""
    found = clock_offset.measure("127.0.0.1", answering)
    assert found is not None and found.answers > 0
    assert clock_offset.beyond(found) == 0.0


def test_noise_does_not_end_the_one_who_answers(answering: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as noise:
        for packet in (b"", b"x" * 60_000, FORMAT.pack(ANSWER, NUMBER, 7)):
            noise.sendto(packet, ("127.0.0.1", answering))
        noise.setblocking(False)
        assert clock_offset.measure("127.0.0.1", answering) is not None
        with pytest.raises(BlockingIOError):
            noise.recv(100)


def test_where_nobody_answers_nothing_is_found() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        assert clock_offset.measure("127.0.0.1", silent.getsockname()[1], questions=2) is None


def test_an_answer_to_another_question_is_not_taken() -> None:
    """Somebody who answers without having seen the question."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.bind(("127.0.0.1", 0))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as forger:
            forger.bind(("127.0.0.1", 0))
            forger.sendto(FORMAT.pack(ANSWER, NUMBER, 0), asking.getsockname())
            assert clock_offset.ask(asking, forger.getsockname()) is None


def test_the_first_free_port_is_taken() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("", 0))
        taken = other.getsockname()[1]
        with clock_offset.listen(taken, 50) as found:
            assert taken < found.getsockname()[1] < taken + 50
        with pytest.raises(RuntimeError, match=f"no UDP port from {taken} to {taken} can be had"):
            clock_offset.listen(taken, 1)


# ---- the judgement ----


@pytest.mark.parametrize(
    ("offset", "agrees"),
    [
        (Offset(0.019, 0.001, 20), True),
        (Offset(-0.0209, 0.001, 20), True),
        (Offset(0.0211, 0.001, 20), False),
        (Offset(-0.0211, 0.001, 20), False),
        (Offset(5.0, 6.0, 1), True),
    ],
)
def test_what_may_be_the_measurements_error_is_no_trouble(offset: Offset, agrees: bool) -> None:
    assert (clock_offset.trouble(offset, 0.02, "c1", "192.0.2.1:17000") == "") is agrees


def test_trouble_is_told_in_one_line() -> None:
    ahead = clock_offset.trouble(Offset(3.0004, 0.00021, 20), 0.02, "c1", "192.0.2.1:17000")
    assert ahead.startswith("host c1: its clock is 3 s ahead of the head's (to within 0.00021 s), and 0.02 s is allowed: ")
    assert "chrony" in ahead and "\n" not in ahead
    assert " behind the head's " in clock_offset.trouble(Offset(-12345.6, 0.1, 20), 0.02, "c1", "")
    silent = clock_offset.trouble(None, 0.02, "c1", "192.0.2.1:17000", "No route to host")
    assert silent.startswith("host c1: the head does not answer at 192.0.2.1:17000/udp (No route to host), ")


# ---- the modules ----


@pytest.fixture
def instance() -> Iterator[dict[str, Any]]:
    """Parameters of clock_answers, of an instance's directory. Not pytest's tmp_path: the user may not enter that."""
    directory = Path("/tmp", f"clock-answers-test-{os.getpid()}-{time.monotonic_ns()}")
    for name in ("run", "lib"):
        (directory / name).mkdir(parents=True)
    directory.chmod(0o755)
    if os.getuid() == 0:
        shutil.chown(directory / "run", USER)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "module_utils/slurm_mirage", directory / "lib/slurm_mirage", ignore=ignored)
    yield {"directory": str(directory), "user": USER, "port": free_port(), "ports": 50}
    processes.end(processes.of_instance(str(directory)), 10)
    shutil.rmtree(directory)


def test_one_host_answers_and_another_asks(call: Caller, instance: dict[str, Any]) -> None:
    directory = instance["directory"]
    started = call("clock_answers", **instance)
    assert (started["changed"], started["port"]) == (False, instance["port"])
    mine = processes.of_instance(directory)
    assert [Path(f"/proc/{pid}").stat().st_uid for pid in mine] == [pwd.getpwnam(USER).pw_uid]
    asked = call("clock_offset", address="127.0.0.1", port=started["port"], name="c1")
    assert (asked["changed"], asked["clock"]["host"], asked["trouble"]) == (False, "c1", "")
    assert abs(asked["clock"]["offset"]) <= asked["clock"]["error"]
    assert call("clock_answers", **instance)["port"] == instance["port"], "the one of an earlier call has to go first"
    assert processes.of_instance(directory).isdisjoint(mine)
    assert call("clock_answers", directory=directory, state="stopped")["port"] == 0
    assert processes.of_instance(directory) == set()


def test_in_check_mode_nobody_answers(call: Caller, instance: dict[str, Any]) -> None:
    assert call("clock_answers", check=True, **instance)["port"] == 0
    assert processes.of_instance(instance["directory"]) == set()


def test_why_nobody_can_answer(call: Caller, instance: dict[str, Any]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("", instance["port"]))
        refused = call("clock_answers", **{**instance, "ports": 1})
    assert f"no UDP port from {instance['port']} to {instance['port']} can be had" in refused["msg"]
    nobody = call("clock_answers", **{**instance, "user": "there-is-no-such"})
    assert nobody["msg"] == "wrong use: user=there-is-no-such: there is no such account"


def test_a_head_that_does_not_answer_is_trouble(call: Caller) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        asked = call("clock_offset", address="127.0.0.1", port=port, questions=2, name="c1")
    assert asked["clock"] == {"host": "c1", "offset": None, "error": None, "answers": 0}
    assert asked["trouble"].startswith(f"host c1: the head does not answer at 127.0.0.1:{port}/udp, ")
