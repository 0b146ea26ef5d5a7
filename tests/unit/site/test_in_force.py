"""Settings as written compared with those that Slurm shows."""

from __future__ import annotations

import pytest

from mirage.site.in_force import not_in_force

SHOWN = """Configuration data as of 2026-03-01T10:00:00
AccountingStorageEnforce = associations,limits,qos,safe
AccountingStorageTRES   = cpu,mem,energy,node,billing,fs/disk,vmem,pages,gres/gpu
EnforcePartLimits       = ANY
KillWait                = 30 sec
Licenses                = (null)
MaxMemPerNode           = UNLIMITED
OverTimeLimit           = 5 min
PriorityCalcPeriod      = 00:05:00
PriorityDecayHalfLife   = 30-00:00:00
PriorityFavorSmall      = No
PriorityFlags           = DEPTH_OBLIVIOUS,NO_NORMAL_ALL
PriorityMaxAge          = 7-12:00:00
PriorityWeightAge       = 1000
PriorityWeightTRES      = CPU=0,Mem=0.03,GRES/gpu=30000
SchedulerParameters     = bf_max_job_test=500,bf_window=2880,bf_max_time=3600
SelectType              = select/cons_tres
"""


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("PriorityDecayHalfLife", "30-0"),
        ("PriorityDecayHalfLife", "720:00:00"),
        ("PriorityMaxAge", "7-12"),
        ("PriorityMaxAge", "7-12:00"),
        ("PriorityCalcPeriod", "5"),
        ("PriorityCalcPeriod", "5:00"),
        ("EnforcePartLimits", "YES"),
        ("enforcepartlimits", "any"),
        ("MaxMemPerNode", "INFINITE"),
        ("PriorityFavorSmall", "NO"),
        ("PriorityFlags", "NO_NORMAL_TRES,DEPTH_OBLIVIOUS"),
        ("PriorityWeightAge", "01000"),
        ("PriorityWeightTRES", "cpu=0,GRES/gpu=30000,Mem=.03"),
        ("SchedulerParameters", "bf_window=2880,bf_max_job_test=500"),
        ("AccountingStorageTRES", "gres/gpu"),
        ("AccountingStorageEnforce", "QOS,limits"),
        ("KillWait", "30"),
        ("OverTimeLimit", "5"),
        ("SelectType", "select/cons_res"),
        ("Licenses", ""),
        ("NotShown", "1"),
    ],
)
def test_equal_values_in_other_words(key: str, value: str) -> None:
    assert not_in_force({key: value}, SHOWN) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("PriorityDecayHalfLife", "30"),
        ("PriorityMaxAge", "7-0"),
        ("PriorityCalcPeriod", "50"),
        ("EnforcePartLimits", "ALL"),
        ("EnforcePartLimits", "NO"),
        ("MaxMemPerNode", "4000"),
        ("PriorityFlags", "MAX_TRES"),
        ("PriorityWeightAge", "900"),
        ("PriorityWeightTRES", "CPU=1"),
        ("SchedulerParameters", "bf_window=288"),
        ("SchedulerParameters", "defer"),
        ("Licenses", "a:4"),
        ("KillWait", "300"),
    ],
)
def test_other_values_are_told(key: str, value: str) -> None:
    (line,) = not_in_force({key: value}, SHOWN)
    assert line.startswith(f"{key}={value}: in force is ")
