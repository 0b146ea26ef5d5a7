"""Filler jobs: Slurm's commands for `rm.fillers` (mirage_extras/filler/README.md)."""

from __future__ import annotations

from collections.abc import Iterable

from ...base.hostlist import expand
from ...base.numbers import whole_number
from ...base.run_settings import RunSettings
from ...rm.api import JobState, Submitted, Unavailable
from ...rm.slurm.commands import _WORKING_DIRECTORY, JOB_STATES, Slurm, failure
from ...rm.slurm.records import seconds
from .filler_settings import PARTITION
from .fillers import FillerJob, Fillers, PlannedJob, Room, filler_name, filler_number

FIELDS = ("%A", "%t", "%S", "%l", "%N", "%Y", "%j")
FORMAT = "|".join(FIELDS)
NO_NAMES = ("", "(null)", "N/A")


def parse_room(queue: str, processors: str) -> Room:
    """Answers of squeue in FORMAT, and of sinfo for the partition of the fillers with %C (allocated/idle/other/all)."""
    fillers: list[FillerJob] = []
    planned: list[PlannedJob] = []
    for line in queue.splitlines():
        job_id, code, start, limit, hosts, plan, name = line.split("|", len(FIELDS) - 1)
        state = JOB_STATES.get(code, JobState.ENDED)
        instant = whole_number(start)
        number = filler_number(name)
        if number is not None:
            fillers.append(FillerJob(int(job_id), number, state, seconds(limit), instant, _names(hosts)))
        elif state is JobState.PENDING and instant is not None and (nodes := _names(plan)):
            planned.append(PlannedJob(int(job_id), instant, nodes))
    free = sum(int(line.split("/")[1]) for line in processors.splitlines())
    return Room(tuple(fillers), tuple(planned), free)


def _names(hosts: str) -> tuple[str, ...]:
    return () if hosts in NO_NAMES else tuple(expand(hosts))


class Filling(Slurm, Fillers):
    """The commands of `rm.fillers` for one cluster. The caller is SlurmUser, who may raise time limits."""

    @classmethod
    def of_run(cls, settings: RunSettings, keep_open: int) -> Filling:
        return cls(settings.text("slurm_conf"), settings.text("bin"), settings.text("instance"), keep_open)

    def look(self) -> Room:
        queue = self._ask("squeue", "--noheader", "--all", "--array", f"--format={FORMAT}")
        return parse_room(queue, self._ask("sinfo", "--noheader", f"--partition={PARTITION}", "--format=%C"))

    def submit_filler(
        self, number: int, command: str, directory: str, limit_minutes: int, least_minutes: int, signalled: bool
    ) -> Submitted:
        words = [
            "--parsable",
            f"--job-name={filler_name(number)}",
            f"--partition={PARTITION}",
            "--nodes=1",
            "--ntasks=1",
            "--requeue",
            f"--time={limit_minutes}",
            f"--time-min={least_minutes}",
            # 0: only when it is preempted, and not before the end of its time limit, which the feeder raises.
            *(["--signal=B:USR1@0"] if signalled else []),
            _WORKING_DIRECTORY + directory,
            "--output=/dev/null",
            f"--wrap={command}",
        ]
        return self._sbatch(words)

    def ask(self, job_ids: Iterable[int]) -> None:
        words = [str(job_id) for job_id in job_ids]
        for first in range(0, len(words), 1000):
            self._ask("scancel", "--quiet", "--batch", "--signal=USR1", *words[first : first + 1000])

    def set_limit(self, job_ids: Iterable[int], minutes: int) -> None:
        requests = "".join(f"update JobId={job_id} TimeLimit={minutes}\n" for job_id in job_ids)
        result = self._run("scontrol", ("--quiet",), self._environment, self._query_timeout, requests)
        # A job that has ended makes its exit code 1.
        if result.returncode and isinstance(error := failure("scontrol", result.stderr), Unavailable):
            raise error
