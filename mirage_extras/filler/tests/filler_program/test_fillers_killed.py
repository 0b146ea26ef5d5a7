"""Fillers that are asked, suspended, ended and killed at random instants: no work counts twice, and none is lost beyond a save."""

from __future__ import annotations

import random
import subprocess
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGTERM, SIGTSTP, SIGUSR1

from slurm_mirage.extras.filler.filler_log import Cause, FillerRecord, read_fillers
from slurm_mirage.extras.filler.words import EXIT_REQUEUE, Filler
from tests.sigsleep.event_clock import SECOND

SPEED = 200  # virtual seconds per second
FILLERS = 16
WORDS = Filler(work=(200.0,), save=4, restore=2, interval=15, slot=60, speed=0.9)


def saved(state: Path) -> int:
    """Progress in ns; 0 without a state."""
    if not state.exists():
        return 0
    ((record,), _) = read_fillers(state)
    return record.after_ns


def disturb(process: subprocess.Popen[bytes], chance: random.Random) -> int:
    """Send a signal, or several, at random instants. Returns the exit code."""
    time.sleep(chance.uniform(0, 0.3))
    what = chance.choice(["kill", "kill", "ask", "ask and kill", "ask and kill", "end", "suspend and kill"])
    if what.startswith("ask"):
        process.send_signal(SIGUSR1)
    if what.startswith("suspend"):
        process.send_signal(SIGTSTP)
        time.sleep(chance.uniform(0, 0.05))
        process.send_signal(SIGCONT)
    if what == "end":
        process.send_signal(SIGTERM)
    if what.endswith("kill"):
        time.sleep(chance.uniform(0, 0.04))
        process.send_signal(SIGKILL)
    return process.wait(60)


def play(number: int, program: Path, folder: Path, clock: Path) -> tuple[list[int], list[int]]:
    """Run filler `number` until it ends. Returns the exit codes, and the progress in the state before each start."""
    chance = random.Random(number)
    state = folder / f"{number}.state"
    codes, progress = [], []
    while 0 not in codes:
        progress.append(saved(state))
        line = WORDS.command_line(number, str(program), str(clock), folder / "fillers.bin", state, slots=number % 2 == 0)
        environment = {"SLURM_JOB_ID": str(number), "SLURM_RESTART_COUNT": str(len(codes))}
        codes.append(disturb(subprocess.Popen(["sh", "-c", line], env=environment), chance))
    progress.append(saved(state))
    return codes, progress


def test_no_work_counts_twice_and_none_is_lost_beyond_a_save(program: Path, tmp_path: Path) -> None:
    """All fillers write to one log. Each record begins with the progress of the save before; together they are the whole work."""
    clock = tmp_path / "clock"
    clock.write_text(f"mirage-clock 1 {time.time_ns()} {1_800_000_000 * SECOND} {SPEED}\n")
    with ThreadPoolExecutor(FILLERS) as pool:
        played = list(pool.map(lambda number: play(number, program, tmp_path, clock), range(1, FILLERS + 1)))
    records, damage = read_fillers(tmp_path / "fillers.bin")
    assert damage == []
    of: dict[int, list[FillerRecord]] = defaultdict(list)
    for record in records:
        of[record.id].append(record)
    kills = 0
    for number, (codes, progress) in enumerate(played, start=1):
        # Until main() begins, SIGUSR1 and SIGTERM have their default actions.
        assert set(codes) <= {0, EXIT_REQUEUE, 128 + SIGTERM, -SIGKILL, -SIGTERM, -SIGUSR1}
        kills += codes.count(-SIGKILL)
        work = WORDS.work[0] * SECOND
        assert (progress[0], progress[-1]) == (0, work)
        assert progress == sorted(progress)
        at, counted = 0, 0
        for record in of[number]:
            assert record.before_ns == at
            if record.cause == Cause.READY:
                assert record.before_ns == progress[record.start - 1]
            if record.is_saved and record.cause != Cause.END:
                assert record.after_ns - record.before_ns == record.worked_ns * 9 // 10
            at = record.after_ns
            counted += record.after_ns - record.before_ns
        assert of[number][-1].completed
        assert counted == work
    assert kills > 50
