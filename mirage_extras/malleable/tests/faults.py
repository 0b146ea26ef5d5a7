"""Kills while malleable jobs change their size."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from contextlib import suppress

from slurm_mirage.base import processes
from tests.faults.lane import CPUS, ENDED, Command, Ended, Lane, expect, read_rows, until
from tests.faults.table import Wrong, fault

NODES, JOBS, KILLS = 8, 60, 30
WORDS = "1:8:2:- check=10 speedup=amdahl:0.95"
SPEED = 10
BROKER, REPLAY, ALLOCATION = "mirage-broker", "replay", "allocation"
WEIGHTS = {BROKER: 10, "salloc": 8, ALLOCATION: 6, "slurmctld": 6, REPLAY: 2, "sigsleep": 2}
"""What is killed, and how often in relation to each other: processes, and the allocation by which a job grows, which is cancelled.
A salloc and its allocation live for some milliseconds."""
LATE_WEIGHTS = {name: weight for name, weight in WEIGHTS.items() if name not in ("slurmctld", REPLAY)}
"""The same for the second half of the kills. A slurmctld that starts, or that the next command reconfigures, counts the jobs on its
nodes again, and so hides nodes that were lost before."""
PAUSE = 1.0
"""Mean real seconds between two kills."""
PATIENCE = 3.0
"""Real seconds for which a process of the chosen program is waited for."""
LONGEST_COMMAND = 900.0
MOST_COMMANDS = 20
FREE_WITHIN = 120.0
"""Real seconds after the last job within which all nodes are idle. An allocation that a killed broker left ends with the limit of
its job at the latest; the broker's own look is half a minute of virtual time after a change."""
PROBES = 3
"""Jobs on all nodes after the run, one after the other. Nodes that slurmctld does not free look idle, and take one more job."""
PROBE = ("--parsable", f"--nodes={NODES}", "--exclusive", "--time=1", "--output=/dev/null", "--chdir=/", "--wrap=exec true")
PROBE_WITHIN = 60.0
"""Real seconds within which each of them has started. They start at once, or when the last one's nodes are free."""


def _swf(jobs: int) -> str:
    """A workload of jobs of some minutes on 1 to 8 whole nodes, of which some wait all the time."""
    chance = random.Random(1)
    lines = [f"; MaxProcs: {NODES * CPUS}"]
    for number in range(1, jobs + 1):
        runtime, processors = chance.randint(60, 240), CPUS * chance.choice((1, 2, 2, 4, 8))
        lines.append(f"{number} {number * 10} -1 {runtime} {processors} -1 -1 {processors} {4 * runtime} -1 1 1 1 -1 -1 -1 -1 -1")
    return "\n".join(lines) + "\n"


def _start(lane: Lane, run: str) -> Command:
    return lane.start_experiment(run, NODES=NODES, SPEED=SPEED, MALLEABLE="100%", MALLEABLE_JOBS=WORDS)


def _kill_during(lane: Lane, run: str, command: Command, chance: random.Random, kills: Counter[str], count: int) -> None:
    """Kill up to `count` processes in all while the replay of a command goes on."""
    following = 0.0
    while command.is_running and kills.total() < count:
        time.sleep(0.01)
        # The same command finds the progress of the one before, and builds the cluster first.
        if time.monotonic() < following or not _is_replaying(lane, run) or lane.progress(run).get("submitted", 0) < 2:
            continue
        weights = WEIGHTS if kills.total() < count // 2 else LATE_WEIGHTS
        program = chance.choices(list(weights), list(weights.values()))[0]
        if _cancel_allocation(lane) if program == ALLOCATION else _kill(lane, run, program, chance):
            kills[program] += 1
            following = time.monotonic() + chance.expovariate(1 / PAUSE)


def _is_replaying(lane: Lane, run: str) -> bool:
    with suppress(OSError, ValueError, IndexError):
        return processes.start_time(lane.replay_pid(run)) is not None
    return False


def _kill(lane: Lane, run: str, program: str, chance: random.Random) -> bool:
    """Kill one process of a program, as soon as there is one. Returns whether there was."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = [lane.replay_pid(run)] if program == REPLAY else lane.pids(program)
        started = [(pid, start) for pid in found if (start := processes.start_time(pid)) is not None]
        if started:
            processes.send(*chance.choice(started), signal.SIGKILL)
            return True
    return False


def _cancel_allocation(lane: Lane) -> bool:
    """Cancel one allocation by which a job grows, as soon as there is one. Returns whether there was."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        queue = lane.slurm("squeue", "--noheader", "--states=pending,running", "--format=%A %j").stdout.splitlines()
        found = [line.split()[0] for line in queue if line.split()[-1].startswith("mirage-resizer-")]
        if found:
            return lane.slurm("scancel", found[0]).returncode == 0
    return False


def _end_run(lane: Lane, run: str, chance: random.Random, kills: Counter[str], count: int) -> Ended:
    """Give the command of a run until it is complete, with kills."""
    for _ in range(MOST_COMMANDS):
        command = _start(lane, run)
        _kill_during(lane, run, command, chance, kills, count)
        ended = lane.ended(command, LONGEST_COMMAND)
        if ended.word in ENDED:
            return ended
        expect(ended, ("failed",), "same command")
        lane.lines.pop()  # many of the same
    raise Wrong(f"the run was not complete after {MOST_COMMANDS} commands")


def _nothing_allocated(lane: Lane) -> bool:
    jobs = lane.slurm("squeue", "--noheader").stdout.strip()
    states = lane.slurm("sinfo", "--noheader", "--format=%T").stdout.split()
    return not jobs and set(states) == {"idle"}


def _start_on_all_nodes(lane: Lane) -> None:
    """Start a job on all nodes. Raises Wrong if it has not started in time."""
    submitted = lane.slurm("sbatch", *PROBE)
    job = submitted.stdout.strip()
    if submitted.returncode or not job.isdecimal():
        raise Wrong(f"a job on all nodes after the run: sbatch: {submitted.stderr.strip()}")
    deadline = time.monotonic() + PROBE_WITHIN
    while not _has_started(lane, job):
        if time.monotonic() > deadline:
            reason = lane.slurm("squeue", "--noheader", f"--jobs={job}", "--format=%T %r").stdout.strip()
            nodes = ", ".join(lane.slurm("sinfo", "--noheader", "--format=%D %T").stdout.strip().splitlines())
            raise Wrong(f"a job on all nodes after the run did not start within {PROBE_WITHIN:.0f} s: {reason}; sinfo: {nodes}")
        time.sleep(0.1)


def _has_started(lane: Lane, job: str) -> bool:
    state = lane.slurm("squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T")
    if "Invalid job id" in state.stderr:
        return True  # it has ended long ago
    return state.returncode == 0 and state.stdout.strip() in ("RUNNING", "COMPLETING", "COMPLETED")


@fault(
    "malleable-kills",
    "60 malleable jobs; 30 times SIGKILL to the broker, salloc, slurmctld, the replay or a job at random, or `scancel` of the "
    "allocation by which a job grows; slurmctld and the replay only among the first half",
    "the run ends; each job once; no node stays allocated to nobody; jobs on all nodes start afterwards",
)
def malleable_kills(lane: Lane) -> None:
    (lane.scratch / "workload.swf").write_text(_swf(JOBS))
    kills: Counter[str] = Counter()
    ended = _end_run(lane, lane.run(), random.Random(1), kills, KILLS)
    if not kills:
        raise Wrong(f"nothing was killed; the run: {ended.line}")
    until(lambda: _nothing_allocated(lane), "all nodes idle after the last job", FREE_WITHIN)
    for _ in range(PROBES):
        _start_on_all_nodes(lane)
    lane.complete(lane.run(), JOBS)
    resizes = Counter((row["kind"], row["outcome"]) for row in read_rows(lane.results(lane.run()) / "resizes.csv"))
    listed = ", ".join(f"{kind} {outcome} {number}" for (kind, outcome), number in sorted(resizes.items()))
    lane.lines.append(
        f"{kills.total()} kills ({', '.join(f'{name} {number}' for name, number in sorted(kills.items()))}); {listed}"
    )
    if not any(outcome == "done" for _, outcome in resizes):
        raise Wrong("no job changed its size")
