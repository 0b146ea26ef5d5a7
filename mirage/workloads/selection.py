"""Selects jobs of a log by a time window, an offset, a number of jobs, queues, users and a minimum run time.

All readers of logs use this module, so that the same knobs select the same jobs in experiments, reports, simulations and metrics.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from math import inf

import polars as pl

from mirage.traces.local_time import LocalTime
from mirage.traces.trace import Trace
from slurm_mirage.base.errors import WrongUse

# Most queues or users listed in a message.
_LISTED = 12


@dataclass(frozen=True)
class Selection:
    """The values of the selection knobs; `take` describes how they work together.

    jobs: number of jobs to select; None: all
    offset: number of jobs to skip at the beginning of the log or of the window
    min_runtime: seconds of the trace; jobs with a shorter run time are left out
    begin, end: FROM and TO as given: seconds of the trace, or an ISO date with or without a time, in the log's time zone. Jobs
        submitted at or after `begin` and before `end` are in the window. Empty: the log's beginning or end
    queues, users: numbers as in the log; queues also by the names in its header (`; Queue: 1 batch`). Empty: all
    """

    jobs: int | None = None
    offset: int = 0
    min_runtime: float = 0.0
    begin: str = ""
    end: str = ""
    queues: tuple[str, ...] = ()
    users: tuple[str, ...] = ()


@dataclass(frozen=True)
class Taken:
    """The selected jobs, and the jobs before them in the log.

    jobs: SWF frame of the selected jobs, sorted by submission; jobs of the same second keep the log's order
    left_out: number of jobs left out before the last selected one, by reason
    before: SWF frame of the jobs before the first selected one, in the same order, without those that the filters leave out
    instant: seconds of the trace at which the selection begins: FROM, or, without FROM or with an OFFSET, the submission of the
        first selected job
    """

    jobs: pl.DataFrame
    left_out: dict[str, int]
    before: pl.DataFrame
    instant: float


def choose(trace: Trace, selection: Selection) -> tuple[pl.DataFrame, dict[str, int]]:
    """The SWF frame of the selected jobs, sorted by submission (stable), and the number of jobs left out, by reason.

    Jobs outside of the window, skipped by the offset or after the last selected job are not counted. The default selection is the
    whole log. Raises WrongUse as `take` does.
    """
    taken = take(trace, selection)
    return taken.jobs, taken.left_out


def take(trace: Trace, selection: Selection, unusable: pl.Expr | None = None) -> Taken:
    """Selects jobs of a log, in these steps:

    1. The log is sorted by submission, and jobs outside of the window are dropped.
    2. The first `offset` jobs of the window are skipped, whatever they are. An offset is therefore the same place of the log
       under every other knob.
    3. Jobs of other queues and users, unusable jobs and those with a run time below `min_runtime` are left out and counted.
    4. The first `jobs` of the remaining jobs are selected.

    `unusable` is an expression on an SWF frame: the reason why a job cannot be used, null if it can.

    Raises WrongUse, which names the knob, if no job remains or a value goes beyond the log.
    """
    _check(selection)
    log = trace.frame
    if log.is_empty():
        raise WrongUse("the log has no jobs", parameter="trace")
    ordered = log if log["submit"].is_sorted() else log.sort("submit", maintain_order=True)
    if selection == Selection() and unusable is None:
        return Taken(ordered, trace.unread.excluded(), ordered.clear(), float(ordered["submit"][0]))
    lines = ordered.with_columns(reason=_reason(trace, selection, unusable)).with_row_index("place")
    window, begin = lines, None
    if selection.begin or selection.end:
        begin, end = _bounds(trace, selection)
        window = lines.filter(pl.col("submit") >= max(begin or 0.0, 0.0), pl.col("submit") < end)
    chosen, left_out = _first_jobs(_from_offset(window, trace, selection), trace, selection)
    if selection.begin or selection.end:
        # Jobs without a submission time are neither inside nor outside of the window.
        without_time = lines.filter(pl.col("submit") < 0).height
        left_out |= {"no submission time": without_time} if without_time else {}
    left_out |= trace.unread.excluded()
    before = lines.filter(pl.col("place") < chosen["place"][0], pl.col("reason").is_null())
    instant = float(chosen["submit"][0]) if begin is None or selection.offset else begin
    return Taken(chosen.select(log.columns), left_out, before.select(log.columns), instant)


def _check(selection: Selection) -> None:
    if selection.jobs is not None and selection.jobs < 1:
        raise WrongUse(f"{selection.jobs} may be 1 or more, or empty for all", parameter="jobs")
    if selection.offset < 0:
        raise WrongUse(f"{selection.offset} may be 0 or more", parameter="offset")
    if not 0 <= selection.min_runtime < inf:
        raise WrongUse(f"{selection.min_runtime:g} may be 0 or more seconds", parameter="min_runtime")


# ---- the window ----


def _bounds(trace: Trace, selection: Selection) -> tuple[float | None, float]:
    """FROM and TO in seconds of the trace; without them None and infinity."""
    begin = _instant("from", selection.begin, trace) if selection.begin else None
    end = _instant("to", selection.end, trace) if selection.end else inf
    if begin is not None and begin >= end:
        raise WrongUse(f"{selection.begin} is not before TO={selection.end}", parameter="from")
    return begin, end


def _instant(parameter: str, text: str, trace: Trace) -> float:
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        message = f"{text!r} is neither seconds of the trace nor a date like 2016-04-01T12:00:00"
        raise WrongUse(message, parameter=parameter) from None
    second = LocalTime.of(trace).second(date)
    if second is None:
        raise WrongUse(
            f"{text} is a date, but the log has no UnixStartTime; it may be seconds of the trace, {_span(trace)}",
            parameter=parameter,
        )
    return second


def _span(trace: Trace) -> str:
    """Describes the first and last submission in the log, in seconds of the trace and, if known, as dates."""
    submit = trace.frame["submit"].filter(trace.frame["submit"] >= 0)
    if submit.is_empty():
        return "whose jobs have no submission times"
    first, last = float(submit.min()), float(submit.max())  # type: ignore[arg-type]
    local = LocalTime.of(trace)
    dates = [date.isoformat("T", "seconds") for second in (first, last) if (date := local.date(second)) is not None]
    return f"which spans {first:.15g} to {last:.15g}" + (f" ({' to '.join(dates)})" if dates else "")


def _searched(selection: Selection) -> str:
    """Describes the part of the log that was searched for jobs, for messages."""
    knobs = (("FROM", selection.begin), ("TO", selection.end))
    window = "".join(f"{knob}={text}, " for knob, text in knobs if text)
    return f"from {window}OFFSET={selection.offset} on"


def _from_offset(window: pl.DataFrame, trace: Trace, selection: Selection) -> pl.DataFrame:
    """The window without the jobs that the offset skips."""
    if window.is_empty():
        parameter = "from" if selection.begin else "to"
        window_text = " ".join(f"{word} {text}" for word, text in (("from", selection.begin), ("before", selection.end)) if text)
        raise WrongUse(f"no job was submitted {window_text}; it may be within the log, {_span(trace)}", parameter=parameter)
    if selection.offset >= window.height:
        source = "the window" if selection.begin or selection.end else "the log"
        raise WrongUse(
            f"{selection.offset} may be up to {window.height - 1}, {source} has {window.height} jobs", parameter="offset"
        )
    return window.slice(selection.offset)


# ---- filters ----


def queue_names(header: dict[str, str]) -> dict[int, str]:
    """Names of queues by number, from the lines `Queue: 1 batch` of a header."""
    matches = (re.match(r"\s*(\d+)\s*[-=:,]?\s*(\S.*)", line) for line in header.get("Queue", "").splitlines())
    return {int(match[1]): match[2].strip(" \t[]()'\"") for match in matches if match}


def _queues(trace: Trace, wanted: tuple[str, ...]) -> list[int]:
    """Numbers of the queues `wanted`; each is given as a number, a name or the first word of a name."""
    names = queue_names(trace.header)
    numbers = {word.lower(): number for number, name in reversed(names.items()) for word in (name.split()[0], name)}
    existing = _existing(trace, "queue", "queues")
    chosen: list[int] = []
    for queue in wanted:
        number = int(queue) if re.fullmatch(r"-?\d{1,15}", queue) else numbers.get(queue.lower())
        if number is None or number not in existing:
            possible = [f"{number} ({names[number]})" if number in names else str(number) for number in sorted(existing)]
            raise WrongUse(f"the log has no job of the queue {queue!r}; it may be {_listed(possible)}", parameter="queues")
        chosen.append(number)
    return chosen


def _users(trace: Trace, wanted: tuple[str, ...]) -> list[int]:
    existing = _existing(trace, "user", "users")
    for user in wanted:
        if not re.fullmatch(r"-?\d{1,15}", user) or int(user) not in existing:
            possible = _listed([str(number) for number in sorted(existing)])
            raise WrongUse(f"the log has no job of the user {user!r}; it may be {possible}", parameter="users")
    return [int(user) for user in wanted]


def _existing(trace: Trace, column: str, parameter: str) -> set[int]:
    """The values of a column; raises WrongUse if all are unknown."""
    values = set(trace.frame[column].unique())
    if values == {-1}:
        raise WrongUse(f"the log does not say of which {column} its jobs are", parameter=parameter)
    return values


def _listed(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= _LISTED else f"{', '.join(names[: _LISTED - 1])}, ... {names[-1]}"


def _reason(trace: Trace, selection: Selection, unusable: pl.Expr | None) -> pl.Expr:
    """Expression for the reason why a job of the window is left out; null if it is not."""
    col = pl.col
    reasons = [pl.lit(None, pl.String)]
    if selection.queues:
        of_these = col("queue").is_in(_queues(trace, selection.queues))
        reasons.append(pl.when(~of_these).then(pl.lit("of another queue")))
    if selection.users:
        of_these = col("user").is_in(_users(trace, selection.users))
        reasons.append(pl.when(~of_these).then(pl.lit("of another user")))
    if unusable is not None:
        reasons.append(unusable)
    if selection.min_runtime > 0:
        reasons.append(pl.when(col("run_time").clip(0) < selection.min_runtime).then(pl.lit("shorter than MIN_RUNTIME")))
    return pl.coalesce(reasons)


def _first_jobs(window: pl.DataFrame, trace: Trace, selection: Selection) -> tuple[pl.DataFrame, dict[str, int]]:
    """The first `jobs` jobs without a reason to leave them out, and the number of jobs left out before the last one, by reason."""
    usable = pl.col("reason").is_null()
    count = window.select(usable.sum()).item()
    if count == 0:
        raise _nothing_left(window, selection)
    if selection.jobs is not None and selection.jobs > count:
        raise WrongUse(
            f"{selection.jobs} may be up to {count}, the log has no more usable jobs {_searched(selection)}", parameter="jobs"
        )
    if selection.jobs is not None:
        window = window.filter(usable.cum_sum() - usable.cast(pl.UInt32) < selection.jobs)
    left_out = window.filter(~usable)["reason"].value_counts().sort("reason")
    return window.filter(usable), dict(left_out.iter_rows())


def _nothing_left(window: pl.DataFrame, selection: Selection) -> WrongUse:
    """The error for a selection without jobs: the parameter that excludes the last ones, and its possible values."""
    remaining = window
    for parameter, wanted, column in (("queues", selection.queues, "queue"), ("users", selection.users, "user")):
        existing = remaining[column].unique().sort()
        remaining = remaining.filter(pl.col("reason").fill_null("") != f"of another {column}")
        if wanted and remaining.is_empty():
            possible = _listed([str(number) for number in existing])
            message = f"no job {_searched(selection)} is of {column} {', '.join(wanted)}; it may be {possible}"
            return WrongUse(message, parameter=parameter)
    message = f"none of the log's jobs {_searched(selection)} can be used with {selection.min_runtime:g}"
    return WrongUse(message, parameter="min_runtime")
