"""Due times of the jobs of a workload, and the plan of a replay (plan.csv). Times are virtual seconds.

The grouped scheme is runworkload's, the submission script of the thesis this project comes from (Algorithm 3.2): a number of
warm-up jobs at once, then groups of jobs at regular instants, anchored to the start of the replay, so that a slow submission
never shifts the next group. The instants are those of a wall clock in the cluster: shrinking does not move them, and a faster
virtual clock makes them shorter as it does everything else.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from .. import extras
from ..base import csv_text, line_text
from ..base.errors import WrongUse
from ..base.files import write_atomically
from .arrays import MOST_TASKS
from .request import Request


def due_times(
    submits_virtual: Sequence[float],
    warmup: int = 0,
    group: int = 1,
    period: float = 0.0,
    drift: float = 0.0,
    warmup_period: float | None = None,
) -> list[float]:
    """Seconds after the start of the replay at which each job is due, in the order of submission, never decreasing.

    `submits_virtual` are the jobs' own submissions in the cluster's seconds, never decreasing, from any origin. Without
    `period` they are kept: the result is the distance to the first one. With it only their order counts: the first `warmup`
    jobs are due at 0, and group k = 0, 1, ... of the following jobs, `group` of them each, at
    warm-up period + (drift + period) * k.

    Two readings of Algorithm 3.2 were settled here. Its text counts the warm-up jobs before the groups, its listing lets
    job number `warmup` (from 1) already wait and aligns the groups to multiples of `group`: the text is followed, so exactly
    `warmup` jobs go at once and every group but the last is full. It has a warm-up period of its own, which is no knob here:
    without `warmup_period` the warm-up takes as long as a group does, period + drift, and no time when there are no warm-up
    jobs. `drift` is the correction of the period that the thesis needs to keep step with the scheduler's own cycles.

    Raises WrongUse, naming the knob.
    """
    _check_knobs(warmup, group, period, drift, warmup_period)
    _check_order(submits_virtual)
    if period == 0:
        return [submit - submits_virtual[0] for submit in submits_virtual]
    step = period + drift
    if warmup_period is None:
        warmup_period = step if warmup else 0.0
    count = len(submits_virtual)
    return [0.0 if i < warmup else warmup_period + step * ((i - warmup) // group) for i in range(count)]


def _check_knobs(warmup: int, group: int, period: float, drift: float, warmup_period: float | None) -> None:
    if warmup < 0:
        raise WrongUse(f"a warm-up of {warmup}: 0 or more jobs", parameter="submission")
    if group < 1:
        raise WrongUse(f"groups of {group}: 1 or more jobs", parameter="submission")
    if not (math.isfinite(period) and period >= 0):
        raise WrongUse(f"a period of {period}: seconds, 0 (jobs keep their own times) or more", parameter="submission")
    if not math.isfinite(drift) or (period > 0 and drift + period < 0):
        raise WrongUse(f"a drift of {drift}: seconds, not below -period ({-period})", parameter="submission")
    if warmup_period is not None and not (math.isfinite(warmup_period) and warmup_period >= 0):
        raise WrongUse(f"a warm-up period of {warmup_period}: 0 seconds or more", parameter="submission")


def _check_order(submits: Sequence[float]) -> None:
    before = -math.inf
    for number, submit in enumerate(submits, start=1):
        if not (math.isfinite(submit) and submit >= before):
            raise WrongUse(
                f"job number {number} in it was submitted at {submit}: not before the one above it ({before})", parameter="trace"
            )
        before = submit


@dataclass(frozen=True)
class PlanRow:
    """One job of a plan. Times are seconds of the cluster's own (virtual) time."""

    index: int
    """Position in the plan, from 0: the order of submission."""
    id: int
    """The job's number in the trace."""
    due: float
    """Seconds from the start of the replay to its submission."""
    processors: int
    nodes: int | None
    """Whole nodes wanted; None: processors of shared nodes."""
    runtime: float
    limit_minutes: int
    cancel_after: float | None
    """Seconds from its submission to its cancellation; None: it is not cancelled."""
    partition: str
    """Empty: the cluster's default partition."""
    name: str
    """Name of the job in the resource manager, which no other job has: RUN.ID."""
    account: str = ""
    """Account that the job's use is charged to; empty: the default one, or none where there is no accounting."""
    qos: str = ""
    """Empty: the account's default QOS."""
    memory: int | None = None
    """MiB for each processor; None: what the cluster gives."""
    dependency: str = ""
    """What the job waits for in the resource manager, with the trace's numbers of the others (afterany:12:14,after:15+2, or never);
    empty: nothing."""
    follows: int | None = None
    """The trace's number of the job after whose end this one is submitted, instead of at `due`; None: none."""
    think: float = 0.0
    """Seconds from that end to this job's submission."""
    extras: Mapping[str, str] = field(default_factory=dict)
    """What extras say about the job, by their columns (`EXTRA_COLUMNS`), without those that are empty."""
    array: int | None = None
    """The trace's number of task 0 of the job array that the job is a task of; None: it is a job of its own. The number of a task
    is the distance of its number in the trace from that."""

    at_once: int | None = None
    """Most tasks of the array that may run at once; None: all."""
    request: str = ""
    """The words of what else the job asks for (`request.Request`); empty: nothing."""
    owner: str = ""
    """User of the resource manager whom the job belongs to; empty: the instance's."""

    @property
    def asked(self) -> Request:
        """What else the job asks for. Raises WrongUse."""
        return Request.parse(self.request)

    @property
    def waits_for_instant(self) -> bool:
        """Whether the job may start later, or has more nodes to choose from, by the passing of time alone."""
        asked = self.asked
        return asked.begin > 0 or "@" in asked.switches or "+" in self.dependency

    @property
    def task(self) -> int:
        """The number of the task in its array; 0 for a job of its own."""
        return self.id - self.array if self.array is not None else 0


NEVER = "never"
"""Dependency of a job that is to wait until it is cancelled."""
_WAITS = r"(after|afterany)(:\d+(\+\d+)?)+"
_DEPENDENCY = re.compile(rf"({NEVER}|{_WAITS}([,?]{_WAITS})*)?\Z")
EXTRA_COLUMNS: Mapping[str, Callable[[PlanRow, str], None]] = extras.merged("plan", "COLUMNS")
"""Columns of extras: each function raises WrongUse unless the job can have these words."""
_PLACES = {one.name: EXTRA_COLUMNS if one.name == "extras" else (one.name,) for one in fields(PlanRow)}
COLUMNS = tuple(column for columns in _PLACES.values() for column in columns)


WORDS: Mapping[str, str] = {"name": "|", "partition": "|", "account": ",|", "qos": ",|", "owner": ",|"}
"""Columns with one word or none, and characters that it does not have: a job may have several partitions, separated by commas."""


def plan_text(rows: Sequence[PlanRow]) -> str:
    """The content of plan.csv. Raises WrongUse for a name, partition, account, QOS or owner that `parse_plan` would refuse."""
    for column in WORDS:
        for word in {getattr(row, column) for row in rows}:
            if fault := _fault_of_word(column, word):
                raise WrongUse(f"jobs with {column} {word[:40]!r}: {fault}")
    return csv_text.text([COLUMNS, *map(cells, rows)])


def cells(row: PlanRow) -> list[Any]:
    """The values of a row, in the order of COLUMNS."""
    return [row.extras.get(name, "") if name in EXTRA_COLUMNS else getattr(row, name) for name in COLUMNS]


def write_plan(path: Path, rows: Sequence[PlanRow]) -> None:
    """Write plan.csv in one step."""
    write_atomically(path, plan_text(rows))


def parse_plan(text: str, name: str = "plan.csv") -> list[PlanRow]:
    """The rows of a plan, checked: indices count from 0, dues never decrease, names and trace numbers are unique.

    Raises WrongUse with `name` and the line number.
    """
    reader = csv.reader(io.StringIO(text))
    heading = tuple(next(reader, []))
    if heading != COLUMNS:
        raise WrongUse(f"{name}:1: the columns may be {','.join(COLUMNS)}")
    rows: list[PlanRow] = []
    above: dict[int, PlanRow] = {}
    for texts in reader:
        try:
            if len(texts) != len(heading):
                raise ValueError(f"{len(texts)} columns instead of {len(heading)}")
            row = _row(dict(zip(heading, texts)))
            _check_row(row, rows[-1] if rows else None)
            _check_others(row, above)
            above[row.id] = row
        except ValueError as error:
            raise WrongUse(f"{name}:{reader.line_num}: {error}") from error
        rows.append(row)
    for column, distinct in (("name", {row.name for row in rows}), ("id", {row.id for row in rows})):
        if len(distinct) < len(rows):
            raise WrongUse(f"{name}: two jobs have the same {column}")
    return rows


def read_plan(path: Path) -> list[PlanRow]:
    """The rows of the plan in `path`; see parse_plan."""
    try:
        return parse_plan(path.read_text(), str(path))
    except FileNotFoundError as error:
        raise WrongUse(f"{path}: there is no plan there") from error


def _row(cells: Mapping[str, str]) -> PlanRow:
    return PlanRow(
        index=int(cells["index"]),
        id=int(cells["id"]),
        due=float(cells["due"]),
        processors=int(cells["processors"]),
        nodes=int(cells["nodes"]) if cells["nodes"] else None,
        runtime=float(cells["runtime"]),
        limit_minutes=int(cells["limit_minutes"]),
        cancel_after=float(cells["cancel_after"]) if cells["cancel_after"] else None,
        partition=cells["partition"],
        name=cells["name"],
        account=cells["account"],
        qos=cells["qos"],
        memory=int(cells["memory"]) if cells["memory"] else None,
        dependency=cells["dependency"],
        follows=int(cells["follows"]) if cells["follows"] else None,
        think=float(cells["think"]),
        extras={column: cells[column] for column in EXTRA_COLUMNS if cells[column]},
        array=int(cells["array"]) if cells["array"] else None,
        at_once=int(cells["at_once"]) if cells["at_once"] else None,
        request=cells["request"],
        owner=cells["owner"],
    )


def _check_row(row: PlanRow, before: PlanRow | None) -> None:
    if row.index != (before.index + 1 if before else 0):
        raise ValueError(f"index {row.index}: they count from 0")
    if not (math.isfinite(row.due) and row.due >= (before.due if before else 0)):
        raise ValueError(f"due {row.due}: 0 or more, and not before the job above")
    if row.processors < 1 or (row.nodes is not None and row.nodes < 1) or row.limit_minutes < 1:
        raise ValueError("processors, nodes and limit_minutes may be 1 or more")
    if not (math.isfinite(row.runtime) and row.runtime >= 0):
        raise ValueError(f"runtime {row.runtime}: seconds, 0 or more")
    if row.cancel_after is not None and not (math.isfinite(row.cancel_after) and row.cancel_after >= 0):
        raise ValueError(f"cancel_after {row.cancel_after}: seconds, 0 or more, or empty")
    if not row.name:
        raise ValueError(f"name {row.name!r}: one word")
    for column in WORDS:
        if fault := _fault_of_word(column, getattr(row, column)):
            raise ValueError(f"{column} {getattr(row, column)!r}: {fault}")
    if row.at_once is not None and (row.at_once < 1 or row.array is None):
        raise ValueError(f"at_once {row.at_once}: 1 or more tasks of an array, or empty")
    if row.memory is not None and row.memory < 1:
        raise ValueError(f"memory {row.memory}: 1 MiB or more, or empty")
    if not (math.isfinite(row.think) and row.think >= 0):
        raise ValueError(f"think {row.think}: seconds, 0 or more")
    try:
        for column, words in row.extras.items():
            EXTRA_COLUMNS[column](row, words)
        asked = row.asked
    except WrongUse as error:
        raise ValueError(str(error)) from error
    if row.nodes is not None and asked.has_shape:
        raise ValueError("a job with whole nodes asks for no other number of nodes or tasks")


def _fault_of_word(column: str, word: str) -> str:
    """Why a word of the plan cannot be given to a resource manager, and found in its answers; empty if it can."""
    if any(letter.isspace() or letter in WORDS[column] for letter in word):
        return f"one word, or empty, without {' and '.join(WORDS[column])}"
    return line_text.fault(word)


def _check_others(row: PlanRow, above: Mapping[int, PlanRow]) -> None:
    """Raise ValueError unless a job follows jobs above it only, and depends only on jobs above it that follow no other."""
    if not _DEPENDENCY.match(row.dependency):
        raise ValueError(f"dependency {row.dependency!r}: empty, {NEVER}, or like afterany:12:14,after:15+2")
    if row.follows is not None and row.follows not in above:
        raise ValueError(f"follows job {row.follows}, which is not above")
    if row.array is not None and row.array != row.id and not (row.array in above and are_alike(above[row.array], row)):
        raise ValueError(f"task of the array of job {row.array}, which is not above, or not like it")
    for number in targets(row.dependency):
        if number not in above or above[number].follows is not None:
            raise ValueError(f"waits for job {number}, which is not above, or follows another itself")


ALIKE = ("due", "processors", "nodes", "limit_minutes", "partition", "account", "qos", "memory", "request", "owner")
"""What the tasks of an array have in common."""


def are_alike(first: PlanRow, row: PlanRow) -> bool:
    """Whether two jobs can be tasks of an array, of which the first is task 0."""
    is_single = any(one.dependency or one.follows is not None or one.extras for one in (first, row)) or row.asked.hold > 0
    same = all(getattr(first, name) == getattr(row, name) for name in ALIKE)
    return same and not is_single and 0 < row.id - first.id < MOST_TASKS


def with_arrays(rows: Sequence[PlanRow], arrays: Sequence[int | None], limits: Sequence[int | None]) -> list[PlanRow]:
    """The rows with `array` and `at_once`, by the numbers and limits of the jobs' arrays in the trace (None: the job is in none).

    Jobs of an array of the trace are in one array as far as they are alike; one that is like no other stays a job of its own. A
    limit is that of an array whose jobs are all in one.
    """
    firsts: dict[int, PlanRow] = {}
    arrays_of_jobs: dict[int, int] = {}
    for row, array in zip(rows, arrays):
        if array is None:
            continue
        first = firsts.get(array)
        if first is not None and are_alike(first, row):
            arrays_of_jobs[first.id] = arrays_of_jobs[row.id] = first.id
        else:
            firsts[array] = row
    groups: dict[int, set[int | None]] = {}
    for row, array in zip(rows, arrays):
        if array is not None:
            groups.setdefault(array, set()).add(arrays_of_jobs.get(row.id))
    whole = {array for array, firsts_in in groups.items() if len(firsts_in) == 1 and None not in firsts_in}
    return [
        replace(row, array=arrays_of_jobs.get(row.id), at_once=limit if array in whole else None)
        for row, array, limit in zip(rows, arrays, limits)
    ]


def targets(dependency: str) -> list[int]:
    """The trace's numbers of the jobs that a plan's dependency names."""
    return [int(number) for number in re.findall(r":(\d+)", dependency)]


def with_ids(dependency: str, ids: Mapping[int, int]) -> str:
    """A plan's dependency with the ids that the jobs have in the resource manager, by the trace's numbers."""
    return re.sub(r":(\d+)", lambda match: f":{ids[int(match[1])]}", dependency)
