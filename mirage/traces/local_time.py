"""When, on the clock of the place where a log comes from, something in it happened."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

import polars as pl

from mirage.traces.trace import Trace

# Submissions later than this (1985 in Unix time) are dates, not seconds since the log's beginning.
_EPOCH = 5e8
# Within these a date has four digits for its year: Unix time of the years 1970 to 9999.
_DATES = (0.0, 253_402_214_400.0)


@dataclass(frozen=True)
class LocalTime:
    """A log's second 0, and its time zone.

    begin: Unix time of second 0; None: not known, hours are counted from second 0 on, and there are no dates
    zone: name in the IANA time zone database; it knows of summer time
    offset: seconds east of UTC, added to the zone's time
    words: the zone as it is called in a sentence
    """

    begin: float | None = None
    zone: str = "UTC"
    offset: float = 0.0
    words: str = "UTC"

    @classmethod
    def of(cls, trace: Trace) -> LocalTime:
        """What the header of a log says: UnixStartTime, and TimeZoneString or TimeZone (else UTC).

        sacct prints the cluster's own clock without its zone, so that its hours are right as they are.
        """
        begin = unix_start(trace)
        if begin is None:
            return cls(words="counted from the log's second 0, because it does not say when that was")
        if trace.format == "sacct":
            return cls(begin, words="the cluster's own clock")
        name = trace.header.get("TimeZoneString", "").strip()
        if _is_zone(name):
            return cls(begin, name, words=name)
        offset = re.fullmatch(r"\s*([+-]?\d{1,5})\s*", trace.header.get("TimeZone", ""), re.ASCII)
        if offset:
            return cls(begin, offset=float(offset[1]), words=f"UTC{int(offset[1]) / 3600:+g} h")
        return cls(begin, words="UTC; the log names no time zone")

    def local(self, seconds: pl.Expr) -> pl.Expr:
        """Seconds of the log as datetimes of the place, without zone; null beyond the year 9999, or before 1970."""
        unix = seconds + (self.begin or 0.0)
        possible = pl.when(unix.is_between(*_DATES)).then(unix.floor().cast(pl.Int64))
        there = pl.from_epoch(possible, time_unit="s").dt.replace_time_zone("UTC").dt.convert_time_zone(self.zone)
        return there.dt.replace_time_zone(None) + pl.duration(seconds=int(self.offset))

    def date(self, second: float) -> datetime | None:
        """The place's date and time at a second of the log; None if it is not known."""
        if self.begin is None:
            return None
        found: datetime | None = pl.select(self.local(pl.lit(second, pl.Float64))).item()
        return found

    def second(self, date: datetime) -> float | None:
        """The second of the log at a date and time (without zone) of the place, None if it is not known. Of an hour that comes
        twice, when summer time ends, it is the first; in one that is left out it is that of an hour later."""
        if self.begin is None:
            return None
        there = pl.lit(date - timedelta(seconds=int(self.offset)))
        unix = pl.coalesce(
            there.dt.replace_time_zone(self.zone, ambiguous="earliest", non_existent="null").dt.epoch("us"),
            (there + pl.duration(hours=1)).dt.replace_time_zone(self.zone, ambiguous="earliest").dt.epoch("us"),
        )
        return float(pl.select(unix).item()) / 1e6 - self.begin


def unix_start(trace: Trace) -> float | None:
    """Unix time of the trace's second 0: 0 where submissions are dates themselves, else the header's UnixStartTime. None if the
    log does not say (a UnixStartTime of 0 is what is written where it is not known)."""
    first = trace.frame.select(pl.col("submit").filter(pl.col("submit") >= 0).min()).item()
    if first is not None and first > _EPOCH:
        return 0.0
    said = re.match(r"\d+(\.\d+)?", trace.header.get("UnixStartTime", ""))
    return float(said[0]) or None if said else None


def _is_zone(name: str) -> bool:
    """Whether polars, which carries its own copy of the database, knows the zone."""
    try:
        pl.select(pl.lit(datetime(2000, 1, 1)).dt.replace_time_zone("UTC").dt.convert_time_zone(name))
    except pl.exceptions.PolarsError:
        return False
    return bool(name)
