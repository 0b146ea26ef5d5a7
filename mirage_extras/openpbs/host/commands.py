"""Speaks to a running OpenPBS through its commands: qsub, qstat, qdel, pbsnodes and others.

The commands reach the server only from inside the network of their instance. The replay is inside; other callers give the words
that enter it (`become`).
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ...base import processes, user_folders
from ...base.entrance import Enter, here
from ...base.errors import WrongUse
from ...base.processes import INSTANCE_VARIABLE
from ...base.run_settings import RunSettings
from ...clock import instance_clock, real_limit
from ...rm.api import (
    SUBMIT_TIMEOUT,
    Commands,
    Controller,
    JobDetails,
    Nodes,
    QueuedJob,
    Refused,
    Submission,
    Submitted,
    Unavailable,
)
from ...rm.evidence import Span
from . import collection, daemon_log
from .answers import (
    GONE,
    failure,
    over_limits,
    parse_details,
    parse_json,
    parse_nodes,
    parse_queue,
    parse_queue_owners,
    parse_states,
)
from .daemons import ACCOUNTING, SERVER_HOME
from .queues import is_name
from .records import AccountingLog, OpenPbsRecords, number_of
from .scheduler_log import SchedulerLog
from .submission import depend, full_id, submit_arguments

QUERY_TIMEOUT = 60.0
"""Real seconds after which a query ends that has no answer."""
AT_ONCE = 1000
"""Jobs whose ids are given to one command."""


class OpenPbs(Commands):
    """The commands of one OpenPBS, run as the calling user, who has to be an operator of it.

    A job id never comes twice: the server stores the next one up to 1000 ahead, and goes on there after it was killed
    (server/req_quejob.c, get_next_svr_sequence_id). So ids have gaps, and `use_up_id` is asked for one id at most.

    `keep_open` is a file descriptor that a running qsub holds: whoever locks that file knows that no submission of a predecessor
    is under way. `query_timeout` is in real seconds. `become` are words before each command, such as sudo; `enter` gives those that
    enter the instance's network and change the user.
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
        enter: Enter = here,
    ) -> None:
        self._programs = Path(programs)
        self._instance = Path(instance)
        self._enter = enter
        self._keep_open = () if keep_open is None else (keep_open,)
        self._query_timeout = query_timeout
        self._become = become
        self._cycles = SchedulerLog(self._instance / SERVER_HOME / "sched_logs")
        self._boot: tuple[object, int, int] | None = None
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
        cls,
        directory: Path,
        programs: Path | str,
        query_timeout: float = QUERY_TIMEOUT,
        become: Sequence[str] = (),
        enter: Enter = here,
    ) -> OpenPbs:
        """The cluster of the instance in `directory`; `programs` is the folder of the commands."""
        conf = f"{directory}/etc/pbs.conf"
        return cls(conf, str(programs), str(directory), query_timeout=query_timeout, become=become, enter=enter)

    # ---- the controller ----

    def controller(self) -> Controller:
        """The running server. OpenPBS does not tell its start: it is that of its process, which the farm knows.

        The next id is the least that it can be, after those of all jobs that the server knows.
        """
        answer = parse_json(self._ask("qstat", "-B", "-f", "-F", "json"))
        pid, started = self._server_process()
        if self._boot is None or self._boot[0] != (pid, started):
            ids = [number for word in self._select("-x") if (number := number_of(word)) is not None]
            self._boot = (pid, started), self._virtual(started), max(ids, default=-1) + 1
        return Controller(*self._boot[1:], str(answer.get("pbs_version", "")))

    def _server_process(self) -> tuple[int, int]:
        """The server's process, and its start in ticks since the host's boot. Raises Unavailable."""
        try:
            pid = int((user_folders.read_json(self._instance, "run/farm.json") or {})["controller_pid"])
            started = processes.start_time(pid)
        except (WrongUse, OSError, KeyError, TypeError, ValueError) as error:
            raise Unavailable(f"the farm does not say which process the server is: {error}") from error
        if started is None:
            raise Unavailable("the server does not run")
        return pid, started

    def _virtual(self, ticks: int) -> int:
        """Virtual seconds since the epoch at an instant in ticks since the host's boot."""
        real = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / processes.TICKS
        clock = instance_clock.current(self._instance)
        return round(real if clock is None else clock.virtual_at(round(real * 1e9)) / 1e9)

    def keeps_its_phase(self) -> bool:
        """By the clock's library (files/virtual_clock/openpbs_quirks.c)."""
        return True

    def configuration(self) -> str:
        """The configuration in force, as in qmgr.txt (`collection`)."""
        parts = {
            collection.VERSION: self._ask("qstat", "--version"),
            collection.SERVER: self._ask("qmgr", "-c", "print server"),
            collection.NODES: self._ask("qmgr", "-c", "print node @default"),
            collection.SCHEDULER: self._sched_config(),
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
        self._each("qrls", job_ids, "-h", "uo")

    def requeue(self, job_ids: Iterable[int]) -> None:
        self._each("qrerun", job_ids)

    def end_overdue(self, job_ids: Sequence[int], seconds: float) -> Sequence[int]:
        """As `ResourceManager.end_overdue`, by OpenPBS's own count of the time that a job has run.

        A first node's pbs_mom that is killed after the job's program has ended, while it waits for the other nodes, finds no
        process of the job when it goes on, and never ends it; nor does one whose job was to begin when another node and the server
        were killed. A SIGKILL lets it look again (requests.c, req_signaljob).
        """
        answer = self._stat([], [full_id(job_id) for job_id in job_ids])
        overdue = [job_id for job_id, over in over_limits(answer, self._now()).items() if over > seconds]
        self._each("qsig", overdue, "-s", "SIGKILL")
        return overdue

    def resize(self, job_id: int, nodes: int) -> None:
        raise Refused(f"OpenPBS does not change the size of job {job_id}")

    def set_dependency(self, job_id: int, dependency: str) -> None:
        self._ask("qalter", "-W", f"depend={depend(dependency)}", full_id(job_id))

    def queue(self, names: Sequence[str] = (), ended: bool = False) -> list[QueuedJob]:
        """As `ResourceManager.queue`; a job that has ended is known for job_history_duration."""
        history = ["-x"] if ended else []
        if names:
            jobs = parse_queue(self._stat(history, [line for name in names for line in self._select(*history, "-N", name)]))
        else:
            jobs = parse_queue(parse_json(self._ask("qstat", *history, "-f", "-F", "json")))
        return [job for job in jobs if ended or job.active]

    def queue_owners(self) -> list[dict[str, str | int | None]]:
        """The jobs that have not ended: job_id, user, submit (virtual seconds) and name of each."""
        return parse_queue_owners(parse_json(self._ask("qstat", "-f", "-F", "json")))

    def forgets_runs(self) -> bool:
        """Only the usage of a fair share is kept."""
        return collection.scheduler_setting({collection.SCHEDULER: self._sched_config()}, "fair_share") != "true"

    def _sched_config(self) -> str:
        return (self._instance / SERVER_HOME / "sched_priv/sched_config").read_text(errors="replace")

    def jobs_by_state(self) -> dict[str, int]:
        return parse_states(parse_json(self._ask("qstat", "-B", "-f", "-F", "json")))

    def details(self, job_ids: Sequence[int], everything: bool = False) -> list[JobDetails]:
        """As `ResourceManager.details`: jobs are known for job_history_duration after their end."""
        if not everything:
            return parse_details(self._stat(["-x"], [full_id(job_id) for job_id in job_ids]))
        wanted = set(job_ids)
        jobs = parse_details(parse_json(self._ask("qstat", "-x", "-f", "-F", "json")))
        return [job for job in jobs if job.job_id in wanted]

    def _select(self, *words: str) -> list[str]:
        """Ids of the jobs that qselect finds."""
        return self._ask("qselect", *words).split()

    def _stat(self, options: Sequence[str], ids: Sequence[str]) -> dict[str, Any]:
        """What the server knows of the jobs with these ids; those that it has forgotten are left out."""
        jobs: dict[str, Any] = {}
        for first in range(0, len(ids), AT_ONCE):
            # Without -E it asks for one job at a time, and prints only the first of them as JSON.
            result = self._run("qstat", [*options, "-E", "-f", "-F", "json", *ids[first : first + AT_ONCE]], self._query_timeout)
            complaint = "\n".join(line for line in result.stderr.splitlines() if not GONE.search(line))
            if result.returncode and complaint.strip():
                raise failure("qstat", complaint)
            jobs.update(parse_json(result.stdout).get("Jobs", {}))
        return {"Jobs": jobs}

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
        """Nothing: OpenPBS takes out no node by itself."""
        return ""

    def open_partitions(self) -> list[str]:
        queues = parse_json(self._ask("qstat", "-Q", "-f", "-F", "json")).get("Queue", {})
        return sorted(name for name, queue in queues.items() if queue.get("started") == "True")

    def set_partitions(self, names: Iterable[str], *, are_open: bool) -> None:
        for name in filter(is_name, names):  # those of a server are; a line of qmgr may have several commands
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
            complaint = "\n".join(line for line in result.stderr.splitlines() if not GONE.search(line))
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
        try:
            with self._enter() as entrance:
                become = [*self._become, *entrance.words]
                if become:  # sudo passes no environment on
                    variables = (f"{name}={value}" for name, value in self._environment.items())
                    command = [*become, "env", "--ignore-environment", *variables, *command]
                # A command that becomes another user must not write to the caller's terminal.
                user = {"start_new_session": True} if become else processes.as_user(self._instance)
                return real_limit.run(
                    command,
                    "",
                    timeout,
                    env=None if become else self._environment,
                    errors="replace",
                    pass_fds=(*entrance.descriptors, *(self._keep_open if keep_open else ())),
                    **user,
                )
        except FileNotFoundError as error:
            raise WrongUse(f"{self._programs / program}: there is no such program (bin in run.json)") from error
        except subprocess.TimeoutExpired as error:
            raise Unavailable(f"{program}: no answer within {timeout:.0f} s") from error
        except OSError as error:
            raise Unavailable(f"{program}: cannot be started: {error.strerror}") from error
