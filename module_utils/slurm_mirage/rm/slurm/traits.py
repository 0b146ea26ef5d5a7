"""The traits of Slurm: names of its configurations, and settings that SHRINK leaves as they are."""

from __future__ import annotations

from ..traits import Traits

TRAITS = Traits(
    config_prefix="slurm-",
    not_shrunk=(
        "bf_interval",
        "bf_resolution",
        "sched_interval",
        "batch_sched_delay",
        "PriorityCalcPeriod",
        "KillWait",
        "the minutes that time limits are counted in and the 30 s between two looks at them",
    ),
)
