"""Where the kernel's tasks (struct task_struct) have what the BPF programs of the event clock's coordinator read.

The offsets differ between kernels. The kernel describes its own types in BTF
(https://docs.kernel.org/bpf/btf.html), from which this module makes one text:

    pid=OFFSET,comm=OFFSET,state=OFFSET

Offsets are in bytes. The field `state` is called `__state` from Linux 5.14 on.
"""

from __future__ import annotations

import struct
from pathlib import Path

BTF = Path("/sys/kernel/btf/vmlinux")
TASK = b"task_struct"
FIELDS = {"pid": (b"pid",), "comm": (b"comm",), "state": (b"__state", b"state")}
"""Names of the fields, by those in the text."""
_MAGIC = 0xEB9F
_HEADER = struct.Struct("<HBBIIIII")
_TYPE = struct.Struct("<III")
_MEMBER = struct.Struct("<III")
_STRUCT = 4
_AFTER = {1: (4, 0), 3: (12, 0), 4: (0, 12), 5: (0, 12), 6: (0, 8), 13: (0, 8), 14: (4, 0), 15: (0, 12), 17: (4, 0), 19: (0, 12)}
"""Bytes that follow a type's first 12, by its kind: so many, and so many for each of its members. Other kinds have none."""


def read(path: Path = BTF) -> str:
    """Return the text, from the kernel's description of its types. Raises OSError."""
    return of_btf(path.read_bytes())


def of_btf(data: bytes) -> str:
    """Return the text, from BTF of a kernel whose processors are little-endian. Raises OSError if it has not what is expected."""
    try:
        offsets = _task_fields(data)
    except (struct.error, ValueError) as error:
        raise OSError(0, f"{BTF}: {error}") from error
    words = []
    for field, names in FIELDS.items():
        known = [offsets[name] for name in names if name in offsets]
        if not known:
            raise OSError(0, f"{BTF}: task_struct has no field {field}")
        words.append(f"{field}={known[0]}")
    return ",".join(words)


def _task_fields(data: bytes) -> dict[bytes, int]:
    """The offsets of the fields of task_struct by their names; none without it. Raises struct.error and ValueError."""
    magic, _, _, header, type_offset, type_length, text_offset, text_length = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise ValueError("is no BTF")
    text = data[header + text_offset : header + text_offset + text_length]
    at, end = header + type_offset, header + type_offset + type_length
    while at < end:
        name, info, _ = _TYPE.unpack_from(data, at)
        at += _TYPE.size
        kind, members = info >> 24 & 0x1F, info & 0xFFFF
        if kind == _STRUCT and _word(text, name) == TASK:
            rows = [_MEMBER.unpack_from(data, at + number * _MEMBER.size) for number in range(members)]
            # With bit fields in the struct, the upper 8 bits are a field's size in bits.
            places = ((_word(text, row[0]), row[2] & 0xFFFFFF if info >> 31 else row[2]) for row in rows)
            return {word: bits // 8 for word, bits in places}
        fixed, each = _AFTER.get(kind, (0, 0))
        at += fixed + members * each
    return {}


def _word(text: bytes, offset: int) -> bytes:
    return text[offset : text.index(b"\0", offset)]
