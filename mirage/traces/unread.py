"""Lines of a log that cannot be read: they are counted and told, and the others are used, unless half of the lines are such."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slurm_mirage.base.errors import WrongUse

REASON = "line of the log that cannot be read"
"""Why the jobs of such lines are left out, in `excluded` of metrics.json and experiment.json."""

_TOLD = 3


@dataclass(frozen=True)
class Unread:
    """Lines that were left out of a log.

    lines: number of all lines with jobs, those left out included
    count: number of lines left out
    faults: what is wrong with the first ones, by line number
    """

    lines: int = 0
    count: int = 0
    faults: Mapping[int, str] = field(default_factory=dict)

    def excluded(self) -> dict[str, int]:
        """Member of a mapping of numbers by reason; empty if all lines were read."""
        return {REASON: self.count} if self.count else {}

    def in_words(self) -> str:
        """`2 of 5,000 lines could not be read: line 17: has 9 fields, the heading has 12; line 40: ...`; empty without any."""
        if not self.count:
            return ""
        told = [f"line {line}: {fault}" for line, fault in sorted(self.faults.items())[:_TOLD]]
        more = ["..."] if self.count > len(told) else []
        return f"{self.count:,} of {self.lines:,} lines could not be read: {'; '.join(told + more)}"


def refuse_if_half(unread: Unread, name: str) -> None:
    """Raises WrongUse with the first fault if half of the lines of the file `name`, or more, cannot be read: it is no log."""
    if unread.count * 2 >= unread.lines > 0:
        line, fault = min(unread.faults.items())
        raise WrongUse(f"{name} line {line}: {fault}", parameter="trace")
