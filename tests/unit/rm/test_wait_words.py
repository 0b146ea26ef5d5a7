"""The reasons of waiting jobs in neutral words."""

from __future__ import annotations

import pytest

from slurm_mirage.rm.evidence import WaitWord
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
        (
            WaitWord.USER,
            ["AssocMaxJobsLimit", "QOSMaxCpuPerUserLimit", "QOSMaxJobsPerUserLimit", "QOSMaxGRESPerUser", "MaxCpuRunMinsPerUser"],
        ),
        (WaitWord.ACCOUNT, ["AssocGrpCpuLimit", "AssociationJobLimit", "MaxCpuPerAccount"]),
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
