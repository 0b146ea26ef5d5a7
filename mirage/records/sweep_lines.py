"""Reads sweep.csv, which names the runs of a sweep."""

from __future__ import annotations

import csv
from pathlib import Path

from mirage.records.file_names import SWEEP_FILE
from mirage.traces.csv_frame import check_lines
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.strict_json import Name


def lines_of(folder: Path) -> list[dict[str, str]]:
    """The lines of sweep.csv as mappings of column to text. Raises WrongUse for one that does not name a run beside the sweep."""
    path = folder / SWEEP_FILE
    check_lines(path, "run")
    with path.open(newline="") as stream:
        lines = list(csv.DictReader(stream))
    for number, line in enumerate(lines, 2):
        if fault := Name().fault(line.get("run"), "run"):
            raise WrongUse(f"{path} line {number}: {fault}", parameter="run")
    return lines
