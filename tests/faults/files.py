"""Files that are torn, truncated or forged."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from .lane import DONE, ENDED, Lane, expect, until
from .table import Wrong, fault

NOTICED_WITHIN = 90.0
"""Seconds from slurmctld's last end to that of the experiment, on a busy host."""


def _cut(path: Path) -> None:
    """Truncate a file to half of its length. Raises Wrong if it is not there."""
    if not path.exists():
        raise Wrong(f"there is no {path} to cut")
    os.truncate(path, path.stat().st_size // 2)


@fault(
    "torn-records",
    "half a line at the end of the journal and garbage in sigsleep.log, after SIGKILL to the replay",
    "the same command finishes; each job once",
)
def torn_records(lane: Lane) -> None:
    command = lane.start_experiment()
    until(lambda: (lane.folder() / "sigsleep.log").exists() or not command.is_running, "a record of a job")
    lane.kill_replay()
    expect(lane.ended(command), ("failed",), "killed")
    with (lane.folder() / "journal.jsonl").open("ab") as journal:
        journal.write(b'{"event": "submit", "ind')
    with (lane.folder() / "sigsleep.log").open("ab") as log:
        log.write(bytes(range(1, 78)))
    lane.goes_on()


@fault(
    "job-state-cut",
    "slurmctld's job_state cut in half, then SIGKILL to slurmctld",
    "`failed:` with slurmctld's own fatal line, soon; `make teardown` removes all",
)
def job_state_cut(lane: Lane) -> None:
    command = lane.start_experiment()
    state = lane.directory / "state"
    until(lambda: (state / "job_state").exists() and (state / "job_state.old").exists(), "two saved states")
    lane.until_submitted(command)
    farm, controller = lane.farm_pid(), lane.pid_of("slurmctld")
    os.kill(farm, signal.SIGSTOP)
    try:
        os.kill(controller, signal.SIGKILL)
        for name in ("job_state", "job_state.old"):
            _cut(state / name)
    finally:
        os.kill(farm, signal.SIGCONT)
    began = time.monotonic()
    ended = lane.ended(command)
    seconds = time.monotonic() - began
    expect(ended, ("failed",), r"slurmctld.*(fatal|job.?state|state file|recover)")
    if seconds > NOTICED_WITHIN:
        raise Wrong(f"the experiment ended {seconds:.0f} s after slurmctld, wanted at most {NOTICED_WITHIN:g} s")


def _status_and_experiment(lane: Lane, file: str) -> None:
    """Both commands have to end in one line; what is not healed is named."""
    status = expect(lane.make("status"), ("ok", "failed", "wrong use"))
    if status.word != "ok":
        expect(status, (status.word,), file)
    ended = expect(lane.experiment(), (*DONE, "failed", "wrong use"))
    if ended.word in DONE:
        lane.complete()
    else:
        expect(ended, (ended.word,), file)


@fault(
    "instance-json-cut", "instance.json cut in half", "`make experiment` ends `ok`, or names the file; `make teardown` removes all"
)
def instance_json_cut(lane: Lane) -> None:
    lane.build()
    _cut(lane.directory / "instance.json")
    _status_and_experiment(lane, r"instance\.json")


@fault(
    "farm-specification-cut",
    "etc/farm.json cut in half",
    "`make experiment` ends `ok`, or names the file; `make teardown` removes all",
)
def farm_specification_cut(lane: Lane) -> None:
    lane.build()
    _cut(lane.directory / "etc/farm.json")
    _status_and_experiment(lane, r"farm\.json")


@fault(
    "plan-cut",
    "the plan on the head cut in half, after SIGKILL to the replay",
    "the same command refuses the other plan, or repairs it",
)
def plan_cut(lane: Lane) -> None:
    command = lane.start_experiment()
    lane.until_submitted(command)
    lane.kill_replay()
    expect(lane.ended(command), ("failed",), "killed")
    _cut(lane.folder() / "plan.csv")
    ended = expect(lane.experiment(label="the same command"), (*ENDED, "failed", "wrong use"))
    if ended.word in ENDED:
        lane.complete()
    else:
        expect(ended, (ended.word,), r"plan|other inputs")


@fault(
    "clock-cut", "state/clock cut in half at SPEED=2, after SIGKILL to the replay", "the same command finishes, or names the clock"
)
def clock_cut(lane: Lane) -> None:
    command = lane.start_experiment(SPEED=2)
    lane.until_submitted(command)
    lane.kill_replay()
    expect(lane.ended(command), ("failed",), "killed")
    _cut(lane.directory / "state/clock")
    ended = expect(lane.experiment(label="the same command", SPEED=2), (*ENDED, "failed", "wrong use"))
    if ended.word in ENDED:
        lane.complete()
    else:
        expect(ended, (ended.word,), "clock")


@fault(
    "clock-moved",
    "state/clock set an hour ahead at SPEED=2, after SIGKILL to the replay (the host's own clock is not stepped: "
    "time_namespaces(7) has no namespace for the real-time clock)",
    "the same command finishes, or names the clock; no job twice",
)
def clock_moved(lane: Lane) -> None:
    command = lane.start_experiment(SPEED=2)
    lane.until_submitted(command)
    lane.kill_replay()
    expect(lane.ended(command), ("failed",), "killed")
    path = lane.directory / "state/clock"
    words = path.read_text().split()
    # mirage-clock VERSION REAL VIRTUAL SPEED, instants in nanoseconds.
    words[3] = str(int(words[3]) + 3600 * 10**9)
    path.write_text(" ".join(words) + "\n")
    ended = expect(lane.experiment(label="the same command", SPEED=2), (*ENDED, "failed", "wrong use"))
    if ended.word in ENDED:
        lane.complete()
    if ended.word not in DONE:
        expect(ended, (ended.word,), "clock|interrupt")
