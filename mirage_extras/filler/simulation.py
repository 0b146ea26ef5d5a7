"""Simulates filler jobs on the processors that a simulated schedule leaves idle.

docs/simulation.md has the rules. Import this module inside of functions, like simulation.py: loading numba takes a moment. All
compiled functions are in this file, because numba's cache does not notice changes of functions in other files.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numba import njit
from numpy.typing import NDArray

from slurm_mirage.extras.filler.words import PLANNED, SLOTS, Filler

VARIANTS = (SLOTS, PLANNED)

Times = NDArray[np.float64]
Numbers = NDArray[np.int64]

COLUMNS = (
    "filler", "execution", "processor", "start", "end", "useful", "lost", "saving", "restoring", "waiting", "saves", "progress",
    "outcome",
)  # fmt: skip
"""Columns of `Filled.executions`."""
COMPLETED, SLOT, PREEMPTED, STOPPED = range(4)
"""How an execution ended: its work done, at the end of its slot, for a job of the workload, at the end of the simulated time."""
_MAIN, _EMPTY = -2, -1


@dataclass(frozen=True)
class Filled:
    """What fillers did.

    executions: a row for each execution in the order in which their ends were known, with the columns `COLUMNS` (fillers,
        executions and processors from 0 on); empty if they were not asked for.
        useful, lost, saving, restoring, waiting: seconds, whose sum is end - start. useful: of work that was saved, or done; lost:
        of work since the last save; waiting: neither; saves: number; progress: work of the filler so far, in seconds at speed 1
    sums: for each column of seconds, its sum over all executions; occupied: that of end - start
    counts: number of executions by `COMPLETED`, `SLOT`, `PREEMPTED`, `STOPPED`
    """

    executions: NDArray[np.float64]
    sums: dict[str, float]
    counts: tuple[int, int, int, int]


def fill(
    hold: Times,
    start: Times,
    end: Times,
    processors: Numbers,
    machine: int,
    words: Filler,
    variant: str,
    begin: float,
    stop: float,
    *,
    tabulate: bool = True,
) -> Filled:
    """What fillers do on the idle processors of a schedule from `begin` to `stop`. All times have the same unit.

    hold, start, end, processors: of each job: the instant from which it holds its processors, its start, its end, and their
        number; start NaN: it does not run. From hold to start fillers on its processors save (`simulation.delayed`)
    machine: processors of the machine
    words: the fillers; each takes one processor
    variant: "slots": a filler ends with its slot, and a job of the workload ends it at once. "planned": it runs until a job of the
        workload starts, and is asked to save so long before that as a save takes
    tabulate: whether to return each execution
    """
    ran = np.isfinite(start) & (end > hold)
    held, began, ended = (np.ascontiguousarray(times[ran], np.float64) for times in (hold, start, end))
    width = np.ascontiguousarray(processors[ran], np.int64)
    works = np.array(words.work)
    count = -1 if words.count is None else words.count
    costs = (words.restore, words.save, words.interval, words.slot if variant == SLOTS else 0.0, words.speed)
    by_hold, by_end = (np.argsort(times, kind="stable") for times in (held, ended))
    rows, sums, counts = _fill(held, began, ended, width, by_hold, by_end, machine, works, count, costs, begin, stop, tabulate)
    names = ("occupied", "useful", "lost", "saving", "restoring", "waiting")
    one, two, three, four = (int(number) for number in counts)
    return Filled(rows, dict(zip(names, sums.tolist(), strict=True)), (one, two, three, four))


# The costs of a filler are a tuple: restore, save, interval (0: no periodic saves), slot (0: none), speed.
Costs = tuple[float, float, float, float, float]


@njit(cache=True, nogil=True)
def _slot_end(start: float, slot: float) -> float:
    """The end of the slot in which an execution started; infinity without slots."""
    return float((np.floor(start / slot + 1e-9) + 1) * slot) if slot > 0 else np.inf


@njit(cache=True, nogil=True)
def _until_save(longest: float, costs: Costs) -> float:
    """How long after its restoration a filler stops working, if its save has to be complete after `longest` and a save.

    That is `longest` or, if a periodic save would be under way then, the begin of that.
    """
    _, save, interval, _, _ = costs
    if longest <= 0 or longest == np.inf or interval == 0:
        return max(0.0, longest)
    return float(min(longest, np.floor(longest / (interval + save) + 1e-9) * (interval + save) + interval))


@njit(cache=True, nogil=True)
def _natural_end(start: float, needed: float, costs: Costs) -> tuple[float, bool]:
    """When an execution ends by itself, and whether its `needed` seconds of work are done then, or its slot is over."""
    restore, save, interval, slot, _ = costs
    saves = max(0.0, np.ceil(needed / interval - 1e-9) - 1) if interval > 0 else 0.0
    over, done = _slot_end(start, slot), start + restore + needed + saves * save
    return (done, True) if done <= over - save + 1e-9 else (over, False)


@njit(cache=True, nogil=True)
def _spent(
    start: float, end: float, needed: float, is_done: bool, is_asked: bool, costs: Costs
) -> tuple[float, float, float, float, float, int]:
    """Useful, lost, saving, restoring and waiting seconds of an execution, and its number of saves.

    needed: seconds of work that were left at its start; is_done: whether they are done; is_asked: whether the filler was asked to
    save so long before the end that the save is over by then
    """
    restore, save, interval, slot, _ = costs
    restoring = min(restore, end - start)
    passed = end - start - restoring
    if is_done:
        saves = max(0.0, np.ceil(needed / interval - 1e-9) - 1) if interval > 0 else 0.0
        return needed, 0.0, passed - needed, restoring, 0.0, int(saves)
    last = _slot_end(start, slot) - save - start - restore
    last = _until_save(min(last, passed - save) if is_asked else last, costs)
    cycles, worked = 0.0, min(passed, last)
    if interval > 0:
        cycles = np.floor(worked / (interval + save) + 1e-9)
        worked = max(0.0, worked - cycles * (interval + save))
    useful, saving, saves = cycles * interval, cycles * save, cycles
    if passed < last:
        # It works, or its periodic save is under way.
        lost = min(worked, interval) if interval > 0 else worked
        saving += worked - lost
    elif worked > 0 and passed >= last + save - 1e-9:
        useful, saving, saves, lost = useful + worked, saving + save, saves + 1, 0.0
    else:
        lost = worked
        saving += passed - last if worked > 0 else 0.0
    return useful, lost, saving, restoring, max(0.0, passed - useful - lost - saving), int(saves)


@njit(cache=True, nogil=True)
def _fill(
    hold: Times,
    start: Times,
    end: Times,
    width: Numbers,
    by_hold: Numbers,
    by_end: Numbers,
    machine: int,
    works: Times,
    count: int,
    costs: Costs,
    begin: float,
    stop: float,
    tabulate: bool,
) -> tuple[Times, Times, Numbers]:
    """Rows of `COLUMNS`, sums and counts of `Filled`. Parameters as in `fill`.

    by_hold, by_end: the jobs in order of these instants; works: one for all fillers, or one for each; count: -1 for no limit
    """
    slot, speed = costs[3], costs[4]
    rows, used = np.empty((1024 if tabulate else 1, 13)), 0
    sums, counts = np.zeros(6), np.zeros(4, np.int64)
    # The holder of each processor: _MAIN, _EMPTY, or a filler, from 0 on. The processors of a job are a linked list.
    holder, following, first = np.full(machine, _EMPTY), np.full(machine, -1), np.full(hold.size, -1)
    # Of the filler on a processor: begin and natural end of its execution; seconds of work at its begin, whether done at its end.
    began, due, needed, finishes = np.zeros(machine), np.full(machine, np.inf), np.zeros(machine), np.zeros(machine, np.bool_)
    # Processors, lowest first. An entry of `filled` may be outdated; listed: it has one.
    empty, filled, listed = list(range(machine)), [machine], np.zeros(machine, np.bool_)
    natural, returns = [(np.inf, -1)], [(np.inf, -1)]
    waiting, progress, executions = [0], [0.0], [0]
    # Executions that end at the instant: processor, filler, end, outcome.
    over_at, over_of, over_end, over_as = (np.zeros(machine, np.int64), np.zeros(machine, np.int64), np.zeros(machine),
                                           np.zeros(machine, np.int64))  # fmt: skip
    holds = ends = 0
    instant = -np.inf
    while instant < stop:
        # At each instant: ends of fillers, ends of jobs, jobs that take processors, then fillers start.
        previous, instant, over = instant, min(stop, natural[0][0], returns[0][0]), 0
        if holds < by_hold.size:
            instant = min(instant, hold[by_hold[holds]])
        if ends < by_end.size:
            instant = min(instant, end[by_end[ends]])
        if previous < begin:
            instant = min(instant, begin)
        while returns[0][0] <= instant:
            heapq.heappush(waiting, heapq.heappop(returns)[1])
        while natural[0][0] <= instant:
            then, processor = heapq.heappop(natural)
            if holder[processor] >= 0 and due[processor] == then:
                over_at[over], over_of[over], over_end[over] = processor, holder[processor], then
                over_as[over] = COMPLETED if finishes[processor] else SLOT
                over += 1
                holder[processor] = _EMPTY
                heapq.heappush(empty, processor)
        while ends < by_end.size and end[by_end[ends]] <= instant:
            processor = first[by_end[ends]]
            while processor >= 0:
                holder[processor] = _EMPTY
                heapq.heappush(empty, processor)
                processor = following[processor]
            ends += 1
        while holds < by_hold.size and hold[by_hold[holds]] <= instant:
            job = by_hold[holds]
            holds += 1
            for _ in range(width[job]):
                if len(empty) > 0:
                    processor = heapq.heappop(empty)
                else:
                    processor = heapq.heappop(filled)
                    while holder[processor] < 0:
                        listed[processor] = False
                        processor = heapq.heappop(filled)
                    listed[processor] = False
                    over_at[over], over_of[over] = processor, holder[processor]
                    over_end[over] = instant if slot > 0 else min(start[job], due[processor])
                    over_as[over] = COMPLETED if over_end[over] >= due[processor] else PREEMPTED
                    over += 1
                holder[processor], following[processor], first[job] = _MAIN, first[job], processor
        if instant >= stop:
            for processor in range(machine):
                if holder[processor] >= 0:
                    over_at[over], over_of[over], over_end[over], over_as[over] = processor, holder[processor], stop, STOPPED
                    over += 1
        for i in range(over):
            processor, filler, outcome = over_at[i], over_of[i], over_as[i]
            is_asked = outcome != SLOT and (slot == 0 or outcome == STOPPED)
            useful, lost, saving, restoring, waited, saves = _spent(
                began[processor], over_end[i], needed[processor], outcome == COMPLETED, is_asked, costs
            )
            progress[filler] += useful * speed
            counts[outcome] += 1
            spent = np.array([over_end[i] - began[processor], useful, lost, saving, restoring, waited])
            sums += spent
            if outcome in (PREEMPTED, SLOT):
                heapq.heappush(returns, (over_end[i], filler))
            if tabulate:
                if used == rows.shape[0]:
                    rows = np.concatenate((rows, np.empty_like(rows)))
                rows[used, 0], rows[used, 1], rows[used, 2] = filler, executions[filler], processor
                rows[used, 3], rows[used, 4], rows[used, 5:10] = began[processor], over_end[i], spent[1:]
                rows[used, 10], rows[used, 11], rows[used, 12] = saves, progress[filler], outcome
                used += 1
        while returns[0][0] <= instant:
            heapq.heappush(waiting, heapq.heappop(returns)[1])
        while begin <= instant < stop and len(empty) > 0 and len(waiting) > 0:
            # The filler with the highest number was never started, unless there are no more.
            filler, processor = heapq.heappop(waiting), heapq.heappop(empty)
            executions[filler] += 1
            if executions[filler] == 1 and (count < 0 or filler + 1 < count):
                heapq.heappush(waiting, filler + 1)
                progress.append(0.0)
                executions.append(0)
            work = works[filler] if works.size > 1 else works[0]
            holder[processor], began[processor] = filler, instant
            needed[processor] = max(0.0, (work - progress[filler]) / speed)
            due[processor], finishes[processor] = _natural_end(instant, needed[processor], costs)
            heapq.heappush(natural, (due[processor], processor))
            if not listed[processor]:
                listed[processor] = True
                heapq.heappush(filled, processor)
    return rows[:used], sums, counts


def gain(measured: Mapping[str, float | None], words: Filler) -> str:
    """A line with the share of the machine that fillers used, beside the bound of Polyakov and Dubenskaya for it, which is the idle
    share without fillers times (1 - t) c."""
    share = (words.restore + words.save) / words.slot
    idle = 1 - (measured["utilisation"] or 0.0)
    return (
        f"fillers: gain {100 * (measured['filler_useful'] or 0.0):.2f} % of the machine; idle (1 - t) c = {100 * idle:.2f} % x "
        f"{1 - share:g} x {words.speed:g} = {100 * idle * (1 - share) * words.speed:.2f} %"
    )


def delay(frame: pl.DataFrame, without: pl.DataFrame) -> str:
    """A line with how many jobs of the workload waited for a filler's save, and by how much their mean wait is longer than in the
    schedule `without` fillers, which has the same rows."""
    ran = pl.col("preset").is_null() & (pl.col("run_time") >= 0)
    jobs, waits = frame.filter(ran), [float(one.filter(ran)["wait"].mean() or 0.0) for one in (frame, without)]  # type: ignore[arg-type]
    late = jobs.filter(pl.col("saving") > 0).height
    return f"fillers: {late} of {jobs.height} jobs waited for saves; mean wait {waits[0] - waits[1]:+.2f} s against none"
