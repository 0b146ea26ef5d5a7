"""The record of the broker: what it answered and did. All runs of an instance write to it."""

from __future__ import annotations

from .broker.journal import FILE


def files(run: str) -> list[str]:
    """Its path in the instance's directory."""
    return [FILE]
