"""When, on the clock of the place where a log comes from, something in it happened."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

import polars as pl

from .selection import unix_start
from .trace import Trace

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


def _is_zone(name: str) -> bool:
    """Whether polars, which carries its own copy of the database, knows the zone."""
    try:
        pl.select(pl.lit(datetime(2000, 1, 1)).dt.replace_time_zone("UTC").dt.convert_time_zone(name))
    except pl.exceptions.PolarsError:
        return False
    return bool(name)
