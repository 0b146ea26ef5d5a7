"""Tests of simulated fillers: worked schedules, a filler followed second by second, and properties of whole schedules.

Worked example of slots of 600 s: two processors, fillers of much work, restore 5 s, save 10 s. A job has one processor from 100 to
700. Fillers 0 and 1 start at 0. At 100 the job takes processor 0: filler 0 has restored for 5 s, and loses 95 s. It waits. Filler 1
works from 5 to 590 and saves until 600. Filler 0 has the lower number and goes on there at 600: 585 s to 1200. At 700 processor 0
is free, for filler 1: from 705 to 1190.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mirage.simulation.simulation import POLICIES, delayed, schedule
from mirage_extras.filler.metrics import simulated_executions
from mirage_extras.filler.simulation import COLUMNS, COMPLETED, PREEMPTED, SLOT, STOPPED, VARIANTS, Filled, fill
from slurm_mirage.extras.filler.words import PLANNED, SLOTS, Filler

Job = tuple[int, int, int, int]  # submit, processors, runtime, estimate
Busy = tuple[float, float, float, int]  # hold, start, end, processors


def filled(busy: list[Busy], machine: int, words: str, variant: str, stop: float, begin: float = 0.0) -> Filled:
    hold, start, end, width = (np.array([row[place] for row in busy], np.float64) for place in range(4))
    return fill(hold, start, end, width.astype(np.int64), machine, Filler.parse(words), variant, begin, stop)


def rows(found: Filled, *names: str) -> list[tuple[float, ...]]:
    places = [COLUMNS.index(name) for name in names]
    return [tuple(row[place] for place in places) for row in found.executions.tolist()]


def test_slots_by_hand() -> None:
    found = filled([(100, 100, 700, 1)], 2, "save=10 restore=5 interval=0 slot=600", SLOTS, 1200)
    assert rows(found, "filler", "processor", "start", "end", "useful", "lost", "saving", "progress", "outcome") == [
        (0, 0, 0, 100, 0, 95, 0, 0, PREEMPTED),
        (1, 1, 0, 600, 585, 0, 10, 585, SLOT),
        (1, 0, 700, 1200, 485, 0, 10, 1070, SLOT),
        (0, 1, 600, 1200, 585, 0, 10, 585, SLOT),
    ]
    assert found.sums == {"occupied": 1800, "useful": 1655, "lost": 95, "saving": 30, "restoring": 20, "waiting": 0}
    assert found.counts == (0, 3, 1, 0)


def test_planned_by_hand() -> None:
    """Fillers of 100 s of work at speed 0.5, which take 200 s; saved each 80 s of work. A job takes the machine at 150 and starts
    at 160. Filler 0 restores until 5, works until 85, saves until 95, works until 150: 135 s, saved at 160. It needs 65 s more.
    """
    found = filled([(150, 160, 300, 1)], 1, "work=100 save=10 restore=5 interval=80 speed=0.5", PLANNED, 380)
    assert rows(found, "filler", "start", "end", "useful", "lost", "saving", "saves", "progress", "outcome") == [
        (0, 0, 160, 135, 0, 20, 2, 67.5, PREEMPTED),
        (0, 300, 370, 65, 0, 0, 0, 100, COMPLETED),
        (1, 370, 380, 0, 0, 0, 0, 0, STOPPED),
    ]
    assert found.sums["waiting"] == 5


def test_executions_as_those_of_a_run() -> None:
    words = Filler.parse("save=10 restore=5 interval=0 slot=600 speed=0.5")
    [row] = simulated_executions(filled([(3, 3, 90, 1)], 1, words.text(), SLOTS, 90), words).rows(named=True)
    assert row == {
        "filler": 1, "execution": 1, "node": "1", "processors": 1, "start": 0, "ready": None, "end": 3, "useful": 0, "lost": 0,
        "saving": 0, "restoring": 3, "waiting": 0, "saves": 0, "failed_saves": 0, "work": 0, "progress": 0, "outcome": "preempted",
    }  # fmt: skip


def test_periodic_saves_keep_work_of_killed_fillers() -> None:
    """Saves from 105 to 115 and 215 to 225. Killed at 110, in a save, and at 230."""
    words = "save=10 restore=5 interval=100 slot=1000"
    in_save = filled([(110, 110, 2000, 1)], 1, words, SLOTS, 500)
    assert rows(in_save, "useful", "lost", "saving", "saves") == [(0, 100, 5, 0)]
    later = filled([(230, 230, 2000, 1)], 1, words, SLOTS, 500)
    assert rows(later, "useful", "lost", "saving", "saves") == [(200, 5, 20, 2)]


def test_killed_in_the_save_at_the_end_of_a_slot() -> None:
    found = filled([(95, 95, 200, 1)], 1, "save=10 restore=5 interval=0 slot=100", SLOTS, 200)
    assert rows(found, "end", "useful", "lost", "saving", "outcome") == [(95, 0, 85, 5, PREEMPTED)]


def test_a_slot_that_is_too_short_is_waited_through() -> None:
    found = filled([(0, 0, 90, 1)], 1, "save=10 restore=5 slot=100", SLOTS, 200)
    assert rows(found, "start", "end", "useful", "lost", "saving", "restoring", "waiting", "outcome") == [
        (90, 100, 0, 0, 0, 5, 5, SLOT),
        (100, 200, 85, 0, 10, 5, 0, SLOT),
    ]


def test_a_list_runs_out() -> None:
    """Two fillers on three processors, of 10 and 20 s; then nobody is there."""
    found = filled([], 3, "work=10,20 save=1 restore=0 interval=0", PLANNED, 100)
    assert rows(found, "filler", "processor", "start", "end", "outcome") == [(0, 0, 0, 10, COMPLETED), (1, 1, 0, 20, COMPLETED)]


def test_a_job_takes_empty_processors_before_those_of_fillers() -> None:
    found = filled([(5, 5, 9, 1)], 2, "work=100 count=1 save=1 restore=0", SLOTS, 20)
    assert found.counts[PREEMPTED] == 0


def test_fillers_begin_where_they_are_told_to() -> None:
    found = filled([(0, 0, 30, 1)], 2, "save=1 restore=0", PLANNED, 50, begin=20)
    assert rows(found, "processor", "start", "end") == [(0, 30, 50), (1, 20, 50)]


@dataclass
class Followed:
    """One execution, second by second."""

    useful: int = 0
    lost: int = 0
    saving: int = 0
    restoring: int = 0
    waiting: int = 0
    saves: int = 0
    is_done: bool = False
    end: int = 0


def followed(start: int, end: int, needed: int, words: Filler, *, asked: int | None, slotted: bool) -> Followed:
    """What a filler does that starts at `start`, until `end` at the latest.

    needed: seconds of work; asked: the instant at which it is asked to save
    """
    found, unsaved, saving, since = Followed(), 0, 0, 0
    limits = [] if asked is None else [asked]
    over = (start // int(words.slot) + 1) * int(words.slot) if slotted else None
    if over is not None:
        limits.append(over - int(words.save))
    last = min(limits, default=None)
    now = start
    while now < end and now != over:
        if now - start < words.restore:
            found.restoring += 1
        elif saving or (unsaved and ((last is not None and now >= last) or (words.interval and since == words.interval))):
            saving += 1
            found.saving += 1
            since = 0
            if saving == words.save:
                found.useful, unsaved, saving, found.saves = found.useful + unsaved, 0, 0, found.saves + 1
        elif last is not None and now >= last:
            found.waiting += 1
        else:
            unsaved, since = unsaved + 1, since + 1
        now += 1
        if found.useful + unsaved == needed and not saving and not found.is_done and unsaved:
            found.useful, unsaved, found.is_done = needed, 0, True
            break
    found.lost, found.end = unsaved, now
    return found


@settings(max_examples=400, deadline=None)
@given(
    st.integers(0, 40), st.integers(1, 90), st.integers(1, 60), st.integers(1, 4), st.integers(0, 4),
    st.sampled_from([0, 1, 3, 7, 20]), st.integers(6, 30), st.booleans(),
)  # fmt: skip
@example(0, 30, 60, 3, 1, 7, 30, True)
def test_agrees_with_a_filler_followed_second_by_second(
    start: int, length: int, work: int, save: int, restore: int, interval: int, slot: int, slotted: bool
) -> None:
    """A processor is free from start to start + length, and a job takes it then."""
    words = Filler.parse(f"work={work} save={save} restore={restore} interval={interval} slot={slot} count=1")
    taken = start + length
    busy: list[Busy] = [(-10, -10, start, 1), (taken, taken, taken + 50, 1)] if start else [(taken, taken, taken + 50, 1)]
    found = filled(busy, 1, words.text(), SLOTS if slotted else PLANNED, taken + 10)
    done = 0
    for row in found.executions:
        values = dict(zip(COLUMNS, row.tolist(), strict=True))
        natural = followed(int(values["start"]), 10**6, work - done, words, asked=None, slotted=slotted)
        if natural.end < taken or (natural.end == taken and slotted) or (natural.is_done and natural.end <= taken):
            expected = natural
        else:
            asked = None if slotted else max(int(values["start"]), taken - save)
            expected = followed(int(values["start"]), taken, work - done, words, asked=asked, slotted=slotted)
        assert values["end"] == expected.end
        names = ("useful", "lost", "saving", "restoring", "waiting", "saves")
        assert {name: values[name] for name in names} == {name: getattr(expected, name) for name in names}
        assert (values["outcome"] == COMPLETED) == expected.is_done
        done += expected.useful
        assert values["progress"] == done


@st.composite
def workloads(draw: st.DrawFn, step: int = 1) -> tuple[list[Job], int]:
    """Jobs in order of submission, with all times multiples of `step`, and a machine that holds each of them."""
    machine = draw(st.integers(1, 6))
    count = draw(st.integers(1, 12))
    submits = sorted(draw(st.lists(st.integers(0, 60), min_size=count, max_size=count)))
    jobs = []
    for submit in submits:
        run = draw(st.integers(1, 40))
        jobs.append((step * submit, draw(st.integers(1, machine)), step * run, step * (run + draw(st.integers(0, 20)))))
    return jobs, machine


words = st.builds(
    "work={} save={} restore={} interval={} slot={} speed={}{}".format,
    st.sampled_from(["7", "30", "500", "5,9,2,40,33"]), st.integers(1, 4), st.integers(0, 3), st.sampled_from([0, 2, 9]),
    st.integers(8, 25), st.sampled_from([0.5, 1]), st.sampled_from(["", "", " count=3"]),
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(workloads(), words, st.sampled_from(VARIANTS), st.sampled_from(POLICIES))
def test_no_work_twice_and_no_processor_twice(workload: tuple[list[Job], int], text: str, variant: str, policy: str) -> None:
    jobs, machine = workload
    filler = Filler.parse(text)
    submit, width, run, estimate = (np.array(column) for column in zip(*jobs, strict=True))
    start, hold = delayed(submit, width, run, estimate, machine, policy, filler.save if variant == PLANNED else 0.0)
    end = start + run
    found = fill(hold, start, end, width, machine, filler, variant, 0.0, float(end.max()))
    table = [dict(zip(COLUMNS, row.tolist(), strict=True)) for row in found.executions]
    lengths = {row["end"] - row["start"] for row in table}
    assert all(length >= 0 for length in lengths)
    for row in table:
        parts = [row[name] for name in ("useful", "lost", "saving", "restoring", "waiting")]
        assert min(parts) >= 0 and sum(parts) == pytest.approx(row["end"] - row["start"])
        if variant == PLANNED:
            assert row["lost"] == 0
    for number in {row["filler"] for row in table}:
        own = sorted((row for row in table if row["filler"] == number), key=lambda row: row["execution"])
        assert [row["execution"] for row in own] == list(range(1, len(own) + 1))
        assert all(before["end"] <= after["start"] for before, after in itertools.pairwise(own))
        done = np.cumsum([row["useful"] for row in own]) * filler.speed
        assert [row["progress"] for row in own] == pytest.approx(done.tolist())
        work = filler.work_of(int(number) + 1)
        assert work is not None
        assert all((row["progress"] == pytest.approx(work)) == (row["outcome"] == COMPLETED) for row in own if row is own[-1])
        assert max(done) <= work + 1e-9 and all(row["outcome"] != COMPLETED for row in own[:-1])
    for instant in np.arange(0.5, float(end.max()), 1.0):
        busy = sum(wide for wide, begun, over in zip(width, start, end, strict=True) if begun <= instant < over)
        at = [row["processor"] for row in table if row["start"] <= instant < row["end"]]
        assert len(set(at)) == len(at) and busy + len(at) <= machine


@settings(max_examples=200, deadline=None)
@given(workloads(), st.sampled_from(POLICIES), st.integers(1, 9))
def test_a_delay_is_at_most_the_grace_and_only_for_processors_of_fillers(
    workload: tuple[list[Job], int], policy: str, grace: int
) -> None:
    jobs, machine = workload
    submit, width, run, estimate = (np.array(column) for column in zip(*jobs, strict=True))
    start, hold = delayed(submit, width, run, estimate, machine, policy, float(grace))
    assert (hold >= submit).all() and (start >= hold).all() and (start <= hold + grace).all()
    end = start + run
    for instant in np.unique(np.concatenate([hold, start])):
        assert width[(hold <= instant) & (instant < end)].sum() <= machine
    for job in np.flatnonzero(start > hold):
        freed = width[end == hold[job]].sum() if hold[job] > submit[0] else machine
        # Those that took their processors at the same instant may have taken what was freed.
        assert width[hold == hold[job]].sum() > freed


@settings(max_examples=100, deadline=None)
@given(workloads(), st.sampled_from(POLICIES))
def test_without_grace_the_schedule_is_that_without_fillers(workload: tuple[list[Job], int], policy: str) -> None:
    jobs, machine = workload
    columns = [np.array(column) for column in zip(*jobs, strict=True)]
    start, hold = delayed(*columns, machine, policy, 0.0)
    assert (start == schedule(*columns, machine, policy)).all() and (hold == start).all()


@settings(max_examples=100, deadline=None)
@given(workloads(step=60), st.integers(1, 20), st.integers(0, 20), st.sampled_from([0.5, 0.8, 1]))
def test_the_gain_is_the_bound_where_jobs_start_with_slots(
    workload: tuple[list[Job], int], save: int, restore: int, speed: float
) -> None:
    """All slots of idle processors are filled, each with one save and one restoration: idle (1 - t) c."""
    jobs, machine = workload
    submit, width, run, estimate = (np.array(column) for column in zip(*jobs, strict=True))
    start = schedule(submit, width, run, estimate, machine, "conservative")
    end = start + run
    filler = Filler.parse(f"work=1000000 save={save} restore={restore} interval=0 slot=60 speed={speed}")
    found = fill(start, start, end, width, machine, filler, SLOTS, float(submit[0]), float(end.max()))
    idle = machine * (end.max() - submit[0]) - (width * run).sum()
    assert found.sums["occupied"] == pytest.approx(idle) and found.counts[PREEMPTED] == 0
    assert speed * found.sums["useful"] == pytest.approx(idle * (1 - (save + restore) / 60) * speed)


# Two processors. Job 1 has one of them and is expected to end at 100. Job 2 needs both, and is planned for 100 from 10 on.
PLAN = (0, 1, 100, 100), (10, 2, 50, 50)


@pytest.mark.parametrize(
    ("jobs", "policy", "starts"),
    [
        # The filler beside job 1 is asked at 90, job 2 starts in time.
        (PLAN, "conservative", [(0, 0), (100, 100)]),
        (PLAN, "easy", [(0, 0), (100, 100)]),
        # Nothing is planned under first come, first served.
        (PLAN, "fcfs", [(0, 0), (100, 110)]),
        # Job 1 ends before its limit: at 60, when no filler was asked yet, and at 96, when one was asked at 90.
        (((0, 1, 60, 100), PLAN[1]), "conservative", [(0, 0), (60, 70)]),
        (((0, 1, 96, 100), PLAN[1]), "easy", [(0, 0), (96, 100)]),
        # Both processors have fillers when job 2 is submitted. Submitted just as job 1 ends, it finds only one of them.
        (((0, 1, 100, 100), (150, 1, 50, 50)), "conservative", [(0, 0), (150, 160)]),
        (((0, 1, 100, 100), (100, 1, 50, 50)), "easy", [(0, 0), (100, 100)]),
        (((0, 1, 100, 100), (100, 2, 50, 50)), "conservative", [(0, 0), (100, 110)]),
        # Job 2 is delayed to 30 at its submission and then ends at 80 instead of 70, and so starts job 3, which needs both.
        (((0, 1, 5, 5), (20, 1, 50, 50), (21, 2, 10, 10)), "conservative", [(0, 0), (20, 30), (80, 80)]),
        (((0, 1, 5, 5), (20, 1, 50, 50), (21, 2, 10, 10)), "easy", [(0, 0), (20, 30), (80, 80)]),
    ],
)
def test_delays_by_hand(jobs: tuple[Job, ...], policy: str, starts: list[tuple[int, int]]) -> None:
    start, hold = delayed(*(np.array(column) for column in zip(*jobs, strict=True)), 2, policy, 10.0)
    assert list(zip(hold.tolist(), start.tolist(), strict=True)) == starts


def test_a_delay_moves_reservations() -> None:
    """Job 2 needs both processors and is planned for 100. Job 3 is submitted at 20 and would end by then, but waits for a save
    until 30 and ends at 110: job 2 moves to 110.
    """
    jobs = (0, 1, 100, 100), (10, 2, 50, 50), (20, 1, 80, 80)
    start, hold = delayed(*(np.array(column) for column in zip(*jobs, strict=True)), 2, "conservative", 10.0)
    assert start.tolist() == [0, 110, 30] and hold.tolist() == [0, 110, 20]


def test_delays_need_reservations_that_move() -> None:
    one = np.array([1])
    with pytest.raises(ValueError, match="move"):
        delayed(one, one, one, one, 1, "conservative", 5.0, compress=False)
