"""An imaginary site's week, in the form in which mirage-capture takes a real one, to try SITE without a site (docs/site.md).

The machine has three partitions, GPUs of two types on a third of its nodes, switches and licences; the site has users in accounts
with shares and limits, and a QOS that preempts the usual one. Jobs ask for what jobs of sites ask for. Each is recorded as if it
had started when it could have: what the scheduler does with them is known when the week is replayed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mirage.site import archive, now
from mirage.workloads.models.draft import rounded_requests
from slurm_mirage.base.errors import WrongUse

BEGIN = 1793577600
"""A Monday, 2026-11-02, 00:00 UTC."""
HOUR = 3600
LEAST_NODES = 12
CPUS, GPUS = 16, {"a100": 4, "v100": 2}
"""Processors of a node, and GPUs of one of each type."""
OF_A_SWITCH = 8
"""Nodes."""
MEMORY = 64000
"""MiB of a node."""
ACCOUNTS, USERS, LICENCES, LOAD = 8, 40, 16, 1.05
"""The load is that of the partition that has the most work."""
_MEAN_LOG_RUN, _SIGMA_LOG_RUN, _RUNS = np.log(2400), 1.0, (60, 8 * HOUR)
"""Of run times in seconds, which are lognormal."""
_COLUMNS = (
    "JobID", "JobIDRaw", "Cluster", "User", "Account", "Partition", "QOS", "Submit", "Eligible", "Start", "End", "ElapsedRaw",
    "State", "TimelimitRaw", "AllocCPUS", "ReqCPUS", "AllocNodes", "ReqNodes", "ReqMem", "ReqTRES", "AllocTRES", "Constraints",
    "SubmitLine",
)  # fmt: skip


@dataclass
class _Job:
    """A job or an array of equal ones. options: those of its command line; gpus: of each node, by type; later: seconds from its
    submission until it could start; follows: whether it waits for the job before it."""

    nodes: int = 1
    cpus: int = 1
    partition: str = "batch"
    options: list[str] = field(default_factory=list)
    gpus: tuple[str, int] | None = None
    later: int = 0
    tasks: int = 1
    follows: bool = False
    constraint: str = ""


# ---- kinds of jobs ----


def _serial(rng: np.random.Generator, _wide: int) -> _Job:
    cpus = int(rng.integers(1, 9))
    return _Job(cpus=cpus, options=["--ntasks=1", f"--cpus-per-task={cpus}", f"--mem={cpus * 2000}M"])


def _parallel(rng: np.random.Generator, wide: int) -> _Job:
    nodes = int(rng.integers(2, wide + 1))
    return _Job(nodes, nodes * CPUS, options=[f"--nodes={nodes}", f"--ntasks-per-node={CPUS}"])


def _gpu(rng: np.random.Generator, _wide: int) -> _Job:
    kind = list(GPUS)[int(rng.integers(0, 2))]
    count = int(rng.integers(1, GPUS[kind] + 1))
    return _Job(cpus=4, partition="gpu", gpus=(kind, count), options=["--ntasks=4", f"--gres=gpu:{kind}:{count}", "--mem=8000M"])


def _short(rng: np.random.Generator, _wide: int) -> _Job:
    cpus = int(rng.integers(1, CPUS + 1))
    return _Job(cpus=cpus, partition="short", options=[f"--ntasks={cpus}", "--mem-per-cpu=1000M"])


def _array(rng: np.random.Generator, _wide: int) -> _Job:
    tasks = int(rng.integers(3, 9))
    return _Job(cpus=4, tasks=tasks, options=["--ntasks=4", f"--array=0-{tasks - 1}%2"])


def _licensed(rng: np.random.Generator, _wide: int) -> _Job:
    return _Job(cpus=2, options=["--ntasks=2", f"--licenses=solver:{int(rng.integers(1, 5))}"])


def _begin(rng: np.random.Generator, _wide: int) -> _Job:
    later = int(rng.integers(1, 8)) * HOUR // 2
    return _Job(cpus=4, later=later, options=["--ntasks=4", f"--begin=now+{later}"])


def _held(rng: np.random.Generator, _wide: int) -> _Job:
    return _Job(cpus=4, later=int(rng.integers(10, 60)) * 60, options=["--ntasks=4", "--hold"])


def _dependent(_rng: np.random.Generator, _wide: int) -> _Job:
    return _Job(cpus=8, follows=True, options=["--ntasks=8"])


def _constrained(rng: np.random.Generator, _wide: int) -> _Job:
    words = ("new", "old", "new|old")[int(rng.integers(0, 3))]
    return _Job(cpus=8, constraint=words, options=["--ntasks=8", f"--constraint={words}"])


def _exclusive(rng: np.random.Generator, wide: int) -> _Job:
    nodes = int(rng.integers(1, max(2, wide // 2) + 1))
    return _Job(nodes, nodes * CPUS, options=[f"--nodes={nodes}", "--exclusive", "--switches=1"])


_KINDS: tuple[tuple[Callable[[np.random.Generator, int], _Job], float], ...] = (
    (_serial, 0.28), (_parallel, 0.2), (_gpu, 0.18), (_short, 0.12), (_array, 0.04), (_licensed, 0.05), (_begin, 0.03),
    (_held, 0.02), (_dependent, 0.03), (_constrained, 0.03), (_exclusive, 0.02),
)  # fmt: skip
"""With the share of each kind."""
_URGENT = 0.06
"""Share of the jobs in the QOS that preempts."""


# ---- the site ----


def slurm_conf(nodes: int) -> str:
    """slurm.conf of a machine of `nodes` nodes."""
    plain, a100, _ = _sizes(nodes)
    new, last_a100 = plain // 2, plain + a100
    return f"""ClusterName=example
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=1000
Licenses=solver:{LICENCES}
SchedulerType=sched/backfill
SchedulerParameters=bf_max_job_user=20
PriorityType=priority/multifactor
PriorityDecayHalfLife=1-0
PriorityWeightAge=1000
PriorityWeightFairshare=10000
PriorityWeightQOS=5000
PriorityMaxAge=1-0
PreemptType=preempt/qos
PreemptMode=REQUEUE
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageEnforce=associations,limits,qos
AccountingStorageTRES=gres/gpu,gres/gpu:a100,gres/gpu:v100
GresTypes=gpu
TopologyPlugin=topology/tree
NodeName=DEFAULT CPUs={CPUS} RealMemory={MEMORY} State=UNKNOWN
NodeName=node[1-{new}] Feature=old Weight=1
NodeName=node[{new + 1}-{plain}] Feature=new Weight=2
NodeName=node[{plain + 1}-{last_a100}] Feature=new Gres=gpu:a100:{GPUS["a100"]} CoreSpecCount=1 MemSpecLimit=2000 Weight=10
NodeName=node[{last_a100 + 1}-{nodes}] Feature=new Gres=gpu:v100:{GPUS["v100"]} CoreSpecCount=1 MemSpecLimit=2000 Weight=9
PartitionName=batch Nodes=node[1-{plain}] Default=YES MaxTime=2-0
PartitionName=gpu Nodes=node[{plain + 1}-{nodes}] MaxTime=2-0 QOS=gpus AllowAccounts={",".join(_accounts()[2:])}
PartitionName=short Nodes=ALL MaxTime=60 PriorityJobFactor=10 AllowQos=normal,urgent
"""


def _sizes(nodes: int) -> tuple[int, int, int]:
    """Nodes without GPUs, and with those of each type."""
    with_gpus = nodes // 3
    return nodes - with_gpus, with_gpus // 2, with_gpus - with_gpus // 2


def _topology(nodes: int) -> str:
    firsts = range(1, nodes + 1, OF_A_SWITCH)
    lines = [
        f"SwitchName=leaf{number} Nodes=node[{first}-{min(first + OF_A_SWITCH - 1, nodes)}]\n"
        for number, first in enumerate(firsts, 1)
    ]
    return "".join(lines) + f"SwitchName=top Switches=leaf[1-{len(firsts)}]\n"


def _accounts() -> list[str]:
    return [f"lab{number}" for number in range(1, ACCOUNTS + 1)]


def _users() -> list[tuple[str, str]]:
    """Users with their accounts."""
    accounts = _accounts()
    return [(f"user{number:02}", accounts[number % ACCOUNTS]) for number in range(1, USERS + 1)]


def _table(headings: Sequence[str], rows: Iterator[Sequence[Any]] | Sequence[Sequence[Any]]) -> str:
    return "".join("\t".join(map(str, row)) + "\n" for row in (headings, *rows))


def _associations(nodes: int) -> str:
    headings = ("Cluster", "Account", "User", "Partition", "ParentName", "ID", "Share", "GrpTRES", "MaxJobs", "QOS", "DefQOS")
    rows: list[tuple[Any, ...]] = [("example", "root", "", "", "", 1, 1, "", "", "normal,urgent", "")]
    half = _sizes(nodes)[0] * CPUS // 2
    for number, account in enumerate(_accounts(), 1):
        rows.append(("example", account, "", "", "root", number + 1, 1 + number % 4, f"cpu={half}", "", "normal,urgent", ""))
    for number, (user, account) in enumerate(_users(), ACCOUNTS + 2):
        rows.append(("example", account, user, "", "", number, 1, "", (6, 10, "")[number % 3], "normal,urgent", "normal"))
    return _table(headings, rows)


def _qos(nodes: int) -> str:
    gpus = max(GPUS["a100"], sum(count * of_one for count, of_one in zip(_sizes(nodes)[1:], GPUS.values(), strict=True)) // 3)
    headings = ("Name", "Priority", "GraceTime", "Preempt", "PreemptMode", "UsageFactor", "MaxTRESPU", "MaxJobsPU")
    return _table(
        headings,
        [
            ("normal", 0, "00:00:00", "", "cluster", "1.000000", "", ""),
            ("urgent", 100, "00:00:00", "normal", "cluster", "2.000000", "", 4),
            ("gpus", 0, "00:00:00", "", "cluster", "1.000000", f"gres/gpu={gpus}", ""),
        ],
    )


def _events(nodes: int, span: int) -> str:
    """Four outages."""
    plain = _sizes(nodes)[0]
    headings = ("Cluster", "Event", "NodeName", "TimeStart", "TimeEnd", "State", "Reason")
    spans = [(0.15, 0.3, "DOWN"), (0.2, 0.5, "DRAIN"), (0.45, 0.6, "DOWN"), (0.7, 0.85, "DRAIN")]
    rows = [
        ("example", "Node", f"node{1 + number * plain // 4}", BEGIN + int(begin * span), BEGIN + int(end * span), state, "hardware")
        for number, (begin, end, state) in enumerate(spans)
    ]
    return _table(headings, rows)


def _reservation(nodes: int, span: int) -> str:
    """Maintenance of a tenth of the nodes, in the middle of the week."""
    plain, begin = _sizes(nodes)[0], BEGIN + span // 2
    names = f"node[{plain - max(1, nodes // 10) + 1}-{plain}]"
    headings = ("Cluster", "Name", "ID", "TRES", "TimeStart", "TimeEnd", "Flags", "NodeName", "Assocs")
    return _table(headings, [("example", "maintenance", 1, "", begin, begin + 2 * HOUR, "MAINT", names, "")])


# ---- jobs ----


def _drawn(rng: np.random.Generator, nodes: int, jobs: int) -> list[_Job]:
    wide = max(2, _sizes(nodes)[0] // 4)
    kinds, shares = zip(*_KINDS, strict=True)
    drawn: list[_Job] = []
    while (left := jobs - sum(job.tasks for job in drawn)) > 0:
        job = kinds[int(rng.choice(len(kinds), p=np.array(shares) / sum(shares)))](rng, wide)
        if job.tasks <= left:
            drawn.append(job)
    return drawn


def _log(rng: np.random.Generator, nodes: int, jobs: int) -> tuple[list[dict[str, Any]], int]:
    """The rows of sacct, and the seconds from the first submission to the last one."""
    drawn = _drawn(rng, nodes, jobs)
    shape = [job.tasks for job in drawn]
    runs = np.clip(rng.lognormal(_MEAN_LOG_RUN, _SIGMA_LOG_RUN, sum(shape)), *_RUNS).astype(np.int64)
    of_short = np.repeat([job.partition == "short" for job in drawn], shape)
    runs = np.where(of_short, np.minimum(runs, HOUR // 2), runs)
    requested = np.maximum(rounded_requests(rng, runs) // 60, 1)
    requested = np.where(of_short, np.minimum(requested, 60), requested)
    span = _span(drawn, runs, nodes)
    submits = np.sort(rng.random(len(drawn)) * span).astype(np.int64)
    rows: list[dict[str, Any]] = []
    users, number = _users(), 1
    # Some users submit more than others.
    weights = 1.0 / np.arange(1, USERS + 1) ** 0.7
    for job, submit in zip(drawn, submits, strict=True):
        allowed = users if job.partition != "gpu" else [one for one in users if one[1] in _accounts()[2:]]
        own = weights[: len(allowed)] / weights[: len(allowed)].sum()
        user, account = allowed[int(rng.choice(len(allowed), p=own))]
        qos = "urgent" if rng.random() < _URGENT else "normal"
        first, before = number, rows[-1] if rows else None
        for task in range(job.tasks):
            asked = int(requested[first - 1 : first - 1 + job.tasks].max())
            rows.append(_row(job, first, number, task, BEGIN + int(submit), int(runs[number - 1]), asked, before))
            rows[-1] |= {"User": user, "Account": account, "QOS": qos}
            number += 1
    return rows, int(submits[-1] - submits[0])


def _span(drawn: Sequence[_Job], runs: Any, nodes: int) -> float:
    """Seconds in which jobs of this work load the partition that has the most of it with LOAD."""
    plain, a100, v100 = _sizes(nodes)
    capacity = {"batch": plain * CPUS, "a100": a100 * GPUS["a100"], "v100": v100 * GPUS["v100"]}
    work = dict.fromkeys(capacity, 0.0)
    at = 0
    for job in drawn:
        of_job = float(runs[at : at + job.tasks].sum())
        at += job.tasks
        kind, size = job.gpus or ("batch", job.cpus)
        work[kind] += of_job * size
    return max(HOUR, *(work[kind] / (capacity[kind] * LOAD) for kind in capacity))


def _row(
    job: _Job, first: int, number: int, task: int, submit: int, run: int, requested: int, before: dict[str, Any] | None
) -> dict[str, Any]:
    options = [*job.options, f"--partition={job.partition}", f"--time={requested}"]
    eligible = submit + job.later
    if job.follows and before is not None:
        options.append(f"--dependency=afterany:{before['JobIDRaw']}")
        eligible = max(submit, before["End"])
    resources = f"cpu={job.cpus},node={job.nodes},billing={job.cpus}"
    if job.gpus is not None:
        resources += f",gres/gpu={job.gpus[1]},gres/gpu:{job.gpus[0]}={job.gpus[1]}"
    return {
        "JobID": f"{first}_{task}" if job.tasks > 1 else number, "JobIDRaw": number, "Cluster": "example",
        "Partition": job.partition, "Submit": submit, "Eligible": eligible, "Start": eligible, "End": eligible + run,
        "ElapsedRaw": run, "State": "COMPLETED", "TimelimitRaw": requested, "AllocCPUS": job.cpus, "ReqCPUS": job.cpus,
        "AllocNodes": job.nodes, "ReqNodes": job.nodes, "ReqMem": f"{_mebibytes(job)}M", "ReqTRES": resources,
        "AllocTRES": resources, "Constraints": job.constraint, "SubmitLine": " ".join(["sbatch", *options, "script"]),
    }  # fmt: skip


def _mebibytes(job: _Job) -> int:
    """Memory of the whole job."""
    given = [int(option.partition("=")[2][:-1]) for option in job.options if option.startswith("--mem=")]
    return given[0] * job.nodes if given else job.cpus * 1000


Schedule = Callable[[Sequence[float], Sequence[int], Sequence[float], Sequence[float], int], Sequence[float]]
"""Starts of jobs, from their submissions, sizes, run times, limits, and the size of the machine. In order of submission."""
NOW = 0.6
"""Share of the submissions before the instant of an archive that ends now."""


def write(path: Path, nodes: int, jobs: int, seed: int, schedule: Schedule | None = None) -> int:
    """Write the archive and return its number of jobs, array tasks included. The same numbers give the same bytes.

    schedule: the archive ends in the midst of the jobs, which have these starts, and has the queue as it is then.

    Raises WrongUse for a machine that is too small for three partitions, and for a queue in which no job would wait.
    """
    if nodes < LEAST_NODES:
        raise WrongUse(f"{nodes} may be {LEAST_NODES} or more for an example of a site", parameter="nodes")
    rng = np.random.Generator(np.random.PCG64(seed))
    rows, span = _log(rng, nodes, jobs)
    last = max(row["End"] for row in rows)
    sacct = {"sacct/20261102T000000Z.txt": _table(_COLUMNS, [[row[column] for column in _COLUMNS] for row in rows])}
    if schedule is not None:
        _start(rows, nodes, schedule)
        last = BEGIN + int(NOW * span)
        sacct = now.parts_at(rows, last, _COLUMNS)
        if not any(row["Submit"] <= last < row["Start"] for row in rows):
            raise WrongUse(f"of {jobs} jobs none waits; it may be more, or fewer NODES", parameter="jobs")
    archive.write(
        path,
        {
            **sacct,
            "conf/slurm.conf": slurm_conf(nodes),
            "conf/topology.conf": _topology(nodes),
            "sacctmgr/assoc.txt": _associations(nodes),
            "sacctmgr/event.txt": _events(nodes, span),
            "sacctmgr/qos.txt": _qos(nodes),
            "sacctmgr/reservation.txt": _reservation(nodes, span),
        },
        release="22.05.8",
        begin=BEGIN,
        end=last if schedule is not None else last + 1,
    )
    return len(rows)


def _start(rows: Sequence[dict[str, Any]], nodes: int, schedule: Schedule) -> None:
    """Give the jobs starts: those of each kind of GPU on the GPUs of that kind, the others on the processors of other nodes."""
    plain, *with_gpus = _sizes(nodes)
    machines = {"": plain * CPUS, **{kind: count * GPUS[kind] for kind, count in zip(GPUS, with_gpus, strict=True)}}
    sizes = [re.search(r"gres/gpu:(\w+)=(\d+)", row["ReqTRES"]) for row in rows]
    for kind, size in machines.items():
        own = [(row, int(match[2]) if match else row["ReqCPUS"]) for row, match in zip(rows, sizes, strict=True)
               if kind == (match[1] if match else "")]  # fmt: skip
        own.sort(key=lambda pair: pair[0]["Eligible"])
        limits = [60.0 * row["TimelimitRaw"] for row, _ in own]
        eligible, runs = ([row[name] for row, _ in own] for name in ("Eligible", "ElapsedRaw"))
        for (row, _), start in zip(own, schedule(eligible, [wide for _, wide in own], runs, limits, size), strict=True):
            row |= {"Start": int(start), "End": int(start) + row["ElapsedRaw"]}
