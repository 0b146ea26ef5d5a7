"""Which jobs of a log are taken: a window of time, a place in the log, queues, users, a least run time.

Whatever reads a log selects by this module, so that the same knobs mean the same jobs in an experiment, in a report, in a
simulation and in the metrics.
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

# So many queues or users are listed in a message.
_LISTED = 12


@dataclass(frozen=True)
class Selection:
    """The knobs of a selection; see `take` for what they mean together.

    jobs: how many to take; None: all
    offset: how many to pass over at the beginning of the log, or of the window
    min_runtime: seconds of the trace; jobs that ran less are left out
    begin, end: FROM and TO as given: seconds of the trace, or an ISO date with or without a time, in the log's own zone;
        jobs submitted from `begin` on and before `end`. Empty: the log's beginning, its end
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
    """A selection, and what comes before it in the log.

    jobs: SWF frame of the chosen lines, sorted by submission; those of the same second keep the log's order
    left_out: lines left out between the first and the last that were looked at, by reason
    before: lines of the log above the first chosen one, sorted alike, without those that would have been left out
    instant: seconds of the trace at which the selection begins: FROM, or without one (or with an OFFSET in it) the first
        chosen submission
    """

    jobs: pl.DataFrame
    left_out: dict[str, int]
    before: pl.DataFrame
    instant: float


def choose(trace: Trace, selection: Selection) -> tuple[pl.DataFrame, dict[str, int]]:
    """The SWF frame of the chosen lines, sorted by submission, stable; and the lines left out among them, counted by reason.

    What lies outside of the window, is passed over by the offset or comes after the last of `jobs` is not counted. Without
    any choice it is the whole log. Raises WrongUse as `take` does.
    """
    taken = take(trace, selection)
    return taken.jobs, taken.left_out


def take(trace: Trace, selection: Selection, unusable: pl.Expr | None = None) -> Taken:
    """Of the log, sorted by submission, the window is cut out; its first `offset` lines are passed over, whatever they are;
    of the rest those of other queues and users, the unusable ones and those that ran less than `min_runtime` are left
    out and counted; `jobs` of what remains are taken. So an offset is the same place of the log under every
    `min_runtime`, and `jobs` is how many are taken.

    `unusable`: an expression on an SWF frame, why a line cannot be used, null if it can.

    Raises WrongUse, naming the knob, for a choice that leaves nothing or goes beyond the log.
    """
    _check(selection)
    log = trace.frame
    if log.is_empty():
        raise WrongUse("the log has no jobs", parameter="trace")
    ordered = log if log["submit"].is_sorted() else log.sort("submit", maintain_order=True)
    if selection == Selection() and unusable is None:
        return Taken(ordered, {}, ordered.clear(), float(ordered["submit"][0]))
    lines = ordered.with_columns(reason=_reason(trace, selection, unusable)).with_row_index("place")
    window, begin = lines, None
    if selection.begin or selection.end:
        begin, end = _bounds(trace, selection)
        window = lines.filter(pl.col("submit") >= max(begin or 0.0, 0.0), pl.col("submit") < end)
    chosen, left_out = _first_jobs(_from_offset(window, trace, selection), trace, selection)
    if selection.begin or selection.end:
        # Neither inside nor outside of a window of time.
        timeless = lines.filter(pl.col("submit") < 0).height
        left_out |= {"no submission time": timeless} if timeless else {}
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


# The window.


def _bounds(trace: Trace, selection: Selection) -> tuple[float | None, float]:
    """FROM and TO in seconds of the trace; None, infinity: not given."""
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
    """When the log's jobs were submitted, in seconds and, if it says so, dates."""
    submit = trace.frame["submit"].filter(trace.frame["submit"] >= 0)
    if submit.is_empty():
        return "whose jobs have no submission times"
    first, last = float(submit.min()), float(submit.max())  # type: ignore[arg-type]
    place = LocalTime.of(trace)
    dates = [date.isoformat("T", "seconds") for one in (first, last) if (date := place.date(one)) is not None]
    return f"which spans {first:.15g} to {last:.15g}" + (f" ({' to '.join(dates)})" if dates else "")


def _words(selection: Selection) -> str:
    """Where it was looked for jobs."""
    knobs = (("FROM", selection.begin), ("TO", selection.end))
    window = "".join(f"{knob}={text}, " for knob, text in knobs if text)
    return f"from {window}OFFSET={selection.offset} on"


def _from_offset(window: pl.DataFrame, trace: Trace, selection: Selection) -> pl.DataFrame:
    """The window without what the offset passes over."""
    if window.is_empty():
        parameter = "from" if selection.begin else "to"
        place = " ".join(f"{word} {text}" for word, text in (("from", selection.begin), ("before", selection.end)) if text)
        raise WrongUse(f"no job was submitted {place}; it may be within the log, {_span(trace)}", parameter=parameter)
    if selection.offset >= window.height:
        there = "the window" if selection.begin or selection.end else "the log"
        raise WrongUse(f"{selection.offset} may be up to {window.height - 1}, {there} has {window.height} jobs", parameter="offset")
    return window.slice(selection.offset)


# What is left out of it.


def queue_names(header: dict[str, str]) -> dict[int, str]:
    """Names of queues by their numbers: the lines `Queue: 1 batch` of a header."""
    found = (re.match(r"\s*(\d+)\s*[-=:,]?\s*(\S.*)", line) for line in header.get("Queue", "").splitlines())
    return {int(match[1]): match[2].strip(" \t[]()'\"") for match in found if match}


def _queues(trace: Trace, wanted: tuple[str, ...]) -> list[int]:
    """Numbers of these queues, each a number or a name (or its first word)."""
    names = queue_names(trace.header)
    numbers = {word.lower(): number for number, name in reversed(names.items()) for word in (name.split()[0], name)}
    there = _known(trace, "queue", "queues")
    chosen: list[int] = []
    for queue in wanted:
        number = int(queue) if re.fullmatch(r"-?\d{1,15}", queue) else numbers.get(queue.lower())
        if number is None or number not in there:
            told = [f"{one} ({names[one]})" if one in names else str(one) for one in sorted(there)]
            raise WrongUse(f"the log has no job of the queue {queue!r}; it may be {_listed(told)}", parameter="queues")
        chosen.append(number)
    return chosen


def _users(trace: Trace, wanted: tuple[str, ...]) -> list[int]:
    there = _known(trace, "user", "users")
    for user in wanted:
        if not re.fullmatch(r"-?\d{1,15}", user) or int(user) not in there:
            told = _listed([str(one) for one in sorted(there)])
            raise WrongUse(f"the log has no job of the user {user!r}; it may be {told}", parameter="users")
    return [int(user) for user in wanted]


def _known(trace: Trace, column: str, parameter: str) -> set[int]:
    there = set(trace.frame[column].unique())
    if there == {-1}:
        raise WrongUse(f"the log does not say of which {column} its jobs are", parameter=parameter)
    return there


def _listed(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= _LISTED else f"{', '.join(names[: _LISTED - 1])}, ... {names[-1]}"


def _reason(trace: Trace, selection: Selection, unusable: pl.Expr | None) -> pl.Expr:
    """Why a line of the window is left out; null: it is not."""
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
    """The lines without a reason to leave them out, up to `jobs` of them, and the number left out above the last, by reason."""
    usable = pl.col("reason").is_null()
    count = window.select(usable.sum()).item()
    if count == 0:
        raise _nothing_left(window, selection)
    if selection.jobs is not None and selection.jobs > count:
        raise WrongUse(
            f"{selection.jobs} may be up to {count}, the log has no more usable jobs {_words(selection)}", parameter="jobs"
        )
    if selection.jobs is not None:
        window = window.filter(usable.cum_sum() - usable.cast(pl.UInt32) < selection.jobs)
    left_out = window.filter(~usable)["reason"].value_counts().sort("reason")
    return window.filter(usable), dict(left_out.iter_rows())


def _nothing_left(window: pl.DataFrame, selection: Selection) -> WrongUse:
    """The error of the parameter that leaves no job of the window, with the values that it may have."""
    remaining = window
    for parameter, wanted, column in (("queues", selection.queues, "queue"), ("users", selection.users, "user")):
        there = remaining[column].unique().sort()
        remaining = remaining.filter(pl.col("reason").fill_null("") != f"of another {column}")
        if wanted and remaining.is_empty():
            told = _listed([str(one) for one in there])
            message = f"no job {_words(selection)} is of {column} {', '.join(wanted)}; it may be {told}"
            return WrongUse(message, parameter=parameter)
    message = f"none of the log's jobs {_words(selection)} can be used with {selection.min_runtime:g}"
    return WrongUse(message, parameter="min_runtime")
