"""Where the kernel's tasks (struct task_struct) have what the BPF programs of the event clock's coordinator read.

The offsets differ between kernels. The kernel describes its own types in BTF
(https://docs.kernel.org/bpf/btf.html), from which this module makes one text:

    pid=OFFSET,comm=OFFSET,state=OFFSET

and, for an instance with a network of its own, how a task leads to the number of its network namespace: its namespaces, the network
namespace in these, and the number in that.

    pid=OFFSET,comm=OFFSET,state=OFFSET,namespaces=OFFSET,network=OFFSET,number=OFFSET

Offsets are in bytes. The field `state` is called `__state` from Linux 5.14 on.
"""

from __future__ import annotations

import struct
from pathlib import Path

BTF = Path("/sys/kernel/btf/vmlinux")
TASK = b"task_struct"
Places = tuple[tuple[bytes, tuple[bytes, ...]], ...]
"""A struct and the names that its field may have, and so on for the struct that is this field."""
FIELDS: dict[str, Places] = {
    "pid": ((TASK, (b"pid",)),),
    "comm": ((TASK, (b"comm",)),),
    "state": ((TASK, (b"__state", b"state")),),
}
"""The fields, by their names in the text."""
NETWORK: dict[str, Places] = {
    "namespaces": ((TASK, (b"nsproxy",)),),
    "network": ((b"nsproxy", (b"net_ns",)),),
    "number": ((b"net", (b"ns",)), (b"ns_common", (b"inum",))),
}
"""Those by which the network namespace of a task is found."""
UNKNOWN_NETWORK = "network"
"""Text for an instance with a network of its own, where the kernel does not describe its types."""
_MAGIC = 0xEB9F
_HEADER = struct.Struct("<HBBIIIII")
_TYPE = struct.Struct("<III")
_MEMBER = struct.Struct("<III")
_STRUCT = 4
_AFTER = {1: (4, 0), 3: (12, 0), 4: (0, 12), 5: (0, 12), 6: (0, 8), 13: (0, 8), 14: (4, 0), 15: (0, 12), 17: (4, 0), 19: (0, 12)}
"""Bytes that follow a type's first 12, by its kind: so many, and so many for each of its members. Other kinds have none."""


def read(path: Path = BTF, *, with_network: bool = False) -> str:
    """Return the text, from the kernel's description of its types. Raises OSError."""
    return of_btf(path.read_bytes(), with_network=with_network)


def of_btf(data: bytes, *, with_network: bool = False) -> str:
    """Return the text, from BTF of a kernel whose processors are little-endian. Raises OSError if it has not what is expected."""
    wanted = FIELDS | (NETWORK if with_network else {})
    try:
        offsets = _offsets(data, {struct_name for places in wanted.values() for struct_name, _ in places})
    except (struct.error, ValueError) as error:
        raise OSError(0, f"{BTF}: {error}") from error
    return ",".join(f"{field}={sum(_offset(offsets, *place) for place in places)}" for field, places in wanted.items())


def _offset(offsets: dict[bytes, dict[bytes, int]], struct_name: bytes, names: tuple[bytes, ...]) -> int:
    known = [offsets[struct_name][name] for name in names if name in offsets.get(struct_name, {})]
    if not known:
        raise OSError(0, f"{BTF}: {struct_name.decode()} has no field {names[-1].decode()}")
    return known[0]


def _offsets(data: bytes, structs: set[bytes]) -> dict[bytes, dict[bytes, int]]:
    """The offsets of the fields of these structs, by the names of both. Raises struct.error and ValueError."""
    magic, _, _, header, type_offset, type_length, text_offset, text_length = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise ValueError("is no BTF")
    text = data[header + text_offset : header + text_offset + text_length]
    at, end = header + type_offset, header + type_offset + type_length
    found: dict[bytes, dict[bytes, int]] = {}
    while at < end and len(found) < len(structs):
        name, info, _ = _TYPE.unpack_from(data, at)
        at += _TYPE.size
        kind, members = info >> 24 & 0x1F, info & 0xFFFF
        if kind == _STRUCT and (word := _word(text, name)) in structs:
            rows = [_MEMBER.unpack_from(data, at + number * _MEMBER.size) for number in range(members)]
            # With bit fields in the struct, the upper 8 bits are a field's size in bits.
            places = ((_word(text, row[0]), row[2] & 0xFFFFFF if info >> 31 else row[2]) for row in rows)
            found[word] = {field: bits // 8 for field, bits in places}
        fixed, each = _AFTER.get(kind, (0, 0))
        at += fixed + members * each
    return found


def _word(text: bytes, offset: int) -> bytes:
    return text[offset : text.index(b"\0", offset)]
