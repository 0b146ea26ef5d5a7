"""How sacctmgr reads the file of `sacctmgr load` (sacctmgr/file_functions.c, strip_quotes in its common.c)."""

from __future__ import annotations

import slurm_reader

BUFFER = 4096
"""Bytes that sacctmgr reads of a line at once."""


def read(text: str) -> list[tuple[str, str, dict[str, str]]]:
    """Object, name and options of each line, as sacctmgr reads them (load_sacctmgr_cfg_file, _parse_options, strip_quotes). A line
    of BUFFER bytes or more is read as several ones."""
    found = []
    assert all(len(line) < BUFFER for line in text.encode().splitlines(keepends=True)), "the rest would be another line"
    for line in slurm_reader.logical_lines(text.encode()):
        kind, _, rest = line.decode().rstrip("\n").partition(" - ")
        name, options = "", {}
        for column in columns(rest):
            key, sign, value = column.partition("=")
            if not sign:
                assert not name, "Bad format: End your option with an '=' sign"
                name = stripped(column)
            else:
                options[key] = stripped(value)
        found.append((kind, name, options))
    return found


def columns(rest: str) -> list[str]:
    """The parts between colons that are not in quotes."""
    found, place = [], 0
    while place < len(rest):
        start, quote = place, ""
        while place < len(rest) and rest[place] != ":":
            if rest[place] in "\"'":
                quote = ("" if rest[place] == quote else quote) if quote else rest[place]
            place += 1
        if quote:
            end = rest.find(quote, place)
            assert end >= 0, "There is a problem with option with quotes"
            place = end + 1
        if place > start:
            found.append(rest[start:place])
        if place < len(rest) and rest[place] != ":":
            break  # the rest is passed over
        place += 1
    return found


def stripped(text: str) -> str:
    """A value without its quotes, small letters, other quotes as another character."""
    quote, begin = (text[0], 1) if text[:1] in ("'", '"') else ("", 0)
    end = text.find(quote, begin) if quote else -1
    return "".join(
        "`" if letter in "\"'" else letter.lower() if letter.isascii() else letter
        for letter in text[begin : end if end >= 0 else None]
    )
