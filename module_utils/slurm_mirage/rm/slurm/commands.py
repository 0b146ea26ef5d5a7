"""Slurm's client commands: their arguments and the formats of their answers.

Tried with Slurm 16.05 to 26.05 (docs/versions.md); the formats are those of squeue(1), scontrol(1), sdiag(1) and sinfo(1). The
commands are asked for instants with SLURM_TIME_FORMAT=%s: seconds since the epoch on the cluster's own (virtual) time.
"""

from __future__ import annotations

import math
import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TypeVar

from ...base import processes
from ...base.errors import WrongUse
from ...base.numbers import whole_number
from ...base.processes import INSTANCE_VARIABLE
from ...base.run_settings import RunSettings
from ...clock import real_limit
from ...jobs import arrays, cluster_events
from ...jobs.request import Request
from ..api import (
    NODE_GROUPS,
    SECOND_CONTROLLER,
    SUBMIT_TIMEOUT,
    AccountShare,
    Controller,
    JobDetails,
    JobState,
    Nodes,
    QueuedJob,
    Refused,
    Registered,
    ResourceManager,
    ResourceManagerError,
    Submission,
    Submitted,
    Unavailable,
    Unclear,
)
from . import daemon_log, job_users, other_configurations, second_controller, shared_folder
from .array_words import id_of, name_of
from .node_states import READY, all_ready, count_states, ready
from .prepared import Prepared, Process, end, script_of
from .records import (
    ACCOUNTED_FORMAT,
    CompletionLog,
    SlurmRecords,
    parse_accounted,
    parse_details,
    parse_diagnostics,
)

QUERY_TIMEOUT = 60.0
"""Real seconds after which a query is ended: far above MessageTimeout (10 s)."""
JOB_STATES = {
    "PD": JobState.PENDING,
    "R": JobState.RUNNING,
    "S": JobState.SUSPENDED,
    "CG": JobState.COMPLETING,
    "CF": JobState.CONFIGURING,
    **dict.fromkeys(("RQ", "RH", "RD", "RF", "RS", "SI", "SO", "ST", "SE"), JobState.OTHER),
}
"""Compact states of jobs that have not ended (squeue(1), JOB STATE CODES)."""
HELD_REASONS = frozenset({"launch failed requeued held", "JobHeldAdmin", "JobHeldUser", "JobHoldMaxRequeue"})
"""Reasons of waiting jobs that only `scontrol release` lets start."""
DRAIN_REASONS = ("Duplicate jobid", "Kill task failed")
"""Slurm's own reasons for draining a node: it was given a job id that it had seen (agent.c), or a job's processes had not ended
UnkillableStepTimeout after SIGKILL (slurmstepd), which here means that the host was held up."""

_TRANSIENT = re.compile(
    r"unable to contact slurm|connection refused|connection (timed out|reset)|socket timed out|zero bytes|munge"
    r"|authentication|communication|message (send|receive) failure|transport endpoint|resource temporarily unavailable"
    r"|temporarily unable|temporarily disabled|try again|standby|submissions disabled|i/o error writing|interrupted system call"
    r"|cannot allocate memory|no route to host|network is unreachable|broken pipe|unexpected message"
    r"|missing socket|insane message length",
    re.IGNORECASE,
)
_PERMANENT = re.compile(
    r"invalid partition|partition.* not permitted|requested node configuration is not available|access/permission denied"
    r"|more processors requested|node count specification|requested time limit is invalid|cpu count specification"
    r"|task count specification|invalid account|invalid qos|no partition specified|violates accounting/qos"
    r"|invalid feature specification|invalid license specification|invalid generic resource|invalid trackable resource"
    r"|reservation is invalid|memory required by task is not available"
    r"|unrecognized option|invalid option|requested partition configuration|requested operation not supported",
    re.IGNORECASE,
)
_RETRIED_INSIDE = re.compile(r"sleeping and retrying|temporarily disabled, retrying", re.IGNORECASE)
PREPARED = 1
"""How many sbatch processes wait for the scripts of the jobs after the present one: more are no faster (docs/accuracy.md)."""
_WORKING_DIRECTORY = "-D"
"""sbatch's short option, which all releases have: --chdir was --workdir before 17.11."""


# ---- parsers: pure ----


def parse_queue(text: str) -> list[QueuedJob]:
    """Answer of squeue in QUEUE_FORMAT."""
    return [_queued_job(*line.split("|", 7)) for line in text.splitlines()]


def _queued_job(job_id: str, array: str, task: str, code: str, start: str, reason: str, processors: str, name: str) -> QueuedJob:
    state = JOB_STATES.get(code, JobState.ENDED)
    return QueuedJob(
        job_id=id_of(job_id, array, task),
        number=int(job_id),
        state=state,
        start=whole_number(start),
        name=name_of(name, task),
        reason=reason,
        held=state is JobState.PENDING and reason in HELD_REASONS,
        processors=int(processors),
    )


# %i of a job array's element (12_3) or of a part of a heterogeneous job (12+0) is not a number.
QUEUE_FORMAT = "%A|%F|%K|%t|%S|%r|%C|%j"


def parse_queue_owners(text: str) -> list[dict[str, str | int | None]]:
    """Answer of squeue in OWNERS_FORMAT: job_id, user, submit and name of each job."""
    jobs: list[dict[str, str | int | None]] = []
    for line in text.splitlines():
        job_id, array, task, submit, user, name = line.split("|", 5)
        jobs.append(
            {
                "job_id": id_of(job_id, array, task),
                "name": name_of(name, task),
                "user": user,
                "submit": whole_number(submit),
            }
        )
    return jobs


OWNERS_FORMAT = "%A|%F|%K|%V|%u|%j"


_OF_CONTROLLER = (
    *("BOOT_TIME", "NEXT_JOB_ID", "SLURM_VERSION", "SLURM_CONF"),
    *("PriorityType", "PriorityWeightFairShare", "AccountingStorageType"),
)
"""Names in the answer of `scontrol show config` that say what `Controller` has."""


def parse_controller(text: str) -> Controller:
    """The controller in an answer of `scontrol show config`. Raises Unavailable if it is not in it."""
    words = dict(re.findall(rf"^({'|'.join(_OF_CONTROLLER)})\s*=\s*(\S+)", text, re.MULTILINE))
    is_weighed = words.get("PriorityType") == "priority/multifactor" and words.get("PriorityWeightFairShare", "0") != "0"
    has_fair_share = is_weighed and words.get("AccountingStorageType") == "accounting_storage/slurmdbd"
    try:
        second = SECOND_CONTROLLER if Path(words.get("SLURM_CONF", "")).name.endswith(second_controller.FILE) else 0
        boot_time, next_id = int(words["BOOT_TIME"]) + second, int(words["NEXT_JOB_ID"])
        return Controller(boot_time, next_id, words.get("SLURM_VERSION", ""), has_fair_share)
    except (KeyError, ValueError) as error:
        raise Unavailable(f"scontrol show config: no usable BOOT_TIME and NEXT_JOB_ID in it ({error})") from error


SHARES_FORMAT = "Account,User,NormShares,EffectvUsage,FairShare"


def parse_shares(text: str) -> list[AccountShare]:
    """The accounts that have users in an answer of `sshare -ahP` in SHARES_FORMAT, without root, whose usage is that of all.

    A number that the answer does not have is 0.
    """
    shares: dict[str, tuple[float, float]] = {}
    factors: dict[str, list[float]] = {}
    for line in text.splitlines():
        account, user, share, usage, factor = line.strip().split("|")
        if account == "root":
            continue
        if user:
            factors.setdefault(account, []).append(_fraction(factor))
        else:
            shares[account] = (_fraction(share), _fraction(usage))
    return [AccountShare(name, *shares[name], sum(of) / len(of)) for name, of in factors.items() if name in shares]


def _fraction(word: str) -> float:
    """A number of sshare; 0 for what is none, such as an empty field."""
    try:
        return float(word)
    except ValueError:
        return 0.0


def parse_nodes(text: str) -> Nodes:
    """Parse the answer of sinfo in NODES_FORMAT. Names of states in the result have no suffix such as `*` (does not respond)."""
    states: Counter[str] = Counter()
    allocated = processors = not_responding = ready = 0
    counts = dict.fromkeys(NODE_GROUPS, 0)
    for line in text.splitlines():
        state, number, of_processors = line.split("|")
        count = int(number)
        in_use, _idle, _other, of_all = of_processors.split("/")
        allocated, processors = allocated + int(in_use), processors + int(of_all)
        plain = re.sub(r"\W+$", "", state)
        states[plain] += count
        counts[_GROUPS.get(plain, "reserved")] += count
        ready += count if state in READY else 0
        not_responding += count if state.endswith("*") else 0
    return Nodes(dict(states), counts, not_responding, ready, processors, allocated)


_GROUPS = {
    **{group: group for group in NODE_GROUPS},
    # A planned node is idle: the backfill scheduler has a reservation there.
    **{"mixed": "allocated", "completing": "allocated", "draining": "drained", "planned": "idle"},
}
NODES_FORMAT = "%T|%D|%C"


def submit_options(job: Submission) -> list[str]:
    """The words after `sbatch`, without the job's command. Whether a job may be put back in the queue is left to the cluster
    (JobRequeue), because preemption and node failures are what its users study."""
    asked = job.request
    size = [f"--nodes={job.nodes}", "--exclusive"] if job.nodes else size_options(job.processors, asked)
    by_cpu = job.memory and not (asked.memory_per_node or asked.memory_per_gpu)
    choices = {
        "partition": job.partition,
        "uid": job.owner,
        "account": job.account,
        "qos": job.qos,
        "mem-per-cpu": f"{job.memory}M" if by_cpu else "",
        "mem": f"{asked.memory_per_node}M" if asked.memory_per_node else "",
        "mem-per-gpu": f"{asked.memory_per_gpu}M" if asked.memory_per_gpu else "",
        "dependency": dependency_words(job.dependency),
        "begin": f"now+{job.delay}" if job.delay else "",
        "gres": asked.gres,
        "gpus": asked.gpus,
        "gpus-per-task": asked.gpus_per_task,
        "constraint": asked.constraint,
        "licenses": asked.licences,
        "reservation": asked.reservation,
        "switches": asked.switches,
        "nice": str(asked.nice) if asked.nice else "",
    }
    return [
        "--parsable",
        f"--job-name={job.name}",
        *size,
        f"--time={job.limit_minutes}",
        *(f"--{option}={value}" for option, value in choices.items() if value),
        *(["--contiguous"] if asked.contiguous else []),
        *(["--hold"] if asked.hold else []),
        _WORKING_DIRECTORY + job.directory,
        "--output=/dev/null",
    ]


def size_options(processors: int, asked: Request) -> list[str]:
    """The options for the nodes and tasks of a job that has no whole nodes by the plan; without tasks each processor is one."""
    fewest, most = asked.sizes
    whole_nodes = asked.exclusive and fewest
    options = {
        "nodes": f"{fewest}-{most}" if most > fewest else str(fewest) if fewest else "",
        "ntasks": str(asked.tasks or ("" if whole_nodes else processors)),
        "cpus-per-task": str(asked.cpus_per_task or ""),
        "ntasks-per-node": str(asked.tasks_per_node or ""),
    }
    words = [f"--{option}={value}" for option, value in options.items() if value]
    return [*words, "--exclusive"] if asked.exclusive else words


def submit_arguments(job: Submission) -> list[str]:
    """The words after `sbatch`."""
    return [*submit_options(job), f"--wrap={job.command}"]


def array_script(tasks: Mapping[int, Submission]) -> str:
    """The script of an array. Its programs see the array's id as that of their job."""
    cases = "".join(f"{task}) {job.command} ;;\n" for task, job in tasks.items())
    return (
        "#!/bin/sh\nSLURM_JOB_ID=$SLURM_ARRAY_JOB_ID\nexport SLURM_JOB_ID\n"
        f"case $SLURM_ARRAY_TASK_ID in\n{cases}*) exit 1 ;;\nesac\n"
    )


def dependency_words(dependency: str) -> str:
    """A dependency with ids as Slurm writes them: afterany:12:13_4."""
    return re.sub(r":(\d+)", lambda match: f":{arrays.word(int(match[1]))}", dependency)


UPDATED = {"partition": "PartitionName", "node": "NodeName", "job": "JobId"}
"""Words of `scontrol update` by what is changed; other things are changed by sacctmgr."""


def node_words(state: str, reason: str) -> list[list[str]]:
    """The words of each `scontrol update` that takes nodes out of service, or returns them."""
    if state == cluster_events.RESUME:
        return [["State=RESUME"]]
    states = ["DRAIN", "DOWN"] if state == cluster_events.DOWN else ["DRAIN"]
    return [[f"State={word}", f"Reason={reason}"] for word in states]


def reservation_words(words: str, zero: float) -> list[str]:
    """The words of `scontrol create reservation` for those of an event: instants in the calendar (UTC) instead of virtual seconds
    after `zero`, an end instead of a duration."""
    settings = dict(word.partition("=")[::2] for word in words.split())
    start = math.ceil(zero + float(settings.pop("StartTime")))
    end = start + math.ceil(float(settings.pop("Duration")))
    instants = [
        f"{name}={time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(instant))}"
        for name, instant in (("StartTime", start), ("EndTime", end))
    ]
    return [*instants, *(f"{name}={value}" for name, value in settings.items())]


def failure(program: str, complaint: str) -> ResourceManagerError:
    """The error for the standard error output of a failed command."""
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    line = re.sub(rf"^{program}: (error: |fatal: )?", "", lines[-1]) if lines else "failed without a word"
    kind = Refused if _PERMANENT.search(complaint) else Unavailable if _TRANSIENT.search(complaint) else Unclear
    return kind(f"{program}: {line}")


# ---- the commands ----


Commands = TypeVar("Commands", bound="Slurm")


class Slurm(ResourceManager):
    """The commands of one cluster, run as the calling user, or as the user that the words `become`, such as sudo, change to.

    If the caller is root, they run as the instance's user.

    `keep_open` is a file descriptor that a running sbatch holds: whoever locks that file knows that no submission of a
    predecessor is under way. `query_timeout` is in real seconds.
    """

    records = SlurmRecords()

    def __init__(
        self,
        slurm_conf: str,
        programs: str,
        instance: str,
        keep_open: int | None = None,
        query_timeout: float = QUERY_TIMEOUT,
        become: Sequence[str] = (),
    ) -> None:
        preloaded = job_users.environment(Path(instance))
        self._programs = Path(programs)
        self._instance = Path(instance)
        self._user = processes.as_user(self._instance)
        self._keep_open = () if keep_open is None else (keep_open,)
        self._query_timeout = query_timeout
        self._become = become
        # Nothing else of the caller's environment: Slurm stores it with every job.
        self._submit_environment = {
            "PATH": f"{programs}:/usr/bin:/bin",
            "SLURM_CONF": slurm_conf,
            INSTANCE_VARIABLE: instance,
            **preloaded,
        }
        self._environment = {**self._submit_environment, "TZ": "UTC", "SLURM_TIME_FORMAT": "%s"}
        self._prepared = Prepared(self._prepare)

    @classmethod
    def of_run(cls, settings: RunSettings, keep_open: int) -> Slurm:
        """The cluster of a run.json, which has slurm_conf and bin, the folder of the commands. Raises WrongUse."""
        return cls(settings.text("slurm_conf"), settings.text("bin"), settings.text("instance"), keep_open)

    @classmethod
    def of_instance(
        cls: type[Commands],
        directory: Path,
        programs: Path | str,
        query_timeout: float = QUERY_TIMEOUT,
        become: Sequence[str] = (),
    ) -> Commands:
        """The cluster of the instance in `directory`; `programs` is the folder of the commands."""
        conf = f"{directory}/etc/slurm.conf"
        return cls(conf, str(programs), str(directory), query_timeout=query_timeout, become=become)

    # ---- the controller ----

    def controller(self) -> Controller:
        return parse_controller(self._ask("scontrol", "show", "config"))

    def configuration(self) -> str:
        """The answer of `scontrol show config` as a user of the host sees it: instants are in the host's time zone."""
        environment = {name: self._submit_environment[name] for name in ("PATH", "SLURM_CONF")}
        result = self._run("scontrol", ("show", "config"), environment, self._query_timeout)
        if result.returncode:
            raise failure("scontrol", result.stderr)
        return result.stdout

    def diagnostics(self) -> dict[str, int | None]:
        return parse_diagnostics(self._ask("sdiag"))

    def account_shares(self) -> list[AccountShare]:
        return parse_shares(self._ask("sshare", "-ahP", f"--format={SHARES_FORMAT}"))

    def log_size(self) -> int:
        return daemon_log.size(self._instance / "log/slurmctld.log")

    def complaints(self, real: float, virtual: float, log_offset: int) -> dict[str, int]:
        return daemon_log.by_kind(daemon_log.complaints(self._instance / "log", daemon_log.Span(real, virtual), log_offset))

    # ---- jobs ----

    def expect(self, jobs: Iterable[Submission]) -> None:
        """As `ResourceManager.expect`; the first one is not prepared, because it is submitted now."""
        if not self._become:
            expected = [submit_options(job) for job in islice(jobs, 1 + PREPARED) if script_of(job.command) is not None]
            self._prepared.expect(expected)

    def submit(self, job: Submission) -> Submitted:
        """As `ResourceManager.submit`, by the process that was prepared for a job with these options, if there is one. A failed
        submission ends the processes that are prepared for other jobs."""
        process, script = self._prepared.take(submit_options(job)), script_of(job.command)
        try:
            if process is not None and script is not None:
                return self._release(process, script)
            if process is not None:
                end(process)
            self._prepared.start_expected()
            return self._sbatch(submit_arguments(job))
        except ResourceManagerError:
            self._prepared.expect(())
            raise

    def most_tasks(self) -> int:
        """As `ResourceManager.most_tasks`: MaxArraySize. Before 17.11 jobcomp/filetxt does not say which task a record is of."""
        answer = self._ask("scontrol", "show", "config")
        words = dict(re.findall(r"^(MaxArraySize|SLURM_VERSION)\s*=\s*(\d+(?:\.\d+)?)", answer, re.MULTILINE))
        release = tuple(int(word) for word in words.get("SLURM_VERSION", "0").split("."))
        return int(words.get("MaxArraySize", 0)) if release >= (17, 11) else 0

    def submit_array(self, name: str, tasks: Mapping[int, Submission], at_once: int | None = None) -> Submitted:
        alike = replace(next(iter(tasks.values())), name=name)
        limit = "" if at_once is None else f"%{at_once}"
        options = [*submit_options(alike), f"--array={','.join(map(str, tasks))}{limit}"]
        environment = self._submit_environment
        return self._submitted(self._run("sbatch", options, environment, SUBMIT_TIMEOUT, array_script(tasks), keep_open=True))

    def use_up_id(self, name: str) -> int:
        arguments = ["--parsable", "--hold", f"--job-name={name}", "--ntasks=1", "--time=1", "--output=/dev/null"]
        return self._sbatch([*arguments, f"{_WORKING_DIRECTORY}{self._instance}", "--wrap=exit 0"]).job_id

    def make_placeholder(self, job_id: int, name: str) -> None:
        self._ask("scontrol", "update", f"JobId={arrays.word(job_id)}", f"JobName={name}", "Priority=0")

    def cancel(self, job_ids: Iterable[int]) -> None:
        words = [arrays.word(job_id) for job_id in job_ids]
        for word in words:
            if "_" in word:
                self._split_off(word)
        for first in range(0, len(words), 1000):
            self._ask("scancel", "--quiet", *words[first : first + 1000])

    def _split_off(self, task: str) -> None:
        """Make slurmctld keep a waiting task apart from its array, as any change of it does: otherwise no record has its
        cancellation.

        A task that has ended or is not known stays as it is.
        """
        arguments = ("update", f"JobId={task}", "Comment=cancelled")
        result = self._run("scontrol", arguments, self._environment, self._query_timeout)
        if result.returncode and _TRANSIENT.search(result.stderr):
            raise failure("scontrol", result.stderr)

    def cancel_named(self, name: str) -> None:
        self._ask("scancel", "--quiet", f"--name={name}")

    def hold(self, job_ids: Iterable[int]) -> None:
        self._ask("scontrol", "hold", _list_of(job_ids))

    def release(self, job_ids: Iterable[int]) -> None:
        self._ask("scontrol", "release", _list_of(job_ids))

    def requeue(self, job_ids: Iterable[int]) -> None:
        self._ask("scontrol", "requeue", _list_of(job_ids))

    def resize(self, job_id: int, nodes: int) -> None:
        """Shrink a job; Slurm refuses a number of nodes above the present one.

        A cluster without slurmdbd changes the size of a job once only: 22.05 answers every further time that the index in the
        database is being set, which is `Unavailable`.
        """
        self._ask("scontrol", "update", f"JobId={job_id}", f"NumNodes={nodes}")

    def set_dependency(self, job_id: int, dependency: str) -> None:
        self._ask("scontrol", "update", f"JobId={arrays.word(job_id)}", f"Dependency={dependency_words(dependency)}")

    def queue(self, names: Sequence[str] = (), ended: bool = False) -> list[QueuedJob]:
        """As `ResourceManager.queue`; a job that has ended is known for MinJobAge."""
        chosen = [f"--name={','.join(names)}"] if names else []
        states = ["--states=all"] if ended else []
        return parse_queue(self._ask("squeue", "--noheader", "--array", *states, *chosen, f"--format={QUEUE_FORMAT}"))

    def queue_owners(self) -> list[dict[str, str | int | None]]:
        """The jobs that have not ended: job_id, user, submit (virtual seconds) and name of each."""
        return parse_queue_owners(self._ask("squeue", "--noheader", "--all", "--array", f"--format={OWNERS_FORMAT}"))

    def jobs_by_state(self) -> dict[str, int]:
        return count_states(self._ask("squeue", "--noheader", "--all", "--array", "--format=%T"))

    def details(self, job_ids: Sequence[int], everything: bool = False) -> list[JobDetails]:
        """As `ResourceManager.details`: one scontrol, with one message for each job, or with `everything` one message whose answer
        has all jobs. For twenty times more jobs than were asked for that is as cheap."""
        if everything:
            wanted = set(job_ids)
            return [job for job in parse_details(self._ask("scontrol", "--oneliner", "show", "jobs")) if job.job_id in wanted]
        requests = "".join(f"show job {arrays.word(job_id)}\n" for job_id in job_ids)
        result = self._run("scontrol", ("--oneliner", "--quiet"), self._environment, self._query_timeout, requests)
        # An id that is gone makes its exit code 1, so only an answer without any job is looked at.
        jobs = parse_details(result.stdout)
        if not jobs and _TRANSIENT.search(result.stderr):
            raise failure("scontrol", result.stderr)
        return jobs

    def ended(self, job_ids: Sequence[int]) -> list[JobDetails]:
        """As `ResourceManager.ended`; of a cluster with accounting slurmdbd is asked for those that slurmctld has forgotten."""
        known = super().ended(job_ids)
        left = sorted(set(job_ids) - {job.job_id for job in known})
        if not left:
            return known
        words = (
            "--noheader",
            "--parsable2",
            "--allocations",
            "--duplicates",
            "--starttime=1970-01-02",
            f"--format={ACCOUNTED_FORMAT}",
        )
        result = self._run("sacct", (*words, f"--jobs={_list_of(left)}"), self._environment, self._query_timeout)
        # Without accounting it fails.
        return known if result.returncode else [*known, *parse_accounted(result.stdout)]

    def saved_by_runs(self) -> Sequence[Path]:
        """As `ResourceManager.saved_by_runs`. slurmdbd takes a number that comes again for the same job."""
        names = ["assoc_usage", "qos_usage", "priority_last_decay_ran"]
        if re.search(r"^AccountingStorageType += accounting_storage/none$", self._ask("scontrol", "show", "config"), re.MULTILINE):
            names.append("job_state")
        return [self._instance / "state" / f"{name}{suffix}" for name in names for suffix in ("", ".old")]

    def completions_size(self) -> int:
        return daemon_log.size(self._completions_path)

    def completions(self, offset: int) -> CompletionLog:
        return CompletionLog(self._completions_path, offset)

    @property
    def _completions_path(self) -> Path:
        return shared_folder.saved_in(self._instance) / shared_folder.RECORD

    def requeues(self, job_id: int) -> int:
        found = re.search(r"\bRestarts=(\d+)", self._ask("scontrol", "--oneliner", "show", "job", arrays.word(job_id)))
        return int(found[1]) if found else 0

    # ---- events of a run ----

    def environment(self) -> Mapping[str, str]:
        return self._submit_environment

    def set_nodes(self, nodes: str, state: str, reason: str) -> None:
        """As `ResourceManager.set_nodes`. A node that is down is drained as well: with ReturnToService=2 it would come back as soon
        as its slurmd registers."""
        for words in node_words(state, reason):
            self._ask("scontrol", "update", f"NodeName={nodes}", *words)

    def reserve(self, name: str, words: str, zero: float) -> None:
        self._ask("scontrol", "create", "reservation", f"ReservationName={name}", *reservation_words(words, zero))

    def release_reservation(self, name: str) -> None:
        self._ask("scontrol", "delete", f"ReservationName={name}")

    def change(self, kind: str, name: str, words: str) -> None:
        settings = words.split()
        if kind in UPDATED:
            self._ask("scontrol", "update", f"{UPDATED[kind]}={arrays.word(int(name)) if kind == 'job' else name}", *settings)
        else:
            self._ask("sacctmgr", "--immediate", "modify", kind, "where", f"name={name}", "set", *settings)

    def change_configuration(self, name: str) -> bool:
        return other_configurations.choose(self._instance, name)

    def reconfigure(self) -> None:
        self._ask("scontrol", "reconfigure")

    # ---- nodes and partitions ----

    def nodes(self) -> Nodes:
        return parse_nodes(self._ask("sinfo", "--noheader", f"--format={NODES_FORMAT}"))

    def registered(self) -> Registered:
        states = self.node_states()
        return Registered(states, ready(states), all_ready(states))

    def node_states(self) -> dict[str, int]:
        """Number of nodes by state, with sinfo's marks, such as `*` for nodes that do not respond."""
        return count_states(self._ask("sinfo", "--noheader", "--format=%T %D"))

    def ask_nodes(self) -> str:
        """As `Commands.ask_nodes`. slurmctld asks a node at once that is to be undrained, and then refuses, as it does not know the
        node's state (update_node in its node_mgr.c, 22.05 to 25.11)."""
        lines = self._ask("sinfo", "--noheader", "--states=unknown", "--format=%T|%N").splitlines()
        nodes = ",".join(names for state, _, names in (line.partition("|") for line in lines) if state.rstrip("*") == "unknown")
        if nodes:
            with suppress(Refused, Unclear):
                self._ask("scontrol", "update", f"NodeName={nodes}", "State=UNDRAIN")
        return nodes

    def resume_nodes(self) -> str:
        return self._resume(names for names, reason in self._reasons() if reason in DRAIN_REASONS)

    def return_nodes(self) -> str:
        return self._resume(names for names, _ in self._reasons())

    def _reasons(self) -> list[tuple[str, str]]:
        """Lists of the nodes that are down or drained, each with the reason."""
        lines = self._ask("sinfo", "--noheader", "--list-reasons", "--format=%N|%E").splitlines()
        return [(names, reason) for names, _, reason in (line.partition("|") for line in lines)]

    def _resume(self, lists: Iterable[str]) -> str:
        nodes = ",".join(lists)
        if nodes:
            self._ask("scontrol", "update", f"NodeName={nodes}", "State=RESUME")
        return nodes

    def open_partitions(self) -> list[str]:
        lines = self._ask("sinfo", "--noheader", "--format=%R|%a").splitlines()
        return sorted({line.split("|")[0] for line in lines if line.endswith("|up")})

    def set_partitions(self, names: Iterable[str], *, are_open: bool) -> None:
        for name in names:
            self._ask("scontrol", "update", f"PartitionName={name}", f"State={'UP' if are_open else 'DOWN'}")

    # ---- processes ----

    def _sbatch(self, arguments: Sequence[str]) -> Submitted:
        return self._submitted(self._run("sbatch", arguments, self._submit_environment, SUBMIT_TIMEOUT, keep_open=True))

    def _prepare(self, options: Sequence[str]) -> Process:
        """Start an sbatch that waits for its script. Raises OSError."""
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [str(self._programs / "sbatch"), *options],
            env=self._submit_environment,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            text=True,
            pass_fds=self._keep_open,
            **self._user,
        )

    def _release(self, process: Process, script: bytes) -> Submitted:
        try:
            return self._submitted(self._prepared.release(process, script))
        except subprocess.TimeoutExpired as error:
            raise Unavailable(f"sbatch: no answer within {SUBMIT_TIMEOUT:.0f} s") from error

    @staticmethod
    def _submitted(result: subprocess.CompletedProcess[str]) -> Submitted:
        """The job that an sbatch which has ended submitted. Raises ResourceManagerError."""
        answer = result.stdout.strip().split(";")[0]
        if result.returncode == 0 and answer.isdigit():
            return Submitted(int(answer), retries=len(_RETRIED_INSIDE.findall(result.stderr)))
        if result.returncode < 0:
            raise Unavailable(f"sbatch: ended by signal {-result.returncode}")
        raise failure("sbatch", result.stderr)

    def _ask(self, program: str, *arguments: str) -> str:
        result = self._run(program, arguments, self._environment, self._query_timeout)
        if result.returncode:
            raise failure(program, result.stderr)
        return result.stdout

    def _run(
        self,
        program: str,
        arguments: Sequence[str],
        environment: dict[str, str],
        timeout: float,
        stdin: str = "",
        keep_open: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        command = [str(self._programs / program), *arguments]
        if self._become:  # sudo passes no environment on
            variables = (f"{name}={value}" for name, value in environment.items())
            command = [*self._become, "env", "--ignore-environment", *variables, *command]
        try:
            return real_limit.run(
                command,
                stdin,
                timeout,
                env=None if self._become else environment,
                pass_fds=self._keep_open if keep_open else (),
                **self._user,
            )
        except FileNotFoundError as error:
            raise WrongUse(f"{self._programs / program}: there is no such program (bin in run.json)") from error
        except subprocess.TimeoutExpired as error:
            raise Unavailable(f"{program}: no answer within {timeout:.0f} s") from error
        except OSError as error:
            raise Unavailable(f"{program}: cannot be started: {error.strerror}") from error


def _list_of(job_ids: Iterable[int]) -> str:
    return ",".join(arrays.word(job_id) for job_id in job_ids)
