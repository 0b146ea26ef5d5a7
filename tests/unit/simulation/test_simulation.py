"""Tests of the simulated schedules: a worked example, a slow simple implementation, and properties of the policies.

Worked example: seven jobs on 4 processors. Estimates are exact, except for job 1, which takes 10 s with an estimate of 20 s.

    job        1   2   3   4   5   6   7
    submit     0   1   2   3   4   5  25
    processors 3   2   4   1   1   1   2
    runtime   10   5   5  20  12   4   5
    estimate  20   5   5  20  12   4   5

First come, first served: job 1 runs from 0 to 10, job 2 from 10 to 15. Job 3 needs all four processors and runs from 15 to 20. Jobs
4, 5 and 6 start at 20 and end at 40, 32 and 24. Job 7 is submitted at 25, when two processors are free, and starts at once.

EASY: at 1 job 2 is first in the queue; job 1 is expected to end at 20, when 4 processors are free, 2 more than job 2 needs. At 3
job 4 requests one for 20 s, to 23: after 20, but it can have one of the 2 spare processors. It starts at 3, and no processor is
free until 10, when job 1 ends, earlier than expected. Job 2 starts (10 to 15). Now job 3 is first in the queue; its four
processors are free when job 4 ends, at 23. One processor is free at 10: job 5 would use it until 22, before 23, and starts. At 15
two are free: job 6 starts, to 19. Job 3 runs from 23 to 28. Job 7, submitted at 25, starts at 28.

Conservative: job 2 gets a reservation from 20 to 25 at 1, job 3 one from 25 to 30 at 2. One processor is free until 20, and two
beside job 2 after that: job 4 runs from 3 to 23, before job 3. Job 5, submitted at 4, could have one processor from 20 on, but not
for 12 s before job 3 takes all: it gets a reservation from 30 to 42. Job 6, submitted at 5, gets one from 20 to 24. At 10 job 1
ends, and reservations move in the order of the queue. Job 2 moves to 10 (to 15). Job 3 needs four processors: job 4 ends at 23, but
job 6 has one until 24, so it moves to 24 (to 29). Job 5 moves to 10, beside job 2 (to 22). No processor is free for job 6 at 10,
two are at 15: it moves there. (Job 3 could move to 23 now, but its turn was before.) Job 7, submitted at 25, starts at 29.
"""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mirage.metrics import metrics
from mirage.simulation.simulation import POLICIES, schedule
from slurm_mirage.base.errors import WrongUse

Job = tuple[int, int, int, int, int]  # submit, processors, runtime, estimate, cancel
NEVER = 10**9

EXAMPLE = [(0, 3, 10, 20), (1, 2, 5, 5), (2, 4, 5, 5), (3, 1, 20, 20), (4, 1, 12, 12), (5, 1, 4, 4), (25, 2, 5, 5)]


def simulated(jobs: list[Job], machine: int, policy: str, **options: bool | int) -> list[int | None]:
    columns = [np.array(column) for column in zip(*jobs, strict=True)]
    submit, processors, runtime, estimate, leave = columns
    cancel = np.where(leave == NEVER, np.inf, leave)
    start = schedule(submit, processors, runtime, estimate, machine, policy, cancel=cancel, **options)  # type: ignore[arg-type]
    return [None if np.isnan(instant) else int(instant) for instant in start]


@pytest.mark.parametrize(
    ("policy", "starts"),
    [
        ("fcfs", [0, 10, 15, 20, 20, 20, 25]),
        ("easy", [0, 10, 23, 3, 10, 15, 28]),
        ("conservative", [0, 10, 24, 3, 10, 15, 29]),
    ],
)
def test_worked_example(policy: str, starts: list[int]) -> None:
    assert simulated([(*job, NEVER) for job in EXAMPLE], 4, policy) == starts


def test_without_compression_reservations_stay() -> None:
    # Reservations stay as at submission; the processors that job 1 releases at 10 are for jobs submitted later.
    starts = simulated([(*job, NEVER) for job in EXAMPLE], 4, "conservative", compress=False)
    assert starts == [0, 20, 25, 3, 30, 20, 30]


class Slow:
    """A simple simulation, second by second: it counts the free processors of an instant from all jobs each time, and tries
    reservations instant by instant.
    """

    def __init__(self, jobs: list[Job], machine: int) -> None:
        self.jobs, self.machine = jobs, machine
        self.start: dict[int, int] = {}
        self.planned: dict[int, int] = {}
        self.waiting: list[int] = []
        self.now = 0

    def run(self, policy: str, compress: bool = True, depth: int = NEVER) -> list[int | None]:
        later = list(range(len(self.jobs)))
        while later or self.waiting:
            early = [job for job in self.start if self.end(job) == self.now < self.start[job] + self.estimate(job)]
            gone = [job for job in self.waiting if self.jobs[job][4] <= self.now]
            self.waiting = [job for job in self.waiting if job not in gone]
            if policy == "conservative" and compress and (early or gone):
                for job in self.waiting:
                    del self.planned[job]
                    self.planned[job] = self.first_fit(job)
            self.start_planned()
            while later and self.jobs[later[0]][0] <= self.now and len(self.waiting) < depth:
                job = later.pop(0)
                if self.jobs[job][4] > self.now:
                    self.waiting.append(job)
                    if policy == "conservative":
                        self.planned[job] = self.first_fit(job)
                        self.start_planned()
            if policy != "conservative":
                self.start_in_turn(policy)
            self.now += 1
        return [self.start.get(job) for job in range(len(self.jobs))]

    def estimate(self, job: int) -> int:
        return max(self.jobs[job][2], self.jobs[job][3])

    def end(self, job: int) -> int:
        return min(self.start[job] + self.jobs[job][2], self.jobs[job][4])

    def free(self, instant: int) -> int:
        """Free processors at an instant as known to the scheduler, from running jobs and reservations."""
        running = [job for job in self.start if self.end(job) > self.now and self.start[job] + self.estimate(job) > instant]
        planned = [job for job in self.waiting if job in self.planned]
        reserved = [job for job in planned if self.planned[job] <= instant < self.planned[job] + self.estimate(job)]
        return self.machine - sum(self.jobs[job][1] for job in running + reserved)

    def first_fit(self, job: int) -> int:
        width, at = self.jobs[job][1], self.now
        while any(self.free(instant) < width for instant in range(at, at + self.estimate(job))):
            at += 1
        return at

    def start_planned(self) -> None:
        for job in [job for job in self.waiting if self.planned.get(job) == self.now]:
            self.start[job] = self.now
            self.waiting.remove(job)

    def start_in_turn(self, policy: str) -> None:
        while self.waiting and self.jobs[self.waiting[0]][1] <= self.free(self.now):
            self.start[self.waiting.pop(0)] = self.now
        if policy == "fcfs" or not self.waiting:
            return
        promised = self.first_fit(self.waiting[0])
        for job in self.waiting[1:]:
            if self.jobs[job][1] <= self.free(self.now):
                # Try to start it, and check whether the first in the queue keeps its reservation.
                self.start[job] = self.now
                if self.first_fit(self.waiting[0]) > promised:
                    del self.start[job]
        self.waiting = [job for job in self.waiting if job not in self.start]


@st.composite
def workloads(draw: st.DrawFn, *, exact: bool = False, cancelled: bool = True) -> tuple[list[Job], int]:
    """Jobs in order of submission, and a machine that holds each of them."""
    machine = draw(st.integers(1, 8))
    count = draw(st.integers(1, 16))
    # Many jobs are submitted at the same instant in some workloads, few in others.
    submits = sorted(draw(st.lists(st.integers(0, draw(st.sampled_from([3, 30]))), min_size=count, max_size=count)))
    jobs = []
    for submit in submits:
        runtime = draw(st.integers(1, 12))
        estimate = runtime if exact else draw(st.integers(1, 20))
        wait = draw(st.none() | st.integers(0, 25)) if cancelled else None
        jobs.append((submit, draw(st.integers(1, machine)), runtime, estimate, NEVER if wait is None else submit + wait))
    return jobs, machine


@settings(max_examples=150, deadline=None)
@given(workloads(), st.sampled_from(POLICIES))
# Of three jobs that are submitted at once the first starts, the second waits, and the third is backfilled.
@example(([(3, 1, 4, 4, 4), (3, 2, 4, 2, 5), (3, 1, 3, 2, 4)], 2), "easy")
def test_agrees_with_the_slow_implementation(workload: tuple[list[Job], int], policy: str) -> None:
    jobs, machine = workload
    assert simulated(jobs, machine, policy) == Slow(jobs, machine).run(policy)


@settings(max_examples=100, deadline=None)
@given(workloads(), st.booleans(), st.integers(1, 5))
def test_conservative_variants_agree_with_the_slow_implementation(
    workload: tuple[list[Job], int], compress: bool, depth: int
) -> None:
    jobs, machine = workload
    expected = Slow(jobs, machine).run("conservative", compress, depth)
    assert simulated(jobs, machine, "conservative", compress=compress, depth=depth) == expected


def columns(jobs: list[Job], starts: list[int | None]) -> list[tuple[int, int, int, int]]:
    """Submission, start, end and processors of the jobs that started."""
    began = [(job, start) for job, start in zip(jobs, starts, strict=True) if start is not None]
    return [(job[0], start, min(start + job[2], job[4]), job[1]) for job, start in began]


@settings(max_examples=100, deadline=None)
@given(workloads(), st.sampled_from(POLICIES))
def test_capacity_and_submission_times_are_respected(workload: tuple[list[Job], int], policy: str) -> None:
    jobs, machine = workload
    ran = columns(jobs, simulated(jobs, machine, policy))
    for submit, start, _, _ in ran:
        assert start >= submit
        assert sum(width for _, begun, end, width in ran if begun <= start < end) <= machine


@settings(max_examples=100, deadline=None)
@given(workloads(), st.sampled_from(POLICIES))
def test_only_jobs_cancelled_while_they_waited_do_not_start(workload: tuple[list[Job], int], policy: str) -> None:
    jobs, machine = workload
    for job, start in zip(jobs, simulated(jobs, machine, policy), strict=True):
        assert (start is None and job[4] < NEVER) or (start is not None and start < job[4])


@settings(max_examples=100, deadline=None)
@given(workloads(cancelled=False))
def test_first_come_is_first_served(workload: tuple[list[Job], int]) -> None:
    jobs, machine = workload
    starts = simulated(jobs, machine, "fcfs")
    assert starts == sorted(starts)  # type: ignore[type-var]


@settings(max_examples=100, deadline=None)
@given(workloads(), st.sampled_from(["fcfs", "easy"]))
def test_the_first_in_the_queue_waits_only_for_processors(workload: tuple[list[Job], int], policy: str) -> None:
    jobs, machine = workload
    starts = simulated(jobs, machine, policy)
    ran = columns(jobs, starts)
    ends = [NEVER if start is None else start for start in starts]
    for instant in range(60):
        waiting = [job for job, start in zip(jobs, ends, strict=True) if job[0] <= instant < min(start, job[4])]
        busy = sum(width for _, begun, end, width in ran if begun <= instant < end)
        assert not waiting or busy + waiting[0][1] > machine


@settings(max_examples=100, deadline=None)
@given(workloads(exact=True, cancelled=False))
def test_with_exact_estimates_later_jobs_do_not_delay_the_first_in_the_queue(workload: tuple[list[Job], int]) -> None:
    jobs, machine = workload
    starts = simulated(jobs, machine, "easy")
    ran = columns(jobs, starts)
    for position, (submit, start, _, width) in enumerate(ran):
        # Jobs that started after it became the first in the queue must not delay it.
        first_at = max([submit, *(begun for _, begun, _, _ in ran[:position])])
        running = [job for other, job in enumerate(ran) if job[1] < first_at or other < position]
        ends = sorted([first_at, *(end for _, _, end, _ in running if end > first_at)])
        promised = next(end for end in ends if sum(w for _, b, e, w in running if b <= end < e) + width <= machine)
        assert start <= promised


@settings(max_examples=100, deadline=None)
@given(workloads(exact=True, cancelled=False))
def test_with_exact_estimates_conservative_keeps_every_reservation(workload: tuple[list[Job], int]) -> None:
    """A job's start depends only on the jobs before it, not on those after it."""
    jobs, machine = workload
    starts = simulated(jobs, machine, "conservative")
    for count in range(1, len(jobs)):
        assert simulated(jobs[:count], machine, "conservative") == starts[:count]


@settings(max_examples=100, deadline=None)
@given(workloads(cancelled=False))
def test_compression_delays_no_job(workload: tuple[list[Job], int]) -> None:
    """A job starts no later than its first reservation, also if estimates are above run times."""
    jobs, machine = workload
    starts = simulated(jobs, machine, "conservative")
    for count, job in enumerate(jobs):
        # Known at its submission: run times of the jobs that had ended, estimates of the others.
        known = [
            (due, width, run if start is not None and start + run <= job[0] else max(run, expected), expected, leave)
            for (due, width, run, expected, leave), start in zip(jobs[: count + 1], starts, strict=False)
        ]
        promised = simulated(known, machine, "conservative")[count]
        assert starts[count] is not None and promised is not None and starts[count] <= promised  # type: ignore[operator]


@pytest.mark.parametrize("policy", POLICIES)
def test_no_job_waits_on_a_machine_that_holds_all(policy: str) -> None:
    jobs = [(submit, 2, 10, 15, NEVER) for submit in range(0, 40, 2)]
    assert simulated(jobs, 10, policy) == [job[0] for job in jobs]


@pytest.mark.parametrize("policy", POLICIES)
def test_the_schedule_of_no_jobs_is_empty(policy: str) -> None:
    nothing = np.array([])
    assert schedule(nothing, nothing, nothing, nothing, 4, policy).size == 0


@pytest.mark.parametrize("policy", POLICIES)
def test_ends_come_before_starts_also_with_fractions_of_seconds(policy: str) -> None:
    start = schedule(np.array([0.0, 0.1]), np.array([2, 2]), np.array([0.3, 1.5]), np.array([0.3, 2.0]), machine=2, policy=policy)
    assert start.tolist() == [0.0, 0.3]


@settings(max_examples=50, deadline=None)
@given(workloads(cancelled=False), st.sampled_from(POLICIES))
def test_metrics_of_the_schedule(workload: tuple[list[Job], int], policy: str) -> None:
    """Compares `metrics.compute` with the definitions of the metrics, computed job by job and second by second."""
    jobs, machine = workload
    ran = columns(jobs, simulated(jobs, machine, policy))
    frame = pl.DataFrame(
        [{"id": i, "submit": a, "start": s, "end": e, "processors": p, "suspended": 0.0} for i, (a, s, e, p) in enumerate(ran)],
        schema=metrics.JOBS_SCHEMA,
    )
    values = metrics.compute(frame, machine)["metrics"]
    span = max(e for _, _, e, _ in ran) - ran[0][0]
    idle = lost = 0
    for instant in range(ran[0][0], ran[0][0] + span):
        free = machine - sum(p for _, s, e, p in ran if s <= instant < e)
        idle += free
        lost += min(free, sum(p for a, s, _, p in ran if a <= instant < s))
    assert values["wait_mean"] == pytest.approx(sum(s - a for a, s, _, _ in ran) / len(ran))
    assert values["wait_max"] == max(s - a for a, s, _, _ in ran)
    assert values["response_mean"] == pytest.approx(sum(e - a for a, _, e, _ in ran) / len(ran))
    assert values["makespan"] == span
    assert values["utilisation"] == pytest.approx(1 - idle / (machine * span))
    assert values["loss_of_capacity"] == pytest.approx(lost / (machine * span))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"policy": "sjf"}, "policy: 'sjf' may be fcfs, easy or conservative"),
        ({"processors": [1, 5]}, "job 2 needs a number of processors that is not from 1 to 4"),
        ({"processors": [0, 1]}, "job 1 needs a number of processors that is not from 1 to 4"),
        ({"runtime": [1, 0]}, "job 2 has no run time"),
        ({"estimate": [np.nan, 1]}, "job 1 has no estimate"),
        ({"submit": [1, 0]}, "job 2 is submitted before the one before it"),
        ({"submit": [0, np.nan]}, "job 2 has no submission time"),
        ({"cancel": [1, 0]}, "job 2 is cancelled before its submission"),
    ],
)
def test_wrong_use(change: dict[str, object], words: str) -> None:
    right = {"submit": [0, 1], "processors": [1, 1], "runtime": [1, 1], "estimate": [1, 1], "policy": "easy"}
    given = {name: value if isinstance(value, str) else np.array(value) for name, value in {**right, **change}.items()}
    with pytest.raises(WrongUse, match=words):
        schedule(machine=4, **given)  # type: ignore[arg-type]
