"""Folders of finished runs, comparisons and sweeps, with all that their pages show."""

from __future__ import annotations

import gzip
import io
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import simulated_runs

from mirage.campaign.conclusion import Member, conclude
from mirage.campaign.sweep_table import SHOWN
from mirage.records import wait_causes
from mirage.records.recorded import recorded_of
from mirage.records.run_folder import RunFolder
from mirage.reports.run_data import Run
from mirage.terminal.screen import Screen
from mirage.traces import log_text, swf
from mirage.traces.trace import read_trace
from mirage_extras.filler.metrics import FILLERS_FILE, FILLERS_SCHEMA, SLOT
from slurm_mirage.base.errors import WrongUse

SUSPENSIONS = pl.DataFrame({"job": [3, 3], "suspend": [1.0, 3.0], "resume": [2.0, 4.0]}, schema_overrides={"job": pl.Int64})


def suspended(jobs: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The schedule with job 3 suspended twice in the first half of its execution, and the suspensions."""
    start, end = jobs.filter(pl.col("id") == 3).select("start", "end").row(0)
    eighth = (end - start) / 8
    pauses = SUSPENSIONS.with_columns(pl.col("suspend") * eighth + start, pl.col("resume") * eighth + start)
    stopped = pl.when(pl.col("id") == 3).then(2 * eighth).otherwise("suspended")
    return jobs.with_columns(suspended=stopped), pauses


def a_log(path: Path, jobs: pl.DataFrame, waits: float) -> dict[str, Any]:
    """Writes a log of these jobs, each with a wait of `waits` seconds; returns its description in experiment.json."""
    text = ["; Computer: Test", "; MaxProcs: 64"]
    for job in jobs.iter_rows(named=True):
        run = int(job["end"] - job["start"])
        text.append(f"{job['id']} {int(job['submit'])} {waits:.0f} {run} {job['processors']}" + " -1" * 13)
    path.write_bytes(gzip.compress(("\n".join(text) + "\n").encode()))
    assert swf.parse_swf(gzip.decompress(path.read_bytes()), "")[0].height == jobs.height
    return {"path": str(path), "sha256": log_text.load(path).sha256, "format": "swf"}


def a_run(folder: Path, **more: Any) -> dict[str, Any]:
    """Writes a run of 60 jobs on 16 nodes with 4 processors."""
    jobs, pauses = suspended(simulated_runs.jobs_of(60, 16, 4))
    workload = jobs.select("id", "submit").with_columns(preset=pl.lit(""))
    workload.write_csv(_there(folder) / "workload.csv")
    if (log := more.get("trace", {}).get("path")) and not more.get("SUBMISSION"):
        _record(folder, log, workload)
    return simulated_runs.write(folder, jobs, 16, 4, suspensions=pauses, **more)


def _record(folder: Path, log: str, workload: pl.DataFrame) -> None:
    """Writes recorded.csv, unless the log has none of the waits, as an experiment does."""
    with suppress(WrongUse):
        recorded_of(read_trace(log), workload).write_csv(folder / "recorded.csv")


def _there(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


# ---- a run with all sections ----


def a_run_with_everything(folder: Path, log: Path) -> None:
    """Writes a run whose page has all sections: suspensions, a log, causes of waits, events, changes of size, fillers, GPUs,
    fair shares, and a site."""
    jobs, _ = suspended(simulated_runs.jobs_of(60, 16, 4))
    number = pl.col("id")
    jobs = jobs.with_columns(partition=pl.when(number % 4 == 0).then(pl.lit("long")).otherwise(pl.lit("batch")))
    jobs.select("id", "submit", preset=pl.lit(""), user=number % 3, partition_name="partition").write_csv(
        _there(folder) / "workload.csv"
    )
    described = a_log(log, jobs, 2400)
    _record(folder, str(log), pl.read_csv(folder / "workload.csv", schema_overrides={"preset": pl.String}))
    found = simulated_runs.write(folder, jobs, 16, 4, suspensions=suspended(jobs)[1], trace=described)
    busy, _ = Run.of(RunFolder(folder)).levels()
    begin, end = found["settings"]["window"]
    found |= _waited(folder, jobs) | _happened(begin, end) | _resized() | _filled(folder, busy.times, busy.values, begin, end)
    found["gpus"] = [{"type": "", "gpus": 8, "jobs": 10, "wait_mean": 100.0, "utilisation": 0.5, "idle_while_asked": 0.1}]
    found["metrics"] |= {"filler_load": 0.2, "total_load": 0.8, "absent_fraction": 0.05, "utilisation_available": 0.7}
    found["not_played"] = {"gres": {"jobs": 3, "share": 0.05}, "any": {"jobs": 3, "share": 0.05}}
    (folder / "metrics.json").write_text(json.dumps(found))
    described = json.loads((folder / "experiment.json").read_text())
    described["site"] = {
        "taken": {"accounts": 12, "QOS": 3},
        "approximated": {"fair-share usage": 12},
        "absent": {"AllowGroups": 3},
    }
    (folder / "experiment.json").write_text(json.dumps(described))
    instants = RunFolder(folder).diagnostics["virtual"].to_list()
    shares = [
        f"{at},lab{lab},0.125,{lab / 10},{0.1 * lab + 0.02 * place}" for place, at in enumerate(instants) for lab in range(1, 7)
    ]
    (folder / "shares.csv").write_text("\n".join(["virtual,account,share,usage,factor", *shares]) + "\n")


def _waited(folder: Path, jobs: pl.DataFrame) -> dict[str, Any]:
    """Spans of eight causes: six with colours of their own, another one, and what is not explained. Each job waits for two."""
    causes = [*list(wait_causes.CAUSES)[:7], wait_causes.UNEXPLAINED]
    rows = [
        (job, begin, end, causes[(job + place) % len(causes)], "")
        for job, submit, start in jobs.select("id", "submit", "start").iter_rows()
        if start > submit
        for place, (begin, end) in enumerate(((submit, (submit + start) / 2), ((submit + start) / 2, start)))
    ]
    spans = pl.DataFrame(rows, schema=wait_causes.WAITS_SCHEMA, orient="row")
    spans.write_csv(folder / "waits.csv")
    users = jobs.select("id", user=pl.col("id") % 3)
    return {"wait_causes": wait_causes.summary(spans, jobs, users, 64, has_reasons=True)}


def _happened(begin: float, end: float) -> dict[str, Any]:
    """A failure of some nodes, a refused event, a reservation, and a controller that was killed."""
    length = end - begin
    common = {"source": "a.csv:1", "outcome": "done", "words": "", "jobs": 2, "executions": 2, "processor_hours": 15.34}
    events = [
        {**common, "number": 0, "action": "fail", "target": "n[1-2,4]", "instant": 0.2 * length, "played": begin + 0.2 * length},
        {**common, "number": 1, "action": "kill-controller", "target": "", "instant": 0.6 * length, "played": begin + 0.6 * length},
        {**common, "number": 2, "action": "resume", "target": "n3", "instant": 0.7 * length, "played": None, "outcome": "refused"},
    ]
    absent = {"number": 0, "action": "fail", "nodes": "n[1-2,4]", "begin": begin + 0.2 * length, "end": begin + 0.3 * length}
    reserved = {"number": 3, "name": "week", "announced": begin, "begin": begin + 0.4 * length, "end": begin + 0.5 * length}
    member = {
        "counts": {"done": 2, "refused": 1},
        "lost": {"failure of a node": {"executions": 2, "processor_hours": 15.34}},
        "halted_by_events": 6.0,
        "absences": [absent],
        "reservations": [{**reserved, "nodes": "n[1-4]", "is_maintenance": True}],
        "events": events,
    }
    return {"events": member}


def _resized() -> dict[str, Any]:
    times = {"mean": 0.5, "std": 0.1, "min": 0.2, "max": 0.9}
    done = {"count": 3, **times, "per_job": 0.3, "not_done": 1, "cost_mean": 2.5}
    return {"resizes": {"malleable_jobs": 10, "checks": 30, "none": {"count": 24, **times}, "expand": done, "shrink": done}}


def _filled(folder: Path, times: Any, values: Any, begin: float, end: float) -> dict[str, Any]:
    """A filler on the processors that are idle, but for two, in each of 40 equal parts of the run."""
    edges = np.linspace(begin, end, 41)
    rows = []
    for place in range(40):
        inside = (times[:-1] < edges[place + 1]) & (times[1:] > edges[place])
        idle = 62 - int(values[inside].max(initial=0.0))
        if idle > 0:
            row = {"filler": place + 1, "execution": 1, "node": "n1", "processors": idle, "outcome": SLOT}
            rows.append({**row, "start": edges[place], "ready": edges[place], "end": edges[place + 1], "useful": 1.0, "saves": 1})
    table = pl.DataFrame(rows).select(
        (pl.col(name) if name in rows[0] else pl.lit(None)).cast(kind).alias(name) for name, kind in FILLERS_SCHEMA.items()
    )
    table.write_csv(folder / FILLERS_FILE)
    shares = {"main": 0.6, "filler": 0.2, "idle": 0.2, "useful": 0.15, "lost": 0.02, "overhead": 0.03}
    parts = [{"begin": begin + k * (end - begin) / 6, **shares} for k in range(6)]
    counts = {"fillers": len(rows), "executions": len(rows), "saves": len(rows), "failed_saves": 0, "work": 3600.0}
    member = {"variant": "slots", **counts, "outcomes": {SLOT: len(rows)}, "bound": None, "over_time": parts, "faults": []}
    return {"fillers": member}


# ---- comparison, sweep, log ----


def a_comparison(folder: Path) -> None:
    members = []
    for replica in (1, 2):
        for label, policy in (("fifo", "fcfs"), ("backfill", "easy")):
            jobs = simulated_runs.jobs_of(80, 16, 4, policy)
            name = f"{label}-{replica}"
            simulated_runs.write(_there(folder) / name, jobs, 16, 4, CONFIG=label, invalid=("noise",) if name == "fifo-2" else ())
            members.append(Member(label, replica, name))
    described = {"inputs": {"CONFIGS": "fifo backfill"}, "comparison": [vars(member) for member in members]}
    (folder / "experiment.json").write_text(json.dumps(described))
    conclude(folder, members, Screen(io.StringIO()))


def a_sweep(folder: Path) -> None:
    lines = [",".join(("shrink", "run", "ending", "completed", *SHOWN))]
    for shrink, ending, value in ((100, "ok", "10"), (50, "ok", "12.5"), (20, "inconclusive", "13"), (10, "invalid", "")):
        lines.append(",".join((str(shrink), f"s-{shrink}", ending, "60", *([value] * len(SHOWN)))))
    (_there(folder) / "sweep.csv").write_text("\n".join(lines) + "\n")
    (folder / "experiment.json").write_text(json.dumps({"inputs": {"SHRINK": "100,50,10"}}))


def a_full_log(path: Path) -> None:
    """Writes a log of two weeks that records dates, requested times and users."""
    text = ["; Computer: Test", "; MaxProcs: 64", "; UnixStartTime: 1000000000", "; TimeZoneString: Europe/Stockholm"]
    for job in simulated_runs.jobs_of(1000, 16, 4, load=0.7).iter_rows(named=True):
        run, wait = int(job["end"] - job["start"]), int(job["start"] - job["submit"])
        user = job["id"] % 17 % 7 + 1
        size, asked = job["processors"], max(60, int(run * (1 + job["id"] % 5)))
        text.append(f"{job['id']} {int(job['submit'])} {wait} {run} {size} -1 -1 {size} {asked} -1 1 {user} 1 -1 1 -1 -1 -1")
    path.write_bytes(gzip.compress(("\n".join(text) + "\n").encode()))
