"""Events of a run, and kills while they are played."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from contextlib import suppress
from typing import Any

from .lane import DONE, ENDED, Lane, expect, read_rows
from .table import Wrong, fault

NODES = 4
SLACK = 40.0
"""Seconds by which a start may be later than computed: sched/backfill looks each 30 s."""
NOTICED = 500.0
"""Seconds after the failure of a node within which its job is requeued and may start again: SlurmdTimeout of 300 s, a third of it
to the next ping, and the wait of a requeued job."""
TAKEN_OVER = 240.0
"""Seconds after the end of the first slurmctld within which the second one starts jobs: SlurmctldTimeout of 120 s, and up to 60 s
until a waiting sbatch asks again."""

JOBS = """\
1 0 1000 1
2 0 1000 1
3 0 1000 1
4 0 2000 1
5 500 300 1
6 510 600 1
7 520 300 1
8 6000 1100 4
9 6100 300 3
10 7100 1500 1
11 12900 400 2
12 13050 100 1
"""
"""Number, submission, run time and processors of each job, one processor on each node. A limit is 1.5 times the run time."""
EVENTS = """\
instant,action,target,argument
100,drain,n1,disk
1400,resume,n1,
1500,fail,n4,1h
2500,reserve,window,start=7400 duration=600 nodes=ALL flags=MAINT
8500,requeue,8,
# slurmctld saves which jobs sched/backfill started with the next change of a job, or after some minutes.
12950,set,job 11,Comment=saved
13000,failover,,30min
"""
STARTS = {
    1: (0.0, SLACK),
    2: (0.0, SLACK),
    3: (0.0, SLACK),
    # n4 fails at 1500, and n1 is free.
    4: (1800.0, 1500 + NOTICED),
    # The end of job 1 frees nothing: n1 is drained. Those of 2 and 3 let 5 and 6 start, and the end of 5 lets 7.
    5: (1000.0, 1000 + SLACK),
    6: (1000.0, 1000 + SLACK),
    7: (1300.0, 1300 + 2 * SLACK),
    # 8 would run into the reservation, starts after it, is requeued, and starts when 10 has ended.
    8: (10000.0, 10000 + 4 * SLACK),
    9: (6100.0, 6100 + SLACK),
    10: (8500.0, 8500 + SLACK),
    11: (12900.0, 12900 + SLACK),
    12: (13120.0, 13000 + TAKEN_OVER),
}
"""The earliest and the latest start of each job's last execution."""
LOST = [(4, (0.0, SLACK), (1800.0, 1500 + NOTICED)), (8, (8000.0, 8000 + SLACK), (8500.0, 8502.0))]
"""Job, start and end of the executions that were lost."""
KILLS = 30
PAUSE = 0.2
"""Mean real seconds between two kills."""
MOST_COMMANDS = 40
DAEMONS = ("slurmctld", "clock_coordinator", "replay")


def _begin(lane: Lane) -> dict[str, Any]:
    """Write the workload and the events. Returns the knobs of the run."""
    lines = [f"; MaxProcs: {NODES}"]
    for line in JOBS.splitlines():
        number, submit, runtime, processors = map(int, line.split())
        lines.append(f"{number} {submit} -1 {runtime} {processors} -1 -1 {processors} {runtime * 3 // 2} -1 1 1 1 -1 -1 -1 -1 -1")
    (lane.scratch / "known.swf").write_text("\n".join(lines) + "\n")
    (lane.scratch / "known.csv").write_text(EVENTS)
    return {
        "NODES": NODES, "CPUS": 1, "CONTROLLERS": 2, "SPEED": "event", "CONFIG": "slurm-defaults",
        "TRACE": lane.scratch / "known.swf", "EVENTS": lane.scratch / "known.csv",
    }  # fmt: skip


@fault(
    "events-by-hand",
    "a drain, a failed node, a reservation, a requeue and a failover among 12 jobs",
    "each job starts, is requeued and ends when the events say so",
)
def events_by_hand(lane: Lane) -> None:
    expect(lane.experiment(**_begin(lane)), DONE)
    folder = lane.results()
    lane.complete(jobs=len(STARTS))
    jobs = {int(row["id"]): (float(row["start"]), float(row["end"])) for row in read_rows(folder / "jobs.csv")}
    runtimes = {int(line.split()[0]): float(line.split()[2]) for line in JOBS.splitlines()}
    for number, (earliest, latest) in STARTS.items():
        start, end = jobs[number]
        if not earliest <= start <= latest:
            raise Wrong(f"job {number} started at {start:.0f}, and by hand from {earliest:.0f} to {latest:.0f}")
        if abs(end - start - runtimes[number]) > 3:
            raise Wrong(f"job {number} ran for {end - start:.0f} s, of {runtimes[number]:.0f}")
    lost = sorted((int(row["job"]), float(row["start"]), float(row["end"])) for row in read_rows(folder / "executions.csv"))
    if [job for job, _, _ in lost] != [job for job, _, _ in LOST]:
        raise Wrong(f"lost executions of the jobs {[job for job, _, _ in lost]}")
    for (number, start, end), (_, begins, ends) in zip(lost, LOST, strict=True):
        if not (begins[0] <= start <= begins[1] and ends[0] <= end <= ends[1]):
            raise Wrong(f"the lost execution of job {number} was from {start:.0f} to {end:.0f}")


@fault(
    "events-killed",
    f"{KILLS} times SIGKILL to the replay, one of two slurmctld or the clock's coordinator while events are played",
    "each event is carried out once; the same command goes on; each job once",
)
def events_killed(lane: Lane) -> None:
    knobs, chance, kills = _begin(lane), random.Random(3), Counter[str]()
    for _ in range(MOST_COMMANDS):
        command = lane.start_experiment(**knobs)
        while command.is_running:
            time.sleep(chance.uniform(0, 2 * PAUSE))
            journal = lane.folder() / "journal.jsonl"
            if kills.total() < KILLS and journal.exists():
                name = chance.choice(DAEMONS)
                pids = [lane.replay_pid()] if name == "replay" else lane.pids(name)
                if pids and command.is_running:
                    with suppress(ProcessLookupError):
                        os.kill(chance.choice(pids), signal.SIGKILL)
                        kills[name] += 1
        if lane.ended(command).word in ENDED:
            break
    else:
        raise Wrong(f"not complete after {MOST_COMMANDS} commands")
    lane.complete(jobs=len(STARTS))
    planned = len(read_rows(lane.results() / "events.csv"))
    lines = [json.loads(line) for line in (lane.results() / "journal.jsonl").read_text().splitlines()]
    done = Counter(line["index"] for line in lines if line["event"] == "event_done")
    if len(done) > planned or any(count != 1 for count in done.values()):
        raise Wrong(f"of {planned} events were carried out: {dict(done)}")
    if kills.total() < KILLS:
        raise Wrong(f"only {kills.total()} kills before the end of the run")
