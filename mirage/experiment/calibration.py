"""SPEED=auto: a short workload is played on the instance itself, and a speed follows from what its jobs have cost.

It is a run of its own, RUN.calibration, at a moderate speed, with its records in results/RUN/calibration. Its parts:

* jobs one after the other on an idle machine: what a single job costs;
* a burst, of more jobs than a host can launch in a second: how many it does when they come at once;
* a job as wide as the machine, and a queue behind it: how long the backfill scheduler looks at a queue.

What is picked is written to results/RUN/calibration.json. It is an input of the run from then on: one that goes on takes it from
there.
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
from mirage.experiment.prepare import Prepared, machine_of
from mirage.experiment.runs import calibration_of
from mirage.experiment.speed_choice import Choice, Cost, Demand
from mirage.records.collect import Collected, collect
from mirage.records.run_records import NS
from mirage.records.validity import Thresholds, read_configuration, read_diagnostics, read_figures
from mirage.terminal.screen import Screen, about
from slurm_mirage.base.files import read_json, write_json
from slurm_mirage.jobs.plan import PlanRow, write_plan

SPEED = Decimal(100)
"""Of the calibration. What it cannot tell apart is a second of Slurm's time, 10 ms here."""
_VARIABLES = {"experiment_sample_interval": 1.0, "experiment_shrink": 100.0}

ALONE, BURST, QUEUE = 30, 150, 100
"""Jobs of each part; the queue has the wide job besides."""
_GAP = 80.0  # virtual seconds from one job to the next while they come alone
_REST = 200.0  # ... from the last of them to the burst
_BURST_LASTS = 800.0  # ... from the burst to the wide job: 19 jobs a second are done by then
_WIDE_RUNS = 500.0
_SHORT_RUNS = 5.0
_LIMIT = 60  # minutes
_DITHER = 1.0  # run times alone are spread over a second of Slurm's, which cuts off the seconds of its own record
_QUIET = 0.7  # busy share of the host beyond which one job at a time, and what idle daemons do, cannot be all of it
_DEEP = 20  # waiting jobs from which on a backfill cycle is divided by their number

# Replays the plan in a folder as the run of that name at that speed, with some more of Ansible's variables.
Replay = Callable[[str, Decimal, Path, Mapping[str, Any]], None]


def speed_for(prepared: Prepared, folder: Path, replay: Replay, screen: Screen) -> Decimal:
    """The speed of the run in `folder`: SPEED, or for auto what is picked for it now, or was before.

    Raises what `replay` raises, and Failed when the calibration's jobs did not run as they should.
    """
    if isinstance(speed := prepared.knobs["SPEED"], Decimal):
        return speed
    if (before := read_json(folder / "calibration.json")) is not None:
        screen.say(f"SPEED={before['speed']:g}, which was picked for this run before")
        return Decimal(f"{before['speed']:g}")
    screen.say(f"SPEED=auto: first a calibration at SPEED={SPEED}, about {about(_duration())} and the start of the nodes")
    where = folder / "calibration"
    _write(where, calibration_of(folder.name), narrowest=_narrowest(prepared), processors=machine_of(prepared.knobs).processors)
    replay(calibration_of(folder.name), SPEED, where, _VARIABLES)
    found = measure(where)
    choice = speed_choice.choose(demand_of(prepared), found.cost, _thresholds(where))
    for line in [*found.lines(), *choice.lines()]:
        screen.say(line)
    return _store(folder, found, choice)


def demand_of(prepared: Prepared) -> Demand:
    """What the run's workload asks of the host."""
    jobs = prepared.workload.jobs
    processors = machine_of(prepared.knobs).processors
    limits = (jobs["limit_minutes"] * 60).to_list()
    return Demand.of(prepared.dues, prepared.executions(), limits, jobs["processors"].to_list(), processors)


def _thresholds(folder: Path) -> Thresholds:
    """Those that the run will be judged by: some bounds are Slurm's own settings."""
    return Thresholds.in_force({}, read_configuration(folder))


@dataclass(frozen=True)
class Found:
    """What a calibration has shown."""

    cost: Cost
    rate: float
    """Jobs a second when many come at once."""
    busy_alone: float | None
    """Busy share of the host's processors while jobs came alone, and during the burst."""
    busy_burst: float | None

    def lines(self) -> list[str]:
        """`here a job holds its processors for 31 ms longer than it runs ...`, and a warning if that may soon be wrong."""
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


def measure(folder: Path) -> Found:
    """Read the costs from the records of a calibration. Raises Failed unless all of its jobs completed."""
    run = collect(folder, pl.read_csv(folder / "workload.csv"))
    wrong = run.jobs.filter(col("state") != "COMPLETED")
    if wrong.height or run.unsubmitted:
        states = ", ".join(f"{count} {state}" for state, count in wrong["state"].value_counts(sort=True).iter_rows())
        raise Failed(f"SPEED=auto: jobs of the calibration did not complete ({states or 'not submitted'}): see {folder}")
    speed = run.time.clock.speed
    parts = run.jobs.join(run.evidence.select("id", "stretch"), on="id", maintain_order="left")
    alone, burst = parts.filter(col("id") <= ALONE), parts.filter(col("id").is_between(ALONE + 1, ALONE + BURST))
    hold_p50 = max(0.0, _quantile(alone["stretch"], 0.5) / speed)
    submit = max(0.0, _quantile(alone["submit_lag"], 0.5) / speed)
    seconds = _seconds_a_job(burst, speed)
    cost = Cost(
        hold_p50=hold_p50,
        hold_p99=max(hold_p50, (_quantile(alone["stretch"], 0.99) - speed_choice.RESOLUTION) / speed),
        start=max(0.0, (_quantile(alone["start"] - alone["submit"], 0.5) - speed_choice.RESOLUTION) / speed),
        submit=submit,
        launch=max(0.0, seconds - submit),
        backfill=_backfill(read_diagnostics(folder), speed),
    )
    samples = read_figures(folder / "samples.csv")
    return Found(cost, 1 / seconds, _busy(samples, alone, run), _busy(samples, burst, run))


def _quantile(values: pl.Series, share: float) -> float:
    found = values.drop_nulls().quantile(share, "linear")
    if found is None:
        raise Failed("SPEED=auto: the calibration's records do not tell how long its jobs took")
    return found


def _seconds_a_job(burst: pl.DataFrame, speed: float) -> float:
    """Real seconds that each job of the burst took the host, of those between the first one's due instant and the last end."""
    due, last = burst.select((col("submit") - col("submit_lag")).min(), col("end").max()).row(0)
    return float((last - due - _SHORT_RUNS) / speed / burst.height)


def _backfill(diagnostics: pl.DataFrame, speed: float) -> float | None:
    """Real seconds of a backfill cycle for each job that waited, at most; the controller measures cycles on its own, fast clock."""
    wanted = ("backfill_last_cycle_us", "backfill_queue_length")
    if not set(wanted) <= set(diagnostics.columns):
        return None
    cycle, queue = (col(name) for name in wanted)
    seconds: float | None = diagnostics.filter(queue >= _DEEP).select((cycle / queue).max()).item()
    return None if seconds is None else seconds * 1e-6 / speed


def _busy(samples: pl.DataFrame, part: pl.DataFrame, run: Collected) -> float | None:
    """Mean busy share of the host's processors between the first submission and the last end of these jobs."""
    if not {"virtual", "cpu_busy"} <= set(samples.columns):
        return None
    during = samples.filter(run.time.trace(col("virtual") * NS).is_between(part["submit"].min(), part["end"].max()))
    share: float | None = during.select(col("cpu_busy").mean()).item()
    return None if share is None else round(share, 3)


def _store(folder: Path, found: Found, choice: Choice) -> Decimal:
    """Write calibration.json, and what was picked into experiment.json; the speed."""
    experiment = read_json(folder / "experiment.json") or {}
    write_json(folder / "experiment.json", experiment | {"clock": {"asked": "auto", "speed": choice.speed}})
    picked = choice.as_json()
    told = {"calibration_speed": float(SPEED), **asdict(found)}
    write_json(folder / "calibration.json", {"asked": "auto", "speed": picked.pop("speed"), **picked, "found": told})
    return Decimal(f"{choice.speed:g}")


# ---- the workload ----


def plan(run: str, narrowest: int, processors: int) -> list[PlanRow]:
    """The calibration's jobs in order of submission: ALONE, BURST, the wide one, QUEUE."""
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
    """Real seconds that it takes, about: the queue's jobs end as fast as the burst's."""
    return (_GAP * ALONE + _REST + 2 * _BURST_LASTS + _WIDE_RUNS) / float(SPEED)


def _narrowest(prepared: Prepared) -> int:
    width = prepared.workload.jobs["processors"].min()
    assert isinstance(width, int)
    return width


def _write(folder: Path, run: str, narrowest: int, processors: int) -> None:
    """The calibration's plan and workload. Written again they are the same."""
    folder.mkdir(exist_ok=True)
    rows = plan(run, narrowest, processors)
    workload = {
        "id": [row.id for row in rows],
        "submit": [row.due for row in rows],
        "runtime": [row.runtime for row in rows],
        "requested": [60.0 * row.limit_minutes for row in rows],
    }
    pl.DataFrame(workload).write_csv(folder / "workload.csv")
    write_plan(folder / "plan.csv", rows)
