"""Reads JSON that other users may have written: of bounded size and depth, and of the expected shape.

It refuses NaN and Infinity, numbers beyond +-LARGEST, an object with two members of the same name, text that is not valid Unicode,
and values that do not have the shape that the caller declares. A shape is one of the classes below, or several of them, nested:

    Object({"event": Text(words=("ended", "halted")), "index": COUNT, "real": INSTANT, "since": Maybe(INSTANT)})

An object may have members that its shape does not name; they are read without a check. A bool is not a number.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from .errors import WrongUse
from .printing import one_line

LARGEST = 2.0**64
"""The largest number that is accepted; the smallest one is -LARGEST."""
LONGEST = 256 << 20
"""Bytes of a file at most."""
DEEPEST = 32
"""Largest depth of nested objects and lists."""
_DIGITS = 25  # of a whole number at most: reading thousands of them would take long
_SHOWN = 40  # characters of a value in a message
_LONGEST_NAME = 255  # NAME_MAX of Linux


class NotStrict(ValueError):
    """The text is not JSON of the expected shape. The message is one line: the place and what is wrong."""


class Damaged(WrongUse):
    """A file is not JSON of the expected shape. The message is one line: the file, the place and what is wrong."""

    def module_message(self) -> str:
        """The message of an Ansible module, without `wrong use:`: no parameter is wrong, and a run may have begun."""
        return str(self)


# ---- shapes ----


class Shape(Protocol):
    """What a value may be."""

    def fault(self, value: Any, place: str) -> str:
        """What is wrong with the value at a place (`member.list[3]`), which the text names; empty if nothing is."""


def _refusal(value: Any, place: str, may_be: str) -> str:
    shown = one_line(repr(value))
    shown = shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 3]}..."
    return f"{place or 'it'} may be {may_be}, not {shown}"


@dataclass(frozen=True)
class Anything:
    """Any JSON."""

    def fault(self, value: Any, place: str) -> str:
        return ""


@dataclass(frozen=True)
class Number:
    """A number from `least` to `most`; with `whole` one without a fraction."""

    least: float = -LARGEST
    most: float = LARGEST
    whole: bool = False

    def fault(self, value: Any, place: str) -> str:
        kinds = int if self.whole else (int, float)
        if isinstance(value, kinds) and not isinstance(value, bool) and self.least <= value <= self.most:
            return ""
        kind = "a whole number" if self.whole else "a number"
        return _refusal(value, place, f"{kind} from {self.least:.10g} to {self.most:.10g}")


@dataclass(frozen=True)
class Text:
    """A text of at most `longest` characters; with `words` one of these."""

    longest: int = 1 << 20
    words: tuple[str, ...] = ()

    def fault(self, value: Any, place: str) -> str:
        if isinstance(value, str) and len(value) <= self.longest and (not self.words or value in self.words):
            return ""
        return _refusal(value, place, " or ".join(self.words) if self.words else f"a text of up to {self.longest} characters")


@dataclass(frozen=True)
class Name:
    """The name of a file or a folder in another folder, which the text alone does not leave."""

    def fault(self, value: Any, place: str) -> str:
        is_name = isinstance(value, str) and 0 < len(value) <= _LONGEST_NAME and not set("/\0") & set(value)
        return "" if is_name and value not in (".", "..") else _refusal(value, place, "a name without /")


@dataclass(frozen=True)
class Flag:
    """true or false."""

    def fault(self, value: Any, place: str) -> str:
        return "" if isinstance(value, bool) else _refusal(value, place, "true or false")


@dataclass(frozen=True)
class Maybe:
    """A value that may be null; a member with it may be missing."""

    of: Shape

    def fault(self, value: Any, place: str) -> str:
        return "" if value is None else self.of.fault(value, place)


@dataclass(frozen=True)
class IfThere:
    """A member that may be missing, but is never null."""

    of: Shape

    def fault(self, value: Any, place: str) -> str:
        return self.of.fault(value, place)


@dataclass(frozen=True)
class OrNull:
    """A value that may be null; a member with it may not be missing."""

    of: Shape

    def fault(self, value: Any, place: str) -> str:
        return "" if value is None else self.of.fault(value, place)


@dataclass(frozen=True)
class Either:
    """A value of one of several shapes; `words` says which."""

    shapes: tuple[Shape, ...]
    words: str

    def fault(self, value: Any, place: str) -> str:
        return "" if any(not shape.fault(value, place) for shape in self.shapes) else _refusal(value, place, self.words)


@dataclass(frozen=True)
class Each:
    """A list of at most `most` values of one shape."""

    of: Shape
    most: int = 10_000_000

    def fault(self, value: Any, place: str) -> str:
        if not isinstance(value, list) or len(value) > self.most:
            return _refusal(value, place, f"a list of up to {self.most} values")
        faults = (self.of.fault(one, f"{place}[{number}]") for number, one in enumerate(value))
        return next(filter(None, faults), "")


@dataclass(frozen=True)
class Row:
    """A list with a value of each of these shapes."""

    of: tuple[Shape, ...]

    def fault(self, value: Any, place: str) -> str:
        if not isinstance(value, list) or len(value) != len(self.of):
            return _refusal(value, place, f"a list of {len(self.of)} values")
        faults = (shape.fault(one, f"{place}[{number}]") for number, (shape, one) in enumerate(zip(self.of, value)))
        return next(filter(None, faults), "")


@dataclass(frozen=True)
class Named:
    """An object whose members, of any names, have one shape; those that are `needed` may not be missing."""

    of: Shape
    needed: tuple[str, ...] = ()

    def fault(self, value: Any, place: str) -> str:
        if not isinstance(value, dict):
            return _refusal(value, place, "an object")
        if missing := [name for name in self.needed if name not in value]:
            return f"{_member(place, missing[0])} is missing"
        faults = (self.of.fault(one, _member(place, name)) for name, one in value.items())
        return next(filter(None, faults), "")


@dataclass(frozen=True)
class Object:
    """An object with these members, of which only those with the shape `Maybe` or `IfThere` may be missing."""

    members: Mapping[str, Shape]

    def fault(self, value: Any, place: str) -> str:
        if not isinstance(value, dict):
            return _refusal(value, place, "an object")
        for name, shape in self.members.items():
            if name in value:
                if fault := shape.fault(value[name], _member(place, name)):
                    return fault
            elif not isinstance(shape, (Maybe, IfThere)):
                return f"{_member(place, name)} is missing"
        return ""


def _member(place: str, name: str) -> str:
    return one_line(f"{place}.{name}" if place else name)[:200]


ANYTHING = Anything()
OBJECT = Object({})
COUNT = Number(0, 2**62, whole=True)
"""A number of things, an id or an index."""
INSTANT = Number(0, 9_000_000_000)
"""Seconds since the epoch, up to the year 2255: in nanoseconds it fits into 64 bits."""
LENGTH = Number(0, 9_000_000_000)
"""Seconds, real or virtual."""
TEXT = Text()
FLAG = Flag()


def without_null(members: Mapping[str, Any]) -> dict[str, Any]:
    """The members that are not null. The shape `Maybe` does not distinguish null from a missing member."""
    return {name: value for name, value in members.items() if value is not None}


# ---- reading ----


def parse(text: str | bytes, shape: Shape = ANYTHING) -> Any:
    """The value in a text, or in bytes of UTF-8. Raises NotStrict."""
    try:
        if isinstance(text, bytes):
            text = text.decode()
        value = json.loads(text, parse_int=_whole, parse_float=_number, parse_constant=_refuse_constant, object_pairs_hook=_unique)
    except UnicodeDecodeError as error:
        raise NotStrict(f"is not UTF-8 text at byte {error.start}") from error
    except NotStrict:
        raise
    except RecursionError as error:
        raise NotStrict(f"has more than {DEEPEST} nested objects and lists") from error
    except ValueError as error:
        raise NotStrict(one_line(f"is not JSON: {error}")) from error
    if text.count("[") + text.count("{") > DEEPEST and _depth(value) > DEEPEST:
        raise NotStrict(f"has more than {DEEPEST} nested objects and lists")
    if "\\ud" in text.lower() and not _is_unicode(value):
        raise NotStrict("has a text that is not Unicode")
    if fault := shape.fault(value, ""):
        raise NotStrict(fault)
    return value


def read(path: Path, shape: Shape = ANYTHING, longest: int = LONGEST) -> Any:
    """The value in a file of at most `longest` bytes. Raises FileNotFoundError, and Damaged for any other that cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Damaged(f"{path}: is not a regular file")
            text = stream.read(longest + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Damaged(f"{path}: cannot be read ({error.strerror})") from error
    if len(text) > longest:
        raise Damaged(f"{path}: is larger than {longest} bytes")
    try:
        return parse(text, shape)
    except NotStrict as error:
        raise Damaged(f"{path}: {error}") from error


def _whole(digits: str) -> int:
    if len(digits) > _DIGITS or abs(value := int(digits)) > LARGEST:
        raise NotStrict(f"has the number {digits[:_SHOWN]}, which is too large")
    return value


def _number(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value) or abs(value) > LARGEST:
        raise NotStrict(f"has the number {digits[:_SHOWN]}, which is too large")
    return value


def _refuse_constant(name: str) -> float:
    raise NotStrict(f"has the number {name}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names: set[str] = set()
        twice = next(name for name, _ in pairs if name in names or names.add(name))  # type: ignore[func-returns-value]
        raise NotStrict(one_line(f"has two members {twice[:_SHOWN]!r} in one object"))
    return members


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level := [one for one in level if isinstance(one, (dict, list))]:
        depth += 1
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
    return depth


def _is_unicode(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True
