"""Parts of a log that cannot be read: lines are left out, and single fields are unknown. Both are counted and reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slurm_mirage.base.errors import WrongUse

REASON = "line of the log that cannot be read"
"""Why the jobs of such lines are left out, in `excluded` of metrics.json and experiment.json."""

_NAMED_FAULTS = 3


@dataclass(frozen=True)
class Unread:
    """Lines that were left out of a log, and fields of others that are taken as unknown.

    lines: number of all lines with jobs, those left out included
    count: number of lines left out
    faults: what is wrong with the first of these lines, by line number
    fields: number of fields that could not be read, in lines that are used without them
    field_faults: what is wrong with the first of these fields, by line number
    """

    lines: int = 0
    count: int = 0
    faults: Mapping[int, str] = field(default_factory=dict)
    fields: int = 0
    field_faults: Mapping[int, Sequence[str]] = field(default_factory=dict)

    def excluded(self) -> dict[str, int]:
        """The number of lines left out, by `REASON`; empty if all lines were read."""
        return {REASON: self.count} if self.count else {}

    def in_words(self) -> str:
        """`2 of 5,000 lines could not be read: line 17: has 9 fields, the heading has 12; line 40: ...`; the same of fields, which
        are taken as unknown; empty without any."""
        lines = sorted(self.faults.items())
        fields = [(line, fault) for line, faults in sorted(self.field_faults.items()) for fault in faults]
        of_lines = f"{self.count:,} of {self.lines:,} lines could not be read: {_first_faults(lines, self.count)}"
        of_fields = f"fields that could not be read are taken as unknown, {self.fields:,}: {_first_faults(fields, self.fields)}"
        return "; ".join([of_lines] * bool(self.count) + [of_fields] * bool(self.fields))


def _first_faults(faults: Sequence[tuple[int, str]], count: int) -> str:
    shown = [f"line {line}: {fault}" for line, fault in faults[:_NAMED_FAULTS]]
    return "; ".join(shown + ["..."] * (count > len(shown)))


def refuse_if_half(unread: Unread, name: str) -> None:
    """Raises WrongUse with the first fault if half of the lines of the file `name`, or more, cannot be read: it is not a log."""
    if unread.count * 2 >= unread.lines > 0:
        line, fault = min(unread.faults.items())
        raise WrongUse(f"{name} line {line}: {fault}", parameter="trace")
