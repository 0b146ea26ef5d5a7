"""Expands and compresses Slurm host lists such as n[1-3,7],rack[1-2]-n[01-16],fat2."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator

MOST_NAMES = 1 << 16
"""Names in a host list: Slurm's own bound of a range (MAX_RANGE in its hostlist.c), and of the nodes of a cluster."""

LONGEST_NAME = 255
"""Characters of a name; Linux's own bound of a host name is 64."""

LONGEST_LIST = 1 << 18
"""Characters of a host list: enough for MOST_NAMES / 2 numbers of five digits, separated by commas."""

# A name, or several that differ in the numbers between brackets: n1, n[1-3,7], rack[1-2]-n[01-16]-ib.
_PART = re.compile(r"(?P<pattern>([^\[\],\s]|\[\d+(-\d+)?(,\d+(-\d+)?)*\])+)(,|\Z)")
_PIECE = re.compile(r"\[([\d,-]+)\]|([^\[\]]+)")
_NAME = re.compile(r"(?P<prefix>.*?)(?P<number>0|[1-9]\d*)?\Z", re.DOTALL)


class NotHostList(ValueError):
    """The text is not a host list that can be used. reason: what is wrong, without the text, which the message quotes"""

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(f"{_beginning(text)} {reason}")
        self.reason = reason


def expand(text: str) -> list[str]:
    """Return the names in the host list `text`, in its order.

    Ranges may have leading zeros (n[08-11]), and a name may have several of them (rack[1-2]-n[1-16]): the last one counts first.
    Raises NotHostList when `text` is not a host list, or stands for more than MOST_NAMES names.
    """
    if (names_there := count(text)) > MOST_NAMES:
        raise NotHostList(text, f"has {names_there} names, at most {MOST_NAMES} are possible in Slurm")
    names: list[str] = []
    position = 0
    while position < len(text):
        part = _PART.match(text, position)
        if part is None:
            raise NotHostList(text, "is not a host list")
        pieces = [_ranges(ranges) if ranges else [(plain, plain)] for ranges, plain in _PIECE.findall(part["pattern"])]
        names += map("".join, itertools.product(*(list(_texts(piece)) for piece in pieces)))
        position = part.end()
    return names


def count(text: str) -> int:
    """Return the number of names in the host list `text`, without expanding it; text without a range counts as one name.

    Raises NotHostList for a name of more than LONGEST_NAME characters, and for a list of more than LONGEST_LIST.
    """
    if len(text) > LONGEST_LIST:
        raise NotHostList(text, f"is longer than {LONGEST_LIST} characters")
    total = 0
    for part in re.findall(r"(?:\[[^\[\]]*\]|[^,\[])+", text):
        brackets = [ranges.split(",") for ranges in re.findall(r"\[([^\[\]]*)\]", part)]
        characters = len(re.sub(r"\[[^\[\]]*\]", "", part))
        characters += sum(max(len(end) for item in items for end in item.split("-")) for items in brackets)
        if characters > LONGEST_NAME:
            raise NotHostList(text, f"has a name of more than {LONGEST_NAME} characters")
        total += math.prod(sum(_length(item) for item in items) for items in brackets)
    return total


def _length(item: str) -> int:
    """Number of names in one range (`7`, `1-3`); 1 for any other text."""
    first, _, last = item.partition("-")
    return max(0, int(last) - int(first) + 1) if first.isdecimal() and last.isdecimal() else 1


def _beginning(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


def _ranges(text: str) -> list[tuple[str, str]]:
    """First and last number of each range between brackets, as written."""
    ranges = [(first, last or first) for first, _, last in (item.partition("-") for item in text.split(","))]
    if any(int(first) > int(last) for first, last in ranges):
        raise NotHostList(f"[{text}]", "has a range that ends before it begins")
    return ranges


def _texts(ranges: list[tuple[str, str]]) -> Iterator[str]:
    for first, last in ranges:
        if first == last:
            yield first
        else:
            yield from (str(number).zfill(len(first)) for number in range(int(first), int(last) + 1))


def place(name: str) -> tuple[str, int]:
    """Return what node names are sorted by: the text before the number at the end, then that number (-1: none)."""
    match = _NAME.match(name)
    assert match is not None, "the expression matches every text"
    return match["prefix"], -1 if match["number"] is None else int(match["number"])


def compress(names: Iterable[str]) -> str:
    """Return the host list of `names` without duplicates, sorted by prefix and then by number."""
    numbers: dict[str, set[int]] = {}
    plain: set[str] = set()
    for name in names:
        match = _NAME.match(name)
        assert match is not None, "the expression matches every text"
        if match["number"] is None:
            plain.add(name)
        else:
            numbers.setdefault(match["prefix"], set()).add(int(match["number"]))
    parts = [_compress_numbers(prefix, sorted(numbers[prefix])) for prefix in sorted(numbers)]
    return ",".join([*sorted(plain), *parts])


def _compress_numbers(prefix: str, numbers: list[int]) -> str:
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    if len(numbers) == 1:
        return f"{prefix}{numbers[0]}"
    return f"{prefix}[{','.join(f'{a}' if a == b else f'{a}-{b}' for a, b in ranges)}]"
