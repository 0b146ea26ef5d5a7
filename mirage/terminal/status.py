"""`make status`: formats the result of slurm_farm_info as lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mirage.terminal.figures import Row, daemons, rows


def lines(farm_info: Mapping[str, Any], progress: Mapping[str, Any] | None) -> list[str]:
    """The lines of the screen. progress: progress.json of the active run if it is on this machine."""
    return [line(row) for row in rows(farm_info, progress or farm_info.get("progress"))]


def host_lines(farms: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A line about the daemons of each other host. farms: result of slurm_farm_info by host."""
    return [line(replace(row, label=host)) for host, info in sorted(farms.items()) for row in daemons(info["farm"])[:1]]


def line(row: Row) -> str:
    """A row as text, without a bar."""
    return f"{row.label + ':' if row.label else '':<10}{row.text}"
