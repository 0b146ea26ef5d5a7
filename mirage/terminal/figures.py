"""The figures of an instance as words: the rows that `make status` and `make watch` show, made in one place.

What they are made of has the shape that the module slurm_farm_info returns, and progress.json's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from mirage.terminal.screen import about, clock_time, start_line
from slurm_mirage.rm.slurm.records import BACKFILL

ORDER = ("running", "pending", "suspended")  # of the states of jobs; others follow by name


@dataclass(frozen=True)
class Row:
    """A line of the screen. `part` from 0 to 1 can be drawn as a bar; what is `urgent` wants to be seen."""

    label: str
    text: str
    part: float | None = None
    urgent: bool = False


def rows(info: Mapping[str, Any], progress: Mapping[str, Any] | None) -> list[Row]:
    """All that is known, most important first. `progress` is that of the run that goes on or has ended, None without a run."""
    runs = info["farm"]["phase"] != "stopped"
    found = daemons(info["farm"])
    if runs:
        found += _cluster(info)
    if progress is not None:
        found += _replay(progress)
    if runs:
        found.append(Row("clock", clock(info["clock"])))
        if trace := info.get("trace"):
            found.append(Row("trace", trace))
        found += _scheduler(info)
        found.append(Row("memory", f"{info['memory'] / 1024:.1f} GiB of the host available"))
    return found


def daemons(farm: Mapping[str, Any]) -> list[Row]:
    """The daemons of a host; the first row tells how many of them run."""
    if farm["phase"] == "stopped":
        return [Row("daemons", "none runs", urgent=True)]
    kinds = [f"{kind} {count['up']}/{count['wanted']}" for kind, count in farm["daemons"].items()]
    found = [Row("daemons", f"{', '.join(kinds)} ({farm['phase']}, {farm['restarts']} restarts)")]
    if (start := start_line(farm)) is not None:
        found.append(Row("start", start.removeprefix("starting nodes: ")))
    found += [Row("", f"{name} keeps ending: {why}", urgent=True) for name, why in farm["failing"].items()]
    return found + [Row("", f"refused by this host: {what} ({why})") for what, why in farm["refused"].items()]


def _cluster(info: Mapping[str, Any]) -> Iterator[Row]:
    nodes = counts(info["nodes"])
    yield Row("nodes", nodes or "slurmctld does not answer", urgent=not nodes)
    if (processors := info.get("processors")) and processors["all"]:
        busy, everything = processors["busy"], processors["all"]
        yield Row("cpus", f"{busy} of {everything} busy ({100 * busy / everything:.0f} %)", busy / everything)
    yield Row("jobs", counts(info["jobs"]) or "none")


def _replay(progress: Mapping[str, Any]) -> Iterator[Row]:
    """A run, from its progress.json."""
    jobs, submitted, done = (progress.get(key, 0) for key in ("jobs", "submitted", "done"))
    phase = progress.get("phase", "")
    yield Row("run", f"{progress.get('run', '')}: {phase}", urgent=phase in ("failed", "stopped"))
    if message := progress.get("message"):
        yield Row("", str(message), urgent=True)
    yield Row("replay", f"{submitted} of {jobs} submitted, {done} ended", done / jobs if jobs else None)
    if ended := counts(progress.get("ended") or {}):
        yield Row("ended", ended)
    yield Row("lag", ", ".join(_trouble(progress)))
    if (left := progress.get("time_left")) is not None and phase in ("submitting", "draining"):
        yield Row("left", _end(progress, left))


def _trouble(progress: Mapping[str, Any]) -> Iterator[str]:
    yield f"{progress.get('lag') or 0.0:.3f} s"
    for key, words in (
        ("retries", "retries"),
        ("resubmitted", "submitted again"),
        ("nodes_not_responding", "nodes silent"),
    ):
        if progress.get(key):
            yield f"{progress[key]} {words}"


def _end(progress: Mapping[str, Any], left: float) -> str:
    """`4:12, until about 05:01:33` of this machine's local time; with a date when that is another day."""
    now = datetime.fromtimestamp(progress.get("real") or 0.0)
    end = now + timedelta(seconds=left)
    return f"{clock_time(left)}, until about {end:{'%H:%M:%S' if end.date() == now.date() else '%Y-%m-%d %H:%M'}}"


def clock(times: Mapping[str, float] | None) -> str:
    """The instance's time beside this machine's, both in UTC, as the daemons have it."""
    if times is None:
        return "real time (SPEED=1)"
    virtual, real = (f"{datetime.fromtimestamp(times[key], UTC):%Y-%m-%d %H:%M:%S}" for key in ("virtual", "real"))
    return f"{virtual} in the cluster, {real} outside (UTC), SPEED={times['speed']:g}"


def _scheduler(info: Mapping[str, Any]) -> Iterator[Row]:
    """The backfill scheduler; cycles are measured on the cluster's clock."""
    diagnostics = info.get("scheduler") or {}
    last, longest, depth, queue = (diagnostics.get(key) for key in BACKFILL)
    if last is not None and longest is not None:
        told = f"last cycle {_length(last)}, longest {_length(longest)}"
        yield Row("backfill", told + (f", looked at {depth} of {queue} waiting" if depth is not None and queue is not None else ""))


def _length(microseconds: float) -> str:
    seconds = microseconds / 1e6
    return about(seconds) if seconds >= 90 else f"{seconds:.1f} s" if seconds >= 1 else f"{1000 * seconds:.1f} ms"


def counts(numbers: Mapping[str, int]) -> str:
    """`40 running, 12 pending, 3 completing`; what there is none of is left out."""
    there = [state for state, count in numbers.items() if count]
    known = [state for state in ORDER if state in there]
    return ", ".join(f"{numbers[state]} {state}" for state in [*known, *sorted(set(there) - set(known))])
