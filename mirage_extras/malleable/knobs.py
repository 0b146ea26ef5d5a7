"""The knobs of malleable jobs."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from mirage.knobs.knob import OF_BUILD, OF_RUN, WORKLOAD, Knob
from mirage.knobs.parse import path_text, share


@dataclass(frozen=True)
class MalleableKnobs:
    """Malleable jobs."""

    share: Decimal
    """Share of the jobs, from 0 to 1."""
    sizes: str

    @property
    def is_wanted(self) -> bool:
        """Whether the cluster has a broker, and the run malleable jobs."""
        return self.share > 0


Part = MalleableKnobs
NOT_WITH_SITE = ("MALLEABLE",)
ROWS = (
    Knob(
        "MALLEABLE",
        "malleable.share",
        "0",
        share,
        "a share from 0 to 1 (0.5), or per cent (50% or 50)",
        "share of the jobs that change their size while they run: 0.5, or 50%; 0: none, and a cluster without the broker",
        OF_BUILD,
        is_input=True,
        group=WORKLOAD,
    ),
    Knob(
        "MALLEABLE_JOBS",
        "malleable.sizes",
        "recorded preferred=none",
        path_text,
        "MIN:MAX:FACTOR:PREFERRED with options, or a rule, as mirage_extras/malleable/README.md lists them",
        "sizes of malleable jobs in nodes: MIN:MAX:FACTOR:PREFERRED and options, or by the recorded size",
        OF_RUN,
        is_input=True,
        group=WORKLOAD,
    ),
)
