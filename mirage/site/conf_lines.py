"""The lines of a site's slurm.conf(5), of the files that it includes, and of those beside it.

Lines are taken apart as Slurm's own parser does (common/parse_config.c of 22.05): comments, escapes, continuation, quotes, Include.

slurm.conf may be a stranger's, and who reads it root. So what it names is read below its own folder only, and no message quotes a
line: messages name the file, the line, and a word if it is one of Slurm's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mirage.site.archive import Archive, is_archive, opened
from mirage.site.site_words import ALL_WORDS, LINES, LINES_BESIDE
from mirage.text.input_file import read_below, read_input
from slurm_mirage.base import line_text
from slurm_mirage.base.errors import WrongUse

MAIN = "slurm.conf"
MOST_INCLUDED = 8
"""Largest depth of files that include each other."""
LARGEST, MOST_FILES = 16 << 20, 1000
"""Bytes and files of a slurm.conf with all that it includes. One with a line for each of 65,536 nodes has some 7 MB."""

_PARAMETER = "slurm_conf"
# A word and its value: in double quotes before a blank, otherwise all up to a blank (keyvalue_pattern in parse_config.c).
_WORD = re.compile(r'\s*([A-Za-z0-9_.]+)\s*[-*+/]?=\s*(?:"([^"]*)"|(\S+))(?=\s|\Z)', re.ASCII)
_FIRST_WORD = re.compile(r"\s*([A-Za-z0-9_.]+)", re.ASCII)
_INCLUDE = re.compile(r"include\s+(\S+)\s*\Z", re.ASCII | re.IGNORECASE)
_TEMPLATE = re.compile(r"\{\{|\{%")
_BLANKS = " \t\n\v\f\r"

Settings = dict[str, tuple[str, str]]
"""Settings by their names in small letters: the name as written, and the value."""


@dataclass(frozen=True)
class Line:
    """A logical line: where it begins (file and line, for messages), and its words with their values, in order."""

    where: str
    words: tuple[tuple[str, str], ...]

    @property
    def is_setting(self) -> bool:
        """Whether it sets a key, and does not describe a thing."""
        return self.words[0][0].lower() not in LINES

    def wrong(self, what: str) -> WrongUse:
        """The error for this line."""
        return WrongUse(f"{self.where}: {what}", parameter=_PARAMETER)


class ConfFiles:
    """A slurm.conf, the files that it includes, and those beside it, up to LARGEST bytes and MOST_FILES of them together.

    path: that of slurm.conf, whatever its name is; of one in an archive what messages call it
    taken: the archive that has them; None for files of this host
    """

    def __init__(self, path: Path | str) -> None:
        self.taken: Archive | None = opened(path) if is_archive(path) else None
        self.path = Path(path) if self.taken is None else Path(f"{self.taken.path}: conf/{MAIN}")
        self.settings: Settings = {}
        self._left, self._files = LARGEST, 0
        # Where slurm.conf may be a link, that of the link and that of the file.
        folders = (self.path.parent, Path(os.path.realpath(self.path)).parent)
        self._folders = tuple(dict.fromkeys(Path(os.path.realpath(folder)) for folder in folders))

    def place(self, name: str) -> Path:
        """The path of slurm.conf or of a file beside it; of one in an archive what messages call it."""
        if name == MAIN:
            return self.path
        return self.path.with_name(name) if self.taken is None else Path(f"{self.taken.path}: conf/{name}")

    def has(self, name: str) -> bool:
        """Whether there is such a file beside slurm.conf."""
        return os.path.lexists(self.place(name)) if self.taken is None else f"conf/{name}" in self.taken.parts

    def lines(self, name: str = MAIN) -> Iterator[Line]:
        """The logical lines of slurm.conf or of a file beside it, with those of included files in their places.

        What slurm.conf sets is kept in `settings` as its lines are taken. Raises WrongUse for what cannot be read.
        """
        for line in self._lines(self.place(name), self.content(name), 0):
            if name == MAIN and line.is_setting:
                self.settings |= {key.lower(): (key, value) for key, value in line.words}
            yield line

    def content(self, name: str = MAIN) -> str:
        """The text of slurm.conf or of a file beside it. Raises WrongUse if it cannot be read."""
        place = self.place(name)
        if self.taken is not None:
            return self._counted(self.taken.data(f"conf/{name}"), str(place))
        if name == MAIN:
            return self._counted(read_input(self.path, _PARAMETER, LARGEST), str(place))
        return self._read(place, str(place))

    def _read(self, path: Path, where: str) -> str:
        """The text of a file of this host that slurm.conf, or the file's own place, names."""
        try:
            return self._counted(read_below(path, self._folders, LARGEST), where)
        except OSError as error:
            raise WrongUse(f"{where}: cannot be read ({error.strerror})", parameter=_PARAMETER) from None
        except ValueError as error:
            raise WrongUse(f"{where}: {error}", parameter=_PARAMETER) from None

    def _counted(self, content: bytes, where: str) -> str:
        self._left, self._files = self._left - len(content), self._files + 1
        if self._left < 0 or self._files > MOST_FILES:
            what = f"{LARGEST >> 20} MiB" if self._left < 0 else f"{MOST_FILES} files"
            raise WrongUse(f"{where}: with this {MAIN} has more than {what}", parameter=_PARAMETER)
        return content.decode(errors="replace")

    def _lines(self, path: Path, text: str, depth: int) -> Iterator[Line]:
        for number, content in _logical(text):
            where = f"{path} line {number}"
            if include := _INCLUDE.match(content.lstrip(_BLANKS)):
                yield from self._included(include[1].strip('"'), path, f"{where}: Include", depth + 1)
            else:
                yield Line(where, _pairs(content, where))

    def _included(self, name: str, path: Path, where: str, depth: int) -> Iterator[Line]:
        """The lines of the files that an Include in the file `path` names. where: of the Include, for messages"""
        if depth > MOST_INCLUDED:
            raise WrongUse(f"{where}: the file is included by itself", parameter=_PARAMETER)
        if "%c" in name:
            name = name.replace("%c", self.settings.get("clustername", ("", "%c"))[1].lower())
        if self.taken is not None:
            name = Path(name).name
            if not self.has(name):
                raise WrongUse(f"{where}: the archive has no such file", parameter=_PARAMETER)
            yield from self._lines(self.place(name), self.content(name), depth)
            return
        if not (places := self._places(name, path.parent)):
            raise WrongUse(f"{where}: there is no such file below {self._folders[0]}", parameter=_PARAMETER)
        for place in places:
            yield from self._lines(place, self._read(place, where), depth)

    def _places(self, name: str, folder: Path) -> list[Path]:
        """The paths that an Include in a file of `folder` names, which may be a pattern: those below the folder of slurm.conf.

        An absolute path elsewhere is one of the site's machine: it is looked for below the folder of slurm.conf, with as many of
        its own folders as are there. /opt/slurm/etc/parts/q1.conf is parts/q1.conf, or else q1.conf. No other place is looked at.
        """
        top = self.path.parent
        parts = [part for part in Path(name).parts if part not in ("/", "..")]
        ends = (top.joinpath(*parts[start:]) for start in range(len(parts)))
        for place in (folder / name, top / name, *(folder / name for folder in self._folders), *ends):
            try:
                real = Path(os.path.realpath(place.parent))
                if not any(real.is_relative_to(one) for one in self._folders):
                    continue
                if os.path.lexists(place):
                    return [place]
                if re.search(r"[*?\[]", place.name):
                    found = (
                        one for one in place.parent.glob(place.name.replace("**", "*")) if one.is_symlink() or not one.is_dir()
                    )
                    if matching := sorted(one for one in found if one.name != self.path.name):
                        return matching
            except (OSError, ValueError):  # the name is too long, or not a pattern
                continue
        return []


def parsed(text: str, where: str) -> Iterator[Line]:
    """The lines of a text in the form of slurm.conf, which includes no file. Raises WrongUse, beginning with `where`."""
    for number, content in _logical(text):
        yield Line(f"{where} line {number}", _pairs(content, f"{where} line {number}"))


def _pairs(content: str, where: str) -> tuple[tuple[str, str], ...]:
    """Words and values of a logical line: one, or as many as there are where the line describes a thing."""
    pairs: list[tuple[str, str]] = []
    rest = content
    while (not pairs or pairs[0][0].lower() in (*LINES, *LINES_BESIDE)) and (word := _WORD.match(rest)):
        key, value = word[1], word[2] or word[3] or ""
        if fault := line_text.fault(value):
            raise WrongUse(f"{where}: {key if key.lower() in ALL_WORDS else 'a value'} {fault}", parameter=_PARAMETER)
        pairs.append((key, value))
        rest = rest[word.end() :]
    if rest.strip(_BLANKS):
        raise WrongUse(f"{where}: {_fault(content, pairs)}", parameter=_PARAMETER)
    return tuple(pairs)


def _fault(content: str, pairs: list[tuple[str, str]]) -> str:
    """What is wrong with a line that is not Key=Value, or not to its end, without a word of it that is not Slurm's."""
    if _TEMPLATE.search(content):
        return "is a line of a template ({{ }} or {% %}); SLURM_CONF may be the file that is made of it"
    first = _FIRST_WORD.match(content)
    word = pairs[-1][0] if pairs else first[1] if first else ""
    if word.lower() not in ALL_WORDS:
        return f"is not a Key=Value of {MAIN}"
    return f"what follows the value of {word} is not a Key=Value of {MAIN}" if pairs else f"{word} has no value that Slurm can read"


def _logical(text: str) -> Iterator[tuple[int, str]]:
    """Number and content of each line that is not empty; one that a backslash continues has the number of its first part.

    A # that is not escaped begins a comment, in quotes too. A backslash escapes any character.
    """
    waiting, first = "", 0
    lines = text.split("\n")
    for number, raw in enumerate(lines, 1):
        # Most lines of long files: nothing is before a comment.
        if not first and not raw.partition("#")[0].strip(_BLANKS):
            continue
        first = first or number
        uncommented = re.match(r"(?:[^\\#]|\\.?)*", raw.partition("\0")[0], re.DOTALL)
        assert uncommented is not None, "the expression matches every text"
        content = uncommented[0]
        end = content.rstrip(_BLANKS)
        if (len(end) - len(end.rstrip("\\"))) % 2:
            waiting, content = waiting + end[:-1], ""
            if number < len(lines):
                continue
        content = re.sub(r"\\(.?)", r"\1", waiting + content, flags=re.DOTALL)
        if content.strip(_BLANKS):
            yield first, content
        waiting, first = "", 0
