"""Kills while filler jobs give up their nodes and go on."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from contextlib import suppress

from slurm_mirage.base import processes
from slurm_mirage.base.files import read_json

from .lane import CPUS, ENDED, Command, Ended, Lane, expect, read_rows, until
from .table import Wrong, fault

NODES, JOBS, KILLS, PREEMPTIONS = 8, 150, 20, 200
WORDS = "work=1200 save=4 restore=2 interval=60"
REPLAY = "replay"
WEIGHTS = {REPLAY: 2, "slurmctld": 2, "sigsleep": 6}
"""What is killed, and how often in relation to each other. Most of the sigsleep are fillers."""
PAUSE = 1.0
"""Mean real seconds between two kills."""
LONGEST_COMMAND = 1800.0
MOST_COMMANDS = 20
GONE_WITHIN = 60.0
"""Real seconds after the run within which no filler is in the queue."""


def _swf(jobs: int) -> str:
    """A workload of short jobs on 1 to 8 whole nodes, with pauses: fillers start and are preempted all the time."""
    chance = random.Random(1)
    lines, at = [f"; MaxProcs: {NODES * CPUS}"], 0
    for number in range(1, jobs + 1):
        runtime, processors = chance.randint(20, 120), CPUS * chance.choice((1, 2, 4, 4, 8))
        lines.append(f"{number} {at} -1 {runtime} {processors} -1 -1 {processors} {2 * runtime} -1 1 1 1 -1 -1 -1 -1 -1")
        at += chance.randint(20, 120)
    return "\n".join(lines) + "\n"


def _is_replaying(lane: Lane, run: str) -> bool:
    with suppress(OSError, ValueError, IndexError):
        return processes.start_time(lane.replay_pid(run)) is not None
    return False


def _kill_during(lane: Lane, run: str, command: Command, chance: random.Random, kills: Counter[str]) -> None:
    """Kill processes at random while the replay of a command goes on."""
    following = 0.0
    while command.is_running and kills.total() < KILLS:
        time.sleep(0.01)
        # The same command finds the progress of the one before, and builds the cluster first.
        if time.monotonic() < following or not _is_replaying(lane, run) or lane.progress(run).get("submitted", 0) < 2:
            continue
        program = chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        with suppress(OSError, ValueError, IndexError):
            found = [lane.replay_pid(run)] if program == REPLAY else lane.pids(program)
            started = [(pid, start) for pid in found if (start := processes.start_time(pid)) is not None]
            if started:
                processes.send(*chance.choice(started), signal.SIGKILL)
                kills[program] += 1
                following = time.monotonic() + chance.expovariate(1 / PAUSE)


def _end_run(lane: Lane, run: str, chance: random.Random, kills: Counter[str]) -> Ended:
    """Give the command of a run until it is complete, with kills."""
    for _ in range(MOST_COMMANDS):
        command = lane.start_experiment(run, NODES=NODES, SPEED="event", FILLER="planned", FILLER_JOBS=WORDS)
        _kill_during(lane, run, command, chance, kills)
        ended = lane.ended(command, LONGEST_COMMAND)
        if ended.word in ENDED:
            return ended
        expect(ended, ("failed",), "same command")
        lane.lines.pop()  # many of the same
    raise Wrong(f"the run was not complete after {MOST_COMMANDS} commands")


@fault(
    "fillers-killed",
    "150 jobs beside fillers that are preempted 200 times; 20 times SIGKILL to the replay, slurmctld or a job at random",
    "the run ends; each job once; no filler is left; no work of a filler counts twice, and none is lost that was saved",
)
def fillers_killed(lane: Lane) -> None:
    (lane.scratch / "workload.swf").write_text(_swf(JOBS))
    kills: Counter[str] = Counter()
    run = lane.run()
    ended = _end_run(lane, run, random.Random(1), kills)
    if not kills:
        raise Wrong(f"nothing was killed; the run: {ended.line}")
    until(lambda: not lane.slurm("squeue", "--noheader").stdout.strip(), "an empty queue after the last job", GONE_WITHIN)
    outcomes = Counter(row["outcome"] for row in read_rows(lane.results(run) / "fillers.csv"))
    listed = (", ".join(f"{name} {number}" for name, number in sorted(counted.items())) for counted in (kills, outcomes))
    lane.lines.append("{} kills ({}); executions of fillers: {}".format(kills.total(), *listed))
    faults = ((read_json(lane.results(run) / "metrics.json") or {}).get("fillers") or {}).get("faults")
    if faults != []:
        raise Wrong(f"the records of the fillers: {faults}")
    gave_up = sum(outcomes.values()) - outcomes["completed"] - outcomes["cancelled"]
    if gave_up < PREEMPTIONS:
        raise Wrong(f"{gave_up} executions of fillers ended for others, {PREEMPTIONS} were wanted")
