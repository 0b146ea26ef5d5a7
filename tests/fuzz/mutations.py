"""Mutations of a file's content: of bytes, of lines and of fields."""

from __future__ import annotations

import json
import random
import re
from typing import Any

# Parts that the formats give a meaning, and parts that parsers commonly mishandle.
TOKENS = (
    b"", b" ", b"\t", b"\n", b"\r", b"\r\n", b"\n\n", b"|", b"||", b",", b";", b'"', b"'", b"#", b"\\", b"\\\n", b"=", b"\0",
    b"\x1a", b"\xff", b"\xc2\xa0", b"\xef\xbb\xbf", b"\xd9\xa3", b"-", b"-1", b"+", b".", b"e", b"0", b"1e400", b"0.1", b"nan",
    b"inf", b"NULL", b"9" * 19, b"9" * 40, b"-" + b"9" * 19, b"1" * 5000, b"9007199254740992", b"9223372036854775807",
    b"4294967296", b"65536", b"[", b"]", b"{", b"}", b"[1-99999999]", b"[1-65536]", b"[01-9]", b"[9-1]", b"null", b"true", b"1e308",
    b"-1e308", b"[" * 3000, b"JobID", b"Unknown", b"UNLIMITED", b"?", b"K", b"9999-12-31T23:59:60", b"0001-01-01T00:00:00",
    b"2026-02-30T00:00:00", b"999999999-999999999:59:59", b"CANCELLED+", b"7_[", b"7_[1-100000000%5]", b"cpu=" + b"9" * 20,
    b"Include slurm.conf\n", b"NodeName=", b"NodeSet=s Nodes=s\n", b"PartitionName=DEFAULT ", b"Nodes=ALL", b"Gres=gpu:99999999",
    b"SSLP", b"\x1f\x8b", b"mirage-clock 1", b'{"event": ', b"A" * 300,
)  # fmt: skip

VALUES: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 2**31, 2**63, 10**30, -1e18, 1e308, 0.5, 9e9, float("nan"), float("inf"), "", "x", "2026", "1e9",
    "a\nb", "\ud800", [], {}, [1], [[]], ["x"], {"a": 1}, [[1, 2]], [None], {"": None},
)  # fmt: skip
"""What a value of a JSON file is replaced by."""

LARGEST = 1 << 20
"""Bytes of a mutated file: lines that are repeated again and again make it no larger."""

_FIELD = re.compile(rb"[^ ,|=:\n]+")


def mutated(content: bytes, chance: random.Random) -> bytes:
    """The content with one to six mutations; of half of the JSON files one value is replaced, and they stay JSON."""
    if content[:1] in (b"{", b"[") and chance.randrange(2):
        return _value(content, chance)
    for _ in range(chance.randint(1, 6)):
        content = chance.choice((_bytes, _bytes, _field, _field, _lines))(content, chance)[:LARGEST]
    return content


def _value(content: bytes, chance: random.Random) -> bytes:
    """A value of a JSON file, or of one of its lines, is replaced by one of another kind or size, or its member is removed."""
    lines = content.split(b"\n")
    try:
        place, found = 0, json.loads(content)
        lines = [content]
    except ValueError:
        place = chance.randrange(len(lines) - 1)
        found = json.loads(lines[place])
    places: list[tuple[Any, Any]] = []
    rest: list[Any] = [found]
    while rest:
        one = rest.pop()
        members = one.items() if isinstance(one, dict) else enumerate(one) if isinstance(one, list) else ()
        for name, value in members:
            places.append((one, name))
            rest.append(value)
    if places:
        holder, name = chance.choice(places)
        if chance.randrange(8):
            holder[name] = chance.choice(VALUES)
        else:
            del holder[name]
    lines[place] = json.dumps(found).encode()
    return b"\n".join(lines)


def _bytes(content: bytes, chance: random.Random) -> bytes:
    """A stretch is removed, repeated, or replaced by a token or by random bytes."""
    start = chance.randint(0, len(content))
    end = min(len(content), start + chance.choice((0, 1, 1, 2, 4, 8, 50, 500)))
    old = content[start:end]
    new = chance.choice((b"", old * 2, old * 20, chance.choice(TOKENS), chance.randbytes(chance.randint(1, 8))))
    return content[:start] + new + content[end:]


def _field(content: bytes, chance: random.Random) -> bytes:
    """A field is replaced by a token or by another field, or one bit of it is changed."""
    fields = list(_FIELD.finditer(content))
    if not fields:
        return content
    field, other = chance.choice(fields), chance.choice(fields)
    changed = bytearray(field[0])
    changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    new = chance.choice(
        (chance.choice(TOKENS), chance.choice(TOKENS), other[0], bytes(changed), str(chance.randint(-9, 10**6)).encode())
    )
    return content[: field.start()] + new + content[field.end() :]


def _lines(content: bytes, chance: random.Random) -> bytes:
    """A line is removed, repeated (many times), cut, moved, or joined with the next one."""
    lines = content.splitlines(keepends=True)
    if not lines:
        return content
    place = chance.randrange(len(lines))
    line = lines.pop(place)
    cut = line[: chance.randint(0, len(line))]
    where = chance.choice((place, chance.randint(0, len(lines))))
    many = line * min(200, 1 + LARGEST // len(line))
    lines.insert(where, chance.choice((b"", line * 2, many, cut, cut + b"\n", line.rstrip(b"\r\n"), line)))
    return b"".join(lines)
