"""Measures the cost of a launch: for how long the resource manager holds a job's processors beyond the run time of its program.

A launch takes 15 to 40 ms of real time, which are 8 to 20 s of a clock that runs 500 times as fast; each job would hold its
processors for that much longer than in the log, and those that wait for them would wait longer, one after the other. The run time
in a log is what the resource manager there recorded from start to end, its own launch included. So on a virtual clock the replay
measures what a launch costs here, and has each job's program run for that much less: then the record has the log's run time.
What remains is measured in every run (`runtime_stretch_p50`, docs/validity.md).

It is measured with jobs of one processor, and with jobs that are as wide as the plan's wide ones. Between the two the cost of a job
follows from its number of nodes on a straight line; beyond them it is that of the nearer one.
"""

from __future__ import annotations

import logging
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..base.errors import WrongUse
from ..clock.clock import Clock
from ..rm.api import CompletionReader, Refused, ResourceManager, Submission

log = logging.getLogger("replay")

NARROW_JOBS, WIDE_JOBS = 25, 15
"""Numbers of narrow and of wide jobs that are run."""
CUT = 5  # one in so many jobs is trimmed at either end of the costs
GAP = 0.15  # real seconds from one to the next at least
RUN = 0.05  # real seconds that their programs run, and up to a virtual second more
PATIENCE = 20.0  # real seconds until a job has ended: on a cluster that is full it does not start
LIMIT_MINUTES = 10


@dataclass(frozen=True)
class Width:
    """What a launch costs jobs of one width, in real seconds."""

    nodes: int
    seconds: float
    error: float
    """Its standard error."""
    jobs: int
    """Number of jobs that were measured."""

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Width:
        """The width in an object of JSON. Raises KeyError, TypeError or ValueError for anything else."""
        return cls(int(record["nodes"]), float(record["seconds"]), float(record["error"]), int(record["jobs"]))


@dataclass(frozen=True)
class LaunchCost:
    """What launches of a run's jobs cost, in real seconds. Without `narrow` it is not known, and nothing is taken off."""

    narrow: Width | None
    wide: Width | None = None
    processors: float = 1.0
    """Processors of a node on average: a job that names no number of nodes counts as on the fewest that can hold it."""
    reason: str = ""
    """What could not be measured; empty if all that the plan's jobs need was."""

    def nodes_of(self, processors: int, nodes: int | None) -> int:
        """The nodes of a job, of which `nodes` is None if it names none."""
        return nodes or max(1, math.ceil(processors / self.processors))

    def seconds(self, nodes: int) -> float:
        """The cost for a job on so many nodes; 0 where it is not known."""
        if self.narrow is None:
            return 0.0
        share = self._share(nodes)
        return self.narrow.seconds if self.wide is None else (1 - share) * self.narrow.seconds + share * self.wide.seconds

    def error(self, nodes: int) -> float | None:
        """The standard error of `seconds`; None if it is not known."""
        if self.narrow is None:
            return None
        if self.wide is None:
            return self.narrow.error
        share = self._share(nodes)
        return math.hypot((1 - share) * self.narrow.error, share * self.wide.error)

    def _share(self, nodes: int) -> float:
        """Where a job is between the narrow ones (0) and the wide ones (1)."""
        if self.narrow is None or self.wide is None or self.wide.nodes <= self.narrow.nodes:
            return 0.0
        return min(1.0, max(0.0, (nodes - self.narrow.nodes) / (self.wide.nodes - self.narrow.nodes)))

    def record(self) -> dict[str, Any]:
        """The cost as an object for JSON."""
        return asdict(self)

    @classmethod
    def of_record(cls, record: object) -> LaunchCost:
        """The cost in an object that `record` made. Raises WrongUse for anything else."""
        try:
            if not isinstance(record, Mapping):
                raise TypeError
            narrow, wide = (None if record[name] is None else Width.of_record(record[name]) for name in ("narrow", "wide"))
            return cls(narrow, wide, float(record["processors"]), str(record["reason"]))
        except (KeyError, TypeError, ValueError) as error:
            raise WrongUse(f"launch_cost may not be {record!r}") from error


REAL_TIME = LaunchCost(Width(1, 0.0, 0.0, 0))
"""In real time a launch costs next to nothing: nothing is taken off."""


@dataclass(frozen=True)
class Probe:
    """Jobs of one width that measure the cost. `submission` is that of a job whose program runs for so many virtual seconds."""

    nodes: int
    jobs: int
    submission: Callable[[float], Submission]


def run_times(speed: float, jobs: int) -> list[float]:
    """Virtual seconds that the programs run: spread evenly over a second, because the manager's record has whole ones."""
    return [RUN * speed + (number + 0.5) / jobs for number in range(jobs)]


def of_jobs(nodes: int, held: Sequence[float], runs: Sequence[float], speed: float) -> Width:
    """The cost, from the virtual seconds for which processors were held for programs that ran `runs`.

    It is a trimmed mean, without the largest and the smallest fifth: the fractions of seconds that the record lacks cancel out.
    Its standard error is that of Tukey and McLaughlin (1963), from the deviation of the jobs with the trimmed ones replaced by
    the nearest that are left; it includes the fractions of seconds.
    """
    beyond = sorted(whole - run for whole, run in zip(held, runs))
    cut = len(beyond) // CUT
    kept = beyond[cut : len(beyond) - cut]
    winsorized = [kept[0]] * cut + kept + [kept[-1]] * cut
    error = statistics.stdev(winsorized) / (len(kept) / len(beyond) * math.sqrt(len(beyond)))
    return Width(nodes, max(0.0, statistics.fmean(kept) / speed), error / speed, len(beyond))


def measure(
    manager: ResourceManager,
    completions: CompletionReader,
    clock: Clock,
    probes: Sequence[Probe],
    sleep: Callable[[float], None],
) -> list[Width | None]:
    """What a launch costs on this cluster now, for each probe; None if a job of it was refused, or has not ended within PATIENCE.

    Each job is submitted after the end of the one before, so that none is slower because of another, and at least GAP later. All
    have one name. `completions` is read from here on. Raises ResourceManagerError, and what `sleep` raises.
    """
    held_by_run: list[dict[float, float]] = [{} for _ in probes]
    failed: set[int] = set()
    for place, run in _in_turn(clock.speed, probes):
        if place in failed:
            continue
        try:
            submission = probes[place].submission(run)
            job_id = manager.submit(submission).job_id
        except Refused as error:
            log.warning("what a launch on %d nodes costs cannot be measured: %s", probes[place].nodes, error)
            failed.add(place)
            continue
        held = _held_by(job_id, completions, sleep)
        if held is None:
            log.warning("what a launch on %d nodes costs is not known: a short job did not complete", probes[place].nodes)
            manager.cancel_named(submission.name)
            failed.add(place)
        else:
            held_by_run[place][run] = held
    return [None if place in failed else _of_probe(probe, held_by_run[place], clock.speed) for place, probe in enumerate(probes)]


def _held_by(job_id: int, completions: CompletionReader, sleep: Callable[[float], None]) -> float | None:
    """Virtual seconds from start to end of a job in the manager's record, after GAP or later; None if there is no such record."""
    for _ in range(math.ceil(PATIENCE / GAP)):
        sleep(GAP)
        for job in completions.read():
            if job.job_id == job_id and job.state == "COMPLETED":
                return float((job.end or 0) - (job.start or 0))
    return None


def _in_turn(speed: float, probes: Sequence[Probe]) -> list[tuple[int, float]]:
    """The jobs of all probes in the order of their submission, mixed: the place of the probe, and the run time."""
    jobs = [
        ((number + 0.5) / probe.jobs, place, run)
        for place, probe in enumerate(probes)
        for number, run in enumerate(run_times(speed, probe.jobs))
    ]
    return [(place, run) for _, place, run in sorted(jobs)]


def _of_probe(probe: Probe, held: Mapping[float, float], speed: float) -> Width:
    cost = of_jobs(probe.nodes, [*held.values()], [*held], speed)
    log.info("a launch on %d nodes costs %.1f +- %.1f ms of real time", cost.nodes, cost.seconds * 1000, cost.error * 1000)
    return cost
