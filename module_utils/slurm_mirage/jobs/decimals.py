"""Numbers in the words of jobs: digits with or without decimals, as sigsleep reads them."""

from __future__ import annotations

import re

from ..base.errors import WrongUse

LARGEST_NUMBER = 1_000_000_000.0
DECIMAL = re.compile(r"[0-9]+(\.[0-9]+)?\Z")
DECIMALS = 9


def seconds(text: str, name: str) -> float:
    """Parse a length of time; `name` says what it is in the message. Raises WrongUse."""
    if not DECIMAL.match(text) or float(text) > LARGEST_NUMBER:
        raise WrongUse(f"{name}={text}: seconds, 0 or more, as 15 or 0.5")
    return round(float(text), DECIMALS)


def decimal_text(value: float) -> str:
    """The number without an exponent, which sigsleep cannot read."""
    return f"{value:.{DECIMALS}f}".rstrip("0").rstrip(".")
