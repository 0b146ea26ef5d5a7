"""The size of running jobs: Slurm's commands for `rm.sizes` (mirage_extras/malleable/README.md).

A job grows by a second allocation that depends on it (`expand:JOB`) and is then updated to 0 nodes, which merges it into the job.
That needs SchedulerParameters=permit_job_expansion. Before release 24.11 a job that has changed its size can be changed again only
in a cluster with slurmdbd.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from pathlib import Path

from ...base.hostlist import compress, expand, place
from ...base.numbers import whole_number
from ...clock import instance_clock
from ...clock.clock import Clock
from ...rm.api import JobState, Refused, ResourceManagerError
from ...rm.slurm.commands import JOB_STATES, QUERY_TIMEOUT, Slurm, failure
from ...rm.slurm.records import seconds
from .resizing_settings import LICENSE, needs_recount
from .sizes import Overview, SizedJob, WaitingJob

FIELDS = ("%A", "%t", "%D", "%C", "%P", "%a", "%q", "%l", "%M", "%L", "%S", "%Q", "%h", "%B", "%b", "%W", "%r", "%N", "%j")
FORMAT = "|".join(FIELDS)
PARTITIONS_FORMAT = "%R|%T|%N|%C"
IDLE_STATES = ("idle", "planned")
"""A planned node is an idle one that the backfill scheduler means to give to a job."""
SHARED_STATES = (*IDLE_STATES, "mixed")
WAITS_FOR_NODES = ("None", "Resources", "Priority", "Nodes required for job are DOWN, DRAINED")
"""Beginnings of the reasons of jobs that wait only for nodes."""
TOP_PRIORITY = 4_294_960_000
"""A priority above all that a scheduler computes: priority/basic counts down from 4,294,901,760."""
RESIZER_PRIORITY = TOP_PRIORITY + 1000
NO_NAMES = ("", "(null)", "N/A")
GRES, HAS_LICENSES = "asks for generic resources (GRES)", "has licenses"

_GRANTED = re.compile(r"Granted job allocation (\d+)")


def parse_overview(queue: str, partitions: str) -> Overview:
    """Answers of squeue in FORMAT, sorted by priority, and of sinfo in PARTITIONS_FORMAT."""
    jobs: dict[int, SizedJob] = {}
    waiting: list[WaitingJob] = []
    unmet: dict[int, str] = {}
    for fields in _lines(queue):
        job_id, state = int(fields["%A"]), JOB_STATES.get(fields["%t"], JobState.ENDED)
        if state is not JobState.PENDING:
            jobs[job_id] = _sized_job(fields)
            continue
        unmet[job_id] = fields["%j"]
        if fields["%r"].strip("()").startswith(WAITS_FOR_NODES):
            waits_for = fields["%P"].split(",")[0]
            waiting.append(WaitingJob(job_id, int(fields["%D"]), int(fields["%C"]), fields["%h"] == "NO", waits_for))
    idle: dict[str, list[tuple[str, int]]] = {}
    free: dict[str, int] = {}
    for line in partitions.splitlines():
        partition, nodes_state, names, processors = line.split("|")
        idle.setdefault(partition, []).extend(map(place, expand(names)) if nodes_state in IDLE_STATES else ())
        free[partition] = free.get(partition, 0) + (int(processors.split("/")[1]) if nodes_state in SHARED_STATES else 0)
    for places in idle.values():
        places.sort()
    growable = {job.job_id: _behind(idle.get(job.partition, []), job.first_host) for job in jobs.values()}
    return Overview(jobs, tuple(waiting), unmet, {name: len(places) for name, places in idle.items()}, growable, free)


def _behind(places: list[tuple[str, int]], first_host: str) -> int:
    """How many of the sorted places of nodes come after a job's batch host (see `growth_hosts`)."""
    return len(places) - bisect_right(places, place(first_host)) if first_host else len(places)


def _lines(queue: str) -> list[dict[str, str]]:
    return [dict(zip(FIELDS, line.split("|", len(FIELDS) - 1))) for line in queue.splitlines()]


def _sized_job(fields: dict[str, str]) -> SizedJob:
    limit, used = seconds(fields["%l"]), seconds(fields["%M"]) or 0
    return SizedJob(
        job_id=int(fields["%A"]),
        name=fields["%j"],
        state=JOB_STATES.get(fields["%t"], JobState.ENDED),
        nodes=int(fields["%D"]),
        processors=int(fields["%C"]),
        hosts=fields["%N"],
        first_host="" if fields["%B"] in NO_NAMES else fields["%B"],
        partition=fields["%P"],
        account="" if fields["%a"] in NO_NAMES else fields["%a"],
        qos="" if fields["%q"] in NO_NAMES else fields["%q"],
        start=whole_number(fields["%S"]),
        used=used,
        limit=limit,
        left=None if limit is None else max(0, limit - used),
        fixed=_why_fixed(fields),
    )


def _why_fixed(fields: dict[str, str]) -> str:
    if fields["%b"] not in NO_NAMES:
        return GRES
    own = [name for name in fields["%W"].split(",") if name not in NO_NAMES and name.split(":")[0] != LICENSE]
    return HAS_LICENSES if own else ""


def growth_hosts(answer: str, first_host: str) -> tuple[int, list[str]]:
    """Idle nodes that a job can grow by, and those before its batch host, which it must not get.

    slurmctld takes the first node of a merged job as that of its batch script (build_node_details), whatever it was before. With a
    node before that, it would refuse the script's end, and requeue the job when that node registers.

    answer: sinfo's lines of %N|%T, in the order of slurmctld's nodes
    """
    states = dict(line.strip().split("|") for line in answer.splitlines())
    names = list(states)
    place = names.index(first_host) if first_host in states else 0
    return sum(states[name] in IDLE_STATES for name in names[place:]), names[:place]


class Resizing(Slurm):
    """The commands of `rm.sizes` for one cluster. The caller is SlurmUser and uses the cluster's clock."""

    _has_license = False
    """Whether jobs need a license before they are merged."""
    _recounts = True
    """Whether slurmctld has to count its nodes again after a job has shrunk."""

    @classmethod
    def of_broker(cls, directory: Path, programs: str) -> Resizing:
        """The cluster of the instance in `directory`; `programs` is the folder of the commands. Raises WrongUse."""
        clock = instance_clock.current(directory)
        # The caller's seconds are virtual ones.
        speed = clock.speed if isinstance(clock, Clock) else 1.0
        commands = cls.of_instance(directory, programs, query_timeout=QUERY_TIMEOUT * max(1.0, speed))
        # Not all releases need it (resizing_settings.py).
        settings = (directory / "etc/slurm.conf").read_text()
        commands._has_license = re.search(rf"^Licenses=.*\b{LICENSE}\b", settings, re.MULTILINE) is not None
        commands._recounts = needs_recount(commands._ask("scontrol", "--version"))
        return commands

    def overview(self) -> Overview:
        queue = self._ask("squeue", "--noheader", "--all", "--array", "--sort=-p,i", f"--format={FORMAT}")
        return parse_overview(queue, self._ask("sinfo", "--noheader", f"--format={PARTITIONS_FORMAT}"))

    def job(self, job_id: int) -> SizedJob | None:
        arguments = ("--noheader", "--states=all", f"--jobs={job_id}", f"--format={FORMAT}")
        result = self._run("squeue", arguments, self._environment, self._query_timeout)
        if result.returncode:
            if "Invalid job id" in result.stderr:
                return None
            raise failure("squeue", result.stderr)
        jobs = [_sized_job(fields) for fields in _lines(result.stdout) if fields["%t"] != "PD"]
        return jobs[0] if jobs else None

    def take_nodes(self, job: SizedJob, nodes: int, name: str, patience: int) -> int:
        if self._has_license:
            self._ask("scontrol", "update", f"JobId={job.job_id}", f"Licenses={LICENSE}")
        hosts = self._ask("sinfo", "--noheader", "--Node", f"--partition={job.partition}", "--format=%N|%T")
        idle, passed_over = growth_hosts(hosts, job.first_host)
        if idle < nodes:
            raise Refused(f"{idle} of {nodes} idle nodes come after {job.first_host}, on which the batch script runs")
        choices = {"partition": job.partition, "account": job.account, "qos": job.qos, "exclude": compress(passed_over)}
        arguments = [
            "--no-shell",
            f"--job-name={name}",
            f"--nodes={nodes}",
            "--exclusive",
            f"--dependency=expand:{job.job_id}",
            f"--priority={RESIZER_PRIORITY}",
            f"--immediate={patience}",
            *(f"--{option}={value}" for option, value in choices.items() if value),
            *([f"--licenses={LICENSE}"] if self._has_license else []),
            *([f"--time={max(1, job.left // 60)}"] if job.left is not None else []),
        ]
        try:
            result = self._run("salloc", arguments, self._environment, patience + self._query_timeout)
            if result.returncode == 0 and (granted := _GRANTED.search(result.stderr)):
                return int(granted[1])
        except ResourceManagerError:
            self.cancel_named(name)
            raise
        self.cancel_named(name)
        if "has been revoked" in result.stderr or "Pending job allocation" in result.stderr:
            raise Refused(f"no nodes within {patience} s")
        raise failure("salloc", result.stderr)

    def merge(self, allocation: int) -> None:
        self._ask("scontrol", "update", f"JobId={allocation}", "NumNodes=0")

    def keep_nodes(self, job_id: int, hosts: Iterable[str], limit_minutes: int | None) -> None:
        limit = [] if limit_minutes is None else [f"TimeLimit={limit_minutes}"]
        self._ask("scontrol", "update", f"JobId={job_id}", f"NodeList={compress(hosts)}", *limit)

    def put_first(self, job_id: int) -> None:
        self._ask("scontrol", "update", f"JobId={job_id}", f"Priority={TOP_PRIORITY}")

    def recount_after_shrinks(self) -> None:
        # A node that an exclusive job gives up keeps its count of exclusive jobs (make_node_idle, no_share_job_cnt). It serves one
        # more job; after that one it serves no other until slurmd answers a ping.
        if self._recounts:
            self.free_lost_nodes()

    def free_lost_nodes(self) -> None:
        self._ask("scontrol", "reconfigure")
