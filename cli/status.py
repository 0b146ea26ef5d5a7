"""`make status`: one screen about an instance, made of what slurm_farm_info returned."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from slurm_mirage.files import read_json

from .screen import progress_line, start_line


def lines(farm_info: Mapping[str, Any], progress: Mapping[str, Any] | None) -> list[str]:
    """The screen, a string a line. `progress` is the progress.json of the run that goes on, if one does."""
    farm = farm_info["farm"]
    if farm["phase"] == "stopped":
        return ["daemons: none runs"]
    kinds = [f"{kind} {count['up']}/{count['wanted']}" for kind, count in farm["daemons"].items()]
    screen = [f"daemons: {', '.join(kinds)} ({farm['phase']}, {farm['restarts']} restarts)"]
    if (start := start_line(farm)) is not None:
        screen.append(f"start:   {start.removeprefix('starting nodes: ')}")
    screen += [f"  {name} keeps ending: {why}" for name, why in farm["failing"].items()]
    screen += [f"  refused by this host: {what} ({why})" for what, why in farm["refused"].items()]
    screen.append(f"nodes:   {_counts(farm_info['nodes']) or 'slurmctld does not answer'}")
    screen.append(f"jobs:    {_counts(farm_info['jobs']) or 'none'}")
    screen.append(f"clock:   {_clock(farm_info['clock'])}")
    screen.append(f"memory:  {farm_info['memory'] / 1024:.1f} GiB of the host available")
    if progress is not None:
        screen.append(progress_line(progress))
    return screen


def _clock(clock: Mapping[str, float] | None) -> str:
    """The instance's time beside this machine's, both in UTC, as the daemons have it."""
    if clock is None:
        return "real time (SPEED=1)"
    virtual, real = (f"{datetime.fromtimestamp(clock[key], UTC):%Y-%m-%d %H:%M:%S}" for key in ("virtual", "real"))
    return f"{virtual} in the cluster, {real} outside (UTC), SPEED={clock['speed']:g}"


def _counts(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {state}" for state, count in sorted(numbers.items()))


def read_progress(instance: Path, run: str | None) -> Mapping[str, Any] | None:
    """progress.json of `run` in the instance's directory; None when no run goes on."""
    progress: Mapping[str, Any] | None = read_json(instance / "runs" / run / "progress.json") if run else None
    return progress
