"""Markdown for merge requests and the summaries of GitHub and GitLab, which render HTML, links, pictures and mentions in it.

A text of the type `Markdown` is a literal of this program, or made of one by `format`. Whatever else gets into it is shown letter
by letter: `format`, `row` and `write` escape what is not of this type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from slurm_mirage.base.files import write_atomically
from slurm_mirage.base.printing import LONGEST, one_line

_SPECIAL = re.compile(r"[\\`*\[\]<>|~&$]|(?<![^\W_])_|_(?![^\W_])")
"""What begins emphasis, code, links, HTML, entities, formulas and cells; an underscore within a word does not."""
_BLOCK = re.compile(r"^ *(?:\d+(?=[.)])|(?=[#+=-]))")
"""What begins a heading, a list or a rule at the beginning of a line."""
_BACKSLASH = r"\\"
_TICKS = re.compile("`+")
_BAR = re.compile(r"(?<!\\)(?=\|)")
"""Where a cell would end."""


class Markdown(str):
    """Text in Markdown. The constructor is for literals."""

    __slots__ = ()

    def format(self, *values: object, **named: object) -> Markdown:
        """As that of str; values that are not Markdown are escaped."""
        text = str.format(self, *map(plain, values), **{name: plain(value) for name, value in named.items()})
        return Markdown(_BLOCK.sub(r"\g<0>\\", text) if self.startswith("{") else text)


def plain(value: object) -> Markdown:
    """A value as text within a line."""
    if isinstance(value, Markdown):
        return value
    text = _SPECIAL.sub(r"\\\g<0>", one_line(str(value)))
    return Markdown(text.replace("@", "@&#8203;"))  # followed by a space of no width it mentions no one


def code(value: object, most: int = LONGEST) -> Markdown:
    """A value in the type of code. most: its characters, see `one_line`"""
    text = one_line(str(value), most)
    if not text.strip(" "):
        return plain(text)
    ticks = _fence(text, 1)
    padding = " " if text[0] in " `" or text[-1] in " `" else ""
    return Markdown(f"{ticks}{padding}{text}{padding}{ticks}")


def block(lines: Sequence[str], most: int = LONGEST) -> Iterator[Markdown]:
    """The lines of a block of code, each of up to `most` characters."""
    shown = [one_line(line, most) for line in lines]
    fence = Markdown(_fence("\n".join(shown), 3))
    return iter([fence, *map(Markdown, shown), fence])


def row(*cells: object) -> Markdown:
    """A row of a table."""
    return Markdown(f"| {' | '.join(_BAR.sub(_BACKSLASH, plain(cell)) for cell in cells)} |")


def table(heads: Sequence[object], rows: Iterable[Sequence[object]]) -> Iterator[Markdown]:
    """The lines of a table."""
    yield row(*heads)
    yield Markdown(f"|{'---|' * len(heads)}")
    for cells in rows:
        yield row(*cells)


def write(path: Path, lines: Iterable[Markdown]) -> None:
    """Replace the file by these lines."""
    write_atomically(path, "".join(f"{plain(line)}\n" for line in lines))


def _fence(text: str, least: int) -> str:
    """Backticks that do not end within the text."""
    return "`" * max([least, *(len(ticks) + 1 for ticks in _TICKS.findall(text))])
