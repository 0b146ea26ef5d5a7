"""Expands and compresses Slurm host lists such as n[1-3,7],fat2."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_PART = re.compile(r"(?P<prefix>[^\[\],]+)(\[(?P<ranges>[\d,-]+)\])?(,|\Z)")
_NAME = re.compile(r"(?P<prefix>.*?)(?P<number>0|[1-9]\d*)?\Z", re.DOTALL)


def expand(text: str) -> list[str]:
    """Return the names in the host list `text`, in its order.

    Ranges may have leading zeros (n[08-11]). Raises ValueError when `text` is not a host list.
    """
    names: list[str] = []
    position = 0
    while position < len(text):
        part = _PART.match(text, position)
        if part is None:
            raise ValueError(f"{text!r} is not a host list")
        names += [part["prefix"] + number for number in _numbers(part["ranges"])] if part["ranges"] else [part["prefix"]]
        position = part.end()
    return names


def _numbers(ranges: str) -> Iterator[str]:
    for item in ranges.split(","):
        first, _, last = item.partition("-")
        yield from (str(number).zfill(len(first)) for number in range(int(first), int(last or first) + 1))


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
