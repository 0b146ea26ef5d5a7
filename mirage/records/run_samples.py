"""Reads what was measured beside the jobs' records of a run: samples, diagnostics, clocks of the hosts, errors of the daemons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from slurm_mirage.base.files import read_json
from slurm_mirage.rm.registry import records_of


def read_figures(path: Path) -> pl.DataFrame:
    """Reads a CSV file of the monitor as numbers (null: missing, or an incomplete line); no columns if missing or empty."""
    if not path.exists() or path.stat().st_size == 0:
        return pl.DataFrame()
    frame = pl.read_csv(path, infer_schema=False, truncate_ragged_lines=True)
    return frame.with_columns(pl.all().cast(pl.Float64, strict=False))


def read_diagnostics(folder: Path) -> pl.DataFrame:
    """The resource manager's diagnostics during the run in `folder`; those of the backfill scheduler as in BACKFILL_DIAGNOSTICS."""
    records = records_of(folder)
    return read_figures(folder / records.diagnostics_file).rename(dict(records.diagnostic_names), strict=False)


def read_offsets(folder: Path) -> dict[str, Any]:
    """Reads clock_offsets.json of a run on several hosts: lists `before` and `after` of the measurements of `clock_offset` by host.

    Empty for a run on one host.
    """
    offsets: dict[str, Any] = read_json(folder / "clock_offsets.json") or {}
    return offsets


def read_complaints(folder: Path) -> dict[str, Any]:
    """Reads complaints.json of a run; empty if it was not collected.

    `head` is the name of the head; `counts` and `lines` have, by host and kind, the number of the daemons' error messages and the
    first of them; `events` has the list of the farm's events by host (slurm_mirage/farm/events.py).
    """
    complaints: dict[str, Any] = read_json(folder / "complaints.json") or {}
    return complaints
