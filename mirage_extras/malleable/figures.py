"""The figures of the verdict about malleable jobs. It imports nothing, because each call of make reads it."""

from __future__ import annotations

FIGURES: tuple[tuple[str, str, str], ...] = (
    ("broker_wait_share", "time for which malleable jobs waited for the broker, of the time that they ran", "share"),
    ("resizes", "changes of size", ""),
    ("resizes_not_done", "changes of size that were decided, and not done", ""),
    ("resize_delay_mean", "from a job's question to the end of its change of size, mean", "s"),
    ("resize_delay_p99", "the same, 99th percentile", "s"),
    ("allocated_most", "processors allocated at once, at most", ""),
)
"""Figures of the verdict that are shown: name, meaning, unit."""
