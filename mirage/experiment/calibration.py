"""SPEED=auto: replays a short workload on the instance, measures the cost of its jobs, and chooses a speed.

The calibration is a run of its own, RUN.calibration, at a moderate speed, with its records in results/RUN/calibration. Its parts:

* jobs one after the other on an idle machine: the cost of a single job;
* a burst of more jobs than a host can launch in a second: the number of jobs launched per second;
* a job as wide as the machine, and a queue behind it: the length of a backfill cycle by the number of waiting jobs.

The chosen speed is written to results/RUN/calibration.json. It is an input of the run from then on: a run that is continued uses
it again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
from polars import col

from mirage.experiment import speed_choice
from mirage.experiment.endings import Failed
from mirage.experiment.prepare import Prepared
from mirage.experiment.runs import calibration_of
from mirage.experiment.speed_choice import Choice, Cost, Demand
from mirage.knobs.parse import AUTO, Speed
from mirage.records.collect import collect
from mirage.records.file_names import CALIBRATION_FILE, EXPERIMENT_FILE, PLAN_FILE, WORKLOAD_FILE
from mirage.records.record import RunRecord
from mirage.records.run_folder import RunFolder
from mirage.records.run_records import NS
from mirage.terminal.screen import Screen
from mirage.text.words import about
from mirage.verdict.thresholds import Thresholds
from slurm_mirage.base.files import write_atomically, write_json
from slurm_mirage.jobs.plan import PlanRow, write_plan

SPEED = Decimal(100)
"""Speed of the calibration run. The resolution of Slurm's times is a virtual second, which is 10 ms of real time at this speed."""
_VARIABLES = {"experiment_sample_interval": 1.0, "experiment_shrink": 100.0}

ALONE, BURST, QUEUE = 30, 150, 100
"""Number of jobs of each part, without the wide job."""
_GAP = 80.0  # virtual seconds between the submissions of the single jobs
_REST = 200.0  # virtual seconds from the last single job to the burst
_BURST_LASTS = 800.0  # virtual seconds from the burst to the wide job: enough for 19 jobs per real second
_WIDE_RUNS = 500.0
_SHORT_RUNS = 5.0
_LIMIT = 60  # minutes
_DITHER = 1.0  # run times of single jobs are spread over a virtual second, because Slurm truncates times to seconds
_QUIET = 0.7  # busy share of the host that single jobs and idle daemons do not reach: above it, other programs use the host
_DEEP = 20  # smallest number of waiting jobs for which a backfill cycle is divided by their number

# Replays the plan in a folder: name of the run, speed, folder, additional variables of Ansible.
Replay = Callable[[str, Speed, Path, Mapping[str, Any]], None]


def speed_for(prepared: Prepared, folder: Path, replay: Replay, screen: Screen) -> Speed:
    """The speed of the run in `folder`: SPEED, or with auto the speed chosen by an earlier or a new calibration.

    Raises the exceptions of `replay`, and Failed if jobs of the calibration did not complete.
    """
    if earlier := RunFolder(folder).calibration:
        screen.say(f"SPEED={earlier['speed']:g}, which was picked for this run before")
        return Decimal(f"{earlier['speed']:g}")
    if (speed := prepared.knobs.clock.speed) != AUTO:
        return speed
    screen.say(f"first a calibration at SPEED={SPEED}, about {about(_duration())} and the start of the nodes")
    calibration = folder / "calibration"
    processors = prepared.knobs.nodes.machine.processors
    _write(calibration, calibration_of(folder.name), narrowest=_narrowest(prepared), processors=processors)
    replay(calibration_of(folder.name), SPEED, calibration, _VARIABLES)
    run = RunFolder(calibration)
    measurement = measure(run)
    choice = speed_choice.choose(demand_of(prepared), measurement.cost, Thresholds.in_force({}, run.scheduling))
    for line in [*measurement.lines(), *choice.lines()]:
        screen.say(line)
    if choice.speed == 1 and prepared.knobs.clock.saves == "memory":
        screen.say("SAVES=memory changes nothing at SPEED=1: slurmctld saves to the disk")
    return _store(folder, measurement, choice)


def demand_of(prepared: Prepared) -> Demand:
    """The demand of the run's workload on the host."""
    jobs = prepared.workload.jobs
    processors = prepared.knobs.nodes.machine.processors
    limits = (jobs["limit_minutes"] * 60).to_list()
    return Demand.of(prepared.dues, prepared.executions(), limits, jobs["processors"].to_list(), processors)


@dataclass(frozen=True)
class Measurement:
    """Costs of jobs, and load of the host, measured by a calibration."""

    cost: Cost
    rate: float
    """Jobs per real second in the burst."""
    busy_alone: float | None
    """Mean busy share of the host's processors during the single jobs; None: not sampled."""
    busy_burst: float | None
    """Mean busy share during the burst; None: not sampled."""

    def lines(self) -> list[str]:
        """Describes the costs for the user: `here a job holds its processors for 31 ms longer than it runs ...`.

        A second line warns if other programs seem to use the host.
        """
        ms = {
            name: f"{value * 1000:.{1 if value < 0.01 else 0}f} ms"
            for name, value in asdict(self.cost).items()
            if value is not None
        }
        busy = "" if self.busy_burst is None else f" (the host's processors busy to {self.busy_burst:.0%})"
        backfill = f"; a backfill cycle takes {ms['backfill']} for each waiting job" if "backfill" in ms else ""
        lines = [
            f"here a job holds its processors for {ms['hold_p50']} longer than it runs (p99 {ms['hold_p99']}) and starts "
            f"{ms['start']} after its submission; at once {self.rate:.0f} jobs a second{busy}{backfill}"
        ]
        if (alone := self.busy_alone or 0.0) > _QUIET:
            lines.append(
                f"warning: with one job at a time the host's processors were busy to {alone:.0%}: something else works here, and "
                "a speed is picked for the host as it was meanwhile"
            )
        return lines


def measure(run: RunFolder) -> Measurement:
    """Read the costs from the records of a calibration. Raises Failed unless all of its jobs completed."""
    record = collect(run)
    incomplete = record.jobs.filter(col("state") != "COMPLETED")
    if incomplete.height or record.replay.unsubmitted:
        states = ", ".join(f"{count} {state}" for state, count in incomplete["state"].value_counts(sort=True).iter_rows())
        raise Failed(f"SPEED=auto: jobs of the calibration did not complete ({states or 'not submitted'}): see {run.path}")
    speed = record.time.clock.speed
    parts = record.jobs.join(record.evidence.select("id", "stretch"), on="id", maintain_order="left")
    alone, burst = parts.filter(col("id") <= ALONE), parts.filter(col("id").is_between(ALONE + 1, ALONE + BURST))
    hold_p50 = max(0.0, _quantile(alone["stretch"], 0.5) / speed)
    submit = max(0.0, _quantile(alone["submit_lag"], 0.5) / speed)
    seconds = _seconds_per_job(burst, speed)
    cost = Cost(
        hold_p50=hold_p50,
        hold_p99=max(hold_p50, (_quantile(alone["stretch"], 0.99) - speed_choice.RESOLUTION) / speed),
        start=max(0.0, (_quantile(alone["start"] - alone["submit"] - alone["submit_lag"], 0.5) - speed_choice.RESOLUTION) / speed),
        submit=submit,
        launch=max(0.0, seconds - submit),
        backfill=_backfill(run.diagnostics, speed),
    )
    return Measurement(cost, 1 / seconds, *(_busy(run.samples, part, record) for part in (alone, burst)))


def _quantile(values: pl.Series, share: float) -> float:
    quantile = values.drop_nulls().quantile(share, "linear")
    if quantile is None:
        raise Failed("SPEED=auto: the calibration's records do not show how long its jobs took")
    return quantile


def _seconds_per_job(burst: pl.DataFrame, speed: float) -> float:
    """Real seconds per job of the burst, from the due time of the first job to the last end."""
    due, last = burst.select(col("submit").min(), col("end").max()).row(0)
    return float((last - due - _SHORT_RUNS) / speed / burst.height)


def _backfill(diagnostics: pl.DataFrame, speed: float) -> float | None:
    """Largest length of a backfill cycle in real seconds per waiting job; None without data.

    The controller measures cycles in virtual time.
    """
    columns = ("backfill_last_cycle_us", "backfill_queue_length")
    if not set(columns) <= set(diagnostics.columns):
        return None
    cycle, queue = (col(name) for name in columns)
    seconds: float | None = diagnostics.filter(queue >= _DEEP).select((cycle / queue).max()).item()
    return None if seconds is None else seconds * 1e-6 / speed


def _busy(samples: pl.DataFrame, part: pl.DataFrame, record: RunRecord) -> float | None:
    """Mean busy share of the host's processors from the first submission to the last end in `part`; None without samples."""
    if not {"virtual", "cpu_busy"} <= set(samples.columns):
        return None
    during = samples.filter(record.time.trace(col("virtual") * NS).is_between(part["submit"].min(), part["end"].max()))
    share: float | None = during.select(col("cpu_busy").mean()).item()
    return None if share is None else round(share, 3)


def _store(folder: Path, measurement: Measurement, choice: Choice) -> Decimal:
    """Write calibration.json, and the chosen speed into experiment.json; returns the speed."""
    write_json(folder / EXPERIMENT_FILE, RunFolder(folder).experiment | {"clock": {"asked": "auto", "speed": choice.speed}})
    chosen = choice.as_json()
    measured = {"calibration_speed": float(SPEED), **asdict(measurement)}
    write_json(folder / CALIBRATION_FILE, {"asked": "auto", "speed": chosen.pop("speed"), **chosen, "found": measured})
    return Decimal(f"{choice.speed:g}")


# ---- the workload ----


def plan(run: str, narrowest: int, processors: int) -> list[PlanRow]:
    """The jobs of the calibration in order of submission: single jobs, the burst, the wide job, the queue."""
    burst_at = _GAP * ALONE + _REST
    queue_at = burst_at + _BURST_LASTS
    jobs = [
        *((_GAP * k, narrowest, _SHORT_RUNS + _DITHER * k / ALONE) for k in range(ALONE)),
        *[(burst_at, narrowest, _SHORT_RUNS)] * BURST,
        (queue_at, processors, _WIDE_RUNS),
        *[(queue_at, narrowest, _SHORT_RUNS)] * QUEUE,
    ]
    return [
        PlanRow(index, index + 1, due, width, None, runtime, _LIMIT, None, "", f"{run}.{index + 1}")
        for index, (due, width, runtime) in enumerate(jobs)
    ]


def _duration() -> float:
    """Approximate length of the calibration in real seconds; the queue is assumed to take as long as the burst."""
    return (_GAP * ALONE + _REST + 2 * _BURST_LASTS + _WIDE_RUNS) / float(SPEED)


def _narrowest(prepared: Prepared) -> int:
    width = prepared.workload.jobs["processors"].min()
    assert isinstance(width, int)
    return width


def _write(folder: Path, run: str, narrowest: int, processors: int) -> None:
    """Write plan.csv and workload.csv of the calibration; the same arguments give the same files."""
    folder.mkdir(exist_ok=True)
    rows = plan(run, narrowest, processors)
    workload = {
        "id": [row.id for row in rows],
        "submit": [row.due for row in rows],
        "runtime": [row.runtime for row in rows],
        "requested": [60.0 * row.limit_minutes for row in rows],
    }
    write_atomically(folder / WORKLOAD_FILE, pl.DataFrame(workload).write_csv())
    write_plan(folder / PLAN_FILE, rows)
