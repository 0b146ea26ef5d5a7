"""Parses the answers and error messages of OpenPBS's commands. Tried with release 23.06.06."""

from __future__ import annotations

import calendar
import json
import re
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from ...base.numbers import MOST, whole_number
from ...rm.api import (
    NODE_GROUPS,
    NOT_ENDED,
    JobDetails,
    JobState,
    Nodes,
    QueuedJob,
    Refused,
    ResourceManagerError,
    Unavailable,
    Unclear,
)
from .queues import seconds_of
from .records import OpenPbsRecords, entry_number, node_names

STATES = {
    **dict.fromkeys("QHW", JobState.PENDING),
    "R": JobState.RUNNING,
    **dict.fromkeys("SU", JobState.SUSPENDED),
    "E": JobState.COMPLETING,
    **dict.fromkeys("FMX", JobState.ENDED),
}
"""States of qstat(1B)."""
STATE_NAMES = {
    "Queued": "PENDING",
    "Held": "PENDING",
    "Waiting": "PENDING",
    "Running": "RUNNING",
    "Begun": "RUNNING",
    "Exiting": "COMPLETING",
    "Transit": "CONFIGURING",
}
"""States in the attribute state_count, and what jobs of them are called in records."""

_TRANSIENT = re.compile(
    r"connection refused|cannot connect to (server|host)|communication failure|end of file|premature end|timed? ?out"
    r"|connection reset|server shutting down|system error|pbs_iff|no free connections|broken pipe|transaction|database"
    r"|protocol error|service busy|temporarily unavailable|cannot allocate memory",
    re.IGNORECASE,
)
_PERMANENT = re.compile(
    r"unknown queue|illegal|unauthorized|bad uid|violates|not enabled|unknown resource|invalid (option|request|credential)|usage:"
    r"|undefined attribute|attempt to modify|read-only|exceeds|cannot be used|not supported|maximum number of|name is too long"
    r"|would exceed|access to queue is denied|no default queue|unknown node",
    re.IGNORECASE,
)
GONE = re.compile(r"unknown job id|job has finished|request invalid for state|invalid state", re.IGNORECASE)
_DOWN, _OFFLINE = {"down", "stale", "unresolvable", "provisioning", "wait-provisioning"}, {"offline", "offline_by_mom", "sleep"}


def parse_json(text: str) -> dict[str, Any]:
    """The answer of a command with -F json. Raises Unclear for anything else."""
    try:
        answer = json.loads(text, strict=False)
    except (ValueError, RecursionError) as error:
        raise Unclear(f"an answer that is not JSON: {error}") from error
    if not isinstance(answer, dict):
        raise Unclear("an answer that is not JSON object")
    return answer


def instant(text: object) -> int | None:
    """Seconds since the epoch of Mon Nov 23 00:40:01 2026 in UTC; None for anything else."""
    try:
        return calendar.timegm(time.strptime(str(text), "%a %b %d %H:%M:%S %Y"))
    except ValueError:
        return None


def parse_queue(answer: Mapping[str, Any]) -> list[QueuedJob]:
    """The jobs in an answer of qstat."""
    return [
        QueuedJob(
            job_id=job_id,
            state=STATES.get(str(job.get("job_state")), JobState.OTHER),
            # A job that was put back in the queue keeps the start of its last run.
            start=None if STATES.get(str(job.get("job_state"))) is JobState.PENDING else instant(job.get("stime")),
            name=str(job.get("Job_Name", "")),
            reason=str(job.get("comment", "")),
            held=_is_held(job),
            processors=whole_number(str(job.get("Resource_List", {}).get("ncpus"))) or 0,
        )
        for job_id, job in _jobs(answer)
    ]


def _is_held(job: Mapping[str, Any]) -> bool:
    """Whether a job waits until its user or an operator releases it. Holds of the system are those of jobs that wait for others,
    and of jobs whose start failed 20 times; only a manager may release these."""
    return job.get("job_state") == "H" and not {"u", "o"}.isdisjoint(str(job.get("Hold_Types", "")))


def _jobs(answer: Mapping[str, Any]) -> list[tuple[int, Mapping[str, Any]]]:
    jobs = answer.get("Jobs", {})
    return [(number, job) for name, job in jobs.items() if (number := entry_number(name)) is not None]


def over_limits(answer: Mapping[str, Any], now: float) -> dict[int, float]:
    """Seconds by which the running jobs in an answer of qstat have run longer than their limits, by their numbers; jobs without
    a limit are left out. Time for which a job was suspended does not count.

    now: the cluster's time, in seconds since the epoch, for jobs of which no node has told how long they have run. Of a job whose
    first node has not told that it began, the server knows when it was sent there (mtime).
    """
    over = {}
    for job_id, job in _jobs(answer):
        limit = _run_time(job.get("Resource_List", {}))
        used: float | None = _run_time(job.get("resources_used", {}))
        if used is None and (start := instant(job.get("stime", job.get("mtime")))) is not None:
            used = now - start
        if job.get("job_state") == "R" and used is not None and limit is not None and used > limit:
            over[job_id] = used - limit
    return over


def _run_time(resources: Mapping[str, Any]) -> int | None:
    """Seconds of the walltime among resources; None without one."""
    text = resources.get("walltime")
    return seconds_of(text) if isinstance(text, str) else None


def parse_details(answer: Mapping[str, Any]) -> list[JobDetails]:
    """The details of the jobs in an answer of qstat."""
    return [OpenPbsRecords().details(_details(job_id, job)) for job_id, job in _jobs(answer)]


def _details(job_id: int, job: Mapping[str, Any]) -> dict[str, str | int | None]:
    started, state = instant(job.get("stime")), _state_in_record(job)
    return {
        "job_id": job_id,
        "name": str(job.get("Job_Name", "")),
        "state": state,
        "eligible": instant(job.get("etime")),
        "start": started,
        # A job that was put back in the queue keeps the end of its last run.
        "end": None if state in NOT_ENDED else instant(job.get("obittime")),
        "hosts": ",".join(node_names(str(job.get("exec_host", "")))),
        "runs": whole_number(str(job.get("run_count"))),
    }


def _state_in_record(job: Mapping[str, Any]) -> str:
    """State as in jobs.csv. A deleted job has the substate 91 (JOB_SUBSTATE_TERMINATED); one that never ran and has another was
    given up because of its dependency."""
    state = STATES.get(str(job.get("job_state")), JobState.OTHER)
    if state is not JobState.ENDED:
        return str(state.value).upper()
    status = whole_number(str(job.get("Exit_status")), least=-MOST)
    if status == -29:
        return "TIMEOUT"
    if whole_number(str(job.get("substate"))) == 91 or "stime" not in job:
        return "CANCELLED"
    return "COMPLETED" if status == 0 else "FAILED"


def parse_nodes(answer: Mapping[str, Any]) -> Nodes:
    """The nodes in an answer of pbsnodes."""
    states: Counter[str] = Counter()
    groups = dict.fromkeys(NODE_GROUPS, 0)
    processors = allocated = silent = ready = 0
    for node in answer.get("nodes", {}).values():
        state = str(node.get("state", ""))
        words = set(state.split(","))
        in_use = whole_number(str(node.get("resources_assigned", {}).get("ncpus", 0))) or 0
        states[state] += 1
        groups[_group(words, in_use)] += 1
        processors += whole_number(str(node.get("resources_available", {}).get("ncpus", 0))) or 0
        allocated += in_use
        silent += bool(words & _DOWN or "state-unknown" in words)
        ready += not words & (_DOWN | _OFFLINE | {"state-unknown"})
    return Nodes(dict(states), groups, silent, ready, processors, allocated)


def _group(words: set[str], in_use: int) -> str:
    if words & _OFFLINE:
        return "drained"
    if "state-unknown" in words:
        return "unknown"
    if words & _DOWN:
        return "down"
    if in_use or words & {"job-busy", "job-exclusive", "resv-exclusive"}:
        return "allocated"
    return "idle" if "free" in words else "reserved"


def parse_states(answer: Mapping[str, Any]) -> dict[str, int]:
    """Number of jobs by state, from an answer of `qstat -B`."""
    counts: Counter[str] = Counter()
    for server in answer.get("Server", {}).values():
        for name, count in re.findall(r"(\w+):(\d+)", str(server.get("state_count", ""))):
            if int(count):
                counts[STATE_NAMES.get(name, name)] += int(count)
    return dict(counts)


def parse_queue_owners(answer: Mapping[str, Any]) -> list[dict[str, str | int | None]]:
    """job_id, user, submit (virtual seconds) and name of each job in an answer of qstat."""
    return [
        {
            "job_id": job_id,
            "name": str(job.get("Job_Name", "")),
            "user": str(job.get("Job_Owner", "")).partition("@")[0],
            "submit": instant(job.get("qtime")),
        }
        for job_id, job in _jobs(answer)
    ]


def failure(program: str, complaint: str) -> ResourceManagerError:
    """The error for the standard error output of a failed command."""
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    line = re.sub(rf"^(\S*/)?{program}: ", "", lines[0]) if lines else "failed without a word"
    kind = Unavailable if _TRANSIENT.search(complaint) else Refused if _PERMANENT.search(complaint) else Unclear
    return kind(f"{program}: {line}")
