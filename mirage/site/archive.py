"""Opens the archive that files/capture/mirage-capture makes of a site's week (docs/capture.md), and reads its parts.

The archive is a plain tar of text files with manifest.json first. It comes from elsewhere, so nothing of it is unpacked into a
folder: its members must be regular files that the manifest names, of the sizes and with the checksums that it has.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from mirage.text import output_file
from mirage.text.input_file import kind, open_input
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.strict_json import COUNT, INSTANT, TEXT, Each, Named, NotStrict, Number, Object, Text, parse

FORMAT, VERSION = "slurm-mirage-capture", 1
MANIFEST = "manifest.json"
PARAMETER = "site"
MOST_MEMBERS, LARGEST_MANIFEST, LARGEST_PART = 100_000, 64 << 20, 4 << 30
"""Files in an archive, bytes of its manifest, bytes of another file."""
LEAST = 1536
"""Bytes of an extended header and the header of the first member."""
_BLOCK = 1 << 20
_PART = Object({"rows": COUNT, "bytes": Number(0, LARGEST_PART, whole=True), "sha256": Text(64), "key": TEXT})
_SHAPE = Object(
    {
        "release": TEXT, "begin": INSTANT, "end": INSTANT, "piece": COUNT, "zone": TEXT, "taken_at": INSTANT,
        "by": Text(words=("user", "operator")), "names": Text(words=("pseudonyms", "clear")), "key": TEXT,
        "private_data": Each(TEXT), "not_allowed": Each(TEXT), "failed": Named(TEXT), "left_out": Each(TEXT), "files": Named(_PART),
    }
)  # fmt: skip


@dataclass(frozen=True)
class Part:
    """A file of the archive: its place in the tar, its bytes, and its rows (jobs, nodes, lines of a configuration)."""

    offset: int
    size: int
    rows: int


@dataclass(frozen=True)
class Archive:
    """An archive whose manifest and checksums are right.

    sha256: checksum of the manifest, which has those of all parts
    release: Slurm's, as 22.05.8
    begin, end: the window, in seconds since the epoch
    zone: name of the site's time zone, UTC if that is not known; all instants in the parts are seconds since the epoch
    by: user or operator
    is_clear: whether names are the site's own, not pseudonyms
    not_allowed: what whoever took it was not shown, a line each
    failed: what could not be taken, with Slurm's words, by part
    left_out: secrets that the capture left out, a line each
    parts: the files by name, as sacct/20261101T000000Z.txt
    """

    path: Path
    sha256: str
    release: str
    begin: int
    end: int
    zone: str
    by: str
    is_clear: bool
    not_allowed: tuple[str, ...]
    failed: Mapping[str, str]
    left_out: tuple[str, ...]
    parts: Mapping[str, Part]

    def pieces(self, folder: str) -> list[str]:
        """The parts of a folder (sacct, steps, sacct-json) in order of time. A job is in each piece in which it was alive."""
        return sorted(name for name in self.parts if name.startswith(f"{folder}/"))

    def data(self, name: str) -> bytes:
        """The bytes of a part. Raises WrongUse if the archive does not have it: the message says why it could not be taken."""
        if name not in self.parts:
            why = f" (at the site: {self.failed[name]})" if name in self.failed else ""
            raise WrongUse(f"{self.path}: {name} is not in it{why}", parameter=PARAMETER)
        part = self.parts[name]
        with open_input(self.path, PARAMETER) as file:
            file.seek(part.offset)
            data = file.read(part.size)
        if len(data) != part.size:
            raise _torn(self.path)
        return data

    def lines(self, name: str) -> list[str]:
        """The lines of a part without their ends. Raises WrongUse as `data` does, and for what is not UTF-8 or has no end."""
        try:
            *lines, rest = self.data(name).decode().split("\n")
        except UnicodeDecodeError as error:
            line = error.object[: error.start].count(b"\n") + 1
            raise WrongUse(f"{self.path}: {name}:{line}: is not UTF-8 text", parameter=PARAMETER) from error
        if rest:
            raise self.wrong(name, len(lines) + 1, "is torn: it has no end of line")
        return lines

    def table(self, name: str) -> tuple[list[str], Iterator[list[str]]]:
        """The headings of a table (sacct/, steps/, sacctmgr/, sshare.txt), and the fields of each row. Raises WrongUse as `lines`
        does, and for a row that does not have as many fields as there are headings."""
        lines = self.lines(name)
        headings = lines[0].split("\t") if lines else []

        def rows() -> Iterator[list[str]]:
            for number, line in enumerate(lines[1:], 2):
                fields = line.split("\t")
                if len(fields) != len(headings):
                    raise self.wrong(name, number, f"has {len(fields)} fields, the heading has {len(headings)}")
                yield fields

        return headings, rows()

    def rows(self, name: str, needed: tuple[str, ...] = ()) -> Iterator[dict[str, str]]:
        """The rows of a table by heading, in small letters without blanks, which differ between releases.

        Raises WrongUse as `table` does, and for a table without one of the `needed` columns."""
        headings, rows = self.table(name)
        keys = [heading.replace(" ", "").lower() for heading in headings]
        if missing := [column for column in needed if column not in keys]:
            raise self.wrong(
                name, 1, f"has no column {missing[0]}, as {self.release} prints it; the capture may be of another program"
            )
        return (dict(zip(keys, fields, strict=True)) for fields in rows)

    def things(self, name: str, first: str, needed: tuple[str, ...]) -> Iterator[tuple[int, dict[str, str]]]:
        """Lines of `scontrol --oneliner show` with their words by key; none if the part is not there.

        first: the key with which each line begins; needed: keys that each line has, with others after them
        Raises WrongUse as `lines` does, and for a line that does not have these keys: it is torn, or not scontrol's.
        """
        for number, line in enumerate(self.lines(name) if name in self.parts else [], 1):
            words = re.findall(r"(?:^|(?<=\s))(\w+)=(\S*)", line)
            keys = [key for key, _ in words]
            if keys[:1] != [first] or not line.startswith(first):
                raise self.wrong(name, number, f"{line[:30]!r} does not begin with {first}=, as a line of scontrol does")
            if missing := [key for key in needed if key not in keys[:-1]]:
                raise self.wrong(name, number, f"is torn: it has no {missing[0]}, or ends there")
            yield number, dict(words)

    def wrong(self, name: str, line: int, words: str) -> WrongUse:
        """The error for a line of a part."""
        return WrongUse(f"{self.path}: {name}:{line}: {words}", parameter=PARAMETER)

    def date(self, instant: float) -> str:
        """Local date and time at the site, without its zone."""
        return datetime.fromtimestamp(instant, ZoneInfo(self.zone)).replace(tzinfo=None).isoformat("T", "seconds")


def _torn(path: Path) -> WrongUse:
    return WrongUse(f"{path}: is torn: it ends too early; copy it again", parameter=PARAMETER)


def is_archive(path: Path | str) -> bool:
    """Whether a regular file begins as an archive of mirage-capture does: with manifest.json, which may have an extended header."""
    try:
        if kind(path) or Path(path).stat().st_size < LEAST:  # files of the kernel have no size, and reading one may never end
            return False
        with Path(path).open("rb") as file:
            head = file.read(LEAST)
    except (OSError, ValueError):
        return False
    return head[257:262] == b"ustar" and any(head[at : at + 100].rstrip(b"\0") == MANIFEST.encode() for at in (0, 1024))


def opened(path: Path | str) -> Archive:
    """An archive as `open_archive` has it. A file that has not changed is checked once."""
    with suppress(OSError, ValueError):
        status = Path(path).stat()
        return _unchanged(str(path), status.st_mtime_ns, status.st_size)
    return open_archive(path)


@lru_cache(maxsize=2)
def _unchanged(path: str, _mtime: int, _size: int) -> Archive:
    return open_archive(path)


def open_archive(path: Path | str) -> Archive:
    """Open an archive and check all of it. Memory does not grow with its size.

    Raises WrongUse for a file that mirage-capture does not write, one that is torn or changed, and a window without jobs.
    """
    path = Path(path)
    offsets = _members(path)
    with open_input(path, PARAMETER) as file:
        offset, size = offsets.pop(MANIFEST)
        file.seek(offset)
        content = file.read(size)
        manifest = _manifest(path, content)
        files: dict[str, dict[str, Any]] = manifest["files"]
        if unknown := sorted(set(offsets) - set(files)):
            raise WrongUse(f"{path}: {unknown[0]} is not in {MANIFEST}", parameter=PARAMETER)
        for name, described in files.items():
            if name not in offsets:
                raise WrongUse(f"{path}: is torn: {name} of {MANIFEST} is missing; copy it again", parameter=PARAMETER)
            offset, size = offsets[name]
            file.seek(offset)
            digest, left = hashlib.sha256(), size
            while left and (block := file.read(min(left, _BLOCK))):
                digest.update(block)
                left -= len(block)
            if left:
                raise _torn(path)
            if size != described["bytes"] or digest.hexdigest() != described["sha256"]:
                raise WrongUse(f"{path}: {name} was changed: it is not what {MANIFEST} describes", parameter=PARAMETER)
    parts = {name: Part(*offsets[name], described["rows"]) for name, described in files.items()}
    _check(path, manifest, parts)
    return Archive(
        path, hashlib.sha256(content).hexdigest(), manifest["release"], int(manifest["begin"]), int(manifest["end"]),
        _zone(manifest["zone"]), manifest["by"], manifest["names"] == "clear",
        tuple(manifest["not_allowed"]), manifest["failed"], tuple(manifest["left_out"]), parts,
    )  # fmt: skip


def _zone(name: str) -> str:
    """The name if the time zone database has it; the capture has an abbreviation where a host has no name."""
    try:
        ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        return "UTC"
    return name


def _members(path: Path) -> dict[str, tuple[int, int]]:
    """Offset and size of each member of the tar, by name. Raises WrongUse for a member that is no regular file."""
    found: dict[str, tuple[int, int]] = {}
    with open_input(path, PARAMETER) as file:
        size = file.seek(0, 2)
        file.seek(0)
        try:
            with tarfile.open(fileobj=file, mode="r:") as tar:
                for member in tar:
                    largest = LARGEST_PART if found else LARGEST_MANIFEST
                    if not found and member.name != MANIFEST:
                        break
                    if not member.isreg() or member.sparse is not None or member.name in found or len(found) >= MOST_MEMBERS:
                        raise WrongUse(f"{path}: {member.name} is no file of a capture", parameter=PARAMETER)
                    if member.size > largest:
                        raise WrongUse(f"{path}: {member.name} is larger than {largest >> 20} MiB", parameter=PARAMETER)
                    if member.offset_data + member.size > size:
                        raise _torn(path)
                    found[member.name] = member.offset_data, member.size
        except (tarfile.TarError, ValueError, OverflowError, RecursionError) as error:
            if found:
                raise _torn(path) from error
    if not found:
        raise WrongUse(f"{path}: is not an archive of mirage-capture, a tar that begins with {MANIFEST}", parameter=PARAMETER)
    return found


def _manifest(path: Path, data: bytes) -> dict[str, Any]:
    """The manifest. Raises WrongUse, first for another version, whose members are unknown."""
    try:
        manifest = parse(data, Object({"format": Text(words=(FORMAT,)), "version": Number(whole=True)}))
        if manifest["version"] != VERSION:
            words = f"{path}: has version {manifest['version']}, not {VERSION}: take it with the mirage-capture of this release"
            raise WrongUse(words, parameter=PARAMETER)
        read: dict[str, Any] = parse(data, _SHAPE)
    except NotStrict as error:
        raise WrongUse(f"{path}: {MANIFEST}: {error}", parameter=PARAMETER) from error
    return read


def _check(path: Path, manifest: dict[str, Any], parts: Mapping[str, Part]) -> None:
    """Raises WrongUse for an archive from which no week can be replayed."""
    keys = {described["key"]: name for name, described in manifest["files"].items()}
    keys.setdefault(manifest["key"], MANIFEST)
    if len(keys) > 1:
        first, second = list(keys.values())[:2]
        words = f"{path}: {first} and {second} have pseudonyms of different keys; take the week again with one key"
        raise WrongUse(words, parameter=PARAMETER)
    if not manifest["begin"] < manifest["end"]:
        raise WrongUse(f"{path}: {MANIFEST}: end is not after begin", parameter=PARAMETER)
    jobs = [part.rows for name, part in parts.items() if name.startswith("sacct/")]
    if not jobs:
        words = f"{path}: has no part sacct/: the capture was not finished; give the same command at the site again"
        raise WrongUse(words, parameter=PARAMETER)
    if not any(jobs):
        words = f"{path}: has no job in its window; the capture took it as {manifest['by']}"
        hidden = f", who may not see {manifest['not_allowed'][0]}" if manifest["not_allowed"] else ""
        raise WrongUse(words + hidden, parameter=PARAMETER)


def write(path: Path, parts: Mapping[str, str], **described: Any) -> None:
    """Write an archive of these parts, as mirage-capture does. The same parts give the same bytes.

    described: members of the manifest; `begin` and `end` are needed
    """
    encoded = {name: parts[name].encode() for name in sorted(parts)}
    files = {
        name: {"rows": max(data.count(b"\n") - 1, 0), "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), "key": ""}
        for name, data in encoded.items()
    }
    manifest = {
        "format": FORMAT, "version": VERSION, "release": "", "piece": described["end"] - described["begin"], "zone": "UTC",
        "taken_at": described["end"], "by": "operator", "private_data": [], "not_allowed": [], "names": "clear", "key": "",
        "failed": {}, "left_out": [], "files": files, **described,
    }  # fmt: skip
    members = {MANIFEST: (json.dumps(manifest, indent=1, sort_keys=True) + "\n").encode(), **encoded}
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), int(manifest["taken_at"])
            tar.addfile(info, io.BytesIO(data))
    output_file.write(path, content.getvalue())
