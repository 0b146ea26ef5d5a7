"""Reports SLURM_CONF settings that were ignored or did not take effect."""

from __future__ import annotations

from pathlib import Path

from mirage.experiment import configuration
from mirage.knobs.parse import Value
from slurm_mirage.rm.slurm.records import configuration_of
from slurm_mirage.rm.slurm.site_conf import not_in_force

LEFT_OUT = "slurm_conf_left_out.txt"


def left_out(knobs: dict[str, Value]) -> list[str]:
    """Lines of the file that the emulated cluster does not use, each with the reason."""
    site = configuration.site_of(knobs)
    return [] if site is None else [f"SLURM_CONF: not taken over: {line}" for line in site.left_out]


def write(knobs: dict[str, Value], folder: Path) -> None:
    """Write these lines to a file in the run's folder."""
    if lines := left_out(knobs):
        (folder / LEFT_OUT).write_text("".join(f"{line}\n" for line in lines))


def not_taken(knobs: dict[str, Value], folder: Path) -> list[str]:
    """Settings of the file that did not take effect in a run, one line each, by the settings that Slurm showed during it.

    Settings that CONFIG overrides are left out.
    """
    shown = configuration_of(folder)
    site = configuration.site_of(knobs)
    if site is None or not shown:
        return []
    ours = {key.lower() for key in configuration.of(knobs).settings}
    kept = {key: value for key, value in site.settings.items() if key.lower() not in ours}
    lines = [f"SLURM_CONF: {line}" for line in not_in_force(kept, shown)]
    return lines or [f"SLURM_CONF: {len(kept)} settings taken over, all in force as written"]
