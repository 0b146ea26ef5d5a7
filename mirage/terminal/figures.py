"""Formats the state of an instance as rows for `make status` and `make watch`.

Arguments `info` are results of the module slurm_farm_info; `progress` is the content of progress.json.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from mirage.records.run_clock import EVENT
from mirage.terminal.screen import start_line, time_left
from mirage.text.words import about
from slurm_mirage.replay.real_left import real_left
from slurm_mirage.rm.api import BACKFILL_DIAGNOSTICS, Records
from slurm_mirage.rm.registry import records_of_daemons

ORDER = ("running", "pending", "suspended")  # states of jobs that come first; others follow by name


@dataclass(frozen=True)
class Row:
    """A line of the screen. part: a value from 0 to 1 that can be drawn as a bar; urgent: whether the row is highlighted."""

    label: str
    text: str
    part: float | None = None
    urgent: bool = False


def rows(info: Mapping[str, Any], progress: Mapping[str, Any] | None) -> list[Row]:
    """All rows, most important first. progress: of the current or last run; None without a run."""
    farm_runs = info["farm"]["phase"] != "stopped"
    shown = daemons(info["farm"])
    if farm_runs:
        shown += _cluster(info)
    if progress is not None:
        shown += _replay(progress)
    if farm_runs:
        shown.append(Row("clock", clock(info["clock"])))
        if trace := info.get("trace"):
            shown.append(Row("trace", trace))
        shown += _scheduler(info)
        shown.append(Row("memory", f"{info['memory'] / 1024:.1f} GiB of the host available"))
    return shown


def daemons(farm: Mapping[str, Any]) -> list[Row]:
    """The daemons of a host; the first row has the number of running daemons by kind."""
    if farm["phase"] == "stopped":
        return [Row("daemons", "none running", urgent=True)]
    kinds = [f"{kind} {count['up']}/{count['wanted']}" for kind, count in farm["daemons"].items()]
    shown = [Row("daemons", f"{', '.join(kinds)} ({farm['phase']}, {farm['restarts']} restarts)")]
    if (start := start_line(farm)) is not None:
        shown.append(Row("start", start.removeprefix("starting nodes: ")))
    shown += [Row("", f"{name} keeps ending: {error}", urgent=True) for name, error in farm["failing"].items()]
    return shown + [Row("", f"refused by this host: {feature} ({error})") for feature, error in farm["refused"].items()]


def _records(info: Mapping[str, Any]) -> Records:
    """The records of the resource manager whose daemons the farm has."""
    return records_of_daemons(info["farm"].get("daemons", {}))


def _cluster(info: Mapping[str, Any]) -> Iterator[Row]:
    nodes = counts(info["nodes"])
    names = _records(info).names
    yield Row("nodes", nodes or f"{names.controller} does not answer", urgent=not nodes)
    drained = sum(count for state, count in info["nodes"].items() if state.startswith(("drain", "offline")))
    if drained:
        how = f"`make cluster` returns them to service, or in `make shell` {names.return_nodes}"
        yield Row("", f"{drained} nodes are drained and take no jobs: {how}", urgent=True)
    if (processors := info.get("processors")) and processors["all"]:
        busy, total = processors["busy"], processors["all"]
        yield Row("cpus", f"{busy} of {total} busy ({100 * busy / total:.0f} %)", busy / total)
    yield Row("jobs", counts(info["jobs"]) or "none")


def _replay(progress: Mapping[str, Any]) -> Iterator[Row]:
    """Rows about a run."""
    jobs, submitted, done = (progress.get(key, 0) for key in ("jobs", "submitted", "done"))
    phase = progress.get("phase", "")
    yield Row("run", f"{progress.get('run', '')}: {phase}", urgent=phase in ("failed", "stopped"))
    if message := progress.get("message"):
        yield Row("", str(message), urgent=True)
    yield Row("replay", f"{submitted} of {jobs} submitted, {done} ended", done / jobs if jobs else None)
    if ended := counts(progress.get("ended") or {}):
        yield Row("ended", ended)
    yield Row("lag", ", ".join(_lag(progress)))
    if (left := time_left(progress)) is not None and phase in ("submitting", "draining"):
        yield Row("left", f"{left}, until {_expected_end(progress)}")


def _lag(progress: Mapping[str, Any]) -> Iterator[str]:
    yield f"{progress.get('lag') or 0.0:.3f} s"
    for key, words in (
        ("retries", "retries"),
        ("resubmitted", "submitted again"),
        ("nodes_not_responding", "nodes silent"),
    ):
        if progress.get(key):
            yield f"{progress[key]} {words}"


def _expected_end(progress: Mapping[str, Any]) -> str:
    """The expected end in local time: `05:01 to 05:09`, with dates if it is not today."""
    now = datetime.fromtimestamp(progress.get("real") or 0.0)
    first, last = (now + timedelta(seconds=left) for left in real_left(progress) or (0.0, 0.0))
    form = "%H:%M" if last.date() == now.date() else "%Y-%m-%d %H:%M"
    return f"{first:{form}} to {last:{form}}" if f"{first:{form}}" != f"{last:{form}}" else f"{last:{form}}"


def clock(times: Mapping[str, Any] | None) -> str:
    """Virtual and real time of the instance in UTC, which is the time zone of the daemons; of the event clock also its pace, the
    seconds of the cluster's time that passed lately in a real one."""
    if times is None:
        return "real time (SPEED=1)"
    virtual, real = (f"{datetime.fromtimestamp(times[key], UTC):%Y-%m-%d %H:%M:%S}" for key in ("virtual", "real"))
    sentence = f"{virtual} in the cluster, {real} outside (UTC)"
    if times["speed"] != EVENT:
        return f"{sentence}, SPEED={times['speed']:g}"
    pace = times.get("pace")
    return f"{sentence}, SPEED=event" + ("" if pace is None else f", lately {float(f'{pace:.2g}'):g} times as fast as real time")


def _scheduler(info: Mapping[str, Any]) -> Iterator[Row]:
    """The scheduler's cycles; their lengths are in virtual time."""
    records = _records(info)
    own = {name: key for key, name in records.diagnostic_names.items()}
    diagnostics = info.get("scheduler") or {}
    last, longest, depth, queue = (diagnostics.get(own.get(name, name)) for name in BACKFILL_DIAGNOSTICS)
    if last is not None and longest is not None:
        text = f"last cycle {_length(last)}, longest {_length(longest)}"
        yield Row(
            records.names.cycle.removesuffix(" cycle"),
            text + (f", looked at {depth} of {queue} waiting" if depth is not None and queue is not None else ""),
        )


def _length(microseconds: float) -> str:
    seconds = microseconds / 1e6
    return about(seconds) if seconds >= 90 else f"{seconds:.1f} s" if seconds >= 1 else f"{1000 * seconds:.1f} ms"


def counts(numbers: Mapping[str, int]) -> str:
    """Numbers by state, without zeros: `40 running, 12 pending, 3 completing`."""
    states = [state for state, count in numbers.items() if count]
    first = [state for state in ORDER if state in states]
    return ", ".join(f"{numbers[state]} {state}" for state in [*first, *sorted(set(states) - set(first))])
