"""The one door to the resource manager: the only code that knows Slurm's commands and the formats of their answers.

Tried with Slurm 16.05 to 26.05 (docs/versions.md); the formats are those of squeue(1), scontrol(1), sdiag(1), sinfo(1), and of the
plugin jobcomp/filetxt. Instants are whole seconds since the epoch, of the cluster's own (virtual) time: the client
commands are asked for them with SLURM_TIME_FORMAT=%s, the completion log has them in the controller's time zone.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ...base.errors import WrongUse
from ...base.processes import INSTANCE_VARIABLE
from ...clock import instance_clock
from .node_states import count_states

QUERY_TIMEOUT = 60.0
"""Real seconds after which a command that only asks is given up: far above MessageTimeout (10 s)."""
SUBMIT_TIMEOUT = 300.0
"""The same for sbatch, which on its own retries a busy controller for up to 120 s (MAX_RETRIES in sbatch.c)."""

ACTIVE_STATES = frozenset({"PD", "R", "S", "CG", "CF", "RQ", "RH", "RD", "RF", "RS", "SI", "SO", "ST", "SE"})
"""Compact states of jobs that have not ended (squeue(1), JOB STATE CODES)."""
ENDED_FOR_GOOD = frozenset({"COMPLETED", "TIMEOUT", "CANCELLED", "DEADLINE"})
"""States after which Slurm itself never runs a job again (a node failure or a preemption may put it back in the queue)."""
HELD_REASONS = frozenset({"launch failed requeued held", "JobHeldAdmin", "JobHeldUser", "JobHoldMaxRequeue"})
"""Reasons of waiting jobs that only `scontrol release` lets go on."""
DUPLICATE_JOB = "Duplicate jobid"
"""The controller's reason for draining a node that was given a job id which it had seen (agent.c)."""
PLACEHOLDER_SUFFIX = ".skip"
"""Names of jobs that are submitted held and cancelled at once, only to use up job ids."""

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
    r"|unrecognized option|invalid option|requested partition configuration",
    re.IGNORECASE,
)
_RETRIED_INSIDE = re.compile(r"sleeping and retrying|temporarily disabled, retrying", re.IGNORECASE)
_WORKING_DIRECTORY = "-D"
"""Of sbatch, in all releases: --chdir was --workdir before 17.11."""
_FIELD = re.compile(r"(?:^|(?<= ))([A-Z][A-Za-z/:]*)=")


class SlurmError(Exception):
    """A command did not do what it was asked for; the message is what it said, on one line."""


class Unavailable(SlurmError):
    """The controller did not answer, or not now. It may have done what it was asked for all the same."""


class Refused(SlurmError):
    """The controller will never do what it was asked for."""


class Unclear(SlurmError):
    """An answer that is in neither list: worth a few attempts, not an unlimited number."""


@dataclass(frozen=True)
class Submission:
    """What sbatch is told of one job."""

    name: str
    command: str
    """A line for /bin/sh."""
    processors: int
    nodes: int | None
    limit_minutes: int
    partition: str
    directory: str
    account: str = ""
    qos: str = ""
    memory: int | None = None
    """MiB for each processor."""
    dependency: str = ""
    delay: int = 0
    """Seconds for which it may not start."""


@dataclass(frozen=True)
class QueuedJob:
    """A job that the controller knows now. `start` is None before it has one; `state` is the compact code."""

    slurm_id: int
    state: str
    start: int | None
    reason: str
    name: str
    processors: int = 0
    """Those that it has, or waits for."""

    @property
    def active(self) -> bool:
        """Whether it has not ended."""
        return self.state in ACTIVE_STATES


@dataclass(frozen=True)
class CompletedJob:
    """A line of the completion log. `fields` are its words by name."""

    slurm_id: int
    name: str
    state: str
    fields: dict[str, str]


@dataclass(frozen=True)
class Nodes:
    """The nodes, counted."""

    states: dict[str, int]
    """How many are in which state, as sinfo names it, without its mark for nodes that do not respond."""
    groups: dict[str, int]
    """How many are idle, allocated (also in part), down, drained, unknown (not heard of since the controller's start) or other,
    and how many of all these do not respond (not_responding)."""
    processors: int
    allocated: int
    """Processors of all nodes, and those that jobs have."""


@dataclass(frozen=True)
class Controller:
    """Since when the running controller runs (virtual), and the id that it gives to the next job."""

    boot_time: int
    next_id: int
    version: str


# ---- parsers: pure ----


def parse_words(line: str) -> dict[str, str]:
    """`Key=value Key=value ...`, as scontrol -o and jobcomp/filetxt write; a value goes up to the next ` Key=`."""
    found = list(_FIELD.finditer(line))
    ends = [match.start() - 1 for match in found[1:]] + [len(line)]
    return {match[1]: line[match.end() : end].strip() for match, end in zip(found, ends)}


def parse_queue(text: str) -> list[QueuedJob]:
    """Answer of squeue in QUEUE_FORMAT."""
    jobs = []
    for line in text.splitlines():
        slurm_id, state, start, reason, processors, name = line.split("|", 5)
        jobs.append(QueuedJob(int(slurm_id), state, _instant(start), reason, name, int(processors)))
    return jobs


QUEUE_FORMAT = "%i|%t|%S|%r|%C|%j"


def parse_completed(line: str) -> CompletedJob | None:
    """One line of the completion log; None if it is not one."""
    words = parse_words(line)
    if not {"JobId", "Name", "JobState"} <= words.keys() or not words["JobId"].isdigit():
        return None
    return CompletedJob(int(words["JobId"]), words["Name"], words["JobState"], words)


def parse_details(text: str) -> list[dict[str, str | int | None]]:
    """Answer of `scontrol -o show job`: a mapping for each job in it; instants are seconds since the epoch or None."""
    return [_details(parse_words(line)) for line in text.splitlines() if line.startswith("JobId=")]


def _details(words: dict[str, str]) -> dict[str, str | int | None]:
    return {
        "slurm_id": int(words["JobId"]),
        "name": words["JobName"],
        "state": words["JobState"].split(",")[0],
        "reason": words.get("Reason", ""),
        "restarts": int(words.get("Restarts", "0")),
        "priority": int(words.get("Priority", "0")),
        "partition": words.get("Partition", ""),
        "nodes": int(words.get("NumNodes", "0").split("-")[0]),
        "node_list": words.get("NodeList", ""),
        "cpus": int(words.get("NumCPUs", "0").split("-")[0]),
        "exit_code": words.get("ExitCode", ""),
        "submit": _instant(words.get("SubmitTime", "")),
        "eligible": _instant(words.get("EligibleTime", "")),
        "start": _instant(words.get("StartTime", "")),
        "end": _instant(words.get("EndTime", "")),
        "suspend_time": _instant(words.get("SuspendTime", "")),
        "secs_pre_suspend": int(words.get("SecsPreSuspend", "0")),
        "run_time": _duration(words.get("RunTime", "00:00:00")),
    }


def _duration(word: str) -> int:
    """Seconds of [days-]hours:minutes:seconds."""
    days, _, clock = word.rpartition("-")
    hours, minutes, seconds = (int(part) for part in clock.split(":"))
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds


def _instant(word: str) -> int | None:
    return int(word) if word.isdigit() else None


def parse_controller(text: str) -> Controller:
    """What `scontrol show config` says of the controller itself."""
    words = dict(re.findall(r"^(BOOT_TIME|NEXT_JOB_ID|SLURM_VERSION)\s*=\s*(\S+)", text, re.MULTILINE))
    try:
        return Controller(int(words["BOOT_TIME"]), int(words["NEXT_JOB_ID"]), words.get("SLURM_VERSION", ""))
    except (KeyError, ValueError) as error:
        raise Unavailable(f"scontrol show config: no usable BOOT_TIME and NEXT_JOB_ID in it ({error})") from error


DIAGNOSTICS = {
    "server_threads": ("", "Server thread count"),
    "agent_queue": ("", "Agent queue size"),
    "jobs_submitted": ("", "Jobs submitted"),
    "jobs_started": ("", "Jobs started"),
    "jobs_completed": ("", "Jobs completed"),
    "jobs_canceled": ("", "Jobs canceled"),
    "jobs_failed": ("", "Jobs failed"),
    "main_last_cycle_us": ("Main", "Last cycle"),
    "main_max_cycle_us": ("Main", "Max cycle"),
    "main_queue_length": ("Main", "Last queue length"),
    "bf_last_cycle_us": ("Backfilling", "Last cycle"),
    "bf_max_cycle_us": ("Backfilling", "Max cycle"),
    "bf_last_depth": ("Backfilling", "Last depth cycle"),
    "bf_queue_length": ("Backfilling", "Last queue length"),
    "bf_last_cycle_when": ("Backfilling", "Last cycle when"),
    "data_since": ("", "Data since"),
}
"""Columns taken from sdiag: in which part of it (its heading's first word), and which line."""


def parse_diagnostics(text: str) -> dict[str, int | None]:
    """Answer of sdiag: one number for each of DIAGNOSTICS (None: not said); instants are seconds since the epoch."""
    found: dict[tuple[str, str], int | None] = {}
    part = ""
    for line in text.splitlines():
        if re.match(r"(Main|Backfilling|Latency|Remote|Pending)\b", line):
            part = line.split()[0]
        # `Last cycle: 5`, `Data since      Fri Nov 20 18:27:55 2026 (1795199275)`, and, before 17.11, that without the number.
        instant = re.match(r"\s*(\S.*?)(?::\s|\s\s).*\((\d{9,})\)$", line)
        number = re.match(r"\s*(\S.*?):\s+(\d+)", line)
        if match := instant or number:
            found.setdefault((part, match[1]), int(match[2]))
        elif match := re.match(r"\s*(\S.*?)(?::\s|\s\s)\s*(\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4})$", line):
            at = datetime.strptime(f"{match[2]} +0000", "%a %b %d %H:%M:%S %Y %z")
            found.setdefault((part, match[1]), int(at.timestamp()) or None)
    return {column: found.get(place) for column, place in DIAGNOSTICS.items()}


def parse_nodes(text: str) -> Nodes:
    """Answer of sinfo in NODES_FORMAT."""
    states: Counter[str] = Counter()
    allocated = processors = 0
    counts = dict.fromkeys(("idle", "allocated", "down", "drained", "unknown", "other", "not_responding"), 0)
    groups = {"mixed": "allocated", "completing": "allocated", "draining": "drained"}
    groups.update({state: state for state in counts if state != "not_responding"})
    for line in text.splitlines():
        state, count, of_processors = line.split("|")
        in_use, _idle, _other, of_all = of_processors.split("/")
        allocated, processors = allocated + int(in_use), processors + int(of_all)
        plain = re.sub(r"\W+$", "", state)
        states[plain] += int(count)
        counts[groups.get(plain, "other")] += int(count)
        if state.endswith("*"):
            counts["not_responding"] += int(count)
    return Nodes(dict(states), counts, processors, allocated)


NODES_FORMAT = "%T|%D|%C"


def submit_arguments(job: Submission) -> list[str]:
    """The words after `sbatch`. Whether a job may be put back in the queue is left to the cluster (JobRequeue), because
    preemption and node failures are what its users study."""
    size = [f"--nodes={job.nodes}", "--exclusive"] if job.nodes else [f"--ntasks={job.processors}"]
    choices = {
        "partition": job.partition,
        "account": job.account,
        "qos": job.qos,
        "mem-per-cpu": f"{job.memory}M" if job.memory else "",
        "dependency": job.dependency,
        "begin": f"now+{job.delay}" if job.delay else "",
    }
    return [
        "--parsable",
        f"--job-name={job.name}",
        *size,
        f"--time={job.limit_minutes}",
        *(f"--{option}={value}" for option, value in choices.items() if value),
        _WORKING_DIRECTORY + job.directory,
        "--output=/dev/null",
        f"--wrap={job.command}",
    ]


def failure(program: str, complaint: str) -> SlurmError:
    """The right kind of error for what a failed command wrote to its standard error."""
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    line = re.sub(rf"^{program}: (error: |fatal: )?", "", lines[-1]) if lines else "failed without a word"
    kind = Refused if _PERMANENT.search(complaint) else Unavailable if _TRANSIENT.search(complaint) else Unclear
    return kind(f"{program}: {line}")


# ---- the commands ----


class Slurm:
    """The commands of one cluster, run as the calling user. Each raises Unavailable, Refused or Unclear.

    `keep_open` is a file descriptor that a running sbatch holds: whoever locks that file knows that no submission of a
    predecessor is under way.
    """

    def __init__(self, slurm_conf: str, programs: str, instance: str, keep_open: int | None = None) -> None:
        on_the_clock = instance_clock.environment(Path(instance))
        self._programs = Path(programs)
        self._instance = instance
        self._keep_open = () if keep_open is None else (keep_open,)
        # Nothing else of the caller's environment: Slurm stores it with every job.
        self._submit_environment = {
            "PATH": f"{programs}:/usr/bin:/bin",
            "SLURM_CONF": slurm_conf,
            INSTANCE_VARIABLE: instance,
            **on_the_clock,
        }
        self._environment = {**self._submit_environment, "TZ": "UTC", "SLURM_TIME_FORMAT": "%s"}

    def submit(self, job: Submission) -> tuple[int, int]:
        """Submit one job: (its id, how often sbatch itself had to try again)."""
        return self._sbatch(submit_arguments(job))

    def skip_id(self, name: str) -> int:
        """Use up one job id, by a job that is held and never starts, until cancel_named removes it."""
        arguments = ["--parsable", "--hold", f"--job-name={name}", "--ntasks=1", "--time=1", "--output=/dev/null"]
        return self._sbatch([*arguments, _WORKING_DIRECTORY + self._instance, "--wrap=exit 0"])[0]

    def cancel(self, slurm_ids: Iterable[int]) -> None:
        """Cancel jobs by their ids. One that has ended is no error."""
        words = [str(slurm_id) for slurm_id in slurm_ids]
        for first in range(0, len(words), 1000):
            self._ask("scancel", "--quiet", *words[first : first + 1000])

    def cancel_named(self, name: str) -> None:
        """Cancel the jobs of this name. That there is none, or no more, is no error.

        Unlike an id, a name never comes to mean another job after the controller was killed.
        """
        self._ask("scancel", "--quiet", f"--name={name}")

    def make_placeholder(self, slurm_id: int, name: str) -> None:
        """Hold a waiting job, and give it the name of the placeholders, so that its end is not taken for a job's."""
        self._ask("scontrol", "update", f"JobId={slurm_id}", f"JobName={name}", "Priority=0")

    def set_dependency(self, slurm_id: int, dependency: str) -> None:
        """Let a waiting job wait for these instead of what it was submitted with."""
        self._ask("scontrol", "update", f"JobId={slurm_id}", f"Dependency={dependency}")

    def resume_nodes(self) -> str:
        """Put nodes to work again that the controller drained because of a job id that came twice; which ones.

        It does so when it was killed, restores a job as waiting that had run already, and starts it on the same node.
        """
        lines = self._ask("sinfo", "--noheader", "--list-reasons", "--format=%N|%E").splitlines()
        nodes = ",".join(line.split("|")[0] for line in lines if line.endswith(f"|{DUPLICATE_JOB}"))
        if nodes:
            self._ask("scontrol", "update", f"NodeName={nodes}", "State=RESUME")
        return nodes

    def open_partitions(self) -> list[str]:
        """Partitions whose jobs may start."""
        lines = self._ask("sinfo", "--noheader", "--format=%R|%a").splitlines()
        return sorted({line.split("|")[0] for line in lines if line.endswith("|up")})

    def set_partitions(self, names: Iterable[str], state: str) -> None:
        """Let jobs start in these partitions (UP), or only wait (DOWN)."""
        for name in names:
            self._ask("scontrol", "update", f"PartitionName={name}", f"State={state}")

    def release(self, slurm_ids: Iterable[int]) -> None:
        """Let held jobs go on."""
        self._ask("scontrol", "release", ",".join(str(slurm_id) for slurm_id in slurm_ids))

    def queue(self, names: Sequence[str] = (), ended: bool = False) -> list[QueuedJob]:
        """Jobs that the controller knows: those that have not ended, and with `ended` those that ended not long ago
        (MinJobAge); only those named `names` if there are any."""
        chosen = [f"--name={','.join(names)}"] if names else []
        states = ["--states=all"] if ended else []
        return parse_queue(self._ask("squeue", "--noheader", "--array", *states, *chosen, f"--format={QUEUE_FORMAT}"))

    def details(self, slurm_ids: Sequence[int], everything: bool = False) -> list[dict[str, str | int | None]]:
        """What the controller still knows of these jobs, in no order. One scontrol for all of them, one message for each.

        With `everything` it is one message, whose answer has all jobs that the controller knows: for twenty times more jobs
        than that it is as cheap.
        """
        if everything:
            wanted = set(slurm_ids)
            return [job for job in parse_details(self._ask("scontrol", "--oneliner", "show", "jobs")) if job["slurm_id"] in wanted]
        requests = "".join(f"show job {slurm_id}\n" for slurm_id in slurm_ids)
        result = self._run("scontrol", ("--oneliner", "--quiet"), self._environment, QUERY_TIMEOUT, requests)
        # An id that is gone makes its exit code 1, so only an answer without any job is looked at.
        jobs = parse_details(result.stdout)
        if not jobs and _TRANSIENT.search(result.stderr):
            raise failure("scontrol", result.stderr)
        return jobs

    def jobs_by_state(self) -> dict[str, int]:
        """How many jobs that have not ended are in which state: cheaper than `queue`."""
        return count_states(self._ask("squeue", "--noheader", "--all", "--array", "--format=%T"))

    def controller(self) -> Controller:
        """The controller's start and next job id."""
        return parse_controller(self._ask("scontrol", "show", "config"))

    def diagnostics(self) -> dict[str, int | None]:
        """The scheduler's statistics."""
        return parse_diagnostics(self._ask("sdiag"))

    def nodes(self) -> Nodes:
        """How many nodes are in which state, and their processors."""
        return parse_nodes(self._ask("sinfo", "--noheader", f"--format={NODES_FORMAT}"))

    def _sbatch(self, arguments: Sequence[str]) -> tuple[int, int]:
        result = self._run("sbatch", arguments, self._submit_environment, SUBMIT_TIMEOUT, keep_open=True)
        answer = result.stdout.strip().split(";")[0]
        if result.returncode == 0 and answer.isdigit():
            return int(answer), len(_RETRIED_INSIDE.findall(result.stderr))
        if result.returncode < 0:
            raise Unavailable(f"sbatch: ended by signal {-result.returncode}")
        raise failure("sbatch", result.stderr)

    def _ask(self, program: str, *arguments: str) -> str:
        result = self._run(program, arguments, self._environment, QUERY_TIMEOUT)
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
        try:
            return subprocess.run(
                [str(self._programs / program), *arguments],
                env=environment,
                input=stdin,
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
                pass_fds=self._keep_open if keep_open else (),
            )
        except FileNotFoundError as error:
            raise WrongUse(f"{self._programs / program}: there is no such program (bin in run.json)") from error
        except subprocess.TimeoutExpired as error:
            raise Unavailable(f"{program}: no answer within {timeout:.0f} s") from error
        except OSError as error:
            raise Unavailable(f"{program}: cannot be started: {error.strerror}") from error


class CompletionLog:
    """Slurm's lasting record of ended jobs (jobcomp/filetxt), read as it grows: each read goes on where the last ended.

    A job that was put back in the queue has a line for each of its runs.
    """

    def __init__(self, path: Path, offset: int = 0) -> None:
        self._path = path
        self._offset = offset

    def read(self) -> list[CompletedJob]:
        """The lines since the last call; a line that is still being written is left for the next."""
        try:
            with self._path.open("rb") as stream:
                if os.fstat(stream.fileno()).st_size < self._offset:
                    self._offset = 0  # the log was rotated or cleared
                stream.seek(self._offset)
                data = stream.read()
        except FileNotFoundError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        lines = whole.decode(errors="replace").splitlines()
        return [job for line in lines if (job := parse_completed(line)) is not None]
