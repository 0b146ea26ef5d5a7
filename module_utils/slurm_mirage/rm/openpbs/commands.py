"""Speaks to a running OpenPBS through its commands: qsub, qstat, qdel, pbsnodes and others.

The commands reach the server only from inside the network of their instance. The replay is inside; other callers give the words
that enter it (`become`).
"""

from __future__ import annotations

import calendar
import json
import re
import shlex
import subprocess
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...base import processes, user_folders
from ...base.errors import WrongUse
from ...base.processes import INSTANCE_VARIABLE
from ...base.run_settings import RunSettings
from ...clock import instance_clock
from ..api import (
    NODE_GROUPS,
    SUBMIT_TIMEOUT,
    Commands,
    Controller,
    JobDetails,
    JobState,
    Nodes,
    QueuedJob,
    Refused,
    ResourceManagerError,
    Submission,
    Submitted,
    Unavailable,
    Unclear,
)
from ..evidence import Span
from . import collection, daemon_log
from .addresses import HEAD
from .daemon_commands import ACCOUNTING, SERVER_HOME
from .records import AccountingLog, OpenPbsRecords, SchedulerLog, node_names, number_of, whole_number

QUERY_TIMEOUT = 60.0
"""Real seconds after which a query ends that has no answer."""
AT_ONCE = 500
"""Jobs whose ids are given to one command."""

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
    r"connection refused|cannot connect to server|communication failure|end of file|premature end|timed? ?out|connection reset"
    r"|server shutting down|system error|pbs_iff|no free connections|broken pipe|transaction|database",
    re.IGNORECASE,
)
_PERMANENT = re.compile(
    r"unknown queue|illegal|unauthorized|bad uid|violates|not enabled|unknown resource|invalid (option|request|credential)|usage:"
    r"|undefined attribute|attempt to modify|read-only|exceeds|cannot be used|not supported",
    re.IGNORECASE,
)
_GONE = re.compile(r"unknown job id|job has finished|request invalid for state|invalid state", re.IGNORECASE)
_DEPENDENCY = re.compile(r"(?:after(?:any|ok|notok)?(?::\d+)+)(?:,after(?:any|ok|notok)?(?::\d+)+)*$")
_DOWN, _OFFLINE = {"down", "stale", "unresolvable", "provisioning", "wait-provisioning"}, {"offline", "offline_by_mom", "sleep"}


# ---- answers ----


def parse_json(text: str) -> dict[str, Any]:
    """The answer of a command with -F json. Raises Unclear for anything else."""
    try:
        answer = json.loads(text, strict=False)
    except ValueError as error:
        raise Unclear(f"an answer that is no JSON: {error}") from error
    if not isinstance(answer, dict):
        raise Unclear("an answer that is no JSON object")
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
            start=instant(job.get("stime")),
            name=str(job.get("Job_Name", "")),
            reason=str(job.get("comment", "")),
            held=job.get("job_state") == "H" and "u" in str(job.get("Hold_Types", "")),
            processors=whole_number(str(job.get("Resource_List", {}).get("ncpus"))) or 0,
        )
        for job_id, job in _jobs(answer)
    ]


def _jobs(answer: Mapping[str, Any]) -> list[tuple[int, Mapping[str, Any]]]:
    jobs = answer.get("Jobs", {})
    return [(number, job) for name, job in jobs.items() if (number := number_of(name)) is not None]


def parse_details(answer: Mapping[str, Any]) -> list[JobDetails]:
    """The details of the jobs in an answer of qstat."""
    return [OpenPbsRecords().details(_details(job_id, job)) for job_id, job in _jobs(answer)]


def _details(job_id: int, job: Mapping[str, Any]) -> dict[str, str | int | None]:
    started = instant(job.get("stime"))
    return {
        "job_id": job_id,
        "name": str(job.get("Job_Name", "")),
        "state": _state_in_record(job),
        "eligible": instant(job.get("etime")),
        "start": started,
        "end": instant(job.get("obittime")) if started is not None else None,
        "hosts": ",".join(node_names(str(job.get("exec_host", "")))),
        "runs": whole_number(str(job.get("run_count"))),
    }


def _state_in_record(job: Mapping[str, Any]) -> str:
    """State as in jobs.csv. A deleted job has the substate 91 (JOB_SUBSTATE_TERMINATED), one that the server gave up 93."""
    state = STATES.get(str(job.get("job_state")), JobState.OTHER)
    if state is not JobState.ENDED:
        return str(state.value).upper()
    status = whole_number(str(job.get("Exit_status")))
    if status == -29:
        return "TIMEOUT"
    if whole_number(str(job.get("substate"))) == 91:
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
    return "idle" if "free" in words else "other"


def parse_states(answer: Mapping[str, Any]) -> dict[str, int]:
    """Number of jobs by state, from an answer of `qstat -B`."""
    counts: Counter[str] = Counter()
    for server in answer.get("Server", {}).values():
        for name, count in re.findall(r"(\w+):(\d+)", str(server.get("state_count", ""))):
            if int(count):
                counts[STATE_NAMES.get(name, name)] += int(count)
    return dict(counts)


# ---- requests ----


def submit_arguments(job: Submission, start: float | None = None) -> list[str]:
    """The words after `qsub`. start: seconds since the epoch before which the job may not start. Raises Refused.

    With /dev/null nothing is copied back after the job. OpenPBS starts a job in its user's home directory.
    """
    if job.qos:
        raise Refused(f"qsub: OpenPBS has no QOS ({job.qos})")
    memory = f":mem={job.memory}mb" if job.memory else ""
    if job.nodes:
        each = max(1, job.processors // job.nodes)
        size = ["-l", f"select={job.nodes}:ncpus={each}{memory}", "-l", "place=scatter:excl"]
    else:
        size = ["-l", f"select={job.processors}:ncpus=1{memory}", "-l", "place=free"]
    words = ["-f", "-N", job.name, *size, "-l", f"walltime={job.limit_minutes * 60}", "-o", "/dev/null", "-e", "/dev/null"]
    words += ["-q", job.partition] if job.partition else []
    words += ["-A", job.account] if job.account else []
    words += ["-W", f"depend={depend(job.dependency)}"] if job.dependency else []
    words += ["-a", time.strftime("%Y%m%d%H%M.%S", time.gmtime(start))] if start is not None else []
    return [*words, "--", "/bin/sh", "-c", f"cd {shlex.quote(job.directory)} && {job.command}"]


def depend(dependency: str) -> str:
    """A dependency such as afterany:12:14,after:15 with the full ids of jobs. Raises Refused for what OpenPBS has no word for."""
    if not _DEPENDENCY.match(dependency):
        raise Refused(f"qsub: OpenPBS has no such dependency: {dependency}")
    return re.sub(r":(\d+)", rf":\1.{HEAD}", dependency)


def failure(program: str, complaint: str) -> ResourceManagerError:
    """The error for the standard error output of a failed command."""
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    line = re.sub(rf"^(\S*/)?{program}: ", "", lines[0]) if lines else "failed without a word"
    kind = Unavailable if _TRANSIENT.search(complaint) else Refused if _PERMANENT.search(complaint) else Unclear
    return kind(f"{program}: {line}")


# ---- the commands ----


class OpenPbs(Commands):
    """The commands of one OpenPBS, run as the calling user.

    `keep_open` is a file descriptor that a running qsub holds: whoever locks that file knows that no submission of a predecessor
    is under way. `query_timeout` is in real seconds. `become` are words before each command, such as those that enter the
    instance's network and change the user.
    """

    records = OpenPbsRecords()

    def __init__(
        self,
        pbs_conf: str,
        programs: str,
        instance: str,
        keep_open: int | None = None,
        query_timeout: float = QUERY_TIMEOUT,
        become: Sequence[str] = (),
    ) -> None:
        self._programs = Path(programs)
        self._instance = Path(instance)
        self._user = {} if become else processes.as_user(self._instance)
        self._keep_open = () if keep_open is None else (keep_open,)
        self._query_timeout = query_timeout
        self._become = become
        self._cycles = SchedulerLog(self._instance / SERVER_HOME / "sched_logs")
        self._boot: tuple[int, int] | None = None
        # OpenPBS stores some of the caller's environment with every job.
        self._environment = {
            "PATH": f"{programs}:/usr/bin:/bin",
            "PBS_CONF_FILE": pbs_conf,
            "TZ": "UTC",
            "LC_ALL": "C",
            INSTANCE_VARIABLE: instance,
            **instance_clock.environment(Path(instance)),
        }

    @classmethod
    def of_run(cls, settings: RunSettings, keep_open: int) -> OpenPbs:
        """The cluster of a run.json, which has pbs_conf and bin, the folder of the commands. Raises WrongUse."""
        return cls(settings.text("pbs_conf"), settings.text("bin"), settings.text("instance"), keep_open)

    @classmethod
    def of_instance(
        cls, directory: Path, programs: Path | str, query_timeout: float = QUERY_TIMEOUT, become: Sequence[str] = ()
    ) -> OpenPbs:
        """The cluster of the instance in `directory`; `programs` is the folder of the commands."""
        return cls(f"{directory}/etc/pbs.conf", str(programs), str(directory), query_timeout=query_timeout, become=become)

    # ---- the controller ----

    def controller(self) -> Controller:
        """The running server. OpenPBS does not tell its start: it is that of its process, which the farm knows."""
        answer = parse_json(self._ask("qstat", "-B", "-f", "-F", "json"))
        boot = self._boot_time()
        if self._boot is None or self._boot[0] != boot:
            ids = [number for line in self._ask("qselect", "-x").splitlines() if (number := number_of(line)) is not None]
            self._boot = boot, max(ids, default=-1) + 1
        return Controller(*self._boot, str(answer.get("pbs_version", "")))

    def _boot_time(self) -> int:
        """Virtual seconds since the epoch at which the server's process was started. Raises Unavailable."""
        try:
            state = user_folders.read_json(self._instance, "run/farm.json") or {}
            started = processes.start_time(int(state["controller_pid"]))
            clock = instance_clock.current(self._instance)
        except (WrongUse, OSError, KeyError, TypeError, ValueError) as error:
            raise Unavailable(f"the farm does not say which process the server is: {error}") from error
        if started is None:
            raise Unavailable("the server does not run")
        since_boot = time.clock_gettime(time.CLOCK_BOOTTIME) - started / processes.TICKS
        real = time.time() - since_boot
        return round(real if clock is None else clock.virtual_at(round(real * 1e9)) / 1e9)

    def configuration(self) -> str:
        """The configuration in force, as in qmgr.txt (`collection`)."""
        parts = {
            collection.VERSION: self._ask("qstat", "--version"),
            collection.SERVER: self._ask("qmgr", "-c", "print server"),
            collection.NODES: self._ask("qmgr", "-c", "print node @default"),
            collection.SCHEDULER: (self._instance / SERVER_HOME / "sched_priv/sched_config").read_text(errors="replace"),
        }
        return collection.joined(parts)

    def diagnostics(self) -> dict[str, int | None]:
        self._cycles.update()
        states = self.jobs_by_state()
        return {
            "cycle_last_us": self._cycles.last_us,
            "cycle_max_us": self._cycles.max_us,
            "cycle_jobs": self._cycles.jobs,
            "queued_jobs": states.get("PENDING", 0),
            "cycles": self._cycles.cycles,
            "running_jobs": states.get("RUNNING", 0),
        }

    def log_size(self) -> int:
        """0: the logs have a file for each day of the virtual clock, and their lines are chosen by their times."""
        return 0

    def complaints(self, real: float, virtual: float, log_offset: int) -> dict[str, int]:
        return daemon_log.by_kind(daemon_log.of_instance(self._instance, Span(real, virtual), log_offset))

    # ---- jobs ----

    def submit(self, job: Submission) -> Submitted:
        return self._qsub(submit_arguments(job, self._now() + job.delay if job.delay else None))

    def use_up_id(self, name: str) -> int:
        words = ["-f", "-h", "-N", name, "-l", "select=1:ncpus=1", "-o", "/dev/null", "-e", "/dev/null", "--", "/bin/true"]
        return self._qsub(words).job_id

    def make_placeholder(self, job_id: int, name: str) -> None:
        self._ask("qalter", "-h", "u", "-N", name, full_id(job_id))

    def cancel(self, job_ids: Iterable[int]) -> None:
        self._each("qdel", job_ids)

    def cancel_named(self, name: str) -> None:
        self._each("qdel", [job.job_id for job in self.queue([name])])

    def hold(self, job_ids: Iterable[int]) -> None:
        self._each("qhold", job_ids, "-h", "u")

    def release(self, job_ids: Iterable[int]) -> None:
        self._each("qrls", job_ids, "-h", "u")

    def requeue(self, job_ids: Iterable[int]) -> None:
        self._each("qrerun", job_ids)

    def resize(self, job_id: int, nodes: int) -> None:
        raise Refused(f"OpenPBS does not change the size of job {job_id}")

    def set_dependency(self, job_id: int, dependency: str) -> None:
        self._ask("qalter", "-W", f"depend={depend(dependency) if dependency else ''}", full_id(job_id))

    def queue(self, names: Sequence[str] = (), ended: bool = False) -> list[QueuedJob]:
        """As `ResourceManager.queue`; a job that has ended is known for job_history_duration."""
        history = ["-x"] if ended else []
        jobs = parse_queue(parse_json(self._ask("qstat", *history, "-f", "-F", "json")))
        return [job for job in jobs if (ended or job.active) and (not names or job.name in names)]

    def queue_owners(self) -> list[dict[str, str | int | None]]:
        """The jobs that have not ended: job_id, user, submit (virtual seconds) and name of each."""
        answer = parse_json(self._ask("qstat", "-f", "-F", "json"))
        return [
            {
                "job_id": job_id,
                "name": str(job.get("Job_Name", "")),
                "user": str(job.get("Job_Owner", "")).partition("@")[0],
                "submit": instant(job.get("qtime")),
            }
            for job_id, job in _jobs(answer)
        ]

    def jobs_by_state(self) -> dict[str, int]:
        return parse_states(parse_json(self._ask("qstat", "-B", "-f", "-F", "json")))

    def details(self, job_ids: Sequence[int], everything: bool = False) -> list[JobDetails]:
        """As `ResourceManager.details`: jobs are known for job_history_duration after their end."""
        if everything:
            wanted = set(job_ids)
            jobs = parse_details(parse_json(self._ask("qstat", "-x", "-f", "-F", "json")))
            return [job for job in jobs if job.job_id in wanted]
        found: list[JobDetails] = []
        for first in range(0, len(job_ids), AT_ONCE):
            ids = [full_id(job_id) for job_id in job_ids[first : first + AT_ONCE]]
            # An id that is gone makes its exit code another than 0.
            result = self._run("qstat", ["-x", "-f", "-F", "json", *ids], self._query_timeout)
            if result.returncode and _TRANSIENT.search(result.stderr):
                raise failure("qstat", result.stderr)
            if result.stdout.strip():
                found += parse_details(parse_json(result.stdout))
        return found

    def completions_size(self) -> int:
        try:
            return self._accounting.stat().st_size
        except OSError:
            return 0

    def completions(self, offset: int) -> AccountingLog:
        return AccountingLog(self._accounting, offset)

    @property
    def _accounting(self) -> Path:
        return self._instance / ACCOUNTING

    # ---- nodes and queues ----

    def nodes(self) -> Nodes:
        return parse_nodes(parse_json(self._ask("pbsnodes", "-a", "-F", "json")))

    def node_states(self) -> dict[str, int]:
        """Number of nodes by state."""
        return dict(self.nodes().states)

    def resume_nodes(self) -> str:
        """Nothing: no node is taken out because a job id came twice."""
        return ""

    def open_partitions(self) -> list[str]:
        queues = parse_json(self._ask("qstat", "-Q", "-f", "-F", "json")).get("Queue", {})
        return sorted(name for name, queue in queues.items() if queue.get("started") == "True")

    def set_partitions(self, names: Iterable[str], *, are_open: bool) -> None:
        for name in names:
            self._ask("qmgr", "-c", f"set queue {name} started = {are_open}")

    # ---- processes ----

    def _now(self) -> float:
        clock = instance_clock.current(self._instance)
        return time.time() if clock is None else clock.virtual_now() / 1e9

    def _qsub(self, words: Sequence[str]) -> Submitted:
        result = self._run("qsub", words, SUBMIT_TIMEOUT, keep_open=True)
        number = number_of(result.stdout.strip())
        if result.returncode == 0 and number is not None:
            return Submitted(number)
        if result.returncode < 0:
            raise Unavailable(f"qsub: ended by signal {-result.returncode}")
        raise failure("qsub", result.stderr)

    def _each(self, program: str, job_ids: Iterable[int], *options: str) -> None:
        """Give the ids to a command. A job that has ended, or that is in another state already, is no error."""
        words = [full_id(job_id) for job_id in job_ids]
        for first in range(0, len(words), AT_ONCE):
            result = self._run(program, [*options, *words[first : first + AT_ONCE]], self._query_timeout)
            complaint = "\n".join(line for line in result.stderr.splitlines() if not _GONE.search(line))
            if result.returncode and complaint.strip():
                raise failure(program, complaint)

    def _ask(self, program: str, *arguments: str) -> str:
        result = self._run(program, arguments, self._query_timeout)
        if result.returncode:
            raise failure(program, result.stderr)
        return result.stdout

    def _run(
        self, program: str, arguments: Sequence[str], timeout: float, keep_open: bool = False
    ) -> subprocess.CompletedProcess[str]:
        command = [str(self._programs / program), *arguments]
        if self._become:  # sudo passes no environment on
            variables = (f"{name}={value}" for name, value in self._environment.items())
            command = [*self._become, "env", "--ignore-environment", *variables, *command]
        try:
            return subprocess.run(
                command,
                env=None if self._become else self._environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout,
                check=False,
                pass_fds=self._keep_open if keep_open else (),
                **self._user,
            )
        except FileNotFoundError as error:
            raise WrongUse(f"{self._programs / program}: there is no such program (bin in run.json)") from error
        except subprocess.TimeoutExpired as error:
            raise Unavailable(f"{program}: no answer within {timeout:.0f} s") from error
        except OSError as error:
            raise Unavailable(f"{program}: cannot be started: {error.strerror}") from error


def full_id(job_id: int) -> str:
    """The id of a job as OpenPBS writes it."""
    return f"{job_id}.{HEAD}"
