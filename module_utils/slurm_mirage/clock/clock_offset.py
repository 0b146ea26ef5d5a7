"""Measures the offset between the clocks of two hosts over UDP.

`programs.clock_answers` is the server. It keeps no state, and an answer is as long as its question, so that a forged sender address
cannot be used to amplify traffic.

The client's clock shows t0 when it sends a question and t2 when it receives the answer; the server's clock shows t1 in between.
The client is then ahead by (t0 + t2) / 2 - t1, with an error of at most (t2 - t0) / 2, however the time was divided between the
question and the answer. Of many questions, the one with the shortest round trip has the smallest error.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from dataclasses import dataclass

FORMAT = struct.Struct("!8s16sQ")
"""Layout of a packet: QUESTION or ANSWER, a random number of the question, the time (ns since the epoch; 0 in a question)."""
QUESTION, ANSWER = b"mirage?\n", b"mirage!\n"  # different, so that two servers cannot be made to answer each other for ever
QUESTIONS = 20
PAUSE = 0.01  # seconds between questions, so that one delay does not affect all of them
ANSWER_TIMEOUT = 0.5  # seconds
MAX_UNANSWERED = 10  # unanswered questions after which the measurement is given up


@dataclass(frozen=True)
class Offset:
    """A measured clock offset.

    seconds: how far this clock is ahead of the other one (negative: behind); error: bound of the measurement's error in seconds;
    answers: number of questions that were answered
    """

    seconds: float
    error: float
    answers: int


def answer_to(question: bytes, now_ns: int) -> bytes | None:
    """Return the answer to the packet `question` at the time `now_ns` (ns since the epoch); None when it is not a question."""
    if len(question) != FORMAT.size:
        return None
    kind, number, rest = FORMAT.unpack(question)
    return FORMAT.pack(ANSWER, number, now_ns) if kind == QUESTION and rest == 0 else None


def answer_time(answer: bytes, number: bytes) -> int | None:
    """Return the time (ns since the epoch) in the packet `answer`; None when it does not answer the question with this number."""
    if len(answer) != FORMAT.size:
        return None
    kind, answered_number, now_ns = FORMAT.unpack(answer)
    return int(now_ns) if kind == ANSWER and answered_number == number else None


def listen(address: str, port: int, ports: int) -> socket.socket:
    """Return a UDP socket bound to the first free port of `address`, of `ports` ports from `port` on.

    Raises RuntimeError when none is free.
    """
    for candidate in range(port, port + ports):
        server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            server.bind((address, candidate))
            return server
        except OSError as error:
            server.close()
            reason = error.strerror
    raise RuntimeError(f"no UDP port from {port} to {port + ports - 1} of {address} is free: {reason}")


def serve(server: socket.socket, seconds: float) -> None:
    """Answer questions on the socket `server` for `seconds` seconds."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        server.settimeout(left)
        try:
            question, client = server.recvfrom(FORMAT.size + 1)
            answer = answer_to(question, time.time_ns())
            if answer is not None:
                server.sendto(answer, client)
        except OSError:  # the time is over, or the client cannot be reached
            continue


def ask(client: socket.socket, address: tuple[str, int]) -> Offset | None:
    """Ask the server at `address` one question; None when no answer arrives in ANSWER_TIMEOUT seconds. Raises OSError."""
    number = os.urandom(16)
    deadline = time.monotonic() + ANSWER_TIMEOUT
    before = time.time_ns()
    client.sendto(FORMAT.pack(QUESTION, number, 0), address)
    while (left := deadline - time.monotonic()) > 0:
        client.settimeout(left)
        try:
            answer = client.recv(FORMAT.size + 1)
        except socket.timeout:  # in Python 3.9 it is not a TimeoutError
            return None
        after = time.time_ns()
        server_time = answer_time(answer, number)
        if server_time is not None:
            # Differences of integers: a float cannot hold the sum of two instants in nanoseconds.
            return Offset(((before - server_time) + (after - server_time)) / 2e9, (after - before) / 2e9, 1)
    return None


def measure(host: str, port: int, questions: int = QUESTIONS) -> Offset | None:
    """Ask `questions` questions and return the offset with the smallest error; None when none is answered.

    Raises OSError when the host cannot be reached.
    """
    offsets: list[Offset] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        for number in range(questions):
            offset = ask(client, (host, port))
            if offset is not None:
                offsets.append(offset)
            elif not offsets and number + 1 >= MAX_UNANSWERED:
                return None
            time.sleep(PAUSE)
    if not offsets:
        return None
    best = min(offsets, key=lambda offset: offset.error)
    return Offset(best.seconds, best.error, len(offsets))


def least_difference(offset: Offset) -> float:
    """Return the seconds by which the two clocks differ at least, given the measurement's error."""
    return max(abs(offset.seconds) - offset.error, 0.0)


def clock_problem(offset: Offset | None, bound: float, host: str, server: str, reason: str = "") -> str:
    """Return one line that says why the clock of `host` cannot be used and what to do; empty when it agrees within `bound` seconds.

    offset: result of `measure`; server: ADDRESS:PORT of the server; reason: why the server could not be reached
    """
    if offset is None:
        why = f" ({reason})" if reason else ""
        return (
            f"host {host}: the head does not answer at {server}/udp{why}, so the offset between their clocks is unknown: "
            "let the hosts of the cluster reach each other at the instance's ports, by TCP and UDP (docs/clusters.md)"
        )
    if least_difference(offset) <= bound:
        return ""
    return (
        f"host {host}: its clock is {_seconds(abs(offset.seconds))} {'ahead of' if offset.seconds > 0 else 'behind'} the head's "
        f"(to within {_seconds(offset.error)}), and {_seconds(bound)} is allowed: have both keep time by NTP "
        "(apt-get install chrony; chronyc makestep sets it at once), or raise clock_agreement_bound"
    )


def _seconds(value: float) -> str:
    """Format seconds with three significant digits, from 1000 s on as whole seconds."""
    return f"{value:.0f} s" if value >= 1000 else f"{value:.3g} s"
