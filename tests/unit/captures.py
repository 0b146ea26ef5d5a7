"""Archives of mirage-capture that tests make: a small site's day."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mirage.site import archive

BEGIN = 1793487600
"""2026-11-01, 00:00 in Berlin."""
DAY = 86400
COLUMNS = (
    "JobID", "Cluster", "User", "Account", "Partition", "QOS", "Submit", "Eligible", "Start", "End", "ElapsedRaw", "State",
    "TimelimitRaw", "AllocCPUS", "ReqCPUS", "AllocNodes", "ReqNodes", "ReqMem", "ReqTRES", "AllocTRES", "SubmitLine", "JobIDRaw",
)  # fmt: skip

CONF = """ClusterName=s_1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=bf_max_job_user=4,bf_window=2880
PriorityType=priority/multifactor
PreemptType=preempt/qos
PreemptMode=REQUEUE
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageEnforce=associations,limits,qos
TopologyPlugin=topology/tree
NodeName=DEFAULT RealMemory=64000 State=UNKNOWN
NodeName=c[01-04] CPUs=16 CoreSpecCount=1 MemSpecLimit=2000 Weight=2
NodeName=g[1-2] CPUs=32 Feature=nvlink Gres=gpu:4
NodeName=f[1-9] CPUs=16 State=FUTURE
PartitionName=cpu Nodes=c[01-04],f[1-9] Default=YES AllowGroups=g_1
PartitionName=gpu Nodes=g[1-2] QOS=gpus AllowAccounts=a_1
"""
GRES = "NodeName=g[1-2] Name=gpu Type=a100 File=/dev/nvidia[0-3]\n"
TOPOLOGY = (
    "SwitchName=s1 Nodes=c[01-04]\nSwitchName=s2 Nodes=g[1-2],f1\nSwitchName=s3 Nodes=f[2-9]\nSwitchName=top Switches=s[1-3]\n"
)


def table(columns: tuple[str, ...], *rows: tuple[Any, ...]) -> str:
    """A table as the archive has it."""
    return "".join("\t".join(map(str, row)) + "\n" for row in (columns, *rows))


def job(number: int, **changes: Any) -> tuple[Any, ...]:
    """A row of COLUMNS: a job of one hour on 4 processors of the partition cpu."""
    row = {
        "JobID": number, "JobIDRaw": number, "Cluster": "s_1", "User": "u_b", "Account": "a_1", "Partition": "cpu", "QOS": "normal",
        "Submit": BEGIN + 60 * number, "ElapsedRaw": 3600, "State": "COMPLETED", "TimelimitRaw": 120, "AllocCPUS": 4, "ReqCPUS": 4,
        "AllocNodes": 1, "ReqNodes": 1, "ReqMem": "4000M", "ReqTRES": "cpu=4,mem=4000M,node=1",
        "AllocTRES": "cpu=4,mem=4000M,node=1", "SubmitLine": "sbatch --ntasks=4 script", **changes,
    }  # fmt: skip
    row = {"Eligible": row["Submit"], "Start": row["Submit"], **row}
    row = {"End": row["Start"] + row["ElapsedRaw"], **row}
    return tuple(row[column] for column in COLUMNS)


JOBS = (job(1), job(2, User="u_a", Account="a_2", Submit=BEGIN - 600), job(3, QOS="high", Partition="gpu"))
ASSOC = table(
    (
        "Cluster", "Account", "User", "Partition", "ParentName", "ID", "Share", "Priority", "GrpJobs", "GrpTRES", "GrpSubmit",
        "MaxJobs", "MaxTRES", "MaxSubmit", "MaxWall", "QOS", "Def QOS",
    ),
    ("s_1", "root", "", "", "", 1, 1, "", "", "", "", "", "", "", "", "normal", ""),
    ("s_1", "root", "root", "", "", 2, 1, "", "", "", "", "", "", "", "", "normal", ""),
    ("s_1", "a_0", "", "", "root", 3, 50, "", 8, "cpu=64", 900, "", "", "", "", "high,normal", ""),
    ("s_1", "a_1", "", "", "a_0", 4, 3, "", "", "", "", "", "", "", "1-00:00:00", "high,normal", "normal"),
    ("s_1", "a_1", "u_b", "", "", 5, 1, "", "", "", "", 4, "cpu=32", 100, "1-00:00:00", "high,normal", "high"),
    ("s_1", "a_1", "u_c", "gpu", "", 6, "parent", "", "", "", "", "", "", "", "", "normal", ""),
    ("s_1", "a_2", "", "", "root", 7, 1, "", "", "", "", "", "", "", "", "normal", ""),
)  # fmt: skip
QOS = table(
    ("Name", "ID", "Priority", "GraceTime", "Preempt", "PreemptMode", "Flags", "UsageFactor", "GrpTRES", "MaxJobsPU",
     "MaxSubmitPU"),
    ("normal", 1, 0, "00:00:00", "", "cluster", "", "1.000000", "", "", ""),
    ("high", 2, 100, "00:00:30", "normal", "requeue", "DenyOnLimit", "2.000000", "cpu=64", 8, 20),
    ("gpus", 3, 0, "00:00:00", "", "cluster", "", "1.000000", "gres/gpu=6", "", ""),
)  # fmt: skip
EVENT_COLUMNS = ("Cluster", "Event", "Cluster Nodes", "NodeName", "TimeStart", "TimeEnd", "State", "StateRaw", "User", "Reason")
RESERVATION_COLUMNS = ("Cluster", "Name", "ID", "TRES", "TimeStart", "TimeEnd", "UnusedWall", "Flags", "NodeName", "Assocs")
PARTS = {
    "conf/slurm.conf": CONF,
    "conf/gres.conf": GRES,
    "conf/topology.conf": TOPOLOGY,
    "sacct/20261031T230000Z.txt": table(COLUMNS, *JOBS),
    "sacctmgr/assoc.txt": ASSOC,
    "sacctmgr/qos.txt": QOS,
    "sacctmgr/event.txt": table(EVENT_COLUMNS),
    "sacctmgr/reservation.txt": table(RESERVATION_COLUMNS),
}


def capture(folder: Path, changes: dict[str, str | None] | None = None, **described: Any) -> Path:
    """Write the archive FOLDER/capture.tar. changes: content of parts, None for one that is missing; described: of the manifest."""
    parts = {name: text for name, text in {**PARTS, **(changes or {})}.items() if text is not None}
    path = folder / "capture.tar"
    archive.write(path, parts, **{"release": "22.05.8", "begin": BEGIN, "end": BEGIN + DAY, "zone": "Europe/Berlin", **described})
    return path
