"""Converts between seconds of a log and local date and time at the site where it was recorded."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import polars as pl

from mirage.traces.swf_header import number
from mirage.traces.trace import Trace

# Submission times above this (1985 in Unix time) are Unix times, not seconds since the log's beginning.
_EPOCH = 5e8
_DAY = 86400.0
# Unix times that can be shown as dates with a four-digit year: 1970 to 9999.
_DATES = (0.0, 253_402_214_400.0)


@dataclass(frozen=True)
class LocalTime:
    """Second 0 of a log, and its time zone.

    begin: Unix time of second 0; None if unknown: hours are then counted from second 0, and no dates are known
    zone: name in the IANA time zone database, which includes summer time
    offset: seconds east of UTC, added to the zone's time
    words: description of the zone for use in a sentence
    """

    begin: float | None = None
    zone: str = "UTC"
    offset: float = 0.0
    words: str = "UTC"

    @classmethod
    def of(cls, trace: Trace) -> LocalTime:
        """Reads UnixStartTime, and TimeZoneString or TimeZone (default UTC), from the log's header.

        sacct prints local time of the cluster without a zone, so its hours are used unchanged unless the header has the zone.
        """
        begin = unix_start(trace)
        if begin is None:
            return cls(words="counted from the log's second 0, because it does not say when that was")
        name = trace.header.get("TimeZoneString", "").strip()
        if trace.format == "sacct" and not name:
            return cls(begin, words="the cluster's own clock")
        if _is_zone(name):
            return cls(begin, name, words=name)
        offset = number(trace.header.get("TimeZone"))
        if offset is not None and abs(offset) < _DAY:
            return cls(begin, offset=offset, words=f"UTC{offset / 3600:+g} h")
        return cls(begin, words="UTC; the log names no time zone")

    def local(self, seconds: pl.Expr) -> pl.Expr:
        """Converts seconds of the log to local datetimes without zone; null before 1970 and after the year 9999."""
        unix = seconds + (self.begin or 0.0)
        possible = pl.when(unix.is_between(*_DATES)).then(unix.floor().cast(pl.Int64))
        zoned = pl.from_epoch(possible, time_unit="s").dt.replace_time_zone("UTC").dt.convert_time_zone(self.zone)
        return zoned.dt.replace_time_zone(None) + pl.duration(seconds=int(self.offset))

    def date(self, second: float) -> datetime | None:
        """Local date and time at a second of the log; None if unknown."""
        if self.begin is None:
            return None
        date: datetime | None = pl.select(self.local(pl.lit(second, pl.Float64))).item()
        return date

    def second(self, date: datetime) -> float | None:
        """The second of the log at a local date and time (without zone); None if unknown.

        When summer time ends, an hour occurs twice: the first one counts. When it begins, an hour is skipped: a time within it
        is taken as one hour later.
        """
        if self.begin is None:
            return None
        zone_time = pl.lit(date - timedelta(seconds=int(self.offset)))
        unix = pl.coalesce(
            zone_time.dt.replace_time_zone(self.zone, ambiguous="earliest", non_existent="null").dt.epoch("us"),
            (zone_time + pl.duration(hours=1)).dt.replace_time_zone(self.zone, ambiguous="earliest").dt.epoch("us"),
        )
        return float(pl.select(unix).item()) / 1e6 - self.begin


def unix_start(trace: Trace) -> float | None:
    """Unix time of the trace's second 0: 0 if its submission times are Unix times, else the header's UnixStartTime.

    None if the header has no UnixStartTime, or 0, which stands for an unknown time.
    """
    first = trace.frame.select(pl.col("submit").filter(pl.col("submit") >= 0).min()).item()
    if first is not None and first > _EPOCH:
        return 0.0
    begin = number(trace.header.get("UnixStartTime")) or 0.0
    return begin if begin > 0 else None


def _is_zone(name: str) -> bool:
    """Whether the zone is in polars' copy of the time zone database."""
    try:
        pl.select(pl.lit(datetime(2000, 1, 1)).dt.replace_time_zone("UTC").dt.convert_time_zone(name))
    except pl.exceptions.PolarsError:
        return False
    return bool(name)
