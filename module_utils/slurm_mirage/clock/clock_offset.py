"""How far this host's clock is from that of another one, which answers questions over UDP.

`programs.clock_answers` is the program that answers. It keeps nothing of a question, and an answer is as long as the question:
whoever asks under another's address sends that other one no more than he could send himself.

Let the clock here show t0 when a question is sent and t2 when its answer comes, and the other one t1 in between. Then this clock
is ahead by (t0 + t2) / 2 - t1, wrong by (t2 - t0) / 2 at most, whatever share of the way was there and back. So of many questions
the one that was answered in the shortest time says most.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from dataclasses import dataclass

FORMAT = struct.Struct("!8s16sQ")
"""What it is, a number drawn for this question, the time (ns since the epoch; of a question 0)."""
QUESTION, ANSWER = b"mirage?\n", b"mirage!\n"  # different, so that no two programs can be made to answer each other for ever
QUESTIONS = 20
PAUSE = 0.01  # seconds between questions: whatever held up one of them shall not hold up all
PATIENCE = 0.5  # seconds for an answer
UNANSWERED = 10  # questions without any answer, after which nobody is there


@dataclass(frozen=True)
class Offset:
    """Seconds by which this clock is ahead of the other one (below 0: behind), and by which that may be wrong; and how many of
    the questions were answered."""

    seconds: float
    error: float
    answers: int


def answer_to(question: bytes, now_ns: int) -> bytes | None:
    """The answer at `now_ns`; None to what is no question."""
    if len(question) != FORMAT.size:
        return None
    kind, number, rest = FORMAT.unpack(question)
    return FORMAT.pack(ANSWER, number, now_ns) if kind == QUESTION and rest == 0 else None


def time_in(answer: bytes, number: bytes) -> int | None:
    """The time (ns) in the answer to the question of that number; None if it is something else."""
    if len(answer) != FORMAT.size:
        return None
    kind, of, now_ns = FORMAT.unpack(answer)
    return int(now_ns) if kind == ANSWER and of == number else None


def listen(port: int, ports: int) -> socket.socket:
    """A socket at the first free one of the ports. On every address: the others know this host by whatever reaches it."""
    for candidate in range(port, port + ports):
        answering = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            answering.bind(("", candidate))
            return answering
        except OSError as error:
            answering.close()
            reason = error.strerror
    raise RuntimeError(f"no UDP port from {port} to {port + ports - 1} can be had: {reason}")


def serve(answering: socket.socket, seconds: float) -> None:
    """Answer what comes, for so long."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        answering.settimeout(left)
        try:
            question, asker = answering.recvfrom(FORMAT.size + 1)
            answer = answer_to(question, time.time_ns())
            if answer is not None:
                answering.sendto(answer, asker)
        except OSError:  # nothing came any more, or the asker cannot be reached: that is his business
            continue


def ask(asking: socket.socket, address: tuple[str, int]) -> Offset | None:
    """One question; None if it is not answered in time."""
    number = os.urandom(16)
    deadline = time.monotonic() + PATIENCE
    before = time.time_ns()
    asking.sendto(FORMAT.pack(QUESTION, number, 0), address)
    while (left := deadline - time.monotonic()) > 0:
        asking.settimeout(left)
        try:
            answer = asking.recv(FORMAT.size + 1)
        except socket.timeout:  # of Python 3.9 it is no TimeoutError
            return None
        after = time.time_ns()
        there = time_in(answer, number)
        if there is not None:
            # Halves of whole nanoseconds: the sum of two instants would not fit a float.
            return Offset(((before - there) + (after - there)) / 2e9, (after - before) / 2e9, 1)
    return None


def measure(host: str, port: int, questions: int = QUESTIONS) -> Offset | None:
    """The most exact of some questions; None if nobody answers. OSError where there is no way to the host."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for asked in range(questions):
            offset = ask(asking, (host, port))
            if offset is not None:
                found.append(offset)
            elif not found and asked + 1 >= UNANSWERED:
                return None
            time.sleep(PAUSE)
    if not found:
        return None
    best = min(found, key=lambda offset: offset.error)
    return Offset(best.seconds, best.error, len(found))


def beyond(offset: Offset) -> float:
    """Seconds by which the clocks differ at least."""
    return max(abs(offset.seconds) - offset.error, 0.0)


def trouble(offset: Offset | None, bound: float, host: str, asked: str, reason: str = "") -> str:
    """Why the clock of `host` cannot be worked with, and what to do, in a line; empty if it agrees to within `bound` seconds.

    offset: what `measure` found; asked: address and port of the one that should answer; reason: why it could not be asked
    """
    if offset is None:
        why = f" ({reason})" if reason else ""
        return (
            f"host {host}: the head does not answer at {asked}/udp{why}, so nobody knows how far their clocks are apart: "
            "let the hosts of the cluster reach each other at the instance's ports, by TCP and UDP (docs/clusters.md, firewalls)"
        )
    if beyond(offset) <= bound:
        return ""
    return (
        f"host {host}: its clock is {_seconds(abs(offset.seconds))} {'ahead of' if offset.seconds > 0 else 'behind'} the head's "
        f"(to within {_seconds(offset.error)}), and {_seconds(bound)} is allowed: have both keep time by NTP "
        "(apt-get install chrony; chronyc makestep sets it at once), or raise clock_agreement_bound"
    )


def _seconds(value: float) -> str:
    """Three digits, but whole seconds where it is many."""
    return f"{value:.0f} s" if value >= 1000 else f"{value:.3g} s"
