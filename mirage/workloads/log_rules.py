"""Judges a log before it is played: rules with a name, a severity, and what to do about it.

A rule looks at the selected jobs of a log, or at its header. It finds how many jobs (gaps, lines, labels) are as it says, and the
first of them. The severity is that of a run of these jobs: an error makes its results wrong, a warning may make them misleading,
a note says what the run does with them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

import polars as pl

from mirage.text.words import duration, number, percent
from mirage.traces.local_time import LocalTime
from mirage.traces.swf_header import EPOCH
from mirage.traces.swf_header import number as number_of
from mirage.traces.trace import Trace
from mirage.workloads.selection import Selection, choose

ERROR, WARNING, NOTE = "error", "warning", "note"
SEVERITIES = (ERROR, WARNING, NOTE)

_HOUR, _DAY, _WEEK = 3600.0, 86400.0, 7 * 86400.0
# A gap is a hole if it has a day or more, and if so many hours with submissions would be expected in it.
HOLE, HOLE_HOURS = _DAY, 24.0
# The beginning or end of a log, a fiftieth of it or a day, is thin if it has less than this share of the jobs of the median part,
# which has PART_JOBS or more. A part of less than LONG_PART may be a weekend.
PARTS, FEWEST_PARTS, PART_JOBS = 50, 4, 50
LONG_PART, THIN, THIN_IF_SHORT = 3 * _DAY, 0.1, 0.02
# A flurry is a burst of very high activity of one user (Feitelson and Tsafrir, "Workload sanitation for performance evaluation",
# ISPASS 2006). Here: in a period, the user submits so many times as many jobs as all users in the median one, at least FLURRY_JOBS
# and FLURRY_SHARE of all jobs. (Length of the log from which it is so, period, factor: hours differ more than weeks.)
FLURRY_PERIODS = ((8 * _WEEK, _WEEK, 5.0), (8 * _DAY, _DAY, 5.0), (0.0, _HOUR, 20.0))
FLURRY_JOBS, FLURRY_SHARE = 100, 0.01
_LARGEST_USER = 10**9
# Offered load below which hardly any job waits.
LOW_LOAD = 0.3
# Jobs from which waits of 0 mean that none were recorded.
MANY_JOBS = 100
# Share of jobs that requested exactly their run times, from which these are no estimates.
EXACT = 0.5
GENERATED = "generated"
"""Format of a workload that a model made."""
# Dates of a header are compared without their time zones.
DATES_AGREE = timedelta(days=1.5)


@dataclass(frozen=True)
class Found:
    """What a rule found: how many of how many (0: unknown), the first of them in words, and what they are."""

    count: int
    of: int
    example: str
    noun: str = "job"


@dataclass(frozen=True)
class Log:
    """What rules look at.

    trace: the whole log
    jobs: the selected jobs, an SWF frame sorted by submission
    processors: those of the machine that plays them, or of the log's own; None if unknown
    """

    trace: Trace
    jobs: pl.DataFrame
    processors: int | None = None

    @classmethod
    def of(cls, trace: Trace, selection: Selection, processors: int | None) -> Log:
        """The log with the jobs of a selection. Raises WrongUse as `selection.choose` does."""
        return cls(trace, choose(trace, selection)[0], processors)

    @cached_property
    def local(self) -> LocalTime:
        """The log's clock."""
        return LocalTime.of(self.trace)

    @cached_property
    def submits(self) -> pl.Series:
        """Known submissions in seconds, ascending."""
        return self.jobs["submit"].filter(self.jobs["submit"] >= 0)

    @property
    def span(self) -> float:
        """Seconds from the first to the last submission; 0 without two of them."""
        return float(self.submits[-1] - self.submits[0]) if len(self.submits) > 1 else 0.0

    def date(self, second: float) -> str:
        """A second of the log in the form that FROM and TO take."""
        date = self.local.date(second)
        return f"{second:.0f}" if date is None else date.isoformat(timespec="seconds")


@dataclass(frozen=True)
class Rule:
    """A row of RULES.

    name: stays the same. severity: one of SEVERITIES. title: what it finds. advice: what that does to an emulation, and what to do.
    find: what there is of it in a log; None: nothing. much: share from which it has its severity; below it is a note
    """

    name: str
    severity: str
    title: str
    advice: str
    find: Callable[[Log], Found | None]
    much: float = 0.0


@dataclass(frozen=True)
class Finding:
    """What a rule says of a log. count, of: number of jobs, or of what `noun` says, and of all of them (0: unknown)."""

    rule: str
    severity: str
    title: str
    count: int
    of: int
    noun: str
    example: str
    advice: str

    @property
    def share(self) -> float | None:
        """count / of; None if that is unknown."""
        return self.count / self.of if self.of else None

    @property
    def amount(self) -> str:
        """`12 jobs (3.1 %)`."""
        words = f"{number(self.count)} {self.noun}{'' if self.count == 1 else 's'}"
        return words if self.share is None else f"{words} ({percent(self.share)})"

    @property
    def line(self) -> str:
        """The finding in one line."""
        return f"{self.severity}: {self.rule}: {self.title}: {self.amount}, {self.example}; {self.advice}"

    def as_json(self) -> dict[str, Any]:
        """The members, and the share."""
        return {**asdict(self), "share": self.share}


def judged(log: Log) -> list[Finding]:
    """What the rules find in a log, errors first, each severity in the order of the table."""
    found = [finding for rule in RULES if (finding := _finding(rule, log)) is not None]
    return sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))


def severe(log: Log) -> list[Finding]:
    """The errors and warnings."""
    return [finding for finding in judged(log) if finding.severity != NOTE]


def _finding(rule: Rule, log: Log) -> Finding | None:
    if log.jobs.is_empty() or (found := rule.find(log)) is None or not found.count:
        return None
    is_much = not found.of or found.count >= rule.much * found.of
    severity = rule.severity if is_much else NOTE
    return Finding(rule.name, severity, rule.title, found.count, found.of, found.noun, found.example, rule.advice)


# ---- single jobs ----

_COL = pl.col
_SIZE = pl.max_horizontal("allocated_processors", "requested_processors")
_CANCELLED = (_COL("status") == 5) & (_COL("run_time") <= 0)
_ESTIMATED = (_COL("run_time") > 0) & (_COL("requested_time") > 0)


def _jobs(bad: pl.Expr, of: pl.Expr | None = None) -> Callable[[Log], Found | None]:
    """A finder of the selected jobs that are `bad`, among those that `of` selects."""

    found, among = (bad, pl.len()) if of is None else (bad & of, of.sum())

    def find(log: Log) -> Found | None:
        count, of_all, place = log.jobs.select(found.sum().alias("count"), among.alias("of"), found.arg_max().alias("place")).row(0)
        return _found(log.jobs, count, of_all, place)

    return find


def _found(jobs: pl.DataFrame, count: int, of: int, place: int) -> Found | None:
    return Found(count, of, f"the first is job {jobs['job_number'][place]}") if count else None


def _wide(log: Log) -> Found | None:
    return None if log.processors is None else _jobs(_SIZE.gt(log.processors))(log)


def _unsorted(log: Log) -> Found | None:
    late = log.trace.frame["submit"].diff().fill_null(0) < 0
    return _found(log.trace.frame, int(late.sum()), len(late), late.arg_max() or 0)


def _repeated(log: Log) -> Found | None:
    if "repeated_numbers" not in log.trace.notes:  # all readers count them
        return None
    return _jobs(~_COL("job_number").is_first_distinct())(log)


def _unread(log: Log) -> Found | None:
    unread = log.trace.unread
    first = min(unread.faults.items(), default=None)
    example = "" if first is None else f"the first is line {first[0]}: {first[1]}"
    return Found(unread.count, unread.lines, example, "line")


# ---- submissions over time ----


def _holes(log: Log) -> Found | None:
    """Gaps in which HOLE_HOURS or more hours with submissions would be expected, by their share of all hours. Many jobs in one hour
    count as one, so that a flurry makes no holes of quiet weeks."""
    if log.span < HOLE:
        return None
    submits = log.submits
    busy = (submits / _HOUR).floor().n_unique() / max(1.0, log.span / _HOUR)
    gaps = pl.DataFrame({"begin": submits.shift(1), "length": submits.diff()}).drop_nulls()
    holes = gaps.filter(_COL("length") >= max(HOLE, HOLE_HOURS * _HOUR / min(1.0, busy)))
    if holes.is_empty():
        return None
    begin, length = holes.row(0)
    total = float(holes["length"].sum())
    words = f"the first has {duration(length)} from {log.date(begin)} on, all together {percent(total / log.span)} of the log"
    return Found(holes.height, 0, words, "gap")


def _thin(is_end: bool) -> Callable[[Log], Found | None]:
    """A finder of a thin beginning or end; its jobs are those before (after) the first (last) part with half of the median."""

    def find(log: Log) -> Found | None:
        part = max(_DAY, log.span / PARTS)
        parts = int(log.span // part)
        if parts < FEWEST_PARTS:
            return None
        away = log.submits[-1] - log.submits.reverse() if is_end else log.submits - log.submits[0]
        counts = (away / part).floor().cast(pl.Int64).value_counts().rename({away.name: "part"})
        every = pl.DataFrame({"part": range(parts)}).join(counts, on="part", how="left").fill_null(0).sort("part")["count"]
        median = float(every.median() or 0.0)  # type: ignore[arg-type]
        if median < PART_JOBS or every[0] >= median * (THIN if part >= LONG_PART else THIN_IF_SHORT):
            return None
        first = int((every >= median / 2).arg_true()[0])
        jobs = int(every.head(first).sum())
        edge = log.date(log.submits[-1] - first * part if is_end else log.submits[0] + first * part)
        return Found(jobs, len(log.submits), f"{'TO' if is_end else 'FROM'}={edge} leaves out these {duration(first * part)}")

    return find


def _flurries(log: Log) -> Found | None:
    if log.span <= 0:
        return None
    period, factor = next((length, times) for least, length, times in FLURRY_PERIODS if log.span >= least)
    width = int(log.span // period) + 1
    known = log.jobs.lazy().filter(_COL("submit") >= 0)
    known = known.select("user", period=((_COL("submit") - log.submits[0]) / period).cast(pl.Int64))
    # One key of both is grouped in a fifth of the time.
    keys = known.select("period", key=_COL("user").clip(-1, _LARGEST_USER) * width + _COL("period"))
    counts = keys.group_by("key").agg(pl.len(), _COL("period").first()).collect()
    usual = counts.group_by("period").agg(_COL("len").sum())["len"].median()
    least = max(FLURRY_JOBS, FLURRY_SHARE * len(log.submits), factor * float(usual or 0))  # type: ignore[arg-type]
    bursts = counts.with_columns(user=(_COL("key") - _COL("period")) // width)
    bursts = bursts.filter(_COL("len") >= least, _COL("user") >= 0).sort("period", "user")
    if bursts.is_empty():
        return None
    count, place, user = bursts.select("len", "period", "user").row(0)
    begin = log.date(log.submits[0] + place * period)
    words = f"the first are {number(count)} of user {user} within {duration(period)} from {begin} on"
    return Found(int(bursts["len"].sum()), log.jobs.height, words)


# ---- load ----


def _load(log: Log) -> float | None:
    """Offered load: processors x run time of the jobs over the machine's processors x span; None if unknown."""
    if not log.processors or log.span <= 0:
        return None
    work = (pl.when(_COL("allocated_processors") > 0).then("allocated_processors").otherwise(_SIZE) * _COL("run_time")).clip(0)
    return float(log.jobs.filter(_COL("submit") >= 0).select(work.sum()).item()) / (log.processors * log.span)


def _of_load(is_bad: Callable[[float], bool]) -> Callable[[Log], Found | None]:
    def find(log: Log) -> Found | None:
        load = _load(log)
        if load is None or not is_bad(load):
            return None
        return Found(log.jobs.height, 0, f"offered load {percent(load)} of {number(log.processors)} processors")

    return find


# ---- the header of SWF ----


def _labels(*lines: str) -> Found | None:
    return Found(len(lines), 0, "; ".join(lines), "label") if lines else None


def _without(label: str, is_known: Callable[[Log], bool]) -> Callable[[Log], Found | None]:
    """A finder of a label that is missing or has no number, in a log that somebody recorded."""
    return lambda log: None if log.trace.format == GENERATED or is_known(log) else _labels(label)


def _header_contradicts(log: Log) -> Found | None:
    return _labels(*_contradictions(log)) if log.trace.format == "swf" else None


def _other_number(log: Log) -> Found | None:
    jobs, said = log.trace.frame.height + log.trace.unread.count, number_of(log.trace.header.get("MaxJobs"))
    if log.trace.format != "swf" or not said or said == jobs:
        return None
    return Found(abs(int(said) - jobs), int(said), f"MaxJobs is {said:.0f}, the log has {number(jobs)}")


def _contradictions(log: Log) -> Iterator[str]:
    """Labels whose values other facts of the log contradict."""
    frame, header = log.trace.frame, log.trace.header
    widest, last = frame.select(_SIZE.max(), _COL("submit").max()).row(0)
    given = {label: number_of(header.get(label)) for label in ("MaxProcs", "UnixStartTime")}
    if given["MaxProcs"] and widest > given["MaxProcs"]:
        yield f"MaxProcs is {given['MaxProcs']:.0f}, a job has {widest} processors"
    begin = given["UnixStartTime"]
    if not begin:
        return
    if last > EPOCH:
        yield f"UnixStartTime is {begin:.0f}, and submissions are in Unix time"
        return
    start, end = (_date(header.get(label)) for label in ("StartTime", "EndTime"))
    dates = [_naive(begin + second) for second in (0.0, last)]
    if start and dates[0] and abs(start - dates[0]) > DATES_AGREE:
        yield f"StartTime is {start:%Y-%m-%d}, UnixStartTime {dates[0]:%Y-%m-%d}"
    if end and dates[1] and dates[1] - end > DATES_AGREE:
        yield f"EndTime is {end:%Y-%m-%d}, a job was submitted on {dates[1]:%Y-%m-%d}"


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DATE = re.compile(r"[A-Za-z]{3,9},?\s+([A-Z][a-z]{2})[a-z]*\s+(\d{1,2})\s+[\d:]{5,8}\s+(?:\S{1,10}\s+)?(\d{4})\b", re.ASCII)


def _date(text: str | None) -> datetime | None:
    """The day of a label in the form of date(1), which does not depend on the locale; None for other text."""
    found = _DATE.match((text or "").strip())
    if found is None or found[1] not in _MONTHS:
        return None
    try:
        return datetime(int(found[3]), _MONTHS.index(found[1]) + 1, int(found[2]), 12)
    except ValueError:
        return None


def _naive(unix: float) -> datetime | None:
    try:
        return datetime(1970, 1, 1) + timedelta(seconds=unix)
    except OverflowError:
        return None


# ---- waits ----


def _no_waits(log: Log) -> Found | None:
    """All jobs, if their waits are unknown; or 0, which so many of them cannot be."""
    waits = log.jobs["wait"]
    if log.trace.format == GENERATED:
        return None
    is_none = (waits == -1).all() or ((waits <= 0).all() and log.jobs.height >= MANY_JOBS)
    return _jobs(_COL("wait") <= 0)(log) if is_none else None


def _exact(log: Log) -> Found | None:
    """Jobs that asked for exactly what they used, if there are so many that nobody can have estimated it."""
    exact = _jobs((_COL("requested_time") - _COL("run_time")).abs() < 1, _ESTIMATED)(log)
    return exact if exact is not None and exact.count >= EXACT * exact.of else None


RULES = (
    Rule(
        "unread-lines", WARNING, "lines that cannot be read",
        "their jobs are missing in the run: mend the lines", _unread, much=0.01,
    ),
    Rule(
        "header-contradicts", WARNING, "the header does not describe these jobs",
        "the machine, the weekday and dates are taken from it: correct the header, or give NODES and CPUS", _header_contradicts,
    ),
    Rule(
        "header-jobs", NOTE, "the header has another number of jobs",
        "the log is a part of another, or cleaned: some of the real machine's jobs are missing in the run", _other_number,
    ),
    Rule(
        "no-machine", NOTE, "the log does not say how large its machine was",
        "it is estimated, also for SIZES=scale: give NODES and CPUS",
        _without("MaxProcs", lambda log: bool(number_of(log.trace.header.get("MaxProcs")))),
    ),
    Rule(
        "no-date", NOTE, "the log does not say on which date it begins",
        "a run begins on an unknown weekday, and FROM and TO are seconds",
        _without("UnixStartTime", lambda log: log.local.begin is not None),
    ),
    Rule(
        "too-wide", ERROR, "jobs wider than the machine",
        "no run can start them: SIZES=fit leaves them out, SIZES=scale fits all sizes to the machine, or take more NODES", _wide,
    ),
    Rule(
        "no-processors", WARNING, "jobs of unknown size",
        "they are left out, so the run has less load than the machine had",
        _jobs((_COL("allocated_processors") <= 0) & (_COL("requested_processors") <= 0)), much=0.01,
    ),
    Rule(
        "no-run-time", WARNING, "jobs that ran for no time, or for an unknown one, and were not cancelled before",
        "they are left out: the run has fewer jobs than the scheduler had to start",
        _jobs((_COL("run_time") <= 0) & (_COL("status") != 5)), much=0.01,
    ),
    Rule(
        "cancelled-waiting", NOTE, "jobs cancelled before they started",
        "they are submitted, and cancelled when they were in the log; if that is unknown they are left out", _jobs(_CANCELLED),
    ),
    Rule(
        "hole", WARNING, "long times without any submission",
        "the queue runs empty in them, and means over time, such as utilisation, count them: take a part with FROM and TO", _holes,
    ),
    Rule(
        "thin-begin", WARNING, "the log begins with few jobs",
        "the record may begin in the middle; the empty cluster fills too slowly: begin later", _thin(is_end=False),
    ),
    Rule(
        "thin-end", WARNING, "the log ends with few jobs",
        "the record may end in the middle; utilisation counts the idle end: end earlier", _thin(is_end=True),
    ),
    Rule(
        "flurry", WARNING, "a user submits a large part of all jobs in a short time",
        "means over jobs then describe this user: take a part without it with FROM and TO, or the archive's cleaned log", _flurries,
    ),
    Rule(
        "over-limit", WARNING, "jobs that ran longer than they requested",
        "OVERRUN=extend gives them longer limits than the scheduler knew, OVERRUN=kill ends them at their limits",
        _jobs(_COL("run_time") > _COL("requested_time"), _ESTIMATED), much=0.05,
    ),
    Rule(
        "no-estimates", WARNING, "jobs without a requested time",
        "their limits are their run times, so backfilling is better than it was: ESTIMATES=tsafrir of make workload makes some",
        _jobs(_COL("requested_time") <= 0, _COL("run_time") > 0), much=0.1,
    ),
    Rule(
        "exact-estimates", WARNING, "jobs that requested exactly their run times",
        "nobody knows run times so well, so backfilling is better than it was: ESTIMATES=tsafrir of make workload makes others",
        _exact,
    ),
    Rule(
        "overload", WARNING, "more work than the machine can do",
        "the queue grows until the last submission, and waits depend on the number of jobs: take more NODES, or a part of the log",
        _of_load(lambda load: load > 1),
    ),
    Rule(
        "low-load", WARNING, "little work for the machine",
        "hardly any job waits, so that configurations cannot differ: take fewer NODES, or a busier part with FROM and TO",
        _of_load(lambda load: 0 < load < LOW_LOAD),
    ),
    Rule(
        "no-waits", NOTE, "the log records no waits",
        "submissions may be starts; nothing can be compared with the real machine, and PRESET is not possible", _no_waits,
    ),
    Rule(
        "impossible-times", WARNING, "jobs with negative times",
        "their waits or run times count as unknown: look for what made the log",
        _jobs(pl.any_horizontal((_COL(name) < 0) & (_COL(name) != -1) for name in ("submit", "wait", "run_time"))), much=0.01,
    ),
    Rule(
        "no-users", WARNING, "jobs without a user",
        "fair share, limits of users and figures by user do not see who submitted them", _jobs(_COL("user") < 0), much=0.1,
    ),
    Rule(
        "repeated-numbers", WARNING, "jobs with a number that an earlier one has",
        "they get new numbers: a preceding job, or a line of results, may be another one than in the log", _repeated, much=0.01,
    ),
    Rule(
        "unsorted", NOTE, "jobs submitted before the line above",
        "they are sorted by submission; many of them in SWF mean that several logs were joined", _unsorted,
    ),
)  # fmt: skip
"""The rules, in the order in which they are printed."""
