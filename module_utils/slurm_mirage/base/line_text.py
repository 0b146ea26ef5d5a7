"""What a line of a text file cannot hold, whatever the file's format. The function that writes a format asks this first."""

from __future__ import annotations

import unicodedata

from .errors import WrongUse

_KINDS = {"Cc": "control character", "Zl": "line separator", "Zp": "paragraph separator", "Cs": "half of a surrogate pair"}
"""By the category of Unicode: some program takes each of these for the end of a line, or cannot encode it."""


def fault(text: str) -> str:
    """What a line cannot hold of a text, as `has the control character U+000A`; empty for a text that it can. A tab is no fault."""
    if text.isprintable():
        return ""
    for letter in text:
        if letter != "\t" and (kind := _KINDS.get(unicodedata.category(letter))):
            return f"has the {kind} U+{ord(letter):04X}"
    return ""


def check(where: str, text: str) -> str:
    """The text. Raises WrongUse, which begins with `where`, if a line cannot hold it; the message does not have the text."""
    if words := fault(text):
        raise WrongUse(f"{where}: {words}")
    return text
