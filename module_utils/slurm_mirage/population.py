"""Who is measured, and over which time: the jobs behind all metrics, and the window that is left of a schedule after its cuts."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Union

import polars as pl

from .errors import WrongUse
from .jobs_frame import PARTIAL

Cut = Union[float, str]
"""A length of a schedule: seconds, or text: `3600`, `5%` (of the time from its first submission to its last end)."""

_DIGITS = 6  # of a run time in seconds: what is left of subtracting equal times in floats is no run time
_PARTIAL = "partial execution"
_UNSTARTED = "cancelled before start"


@dataclass(frozen=True)
class Window:
    """What is left of a schedule, in trace seconds; warmup and cooldown were cut off before and after it."""

    begin: float
    end: float
    warmup: float
    cooldown: float

    @property
    def length(self) -> float:
        return self.end - self.begin

    @property
    def is_cut(self) -> bool:
        return self.warmup > 0 or self.cooldown > 0


@dataclass(frozen=True)
class Population:
    """The jobs of a schedule as metrics need them.

    measured: the jobs that can be measured: columns id, nodes, suspended (as recorded), and the quantities a, s, f, t, p, c of
        metrics.py's text
    inside: those of them that were submitted within the window, without presets (presets.py), which began to wait before it
    unstarted: jobs that were cancelled while they waited: a, f (of the wait), p
    window: None if there is nobody to measure
    excluded: how many are left out of all metrics, or of those over jobs, by reason
    """

    measured: pl.DataFrame
    inside: pl.DataFrame
    unstarted: pl.DataFrame
    window: Window | None
    excluded: dict[str, int]

    @classmethod
    def of(cls, jobs: pl.DataFrame, processors: int, nodes: int | None, warmup_cut: Cut, cooldown_cut: Cut) -> Population:
        """Judge and cut. Nodes that are not recorded: as few as hold the processors.

        Raises WrongUse for a cut that cannot be, or leaves nothing.
        """
        col = pl.col
        reasons, judgement = _judgement()
        verdict = jobs.lazy().select(judgement).collect().to_series()
        packed = (col("processors") * (nodes or 0) / processors).ceil().cast(pl.Int64)
        measured = (
            jobs.lazy()
            .filter(verdict == 0)
            .select(
                "id",
                "nodes",
                "suspended",
                a="submit",
                s="start",
                f="end",
                t=(col("end") - col("start") - col("suspended").fill_null(0)).round(_DIGITS),
                p="processors",
                c=pl.coalesce("nodes", packed),
                preset=col("preset").is_not_null() if "preset" in jobs.columns else pl.lit(False),
            )
            .collect()
        )
        unstarted = (
            jobs.lazy()
            .filter((verdict == reasons.index(_UNSTARTED)) & col("end").is_not_null() & (col("processors") > 0))
            .select(a="submit", f="end", p="processors")
            .collect()
        )
        window = _window(measured, warmup_cut, cooldown_cut)
        of_selection = measured.filter(~col("preset")) if measured["preset"].any() else measured
        inside = of_selection if window is None or not window.is_cut else _inside(of_selection, window)
        counts = {reasons[code]: count for code, count in verdict.value_counts().sort("count").iter_rows() if code}
        excluded = {reason: counts[reason] for reason in sorted(counts, key=lambda reason: (reason == _PARTIAL, reason))}
        excluded["preset: not in metrics over jobs"] = measured.height - of_selection.height
        if window is not None:
            excluded["submitted in the warm-up: not in metrics over jobs"] = of_selection.filter(col("a") < window.begin).height
            excluded["submitted in the cool-down: not in metrics over jobs"] = of_selection.filter(col("a") > window.end).height
        return cls(measured, inside, unstarted, window, excluded)


def _judgement() -> tuple[list[str], pl.Expr]:
    """Why a job is left out of all metrics: reasons, and the expression for the place in their list; 0: it is not.

    Numbers, because a text for each of millions of jobs takes three times as long.
    """
    col = pl.col
    faults = {
        _PARTIAL: col("state") == PARTIAL,
        "lost": col("state") == "LOST",
        "no submission time": col("submit").is_null(),
        _UNSTARTED: (col("state") == "CANCELLED") & col("start").is_null(),
        "no start": col("start").is_null(),
        "negative wait": col("start") < col("submit"),
        "no end": col("end").is_null(),
        "end before start": col("end") < col("start"),
        "no processors": col("processors").fill_null(0) < 1,
        "suspended for longer than it ran": (col("end") - col("start") - col("suspended")).round(_DIGITS) < 0,
    }
    code = pl.lit(0, pl.UInt8)
    for place, fault in reversed(list(enumerate(faults.values(), 1))):
        code = pl.when(fault).then(pl.lit(place, pl.UInt8)).otherwise(code)
    return ["", *faults], code


def _inside(measured: pl.DataFrame, window: Window) -> pl.DataFrame:
    """The jobs submitted within the window, both ends included."""
    inside = measured.filter(pl.col("a").is_between(window.begin, window.end))
    if window.length <= 0 or inside.is_empty():
        what = "nothing" if window.length <= 0 else "no submitted job"
        whole = window.length + window.warmup + window.cooldown
        cuts = f"{window.warmup:g} s and {window.cooldown:g} s leave {what} of the schedule's {whole:g} s"
        raise WrongUse(f"WARMUP_CUT, COOLDOWN_CUT: {cuts}; they may be shorter")
    return inside


def _window(measured: pl.DataFrame, warmup_cut: Cut, cooldown_cut: Cut) -> Window | None:
    """From the first submission to the last end of the measured jobs, less the cuts."""
    first, last = measured.select(pl.col("a").min(), pl.col("f").max()).row(0)
    span = 0.0 if first is None else last - first
    warmup, cooldown = _seconds("WARMUP_CUT", warmup_cut, span), _seconds("COOLDOWN_CUT", cooldown_cut, span)
    return None if first is None else Window(first + warmup, last - cooldown, warmup, cooldown)


def _seconds(name: str, cut: Cut, span: float) -> float:
    """A cut in seconds."""
    percent = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%", cut) if isinstance(cut, str) else None
    try:
        value = float(percent[1] if percent else cut)
    except ValueError:
        value = math.nan
    if not 0 <= value < (100 if percent else math.inf):
        raise WrongUse(f"{name}: {cut!r} may be seconds from 0 on, or a percentage of the schedule below 100: 5%")
    return value / 100 * span if percent else value
