"""Fillers on the idle processors of a simulated schedule (FILLER, FILLER_JOBS of `make simulate`)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from mirage.commands.simulate import Simulated, schedule
from mirage.knobs.knobs import Knobs
from mirage.workloads.workload import Workload
from mirage_extras.filler.knobs import FillerKnobs
from mirage_extras.filler.metrics import FILLERS_FILE, simulated_executions
from mirage_extras.filler.words import words_of
from slurm_mirage.extras.filler.words import PLANNED


def simulated(
    knobs: Knobs, chosen: Workload, processors: int, policy: str, by_limits: bool, without: pl.DataFrame
) -> Simulated | None:
    """The schedule with fillers on its idle processors until the last job has ended; None without FILLER.

    Parameters as for `played`; without: its result. The function of the result takes the content of metrics.json.
    """
    if not knobs.part(FillerKnobs).is_wanted:
        return None
    from mirage_extras.filler.simulation import delay, fill, gain  # numba takes a moment to load

    words, variant = words_of(knobs.part(FillerKnobs)), knobs.part(FillerKnobs).variant
    frame, hold = schedule(chosen, processors, policy, by_limits, words.save if variant == PLANNED else 0.0)
    start = frame["submit"] + frame["wait"]
    end = pl.select(pl.when(frame["run_time"] >= 0).then(start + frame["run_time"])).to_series()
    width = frame["allocated_processors"].to_numpy()
    begin, stop = float(frame["submit"].min() or 0), float(end.max() or 0)  # type: ignore[arg-type]
    began, ended = (times.to_numpy().astype(np.float64) for times in (start, end))
    fillers = fill(hold, np.where(np.isnan(ended), np.nan, began), ended, width, processors, words, variant, begin, stop)

    def sentences(metrics: Mapping[str, float | None]) -> list[str]:
        return [gain(metrics, words), delay(frame, without)]

    return Simulated(frame, {FILLERS_FILE: simulated_executions(fillers, words)}, sentences)
