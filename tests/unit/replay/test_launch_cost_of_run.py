"""What the launches of a run cost: which jobs measure it, and by what each program of the plan runs shorter."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path

import pytest
from in_memory_rm import InMemory, Job
from journals import start_event
from virtual_time import VirtualTime

from slurm_mirage.clock.clock import Clock
from slurm_mirage.jobs.kinds import Sigsleep
from slurm_mirage.jobs.plan import PlanRow
from slurm_mirage.replay.journal import Journal
from slurm_mirage.replay.launch_cost import NARROW_JOBS, WIDE_JOBS, LaunchCost, Width
from slurm_mirage.replay.monitor import Status
from slurm_mirage.replay.process import Settings, Waker
from slurm_mirage.replay.submitter import Submitter
from slurm_mirage.rm.api import CompletedJob, CompletionReader, Nodes, Refused, Submission, Submitted

SPEED = 100.0
NODES, PROCESSORS = 20, 4
WAKER = Waker(VirtualTime())  # one for all: it opens a pipe


class Machine(InMemory):
    """A machine of 20 nodes with 4 processors, on which jobs end soon."""

    def __init__(self, directory: Path, narrowest: int = 1) -> None:
        super().__init__(directory, NODES * PROCESSORS, WAKER.time)
        self.narrowest = narrowest
        """Processors that a job has at least."""
        self.silent = {"r.launch"}
        self.submissions: list[Submission] = []
        self.overlaps = 0
        """Jobs that were submitted before the end of another."""

    def nodes(self) -> Nodes:
        return Nodes({}, {"idle": NODES}, 0, NODES, NODES * PROCESSORS, 0)

    def submit(self, job: Submission) -> Submitted:
        self.submissions.append(job)
        if job.processors < self.narrowest:
            raise Refused("too few processors")
        self._advance()
        self.overlaps += any(other.active for other in self.jobs)
        return super().submit(job)

    @staticmethod
    def _due(job: Job) -> float:
        assert job.start is not None
        return job.start + 0.2

    def completions(self, offset: int) -> CompletionReader:  # type: ignore[override]
        manager, reader = self, super().completions(offset)

        class Advancing:
            def read(self) -> list[CompletedJob]:
                manager._advance()
                return reader.read()

        return Advancing()


def row(index: int, processors: int, nodes: int | None = None, partition: str = "", runtime: float = 100.0) -> PlanRow:
    return PlanRow(index, 100 + index, 0.0, processors, nodes, runtime, 1, None, partition, f"r.{100 + index}")


def submitter(folder: Path, plan: list[PlanRow], manager: InMemory, known: LaunchCost | None = None) -> Submitter:
    settings = Settings("r", str(folder), "", None, SPEED, 1.0, None if known is None else known.record())
    kind = Sigsleep("sigsleep", "sigsleep.log", None)
    journal = Journal(folder / "journal.jsonl")
    return Submitter(folder, settings, plan, Clock(speed=SPEED), manager, kind, journal, WAKER, Status("r", len(plan)))


@pytest.mark.parametrize(
    ("wide", "submitted", "nodes"),
    [
        ({"processors": 12}, (12, None), 3),
        ({"processors": 2, "nodes": 5}, (20, 5), 5),  # whole nodes
        ({"processors": 70}, (40, None), 10),  # two of them fit on the machine
        ({"processors": 80, "nodes": 20}, (40, 10), 10),
    ],
)
def test_wide_jobs_are_like_those_of_the_plan(
    tmp_path: Path, wide: dict[str, int], submitted: tuple[int, int | None], nodes: int
) -> None:
    plan = [*(row(index, 1) for index in range(17)), *(row(17 + index, partition="large", **wide) for index in range(3))]
    manager = Machine(tmp_path)
    cost = submitter(tmp_path, plan, manager).measure_launch_cost()
    kinds = Counter((job.processors, job.nodes, job.partition) for job in manager.submissions)
    assert kinds == {(1, None, ""): NARROW_JOBS, (*submitted, "large"): WIDE_JOBS}
    assert {job.name for job in manager.submissions} == {"r.launch"}
    assert manager.overlaps == 0, "each job is alone, also where a launch takes longer than GAP"
    assert cost.narrow is not None and cost.wide is not None
    assert (cost.narrow.nodes, cost.wide.nodes, cost.processors, cost.reason) == (1, nodes, 4.0, "")


@pytest.mark.parametrize("plan", [[], [row(index, 4) for index in range(19)] + [row(19, 80)]])
def test_a_plan_whose_jobs_are_narrow_needs_no_wide_ones(tmp_path: Path, plan: list[PlanRow]) -> None:
    manager = Machine(tmp_path)
    cost = submitter(tmp_path, plan, manager).measure_launch_cost()
    assert len(manager.submissions) == NARROW_JOBS
    assert cost.narrow is not None and (cost.wide, cost.reason) == (None, "")


def test_what_could_not_be_measured_is_said(tmp_path: Path) -> None:
    plan = [row(index, 12) for index in range(3)]
    cost = submitter(tmp_path, plan, Machine(tmp_path, narrowest=2)).measure_launch_cost()
    assert (cost.narrow, cost.reason) == (None, "launches on 1 nodes could not be measured")
    cost = submitter(tmp_path, plan, Machine(tmp_path, narrowest=99)).measure_launch_cost()
    assert (cost.wide, cost.reason) == (None, "launches on 1 and on 3 nodes could not be measured")


KNOWN = LaunchCost(Width(1, 0.02, 0.001, 25), Width(11, 0.04, 0.002, 15), 4.0)


def test_the_cost_that_another_run_has_measured_is_taken(tmp_path: Path) -> None:
    manager = Machine(tmp_path)
    assert submitter(tmp_path, [row(0, 1)], manager, KNOWN).measure_launch_cost() == KNOWN
    assert manager.submissions == []


def test_each_program_runs_shorter_by_the_cost_on_its_nodes(tmp_path: Path) -> None:
    """At 100 times, 0.02 s on a node are 2 s, and 0.03 s on six are 3 s. A run that goes on keeps the cost that it began with."""
    plan = [row(0, 1), row(1, 24), row(2, 1, nodes=6), row(3, 1, runtime=1.5)]
    one = submitter(tmp_path, plan, Machine(tmp_path), LaunchCost(Width(1, 0.9, 0.1, 25)))
    assert [_runtime(one, job) for job in plan] == [100.0, 100.0, 100.0, 1.5], "nothing before the start"
    one.journal.append(**start_event(launch_cost=KNOWN.record()))
    assert [_runtime(one, job) for job in plan] == [98.0, 97.0, 97.0, 0.0]


def _runtime(one: Submitter, job: PlanRow) -> float:
    words = shlex.split(one._submission(job).command)
    return round(float(words[words.index("--runtime") + 1]), 6)
