"""The kinds of jobs in the verdict and its tables."""

from __future__ import annotations

from typing import Any, Protocol

from mirage.kinds.filler import verdict as filler
from mirage.kinds.malleable import verdict as malleable
from mirage.metrics.metric import Metric
from mirage.records.collect import Collected
from slurm_mirage.rm.evidence import Layout


class KindVerdict(Protocol):
    """What a kind has in the verdict. Without jobs of the kind there are no figures and no reasons."""

    KNOBS: tuple[str, ...]
    """Its knobs."""
    UNUSED: str
    """Value of the first of KNOBS in a run without such jobs."""
    MEMBER: str
    """Member of metrics.json about them."""
    METRICS: tuple[Metric, ...]
    """Its metrics; `main_if` of the first names one that is above 0 where there were such jobs."""
    FIGURES: tuple[tuple[str, str, str], ...]
    """Figures of the verdict that are shown: name, meaning, unit."""

    def figures(self, collected: Collected) -> dict[str, Any]:
        """All figures of the verdict, by name."""

    def reasons(self, collected: Collected, layout: Layout) -> list[str]:
        """Reasons why the run is invalid. layout: its machine"""


KINDS: tuple[KindVerdict, ...] = (malleable, filler)
ERRORS = (filler.errors,)
"""Functions for half widths of the kinds' metrics by name: from the records, all metrics, the half widths of the others, and the
processor seconds of the machine over the window."""
MEMBERS = (filler.members,)
"""Functions for members of metrics.json: from the records, the members of `metrics.compute`, and the population and the
suspensions that it measured."""
SENTENCES = (filler.sentences,)
"""Functions for sentences about the kinds in metrics.json, without full stops."""
