"""Settings of Slurm with which filler jobs give up their nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.extras.filler.filler_settings import with_fillers

CONFIGS = Path(__file__).parents[3] / "configs"
BATCH = {"name": "batch", "Default": True, "MaxTime": "UNLIMITED"}
OWN = {"name": "filler", "PriorityTier": 0, "PreemptMode": "REQUEUE", "GraceTime": 15, "MaxNodes": 1, "MaxTime": "UNLIMITED"}


def test_the_partition_of_fillers_is_below_all_others() -> None:
    settings, partitions = with_fillers({"SchedulerType": "sched/backfill"}, [BATCH], 15, "22.05.8")
    assert partitions == [{**BATCH, "PreemptMode": "OFF"}, OWN]
    assert settings == {
        "SchedulerType": "sched/backfill",
        "PreemptType": "preempt/partition_prio",
        "PreemptMode": "REQUEUE",
        "RequeueExit": "99",
        "MaxBatchRequeue": 60_000,
        "SlurmctldParameters": "preempt_send_user_signal",
        "AuthInfo": "cred_expire=5",
    }


def test_lists_of_words_keep_theirs() -> None:
    given = {
        "authinfo": "socket=/run/munge,cred_expire=60",
        "RequeueExit": 100,
        "SlurmctldParameters": ["enable_configless", "preempt_send_user_signal"],
        "SchedulerParameters": {"bf_interval": 5, "bf_continue": True},
    }
    settings, _ = with_fillers(given, [BATCH], 0, "25.11.7")
    assert settings["SlurmctldParameters"] == "enable_configless,preempt_send_user_signal"
    assert settings["RequeueExit"] == "100,99"
    assert settings["SchedulerParameters"] == "bf_interval=5,bf_continue,requeue_delay=0"
    assert settings["authinfo"] == "socket=/run/munge,cred_expire=60", "25.11 has a delay of its own"
    settings, _ = with_fillers(given, [BATCH], 0, "24.11.7")
    assert settings["authinfo"] == "socket=/run/munge,cred_expire=5"


def test_partitions_that_preempt_each_other_go_on_doing_so() -> None:
    requeue = yaml.safe_load((CONFIGS / "requeue.yml").read_text())
    settings, partitions = with_fillers(requeue["settings"], requeue["partitions"], 15, "")
    assert partitions == [*requeue["partitions"], OWN]
    assert settings["PreemptMode"] == "REQUEUE"


def test_a_partition_with_the_lowest_tier_is_raised() -> None:
    _, partitions = with_fillers({}, [{"name": "low", "prioritytier": 0}, {"name": "high", "PriorityTier": 7}, BATCH], 15, "")
    assert [dict(each)["PreemptMode"] for each in partitions] == ["OFF", "OFF", "OFF", "REQUEUE"]
    assert [each.get("prioritytier", each.get("PriorityTier")) for each in partitions] == [1, 8, 2, 0]


@pytest.mark.parametrize(
    ("settings", "partitions", "version", "message"),
    [
        ({"PreemptType": "preempt/qos"}, [BATCH], "", "PreemptType=preempt/qos .* need preempt/partition_prio"),
        ({"PreemptType": "preempt/partition_prio", "PreemptMode": ["SUSPEND", "GANG"]}, [BATCH], "", "PreemptMode=SUSPEND,GANG"),
        ({"preempttype": "preempt/partition_prio", "preemptmode": "CANCEL"}, [BATCH], "", "PreemptMode=CANCEL"),
        ({"PreemptExemptTime": "00:10:00"}, [BATCH], "", "fillers would keep nodes"),
        ({"SchedulerType": "sched/builtin"}, [BATCH], "", "only sched/backfill starts fillers"),
        ({}, [BATCH, {"name": "Filler"}], "", "has a partition filler"),
        ({}, [{"name": "batch", "PriorityTier": "high"}], "", "PriorityTier=high: a whole number"),
        ({}, [BATCH], "20.11.9", "20.11.9 was not tried with fillers; take 22.05 or later"),
    ],
)
def test_what_does_not_fit_is_refused(
    settings: dict[str, Any], partitions: list[dict[str, Any]], version: str, message: str
) -> None:
    with pytest.raises(WrongUse, match=message):
        with_fillers(settings, partitions, 15, version)


def test_a_grace_time_below_0_is_refused() -> None:
    with pytest.raises(WrongUse, match="a grace time of -1 s: 0 or more"):
        with_fillers({}, [BATCH], -1, "")


@pytest.mark.parametrize("settings", [{"PreemptMode": False}, {"PreemptExemptTime": "-1"}, {"PreemptExemptTime": "00:00:00"}])
def test_what_says_no_is_no_obstacle(settings: dict[str, Any]) -> None:
    assert with_fillers(settings, [BATCH], 15, "")[0]["PreemptMode"] == "REQUEUE"
