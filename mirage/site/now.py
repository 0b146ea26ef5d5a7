"""The queue of a site as it is when mirage-capture takes it (--now): who waits, in what order, and what Slurm promises."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mirage.site.archive import PARAMETER, Archive
from slurm_mirage.base.errors import WrongUse

SQUEUE, SPRIO, SSHARE, CONFIG, CONF = "now/squeue.txt", "now/sprio.txt", "sshare.txt", "scontrol/config.txt", "conf/slurm.conf"
COLUMNS = ("JobID", "ArrayJobID", "ArrayTaskID", "State", "Priority", "Reason", "StartTime", "NodeList")
"""Columns of SQUEUE. ArrayTaskID is empty for a job that is no task; StartTime of a waiting job is what Slurm plans, 0: nothing."""
PRIORITY_COLUMNS = ("JobID", "Age", "FairShare")
"""Columns of SPRIO: what age and fair share add to the priority of a waiting job."""
HELD = re.compile(r"JobHeld|JobHoldMaxRequeue|launch failed|DependencyNeverSatisfied|held", re.IGNORECASE)
"""Reasons of jobs that start only after someone has done something."""
PENDING = "PENDING"
LARGEST_PRIORITY = 5 * 10**8
Name = tuple[int, int | None]
"""A job: its number, of a task that of the array; and its task, or None."""


@dataclass(frozen=True)
class Waiting:
    """A job that waits, or a task of an array.

    number: its id, of a task that of the array. task: None for no task. ahead: what age and fair share add to its priority.
    promised: when Slurm plans to start it, in seconds since the epoch; None: no plan.
    """

    number: int
    task: int | None
    is_held: bool
    reason: str
    ahead: int
    promised: int | None

    @property
    def key(self) -> Name:
        """Number and task."""
        return self.number, self.task

    @property
    def name(self) -> str:
        """As users write it: 12 or 12_3."""
        return str(self.number) if self.task is None else f"{self.number}_{self.task}"


def has_queue(taken: Archive) -> bool:
    """Whether the archive has the queue."""
    return SQUEUE in taken.parts


def waiting(taken: Archive) -> list[Waiting]:
    """The jobs that wait, those of the highest priority first, as squeue has them.

    Raises WrongUse for an archive without the queue, and for damaged lines.
    """
    ahead = _ahead(taken)
    found: list[tuple[int, Waiting]] = []
    for line, row, own, key in _queue(taken):
        if row["state"] != PENDING:
            continue
        priority, start = (_number(taken, SQUEUE, line, row[name] or "0") for name in ("priority", "starttime"))
        place = min(ahead.get(own, ahead.get(key[0], 0)), LARGEST_PRIORITY)
        is_held = priority == 0 or HELD.search(row["reason"]) is not None
        found.append((priority, Waiting(*key, is_held, row["reason"], place, start or None)))
    return [one for _, one in sorted(found, key=lambda pair: -pair[0])]


def running(taken: Archive) -> set[Name]:
    """The jobs of the queue that do not wait. Raises WrongUse as `waiting` does."""
    return {key for _, row, _, key in _queue(taken) if row["state"] != PENDING}


def _queue(taken: Archive) -> Iterator[tuple[int, dict[str, str], int, Name]]:
    """Line, row, own number and name of each job of the queue."""
    if not has_queue(taken):
        why = f" (at the site: {taken.failed[SQUEUE]})" if SQUEUE in taken.failed else ""
        raise WrongUse(
            f"{taken.path}: has not the queue{why}; it may be an archive of mirage-capture --now, make capture NOW=yes or "
            "make example-site NOW=yes",
            parameter=PARAMETER,
        )
    for line, row in enumerate(taken.rows(SQUEUE, tuple(name.lower() for name in COLUMNS)), 2):
        own, array = (_number(taken, SQUEUE, line, row[name]) for name in ("jobid", "arrayjobid"))
        task = None if row["arraytaskid"] == "" else _number(taken, SQUEUE, line, row["arraytaskid"])
        yield line, row, own, (own, None) if task is None else (array, task)


def fair_shares(taken: Archive) -> dict[tuple[str, str], int]:
    """What fair share adds to the priority of a new job, by user and account; empty where it has no part in priorities."""
    weight = _weight(taken)
    if not weight or SSHARE not in taken.parts:
        return {}
    rows = taken.rows(SSHARE, ("account", "user", "fairshare"))
    shares = ((row["user"].strip(), row["account"].strip(), row["fairshare"].strip()) for row in rows)
    return {
        (user, account): min(round(weight * min(float(share), 1.0)), LARGEST_PRIORITY)
        for user, account, share in shares
        if user and re.fullmatch(r"\d{1,3}(\.\d{1,20})?", share)
    }


def _weight(taken: Archive) -> int:
    """PriorityWeightFairshare."""
    for name in (CONFIG, CONF):
        lines = taken.lines(name) if name in taken.parts else []
        for line in lines:
            if match := re.match(r"\s*PriorityWeightFairshare\s*=\s*(\d{1,10})\b", line, re.IGNORECASE):
                return int(match[1])
    return 0


def _ahead(taken: Archive) -> dict[int, int]:
    """What age and fair share add to the priority of each waiting job; of an array by its own number."""
    if SPRIO not in taken.parts:
        return {}
    found: dict[int, int] = {}
    for line, row in enumerate(taken.rows(SPRIO, tuple(name.lower() for name in PRIORITY_COLUMNS)), 2):
        job, *parts = (_number(taken, SPRIO, line, row[name.lower()]) for name in PRIORITY_COLUMNS)
        # A job in several partitions has a line for each.
        found[job] = max(found.get(job, 0), sum(parts))
    return found


def _number(taken: Archive, name: str, line: int, text: str) -> int:
    if not re.fullmatch(r"\d{1,10}", text):
        raise taken.wrong(name, line, f"{text[:30]!r} is no whole number")
    return int(text)


# ---- making one ----


def parts_at(rows: Iterable[Mapping[str, Any]], instant: int, columns: Sequence[str]) -> dict[str, str]:
    """The parts SQUEUE and `sacct/` that mirage-capture --now would take at an instant, from rows of sacct of a whole schedule.

    rows: with JobID, JobIDRaw, Submit, Start, End and `columns`; jobs that are submitted later are left out. SPRIO is not made:
    the order of the jobs is that of their submissions.
    """
    known = [dict(row) for row in rows if row["Submit"] <= instant]
    for row in known:
        if row["Start"] > instant:
            row |= {"State": PENDING, "Start": "Unknown", "End": "Unknown", "ElapsedRaw": 0, "AllocCPUS": 0, "AllocNodes": 0,
                    "AllocTRES": ""}  # fmt: skip
        elif row["End"] > instant:
            row |= {"State": "RUNNING", "End": "Unknown", "ElapsedRaw": instant - row["Start"]}
    known.sort(key=lambda row: (row["Submit"], row["JobIDRaw"]))
    live = [row for row in known if row["State"] in (PENDING, "RUNNING")]
    queue = [_of_queue(row, max(LARGEST_PRIORITY - place, 1)) for place, row in enumerate(live)]
    return {
        "sacct/all.txt": _table(columns, ([row[column] for column in columns] for row in known)),
        SQUEUE: _table(COLUMNS, queue),
    }


def _of_queue(row: Mapping[str, Any], priority: int) -> list[Any]:
    base, _, task = str(row["JobID"]).partition("_")
    waits = row["State"] == PENDING
    return [
        row["JobIDRaw"], base, task, row["State"], priority, "Priority" if waits else "None", 0 if waits else row["Start"], "",
    ]  # fmt: skip


def _table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    return "".join("\t".join(map(str, row)) + "\n" for row in (headings, *rows))
