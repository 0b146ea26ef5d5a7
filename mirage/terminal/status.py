"""`make status`: one screen about an instance, made of what slurm_farm_info returned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mirage.terminal.figures import Row, daemons, rows
from slurm_mirage.base.files import read_json


def lines(farm_info: Mapping[str, Any], progress: Mapping[str, Any] | None) -> list[str]:
    """The screen, a string a line. `progress` is the progress.json of the run that goes on, if one does on this machine."""
    return [line(row) for row in rows(farm_info, progress or farm_info.get("progress"))]


def host_lines(farms: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A line about each of the other hosts: its daemons, by what slurm_farm_info returned there."""
    return [line(replace(row, label=host)) for host, told in sorted(farms.items()) for row in daemons(told["farm"])[:1]]


def line(row: Row) -> str:
    """A row without any drawing."""
    return f"{row.label + ':' if row.label else '':<10}{row.text}"


def read_progress(instance: Path, run: str | None) -> Mapping[str, Any] | None:
    """progress.json of `run` in the instance's directory; None when no run goes on."""
    progress: Mapping[str, Any] | None = read_json(instance / "runs" / run / "progress.json") if run else None
    return progress
