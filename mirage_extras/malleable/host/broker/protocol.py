"""The lines that malleable jobs and the broker send each other (mirage_extras/malleable/README.md).

A request is one line of ASCII of at most LONGEST bytes. The number of nodes in an answer is what the job has got.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Union

LONGEST = 4096
"""Bytes of a request, with its end of line."""
PREFIX = ("mirage", "1")
LARGEST = 1_000_000
"""No number of nodes and no factor is larger."""
LARGEST_ID = 2**32 - 1


class BadRequest(Exception):
    """A line that is not a request. The message is one line."""


@dataclass(frozen=True)
class Check:
    """A job at a point at which it may change its size."""

    job: int
    present: int
    minimum: int
    maximum: int
    factor: int
    preferred: int
    """0: none."""
    is_async: bool = False
    """Whether to act upon the decision of the last point (`icheck`)."""

    @property
    def mode(self) -> str:
        """The word of the request."""
        return "icheck" if self.is_async else "check"


@dataclass(frozen=True)
class Ready:
    """A job that is to shrink to `to` nodes has ended its work on the others."""

    job: int
    to: int


@dataclass(frozen=True)
class Resumed:
    """A job works again after a change of size, which cost it `seconds`."""

    job: int
    seconds: float


Request = Union[Check, Ready, Resumed]


def parse(line: bytes) -> Request:
    """A request without its end of line. Raises BadRequest."""
    try:
        words = line.decode("ascii").split()
    except UnicodeDecodeError:
        raise BadRequest("the request is not ASCII text") from None
    if tuple(words[:2]) != PREFIX:
        raise BadRequest("a request begins with: mirage 1")
    kind, arguments = (words[2], words[3:]) if len(words) > 2 else ("", [])
    if kind not in _FORMS:
        raise BadRequest(f"a request is one of {', '.join(_FORMS)}")
    names, build = _FORMS[kind]
    if len(arguments) != len(names):
        raise BadRequest(f"the request is: mirage 1 {kind} {' '.join(names)}")
    return build(arguments)


def _check(arguments: Sequence[str], is_async: bool = False) -> Check:
    job, present, minimum, maximum = _job(arguments[0]), *(_size(text) for text in arguments[1:4])
    factor, preferred = _size(arguments[4]), _size(arguments[5], least=0)
    if minimum > maximum:
        raise BadRequest(f"the minimum {minimum} is above the maximum {maximum}")
    if factor < 2:
        raise BadRequest("the factor has to be 2 or more")
    if preferred and not minimum <= preferred <= maximum:
        raise BadRequest(f"the preferred size {preferred} is not within {minimum} to {maximum}")
    return Check(job, present, minimum, maximum, factor, preferred, is_async)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e9:
        raise BadRequest(f"'{text}' is not a number of seconds")
    return value


def _job(text: str) -> int:
    return _number(text, 1, LARGEST_ID, "job id")


def _size(text: str, least: int = 1) -> int:
    return _number(text, least, LARGEST, "number of nodes, or factor")


def _number(text: str, least: int, most: int, what: str) -> int:
    if not (text.isdecimal() and len(text) <= 10 and least <= int(text) <= most):
        raise BadRequest(f"'{text}' is not a {what}")
    return int(text)


_CHECK_NAMES = ("JOB", "PRESENT", "MIN", "MAX", "FACTOR", "PREFERRED")
_FORMS: Mapping[str, tuple[Sequence[str], Callable[[Sequence[str]], Request]]] = {
    "check": (_CHECK_NAMES, _check),
    "icheck": (_CHECK_NAMES, lambda arguments: _check(arguments, is_async=True)),
    "ready": (("JOB", "TO"), lambda arguments: Ready(_job(arguments[0]), _size(arguments[1]))),
    "resumed": (("JOB", "SECONDS"), lambda arguments: Resumed(_job(arguments[0]), _seconds(arguments[1]))),
}


# ---- answers ----


def none(nodes: int, reason: str = "") -> str:
    """The job keeps its size."""
    return f"none {nodes} {reason}".rstrip()


def expanded(nodes: int, names: Sequence[str]) -> str:
    """The job has these nodes now."""
    return f"expanded {nodes} {','.join(names)}"


def shrink(nodes: int, names: Sequence[str]) -> str:
    """The job is to end its work on all nodes but these, and to say `ready`."""
    return f"shrink {nodes} {','.join(names)}"


def shrunk(nodes: int, names: Sequence[str]) -> str:
    """The job has only these nodes now."""
    return f"shrunk {nodes} {','.join(names)}"


def aborted(nodes: int, reason: str) -> str:
    """What was decided could not be done; the job keeps its size."""
    return f"aborted {nodes} {_one_line(reason)}"


def refused(reason: str) -> str:
    """The request is wrong."""
    return f"refused {_one_line(reason)}"


def _one_line(text: str) -> str:
    return " ".join(text.split())
