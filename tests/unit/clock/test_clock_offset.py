"""Measuring clock offsets between hosts, with a real server and client over UDP on this machine."""

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
from copies import left_out
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
def server_port() -> Iterator[int]:
    """UDP port of a running clock server."""
    command = [sys.executable, "-m", "slurm_mirage.programs.clock_answers", "127.0.0.1", str(free_port()), "50", "600"]
    environment = dict(os.environ)
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as program:
        assert program.stdout is not None
        yield int(program.stdout.readline())
        program.terminate()


# ---- packets ----


def test_an_answer_has_the_number_of_its_question_and_the_time() -> None:
    answer = clock_offset.answer_to(FORMAT.pack(QUESTION, NUMBER, 0), 1_800_000_000_123_456_789)
    assert answer is not None and len(answer) == FORMAT.size
    assert clock_offset.answer_time(answer, NUMBER) == 1_800_000_000_123_456_789
    assert clock_offset.answer_time(answer, NUMBER[::-1]) is None


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
def test_a_packet_that_is_not_a_question_gets_no_answer(packet: bytes) -> None:
    assert clock_offset.answer_to(packet, 1) is None


@given(st.binary(max_size=40))
def test_random_bytes_are_neither_question_nor_answer(packet: bytes) -> None:
    assert clock_offset.answer_to(packet, 1) is None
    assert clock_offset.answer_time(packet, NUMBER) is None


# ---- measuring ----


def test_a_clock_agrees_with_itself(server_port: int) -> None:
    """The error bound of the measurement covers the measured offset, however slow this machine is."""
    offset = clock_offset.measure("127.0.0.1", server_port)
    assert offset is not None and offset.answers > 0
    assert clock_offset.least_difference(offset) == 0.0


def test_the_server_ignores_malformed_packets(server_port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as noise:
        for packet in (b"", b"x" * 60_000, FORMAT.pack(ANSWER, NUMBER, 7)):
            noise.sendto(packet, ("127.0.0.1", server_port))
        noise.setblocking(False)
        assert clock_offset.measure("127.0.0.1", server_port) is not None
        with pytest.raises(BlockingIOError):
            noise.recv(100)


def test_measure_returns_none_without_an_answer() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        assert clock_offset.measure("127.0.0.1", silent.getsockname()[1], questions=2) is None


def test_an_answer_to_another_question_is_ignored() -> None:
    """The answer is forged by a program that has not seen the question."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.bind(("127.0.0.1", 0))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as forger:
            forger.bind(("127.0.0.1", 0))
            forger.sendto(FORMAT.pack(ANSWER, NUMBER, 0), client.getsockname())
            assert clock_offset.ask(client, forger.getsockname()) is None


def test_listen_uses_the_first_free_port() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("", 0))
        taken = other.getsockname()[1]
        with clock_offset.listen("127.0.0.1", taken, 50) as server:
            assert taken < server.getsockname()[1] < taken + 50
            assert server.getsockname()[0] == "127.0.0.1", "no other address of the host"
        with pytest.raises(RuntimeError, match=f"no UDP port from {taken} to {taken} of 127.0.0.1 is free"):
            clock_offset.listen("127.0.0.1", taken, 1)


# ---- the check against a bound ----


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
def test_an_offset_within_the_bound_plus_its_error_is_no_problem(offset: Offset, agrees: bool) -> None:
    assert (clock_offset.clock_problem(offset, 0.02, "c1", "192.0.2.1:17000") == "") is agrees


def test_a_problem_is_one_line_that_says_what_to_do() -> None:
    ahead = clock_offset.clock_problem(Offset(3.0004, 0.00021, 20), 0.02, "c1", "192.0.2.1:17000")
    assert ahead.startswith("host c1: its clock is 3 s ahead of the head's (to within 0.00021 s), and 0.02 s is allowed: ")
    assert "chrony" in ahead and "\n" not in ahead
    assert " behind the head's " in clock_offset.clock_problem(Offset(-12345.6, 0.1, 20), 0.02, "c1", "")
    silent = clock_offset.clock_problem(None, 0.02, "c1", "192.0.2.1:17000", "No route to host")
    assert silent.startswith("host c1: the head does not answer at 192.0.2.1:17000/udp (No route to host), ")


# ---- the modules ----


@pytest.fixture
def instance() -> Iterator[dict[str, Any]]:
    """Parameters of clock_answers for an instance's directory. pytest's tmp_path cannot be used: USER may not enter it."""
    directory = Path("/tmp", f"clock-answers-test-{os.getpid()}-{time.monotonic_ns()}")
    for name in ("run", "lib"):
        (directory / name).mkdir(parents=True)
    directory.chmod(0o755)
    if os.getuid() == 0:
        shutil.chown(directory / "run", USER)
    shutil.copytree(ROOT / "module_utils/slurm_mirage", directory / "lib/slurm_mirage", ignore=left_out)
    yield {"directory": str(directory), "user": USER, "address": "127.0.0.1", "port": free_port(), "ports": 50}
    processes.end(processes.of_instance(str(directory)), 10)
    shutil.rmtree(directory)


def test_the_modules_start_ask_and_stop_a_server(call: Caller, instance: dict[str, Any]) -> None:
    directory = instance["directory"]
    started = call("clock_answers", **instance)
    assert (started["changed"], started["port"]) == (False, instance["port"])
    servers = processes.of_instance(directory)
    assert [Path(f"/proc/{pid}").stat().st_uid for pid in servers] == [pwd.getpwnam(USER).pw_uid]
    measured = call("clock_offset", address="127.0.0.1", port=started["port"], name="c1")
    assert (measured["changed"], measured["clock"]["host"], measured["trouble"]) == (False, "c1", "")
    assert abs(measured["clock"]["offset"]) <= measured["clock"]["error"]
    assert call("clock_answers", **instance)["port"] == instance["port"], "the server of an earlier call is stopped first"
    assert processes.of_instance(directory).keys().isdisjoint(servers)
    assert call("clock_answers", directory=directory, state="stopped")["port"] == 0
    assert processes.of_instance(directory) == {}


def test_check_mode_starts_no_server(call: Caller, instance: dict[str, Any]) -> None:
    assert call("clock_answers", check=True, **instance)["port"] == 0
    assert processes.of_instance(instance["directory"]) == {}


def test_the_error_says_why_the_server_does_not_start(call: Caller, instance: dict[str, Any]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("", instance["port"]))
        refused = call("clock_answers", **{**instance, "ports": 1})
    assert f"no UDP port from {instance['port']} to {instance['port']} of 127.0.0.1 is free" in refused["msg"]
    nobody = call("clock_answers", **{**instance, "user": "there-is-no-such"})
    assert nobody["msg"] == "wrong use: user=there-is-no-such: there is no such account"


def test_a_head_that_does_not_answer_is_reported(call: Caller) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        measured = call("clock_offset", address="127.0.0.1", port=port, questions=2, name="c1")
    assert measured["clock"] == {"host": "c1", "offset": None, "error": None, "answers": 0}
    assert measured["trouble"].startswith(f"host c1: the head does not answer at 127.0.0.1:{port}/udp, ")
