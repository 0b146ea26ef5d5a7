"""Small run folders for the tests of collection and verdict: what a replay, Slurm and sigsleep would have left."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import polars as pl
from journals import start_event

from mirage.records.collect import collect
from mirage.records.record import RunRecord
from mirage.records.run_folder import RunFolder
from slurm_mirage.jobs import sigsleep_log
from slurm_mirage.jobs.plan import PlanRow, write_plan
from slurm_mirage.jobs.sigsleep_log import Record, Suspension
from slurm_mirage.rm.evidence import Scheduling
from slurm_mirage.rm.slurm.freed_processors import FREED_FILE, to_csv

REAL_ZERO = 1795199259.25
VIRTUAL_ZERO = 2000000000.5
ORIGIN = 5000.0
"""Trace seconds of the first submission."""

# Slurm 22.05.8's own, but for the values.
JOBCOMP = (
    "JobId={slurm_id} UserId=slurm-mirage(999) GroupId=slurm-mirage(995) Name={name} JobState={state} Partition=batch "
    "TimeLimit={limit} StartTime={start} EndTime={end} NodeList={nodes} NodeCnt={count} ProcCnt={cpus} "
    "WorkDir=/var/lib/a dir ReservationName= Tres=cpu=4,mem=1M,node=1,billing=4 Account= QOS= WcKey= Cluster=unknown "
    "SubmitTime={submit} EligibleTime={eligible} DerivedExitCode=0:0 ExitCode=0:0 \n"
)


class MadeFolder:
    """A run of jobs 1, 2, ... on a machine of 4 nodes with 16 processors.

    Instants are virtual seconds after the replay's start. A job is due at `due`, accepted `lag` real seconds later, and Slurm
    numbers it 100 + id.
    """

    def __init__(self, folder: Path, speed: float = 1.0, shrink: float = 100.0, zone: int = 0, **start: Any) -> None:
        self.folder, self.speed, self.shrink, self.zone = folder, speed, shrink, zone
        self.clock_kind = "constant"
        self.hosts: list[dict[str, str]] = []
        self.result: dict[str, Any] = {}
        self.plan: list[PlanRow] = []
        self.lags: list[float] = []
        known = {"real": REAL_ZERO, "virtual": VIRTUAL_ZERO, "boot_id": "0", "next_id": 101, "slurm_version": "22.05.8"}
        self.events: list[dict[str, Any]] = [start_event(**known | start)]
        self.jobcomp = self.suspended = ""
        self.freed: dict[int, tuple[float, float]] = {}
        self.sigsleep = b""
        self.settings: dict[str, Any] = {}
        """Further members of run.json."""
        self.files: dict[str, bytes] = {}
        """Further files by name."""
        self.workload: list[dict[str, Any]] = []

    def _event(self, event: str, after: float, **values: Any) -> dict[str, Any]:
        return {"event": event, "real": REAL_ZERO + after, **values}

    def printed(self, instant: float | None) -> str:
        """As Slurm prints an instant: local time of its zone, the fraction cut off."""
        if instant is None:
            return "Unknown"
        zone = timezone(timedelta(seconds=self.zone))
        return datetime.fromtimestamp(int(VIRTUAL_ZERO + instant), zone).strftime("%Y-%m-%dT%H:%M:%S")

    def job(
        self,
        due: float,
        runtime: float = 10.0,
        processors: int = 4,
        *,
        lag: float = 0.01,
        submitted: bool = True,
        limit_minutes: int = 60,
        nodes: int | None = None,
        cancel_after: float | None = None,
        dependency: str = "",
        memory: int | None = None,
        partition: str = "",
        qos: str = "",
        extras: Mapping[str, str] | None = None,
        request: str = "",
        array: int | None = None,
        at_once: int | None = None,
        **workload: Any,
    ) -> int:
        """Plan a job, and journal its submission; its id."""
        number = len(self.plan) + 1
        name = f"RUN.{number}"
        row = PlanRow(number - 1, number, due, processors, nodes, runtime, limit_minutes, cancel_after, partition, name)
        row = replace(
            row, dependency=dependency, memory=memory, qos=qos, extras=extras or {}, request=request, array=array, at_once=at_once
        )
        self.plan.append(row)
        self.lags.append(lag)
        times = {"submit": ORIGIN + due * 100 / self.shrink, "runtime": runtime * 100 / self.shrink}
        own = {"requested": 3600.0, "processors": processors, "ran": True, "preset": "", "not_played": ""}
        self.workload.append({"id": number, **times, **own, **workload})
        if submitted:
            self.submitted(number, 100 + number, lag)
        return number

    def submitted(self, number: int, slurm_id: int, lag: float = 0.01, event: str = "submitted", **values: Any) -> None:
        due = self.plan[number - 1].due / self.speed
        times = {"due": REAL_ZERO + due, "began": REAL_ZERO + due + max(0.0, lag - 0.005)}
        line = self._event(event, due + lag, index=number - 1, slurm_id=slurm_id, **times)
        self.events.append({**line, "retries": 0, **values})

    def accepted(self, number: int) -> float:
        """When the job was accepted the first time."""
        return self.plan[number - 1].due + self.lags[number - 1] * self.speed

    def slurm(
        self,
        number: int,
        start: float | None,
        end: float | None,
        state: str = "COMPLETED",
        *,
        ran: bool = True,
        slurm_id: int | None = None,
        submit: float | None = None,
        nodes: int = 2,
        hosts: str = "n[1-2]",
        eligible: float | None = None,
    ) -> None:
        """A line of the completion log."""
        row = self.plan[number - 1]
        submit = self.accepted(number) if submit is None else submit
        if ran and end is not None:
            self.freed[slurm_id or 100 + number] = end, end + 0.01 * self.speed
        where = {"nodes": hosts, "count": nodes, "cpus": row.processors} if ran else {"nodes": "(null)", "count": 0, "cpus": 0}
        self.jobcomp += JOBCOMP.format(
            slurm_id=slurm_id or 100 + number,
            name=row.name,
            state=state,
            limit=row.limit_minutes,
            start=self.printed(start),
            end=self.printed(end),
            submit=self.printed(submit),
            eligible=self.printed(submit if eligible is None else eligible),
            **where,
        )

    def stranger(self, name: str, slurm_id: int, submit: float, end: float, *, ran: bool = True) -> None:
        """A line of the completion log about a job that is not in the plan."""
        where = {"nodes": "n1", "count": 1, "cpus": 1} if ran else {"nodes": "(null)", "count": 0, "cpus": 0}
        times = {"submit": self.printed(submit), "eligible": self.printed(submit), "start": self.printed(end - 1)}
        line = JOBCOMP.format(slurm_id=slurm_id, name=name, state="COMPLETED", limit=1, end=self.printed(end), **times, **where)
        self.jobcomp += line.replace("UserId=slurm-mirage(999)", "UserId=somebody(1000)")

    def ended(self, after: float) -> None:
        """Journal the end of the replay, in virtual seconds after its start."""
        self.events.append(self._event("finished", after / self.speed))

    def record(
        self,
        number: int,
        start: float,
        end: float,
        *pauses: tuple[float, float],
        completed: bool = True,
        **values: Any,
    ) -> bytes:
        """A record of sigsleep, added to the log; its bytes."""
        stopped = sum(resume - suspend for suspend, resume in pauses)
        fields: dict[str, Any] = {"slurm_job_id": 100 + number, "restart": 0, **values}
        packed = sigsleep_log.pack(
            Record(
                id=number,
                cores=4,
                priority="batch",
                submission_ns=ns(0),
                start_ns=ns(start),
                end_ns=ns(end),
                runtime_ns=round(self.plan[number - 1].runtime * 1e9) if number <= len(self.plan) else 1,
                executed_ns=ns(end) - ns(start) - round(stopped * 1e9),
                completed=completed,
                suspensions=tuple(Suspension(ns(suspend), ns(resume)) for suspend, resume in pauses),
                **fields,
            )
        )
        self.sigsleep += packed
        return packed

    def played(self, number: int, start: float, launch: float = 0.03, **where: Any) -> None:
        """Both records of a job that Slurm started at `start` and that ran its time.

        launch: real seconds; where: nodes, hosts and eligible of `slurm`
        """
        begun = start + launch * self.speed
        end = begun + self.plan[number - 1].runtime
        self.record(number, begun, end)
        self.slurm(number, start, end + launch * self.speed, **where)

    def scontrol(self, number: int, state: str, start: float, end: float, suspend_time: float | None, before: int) -> None:
        """A line of suspended.jsonl."""
        times = {
            name: None if instant is None else int(VIRTUAL_ZERO + instant)
            for name, instant in {
                "submit": self.accepted(number),
                "eligible": self.accepted(number),
                "start": start,
                "end": end,
                "suspend_time": suspend_time,
            }.items()
        }
        row = {"slurm_id": 100 + number, "name": f"RUN.{number}", "state": state, "secs_pre_suspend": before}
        self.suspended += json.dumps({**row, **times}) + "\n"

    def write(self) -> Path:
        """Write the folder's files."""
        write_plan(self.folder / "plan.csv", self.plan)
        settings: dict[str, Any] = {"run": "RUN", "speed": self.speed, "shrink_percent": self.shrink, "clock_kind": self.clock_kind}
        settings |= self.settings
        settings |= {"hosts": self.hosts} if self.hosts else {}
        (self.folder / "run.json").write_text(json.dumps(settings))
        lines = "".join(json.dumps(event) + "\n" for event in self.events)
        if self.result:
            (self.folder / "result.json").write_text(json.dumps(self.result))
        (self.folder / "journal.jsonl").write_text(lines)
        (self.folder / "jobcomp.log").write_text(self.jobcomp)
        (self.folder / "suspended.jsonl").write_text(self.suspended)
        instants = {job: (VIRTUAL_ZERO + ended, VIRTUAL_ZERO + free) for job, (ended, free) in self.freed.items()}
        if instants:
            (self.folder / FREED_FILE).write_text(to_csv(instants))
        (self.folder / "sigsleep.log").write_bytes(self.sigsleep)
        for name, content in self.files.items():
            (self.folder / name).write_bytes(content)
        self.frame().write_csv(self.folder / "workload.csv")
        return self.folder

    def frame(self) -> pl.DataFrame:
        """The workload."""
        return pl.DataFrame(self.workload, infer_schema_length=None)

    def collect(self) -> RunRecord:
        return collect(RunFolder(self.write()))


def with_contents(name: str, **contents: Any) -> RunFolder:
    """A run's folder whose contents, members of RunFolder, are in memory."""
    folder = RunFolder(Path(name))
    vars(folder).update(contents)
    return folder


def beside(samples: pl.DataFrame, diagnostics: pl.DataFrame, result: Mapping[str, Any], **more: Any) -> RunFolder:
    """A run's folder with what was measured beside the records of the jobs. more: clock_offsets, complaints, scheduling"""
    known = {"samples": samples, "diagnostics": diagnostics, "result": result}
    return with_contents("run", **{"clock_offsets": {}, "complaints": {}, "scheduling": Scheduling(), **known, **more})


def ns(instant: float) -> int:
    """Virtual nanoseconds since the epoch of seconds after the replay's start."""
    return round(VIRTUAL_ZERO * 1e9) + round(instant * 1e9)


def row(run: RunRecord, number: int) -> dict[str, Any]:
    """A job's line of jobs.csv."""
    return run.jobs.filter(pl.col("id") == number).to_dicts()[0]


def kinds(run: RunRecord) -> list[tuple[int | None, str]]:
    """The disagreements, without their sizes."""
    return run.tables.disagreements.select("id", "kind").rows()
