"""Kills on the event-driven clock."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from slurm_mirage.base import processes

from .clock_watch import ClockWatch, driver_pid, none_early
from .lane import CPUS, ENDED, Command, Ended, Lane, expect
from .table import Wrong, fault

USUAL_COUNT = "50"
"""Kills of the long row without COUNT."""
KILLS_OF_A_RUN = 100
LONGEST_STOP = 5.0
"""Seconds until a stopped process goes on."""
PAUSE = 0.4
"""Mean seconds between two kills."""
LONGEST_COMMAND = 900.0
MOST_COMMANDS = 40
"""Commands for one run: each kill of the replay needs another one."""
JOBS = 400
"""Jobs of a run: enough that it lasts longer than its kills."""

COORDINATOR, REPLAY = "clock_coordinator", "replay"
WEIGHTS = {COORDINATOR: 12, "slurmctld": 5, "slurmd": 8, "slurmstepd": 12, "sigsleep": 16}
"""Processes that are killed, and how often in relation to each other."""
WITH_REPLAY = {**WEIGHTS, REPLAY: 1}


def _swf(jobs: int) -> str:
    """A workload of jobs of some minutes, two to three of which run at a time, and a few more wait."""
    chance = random.Random(1)
    lines = [f"; MaxProcs: {4 * CPUS}"]
    for number in range(1, jobs + 1):
        runtime, processors = chance.randint(30, 600), chance.choice((1, 1, 2, 4, 8))
        lines.append(f"{number} {number * 45} -1 {runtime} {processors} -1 -1 {processors} {runtime + 120} -1 1 1 1 -1 -1 -1 -1 -1")
    return "\n".join(lines) + "\n"


class Killer:
    """Kills and stops random processes of a lane's cluster while the replay of a run drives its clock, from the first job on.

    kills: how many, by `PROGRAM SIGNAL`; left: how many are still to come
    """

    def __init__(self, lane: Lane, run: str, weights: Mapping[str, int], seed: int) -> None:
        self.kills: Counter[str] = Counter()
        self.left = 0
        self._lane, self._run, self._weights = lane, run, weights
        self._chance = random.Random(seed)
        self._stopped: dict[tuple[int, int], float] = {}

    def follow(self, command: Command, count: int) -> None:
        """Inject up to `count` kills until the command ends; then let all stopped processes go on."""
        self.left = count
        following = 0.0
        while command.is_running:
            self._resume(time.monotonic())
            if self.left and time.monotonic() >= following and self._is_replayed() and self._kill():
                self.left -= 1
                following = time.monotonic() + self._chance.expovariate(1 / PAUSE)
            time.sleep(0.02)
        self._resume(float("inf"))

    def _is_replayed(self) -> bool:
        """Return whether the replay process runs and has submitted a job of the run."""
        return driver_pid(self._lane) is not None and bool(self._lane.progress(self._run).get("submitted"))

    def _resume(self, now: float) -> None:
        for process, until in list(self._stopped.items()):
            if until <= now:
                processes.send(*process, signal.SIGCONT)
                del self._stopped[process]

    def _victims(self, program: str) -> list[int]:
        if program != REPLAY:
            return self._lane.pids(program[:15])  # the kernel keeps 15 bytes of a program's name
        pid = driver_pid(self._lane)
        return [] if pid is None else [pid]

    def _kill(self) -> bool:
        """Kill or stop one process. Returns False if there is none of the chosen program."""
        program = self._chance.choices(list(self._weights), list(self._weights.values()))[0]
        victims = self._victims(program)
        if not victims:
            return False
        pid = self._chance.choice(victims)
        started = processes.start_time(pid)
        if started is None or (pid, started) in self._stopped:
            return False
        number = self._chance.choice((signal.SIGKILL, signal.SIGSTOP))
        processes.send(pid, started, number)
        if number == signal.SIGSTOP:
            self._stopped[pid, started] = time.monotonic() + self._chance.uniform(0, LONGEST_STOP)
        self.kills[f"{program} {number.name}"] += 1
        return True


def _end_run(lane: Lane, run: str, killer: Killer, count: int, given: Mapping[str, Any]) -> tuple[Ended, int]:
    """Give the command of a run until it is complete, with kills. Returns its end and the number of the kills."""
    injected = 0
    for _ in range(MOST_COMMANDS):
        command = lane.start_experiment(run, SPEED="event", **given)
        killer.follow(command, count - injected)
        injected = count - killer.left
        ended = lane.ended(command, LONGEST_COMMAND)
        if ended.word in ENDED:
            return ended, injected
        expect(ended, ("failed",), "same command")
        lane.lines.pop()  # many of the same
    raise Wrong(f"the run was not complete after {MOST_COMMANDS} commands")


def usual_count() -> int:
    """How many kills a long row injects: COUNT."""
    count = os.environ.get("COUNT") or USUAL_COUNT
    if not count.isdecimal():
        raise Wrong(f"COUNT={count}: must be a whole number of kills")
    return int(count)


def kill_in_runs(lane: Lane, count: int, of_a_run: int, jobs: int, weights: Mapping[str, int], **given: Any) -> None:
    """Runs with kills until there were `count`, each of which is judged. given: more knobs"""
    (lane.scratch / "workload.swf").write_text(_swf(jobs))
    runtimes = {number: float(line.split()[3]) for number, line in enumerate(_swf(jobs).splitlines()) if number}
    total: Counter[str] = Counter()
    number = 0
    while total.total() < count:
        number += 1
        run = lane.run(f"-{number}")
        killer = Killer(lane, run, weights, number)
        watch = ClockWatch(lane, run)
        watch.start()
        try:
            ended, injected = _end_run(lane, run, killer, min(of_a_run, count - total.total()), given)
        finally:
            watch.stop()
        watch.judge()
        lane.complete(run, jobs)
        completed = none_early(lane.results(run), runtimes, knows_by_nodes="RM" in given)
        if injected == 0:
            raise Wrong(f"nothing was killed; the run: {ended.line}")
        total += killer.kills
        lane.lines.append(
            f"run {number}: {injected} kills ({_listed(killer.kills)}), {completed} of {jobs} jobs completed, longest halt "
            f"{watch.longest_halt:.1f} s, {watch.readings} readings of the clock"
        )


def _listed(kills: Counter[str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(kills.items()))


@fault(
    "clock-kills",
    "SPEED=event; 8 times SIGKILL, or SIGSTOP for up to 5 s, to a coordinator, slurmctld, slurmd, slurmstepd or job at random",
    "the run ends; the clock never goes back, no run stands still for 30 s, no job ends early; each job once",
)
def clock_kills(lane: Lane) -> None:
    kill_in_runs(lane, 8, 8, 60, dict.fromkeys(WEIGHTS, 1))


@fault(
    "clock-many-kills",
    "the same 50 times (COUNT), to the replay too; the same command is given until the run ends",
    "the same",
)
def clock_many_kills(lane: Lane) -> None:
    kill_in_runs(lane, usual_count(), KILLS_OF_A_RUN, JOBS, WITH_REPLAY)
