"""Whole numbers in the words of records, which may be damaged."""

from __future__ import annotations

import re

MOST = 10**18 - 1
"""Every whole number up to it fits in 64 bits."""
_WORD = re.compile(r"-?[0-9]{1,18}")


def whole_number(word: str | None, least: int = 0, most: int = MOST) -> int | None:
    """The value of a word of at most 18 ASCII digits from `least` to `most`; None for any other word."""
    if word is None or _WORD.fullmatch(word) is None:
        return None
    number = int(word)
    return number if least <= number <= most else None
