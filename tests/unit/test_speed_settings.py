"""Settings that follow the speed of the clock."""

from __future__ import annotations

import pytest

from slurm_mirage.errors import WrongUse
from slurm_mirage.speed_settings import follow


def test_defaults_and_own_values_are_multiplied_up_to_what_slurm_takes() -> None:
    slow = {"MessageTimeout": 60, "KillWait": 30, "AuthInfo": "socket=/run/munge", "SchedulerParameters": {"bf_interval": 5}}
    fast = follow(slow, 20)
    assert (fast["MessageTimeout"], fast["TCPTimeout"], fast["KillWait"]) == (1200, 40, 30)
    assert fast["AuthInfo"] == "socket=/run/munge,cred_expire=2400"
    assert fast["SchedulerParameters"] == (
        "bf_interval=5,max_sched_time=40,build_queue_timeout=40000000,bf_max_time=100,bf_yield_interval=10000000,bf_yield_sleep=2500000"
    )
    assert follow(slow, 1000)["SlurmdTimeout"] == 65533


def test_what_is_not_a_number_is_wrong_use() -> None:
    with pytest.raises(WrongUse, match=r"slurm\.conf: MessageTimeout=soon: must be a number"):
        follow({"MessageTimeout": "soon"}, 2)
