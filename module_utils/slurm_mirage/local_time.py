"""When, on the clock of the place where a log comes from, something in it happened."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import polars as pl

# Submissions later than this (1985 in Unix time) are dates, not seconds since the log's beginning.
_EPOCH = 5e8
# Within these a date has four digits for its year: Unix time of the years 1970 to 9999.
_DATES = (0.0, 253_402_214_400.0)
_DAY = 86400


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
    def of(cls, header: Mapping[str, str], frame: pl.DataFrame, format: str = "swf") -> LocalTime:
        """What the header of an SWF log says: UnixStartTime, and TimeZoneString or TimeZone (else UTC).

        Submissions that are dates by themselves (UnixStartTime 0, as in some logs) need no beginning. sacct prints the
        cluster's own clock without its zone, so that its hours are right as they are.
        """
        given = _number(header.get("UnixStartTime"))
        dates = (frame.select(pl.col("submit").median()).item() or 0) > _EPOCH
        begin = 0.0 if dates else given if given and given > 0 else None
        if begin is None:
            return cls(words="counted from the log's second 0, because it does not say when that was")
        if format == "sacct":
            return cls(begin, words="the cluster's own clock")
        name = header.get("TimeZoneString", "").strip()
        if _is_zone(name):
            return cls(begin, name, words=name)
        offset = _number(header.get("TimeZone"))
        if offset is not None and abs(offset) <= _DAY:
            return cls(begin, offset=offset, words=f"UTC{offset / 3600:+g} h")
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


def _number(text: str | None) -> float | None:
    found = re.match(r"\s*([+-]?\d{1,15}(\.\d+)?)\b", text or "", re.ASCII)
    return float(found[1]) if found else None


def _is_zone(name: str) -> bool:
    """Whether polars, which carries its own copy of the database, knows the zone."""
    try:
        pl.select(pl.lit(datetime(2000, 1, 1)).dt.replace_time_zone("UTC").dt.convert_time_zone(name))
    except pl.exceptions.PolarsError:
        return False
    return bool(name)
