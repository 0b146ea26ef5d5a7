"""The knobs of a sandbox."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from mirage.knobs.knob import CLUSTER, TIME, Knob
from mirage.knobs.parse import MAX_SPEED, at_least, matching, optional

TARGET = "sandbox"


@dataclass(frozen=True)
class SandboxKnobs:
    """A sandbox, and whose shell it is that make shell starts."""

    pace: Decimal | None
    """Constant speed of the clock; None for a cluster that is no sandbox."""
    user: str | None

    @property
    def is_wanted(self) -> bool:
        """Whether the cluster has users with names, the REST API and metrics."""
        return self.pace is not None


Part = SandboxKnobs
ONLY_GIVEN_TO_MAKE = ("USER",)
"""Every shell has this variable in its environment."""
ROWS = (
    Knob(
        "PACE",
        "sandbox.pace",
        "",
        optional(at_least(1, whole=False, most=MAX_SPEED)),
        f"a number from 1 to {MAX_SPEED}",
        "sandbox: the clock passes so many times faster, at a constant speed",
        (TARGET,),
        group=TIME,
        shown="1",
    ),
    Knob(
        "USER",
        "sandbox.user",
        "",
        optional(matching("[a-z][a-z0-9_-]{0,30}")),
        "a lower-case letter, then at most 30 lower-case letters, digits, '-' or '_'",
        "shell: the ordinary user of a sandbox whose shell it is; a new name is a new user. Counts only if given to make",
        ("shell",),
        group=CLUSTER,
        shown="the instance's user",
    ),
)
