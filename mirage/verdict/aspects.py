"""What the aspects have in the verdict: the members of their modules `verdict`, each of which a module may leave out.

A run without the aspect has no figures, no reasons and no members of it.

KNOBS, UNUSED: its knobs, and the value of the first one in a run without the aspect; MEMBER: its member of metrics.json.
METRICS, FIGURES: its metrics, of which `main_if` of the first names one that is above 0 where a run has the aspect, and its figures
of the verdict that are shown (name, meaning, unit). They are in its modules `metrics` and `figures`, too.
BOUNDS: bounds of figures: `AspectBound`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from mirage import aspects
from mirage.metrics.measured_jobs import Population
from mirage.records.aspects import OfRun
from mirage.records.record import RunRecord
from slurm_mirage.rm.evidence import Layout

_MODULE = "verdict"


@dataclass(frozen=True)
class AspectBound:
    """The bound of a figure that is a share, in a run that has the aspect.

    of_run: the aspect's class; threshold: member of `Thresholds`; name: what the figure is; of_what: text after its value
    """

    of_run: type[OfRun]
    figure: str
    threshold: str
    name: str
    of_what: str


@dataclass(frozen=True)
class Rows:
    """What tables show of an aspect, as the module's docstring says; metrics: names."""

    knobs: tuple[str, ...]
    unused: str
    member: str
    main_if: str
    metrics: tuple[str, ...]
    figures: tuple[tuple[str, str, str], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its metrics, figures and knobs."""
        return (*self.metrics, *(name for name, *_ in self.figures), *self.knobs)


def rows() -> tuple[Rows, ...]:
    """What tables show of each aspect that has metrics and figures."""
    return tuple(
        Rows(
            module.KNOBS,
            module.UNUSED,
            module.MEMBER,
            module.METRICS[0].main_if,
            tuple(metric.name for metric in module.METRICS),
            module.FIGURES,
        )
        for module in aspects.modules(_MODULE)
        if hasattr(module, "FIGURES")
    )


def shown_figures() -> tuple[tuple[str, str, str], ...]:
    """The figures of all aspects that are shown: name, meaning, unit."""
    return aspects.listed(_MODULE, "FIGURES")


def bounds() -> tuple[AspectBound, ...]:
    """The bounds of all aspects."""
    return aspects.listed(_MODULE, "BOUNDS")


def figures(record: RunRecord) -> dict[str, Any]:
    """The figures of the verdict of all aspects, by name."""
    return aspects.merged(_MODULE, "figures", record)


def reasons(record: RunRecord, layout: Layout) -> list[str]:
    """Reasons of all aspects why the run is invalid. layout: its machine"""
    return [reason for of in aspects.offers(_MODULE, "reasons") for reason in of(record, layout)]


def members(
    record: RunRecord, measured: Mapping[str, Any], population: Population, suspensions: pl.DataFrame | None
) -> dict[str, Any]:
    """The members of metrics.json of all aspects.

    measured: those of `metrics.compute`; population, suspensions: what it measured
    """
    return aspects.merged(_MODULE, "members", record, measured, population, suspensions)


def errors(
    record: RunRecord, values: Mapping[str, float | None], emulation: Mapping[str, float | str], capacity: float
) -> dict[str, float]:
    """Half widths of the metrics of all aspects, by name.

    values: all metrics; emulation: half widths of the others; capacity: processor seconds of the machine over the window
    """
    return aspects.merged(_MODULE, "errors", record, values, emulation, capacity)


def sentences(metrics: Mapping[str, Any]) -> list[str]:
    """Sentences of all aspects about metrics.json, without full stops."""
    return [sentence for of in aspects.offers(_MODULE, "sentences") for sentence in of(metrics)]
