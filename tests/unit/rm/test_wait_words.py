"""The reasons of waiting jobs in neutral words, and how many jobs a backfill cycle looks at."""

from __future__ import annotations

import pytest

from slurm_mirage.rm.evidence import WaitWord
from slurm_mirage.rm.openpbs.records import OpenPbsRecords
from slurm_mirage.rm.slurm.records import SlurmRecords

RECORDS = SlurmRecords()


@pytest.mark.parametrize(
    ("word", "reasons"),
    [
        (WaitWord.UNTESTED, ["None"]),
        (WaitWord.UNKNOWN, ["", "Cleaning", "Prolog", "BurstBufferResources", "SchedDefer", "MpiPortsBusy", "217"]),
        (WaitWord.AHEAD, ["Priority"]),
        (WaitWord.NO_ROOM, ["Resources", "Nodes required for job are DOWN DRAINED or reserved for jobs in hig"]),
        (WaitWord.DEPENDENCY, ["Dependency", "DependencyNeverSatisfied"]),
        (WaitWord.BEGIN, ["BeginTime"]),
        (WaitWord.HELD, ["JobHeldUser", "JobHeldAdmin", "JobHoldMaxRequeue", "launch failed requeued held"]),
        (WaitWord.ARRAY, ["JobArrayTaskLimit"]),
        (WaitWord.USER, ["QOSMaxCpuPerUserLimit", "QOSMaxJobsPerUserLimit", "QOSMaxGRESPerUser", "MaxCpuRunMinsPerUser"]),
        (WaitWord.ACCOUNT, ["AssocGrpCpuLimit", "AssocMaxJobsLimit", "AssociationJobLimit", "MaxCpuPerAccount"]),
        (WaitWord.ACCOUNT, ["Job is at or exceeds association (acc=a/user=u/part=) group wall l"]),
        (WaitWord.QOS, ["QOSGrpNodeLimit", "QOSMaxWallDurationPerJobLimit", "QOSJobLimit", "QOSUsageThreshold"]),
        (WaitWord.PARTITION, ["PartitionNodeLimit", "PartitionTimeLimit", "PartitionConfig", "PartitionDown", "MaxMemPerLimit"]),
        (WaitWord.LICENCE, ["Licenses"]),
        (WaitWord.RESERVATION, ["Reservation", "ReqNodeNotAvail Reserved for maintenance"]),
        (WaitWord.NODES, ["ReqNodeNotAvail", "ReqNodeNotAvail UnavailableNodes", "NodeDown"]),
    ],
)
def test_words_of_slurm(word: WaitWord, reasons: list[str]) -> None:
    assert {reason: RECORDS.wait_word(reason) for reason in reasons} == dict.fromkeys(reasons, word)


def test_another_manager_says_nothing() -> None:
    assert OpenPbsRecords().wait_word("Priority") is WaitWord.UNKNOWN


@pytest.mark.parametrize(
    ("settings", "version", "most"),
    [
        ("", "22.05.8", (500, None, 30.0)),
        ("", "20.11.9", (100, None, 30.0)),
        ("bf_max_job_test=50,bf_max_job_user=7,bf_interval=60", "22.05.8", (50, 7, 60.0)),
        ("bf_max_job_user_part=3,bf_max_time=90,bf_interval=60", "25.11.1", (500, None, 90.0)),
        ("bf_max_job_user=0", "25.11.1", (500, None, 30.0)),
    ],
)
def test_how_far_a_backfill_cycle_looks(settings: str, version: str, most: tuple[int, int | None, float]) -> None:
    told = f"SchedulerType = sched/backfill\nSLURM_VERSION = {version}\nSchedulerParameters = {settings}\n"
    found = RECORDS.scheduling(told)
    assert (found.most_tested, found.most_tested_of_user, found.longest_cycle) == most


def test_no_backfill_no_limits() -> None:
    found = RECORDS.scheduling("SchedulerType = sched/builtin\nSLURM_VERSION = 22.05.8\n")
    assert (found.most_tested, found.most_tested_of_user, found.longest_cycle) == (None, None, None)
    assert RECORDS.scheduling("").most_tested is None
