"""Workloads whose schedule under a policy does not depend on small delays, so that a simulation can say when each job has to start.

Bursts of jobs on MACHINE processors, each on an empty machine. Run times end ten seconds before a whole minute, so that the limit,
which is in whole minutes and leaves ten seconds of slack, is as exact as sbatch allows.

* fifo: sizes from one processor to all. The order of starts is that of the submissions, whatever is late.
* easy: most jobs are narrow, some take the whole machine. While such a job is the first in the queue, no processor is spare beside
its reservation, so it does not matter which nodes Slurm reserves, and another job passes it only if it is over by then. A burst is
taken from random ones only if no delay up to TOLERANCE of each submission and each end, and no phase of the backfill scheduler,
changes which jobs pass a wide one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import islice

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mirage.simulation.slurm_timers import schedule_in_slurm
from mirage.traces.swf import SCHEMA

MACHINE = 32
INTERVAL = 5.0  # bf_interval of configs/easy.yml
PHASES = np.arange(0.25, INTERVAL, 0.5)
BURSTS = 4
JOBS = 30  # of a burst
PERIOD = 900.0  # seconds from one burst to the next
ARRIVALS = 160.0  # seconds in which the jobs of a burst are submitted
WIDE = (5, 13, 20)  # places in a burst of the jobs that take the whole machine
MARGIN = 100.0  # seconds at the end of a burst in which no job runs
SLACK = 10.0  # seconds from the end of a run to the end of its limit
TOLERANCE = 10.0  # seconds
TRIALS = 60  # of delays for each burst
CONFIGS = {"fifo": "fcfs", "easy": "easy"}

Times = NDArray[np.float64]
Numbers = NDArray[np.int64]
Pairs = NDArray[np.bool_]


@cache
def workload(config: str) -> pl.DataFrame:
    """The jobs of `fifo` or `easy`: id, submit, processors, runtime, limit; times in seconds, in order of submission."""
    bursts = _fifo_bursts() if config == "fifo" else _easy_bursts()
    jobs = [burst.with_columns(submit=pl.col("submit") + number * PERIOD) for number, burst in enumerate(islice(bursts, BURSTS))]
    return pl.concat(jobs).with_row_index("id", 1).with_columns(pl.col("id").cast(pl.Int64))


def to_swf(jobs: pl.DataFrame) -> pl.DataFrame:
    """The jobs as a frame for `write_swf`."""
    given = {"job_number": "id", "submit": "submit", "run_time": "runtime"}
    given |= {"requested_processors": "processors", "requested_time": "limit"}
    columns = [
        (pl.col(given[name]) if name in given else pl.lit(1 if name == "status" else -1)).cast(kind).alias(name)
        for name, kind in SCHEMA.items()
    ]
    return jobs.select(columns)


def simulated(jobs: pl.DataFrame, config: str, phase: float) -> Times:
    """The starts of the jobs under `config` with that phase of the backfill scheduler, in seconds."""
    submit, processors, runtime, limit = (jobs[name].to_numpy() for name in ("submit", "processors", "runtime", "limit"))
    return _simulated(submit, processors, runtime, limit, config, phase)


def _simulated(submit: Times, processors: Numbers, runtime: Times, limit: Times, config: str, phase: float) -> Times:
    return schedule_in_slurm(submit, processors, runtime, limit, MACHINE, CONFIGS[config], interval=INTERVAL, phase=phase)


def phases(jobs: pl.DataFrame, config: str) -> Times:
    """The starts of the jobs for each of PHASES (one row each); a single row for `fifo`, which has no phase."""
    return np.stack([simulated(jobs, config, phase) for phase in (PHASES if config == "easy" else PHASES[:1])])


def passes(jobs: pl.DataFrame, start: Times) -> Pairs:
    """Which job (column) was started before which job that takes the whole machine and was submitted before it (row)."""
    return _passes(jobs["processors"].to_numpy(), start)


def _passes(processors: Numbers, start: Times) -> Pairs:
    wide = np.flatnonzero(processors == MACHINE)
    later = np.arange(len(processors))[None, :] > wide[:, None]
    return np.asarray(later & (start[None, :] < start[wide][:, None]))


def _submissions(random: np.random.Generator) -> Times:
    return np.sort(np.floor(random.uniform(0, ARRIVALS, JOBS)))


def _seconds(minutes: Numbers) -> Times:
    return np.asarray(minutes * 60, np.float64)


def _frame(submit: Times, processors: Numbers, limit: Times) -> pl.DataFrame:
    return pl.DataFrame({"submit": submit, "processors": processors, "runtime": limit - SLACK, "limit": limit})


def _fifo_bursts() -> Iterator[pl.DataFrame]:
    random = np.random.default_rng(1)
    while True:
        processors = np.floor(2 ** random.uniform(0, np.log2(MACHINE + 1), JOBS)).astype(np.int64)
        limit = _seconds(random.integers(1, 3, JOBS))
        submit = _submissions(random)
        if _over(limit - SLACK, _simulated(submit, processors, limit - SLACK, limit, "fifo", 0.0)):
            yield _frame(submit, processors, limit)


def _easy_bursts() -> Iterator[pl.DataFrame]:
    random = np.random.default_rng(1)
    while True:
        processors = np.floor(2 ** random.uniform(0, 4, JOBS)).astype(np.int64)
        minutes = random.integers(1, 5, JOBS)
        wide = np.array(WIDE)
        processors[wide], minutes[wide] = MACHINE, random.integers(1, 3, wide.size)
        submit, limit = _submissions(random), _seconds(minutes)
        if _is_robust(submit, processors, limit, random):
            yield _frame(submit, processors, limit)


def _over(runtime: Times, start: Times) -> bool:
    """Whether the machine is empty before the next burst, with some time to spare for delays."""
    return float((start + runtime).max()) < PERIOD - MARGIN


def _is_robust(submit: Times, processors: Numbers, limit: Times, random: np.random.Generator) -> bool:
    """Whether delays leave which jobs pass a wide one as it is, and the burst is over before the next one."""
    runtime = limit - SLACK
    start = _simulated(submit, processors, runtime, limit, "easy", float(PHASES[0]))
    if not _over(runtime, start):
        return False
    wanted = _passes(processors, start)
    if not wanted.any():
        return False
    for _ in range(TRIALS):
        late = random.uniform(0, TOLERANCE, (2, JOBS))
        ran = runtime + late[1]
        delayed = np.maximum.accumulate(submit + late[0]), processors, ran, np.maximum(limit, ran)
        if (_passes(processors, _simulated(*delayed, "easy", random.uniform(0, INTERVAL))) != wanted).any():
            return False
    return True
