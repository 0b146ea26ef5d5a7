"""Daemons of OpenPBS that are killed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection
from typing import Any

from slurm_mirage.base import processes
from tests.faults.clock import COORDINATOR, KILLS_OF_A_RUN, REPLAY, kill_in_runs, usual_count
from tests.faults.clock import JOBS as MANY_JOBS
from tests.faults.lane import ENDED, JOBS, Lane, expect, until
from tests.faults.table import Skipped, Wrong, fault

NODES, CPUS = 8, 4
RUN_TIMES, PROCESSORS, PERIOD = (40, 60, 30, 70, 50), (4, 16, 8, 1, 12), 6
"""The workload: a job every PERIOD seconds, of these run times in seconds and processors in turn. It outlasts the kills."""
LONGEST = 600.0
"""Seconds after which a command counts as hanging."""
KILLED = {"postgres": 1, "pbs_comm": 1, "pbs_sched": 1, "pbs_mom": 5, "pbs_server.bin": 1, "sigsleep": 1}
"""How many processes of which names are killed, one after the other."""
WEIGHTS = dict.fromkeys(KILLED, 2) | {COORDINATOR: 8, "pbs_mom": 8, "sigsleep": 12, REPLAY: 1}
"""The same on the event clock, at random, and how often in relation to each other."""
PAUSE = 8.0
"""Seconds between two kills: the farm has started the daemon again, and jobs go on."""

LEFT_AFTER = 1.0
"""Seconds from the end of a job's program until the first node has noted it, and waits for the other."""


@fault(
    "openpbs-kills",
    "RM=openpbs: SIGKILL to PostgreSQL, pbs_comm, pbs_sched, five pbs_mom, pbs_server and the program of a job, one after the "
    "other, then to the replay",
    "`failed:` says that the replay was killed; the same command finishes, each job once",
)
def openpbs_kills(lane: Lane) -> None:
    source = _source()
    lines = [f"; MaxProcs: {NODES * CPUS}"]
    for index in range(JOBS):
        runtime, processors = RUN_TIMES[index % len(RUN_TIMES)], PROCESSORS[index % len(PROCESSORS)]
        limit = runtime + 120
        lines.append(f"{index + 1} {PERIOD * index} -1 {runtime} {processors} -1 -1 {processors} {limit} -1 1 1 1 -1 -1 -1 -1 -1")
    (lane.scratch / "workload.swf").write_text("\n".join(lines) + "\n")
    given: dict[str, Any] = {
        "RM": "openpbs", "OPENPBS_SOURCE": source, "NODES": NODES, "CPUS": CPUS, "SPEED": 1, "CONFIG": "pbs-easy"
    }  # fmt: skip
    expect(lane.make("cluster", longest=LONGEST, **given), ("ok",))
    command = lane.start_experiment(**given)
    lane.until_submitted(command)
    for name, most in KILLED.items():
        # Of PostgreSQL's processes the first is the server, which started the others.
        for pid in _found(lane, name)[:most]:
            os.kill(pid, signal.SIGKILL)
        time.sleep(PAUSE)
    lane.kill_replay()
    expect(lane.ended(command, LONGEST), ("failed",), r"replay was killed.*same command")
    lane.goes_on(words=ENDED, longest=LONGEST, **given)


@fault(
    "openpbs-many-kills",
    "RM=openpbs, SPEED=event; 50 times (COUNT) SIGKILL, or SIGSTOP for up to 5 s, to a daemon of OpenPBS, "
    "PostgreSQL, a coordinator, a job or the replay at random",
    "the run ends; the clock never goes back, no run stands still for 30 s, no job ends early; each job once",
)
def openpbs_many_kills(lane: Lane) -> None:
    kill_in_runs(lane, usual_count(), KILLS_OF_A_RUN, MANY_JOBS, WEIGHTS, RM="openpbs", OPENPBS_SOURCE=_source(), CONFIG="pbs-easy")


@fault(
    "openpbs-job-left",
    "RM=openpbs, SPEED=20, a job on two nodes: SIGSTOP to the second pbs_mom, and SIGKILL to the first as soon as the job's "
    "program has ended; then the second goes on",
    "the job, which OpenPBS shows as running for ever, is ended 20 min of the cluster's time after its limit; each job once",
)
def openpbs_job_left(lane: Lane) -> None:
    line = "{0} 0 -1 60 {1} -1 -1 {1} 60 -1 1 1 1 -1 -1 -1 -1 -1\n"
    (lane.scratch / "workload.swf").write_text("".join(line.format(number, 2 * CPUS) for number in (1, 2)))
    given: dict[str, Any] = {
        "RM": "openpbs", "OPENPBS_SOURCE": _source(), "NODES": 2, "CPUS": CPUS, "SPEED": 20, "CONFIG": "pbs-easy"
    }  # fmt: skip
    expect(lane.make("cluster", longest=LONGEST, **given), ("ok",))
    command = lane.start_experiment(**given)
    lane.until_submitted(command, jobs=1)
    program = _found(lane, "sigsleep")[0]
    started = processes.start_time(program)
    first = _ancestor(program, _found(lane, "pbs_mom"))
    (second,) = (pid for pid in lane.pids("pbs_mom") if pid != first)
    os.kill(second, signal.SIGSTOP)
    until(lambda: processes.start_time(program) != started, "the end of the job's program")
    time.sleep(LEFT_AFTER)
    os.kill(first, signal.SIGKILL)
    until(lambda: len(lane.pids("pbs_mom")) == 2 and first not in lane.pids("pbs_mom"), "a new pbs_mom")
    os.kill(second, signal.SIGCONT)
    expect(lane.ended(command, LONGEST), ENDED)
    lane.complete(jobs=2)
    if "ended jobs that the resource manager let run" not in (lane.results() / "replay.log").read_text():
        raise Wrong("the replay ended no job: it ended by itself")


def _ancestor(pid: int, among: Collection[int]) -> int:
    """The process of `among` that a process descends from. Raises Wrong."""
    parents = processes.parents()
    while pid not in among:
        if pid not in parents:
            raise Wrong("no pbs_mom has started the job's program")
        pid = parents[pid]
    return pid


def _source() -> str:
    """The archive that is given. Raises Skipped."""
    source = os.environ.get("OPENPBS_SOURCE")
    if not source:
        raise Skipped("OPENPBS_SOURCE names no archive of OpenPBS's source")
    return source


def _found(lane: Lane, name: str) -> list[int]:
    """The processes of this name, as soon as there are any. Raises Wrong."""
    found: list[int] = until(lambda: lane.pids(name), f"a process {name}")
    return found
