"""Runs a program as a filler job: saved by CRIU when the job is to go, restored where it starts again.

    filler_container.py run --folder DIR [--interval S] [--patience S] [--own-saves "WORDS"] -- PROGRAM [ARGUMENT...]
    filler_container.py check

`run` is the command of the batch script, `check` tells whether CRIU can save processes on this host. DIR is a folder that all nodes
share; each filler has its own. If DIR has a save, the program goes on from it, otherwise it starts. It is saved every S seconds
(--interval; 0, the default: not), and on SIGUSR1, after which it does not go on: this process stays alive until the job is killed,
for at most --patience seconds (60), and then ends with exit code 99 (RequeueExit). The program has /dev/null as its standard files,
and no connections or terminals, which CRIU does not save without root.

Where CRIU cannot save processes at the first start, one line says why, and the program saves itself from then on: it is started
with WORDS as further arguments, and gets SIGUSR1; it ends with 99 after its save, with 0 when its work is done.

DIR/journal.jsonl has a line for each event: started, restored (seconds), saved (seconds, size, cause), not_saved (reason), ended
(code), killed; with the time, the node, the job and its restarts. filler_measure.py reads the costs of FILLER_JOBS from it.

Exit code: that of the program; 99, saved; 1, it could not be started or restored; 2, wrong use; 128 + N, ended by signal N.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from criu import Criu, PidInUse, Refused, Save, newest, remove_saves

PROGRAMS = Path(__file__).resolve().parent
REQUEUE = 99
DONE = "done"
"""File in the folder of a filler whose program has ended with 0."""
ALONE = "own-saves"
"""File in the folder of a filler whose program saves itself, also where CRIU could save it."""
_WATCHED = {signal.SIGUSR1, signal.SIGTERM, signal.SIGINT, signal.SIGCHLD}


class Journal:
    """The events of a filler, over all its executions."""

    def __init__(self, path: Path) -> None:
        self._path = path
        names = {"node": "SLURMD_NODENAME", "job": "SLURM_JOB_ID", "restarts": "SLURM_RESTART_COUNT"}
        self._place = {key: os.environ.get(name, "0" if key == "restarts" else "") for key, name in names.items()}

    def write(self, event: str, **fields: Any) -> None:
        """Append a line. A full disk is no reason to end: the line is then on stderr only."""
        line = json.dumps({"event": event, "at": round(time.time(), 3), **self._place, **fields})
        try:
            with self._path.open("a") as file:
                file.write(line + "\n")
        except OSError as error:
            say(f"{self._path}: {error.strerror}: {line}")


def say(text: str) -> None:
    print(f"filler_container: {text}", file=sys.stderr, flush=True)


class Filler:
    """A filler that CRIU saves."""

    def __init__(self, criu: Criu, folder: Path, command: list[str], interval: float) -> None:
        self._criu = criu
        self._folder = folder
        self._command = command
        self._interval = interval
        self._journal = Journal(folder / "journal.jsonl")

    def run(self, save: Save | None, patience: float) -> int:
        """Start or restore the program, and serve signals until it has ended, or was saved on request. Returns the exit code."""
        try:
            pid = self._begin(save)
        except PidInUse as error:
            say(f"cannot be restored here now: {error}")
            return REQUEUE
        except Refused as error:
            say(f"failed: {error}")
            return 1
        due = time.monotonic() + self._interval
        while True:
            signals = _wait(due - time.monotonic() if self._interval else None)
            code = _ended(pid)
            if code is not None:
                if code == 0:
                    finish(self._folder)
                self._journal.write("ended", code=code)
                return code
            if signals & {signal.SIGTERM, signal.SIGINT}:
                self._journal.write("killed")
                _kill(pid)
                return 128 + signal.SIGTERM
            asked = signal.SIGUSR1 in signals
            if asked and self._save(pid, "request"):
                return _stay(patience)
            if self._interval and time.monotonic() >= due:
                self._save(pid, "interval")
                due = time.monotonic() + self._interval

    def _begin(self, save: Save | None) -> int:
        if save is None:
            pid = self._criu.start(self._command, _key())
            self._journal.write("started")
            return pid
        seconds = self._criu.restore(save, self._folder)
        self._journal.write("restored", seconds=round(seconds, 4), save=save.number)
        return save.pid

    def _save(self, pid: int, cause: str) -> bool:
        at_request = cause == "request"
        try:
            save = self._criu.save(pid, self._command, self._folder, leave_running=not at_request)
        except Refused as error:
            say(f"not saved, the program goes on: {error}")
            self._journal.write("not_saved", cause=cause, reason=str(error))
            return False
        if at_request:
            os.waitpid(pid, 0)
        self._journal.write("saved", cause=cause, seconds=round(save.seconds, 4), size=save.size, save=save.number)
        return True


def finish(folder: Path) -> None:
    """Note that the work is done, and remove the saves. Slurm may start a job again that ended while it was preempted."""
    (folder / DONE).touch()
    remove_saves(folder)


def run_alone(folder: Path, command: list[str], patience: float) -> int:
    """Run a program that saves itself: pass SIGUSR1 on, and stay after its save until the job is killed. Returns the exit code."""
    journal = Journal(folder / "journal.jsonl")
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, [])
        )
    except OSError as error:
        say(f"failed: {command[0]}: {error.strerror}")
        return 1
    (folder / ALONE).touch()
    journal.write("started", own_saves=True)
    while True:
        signals = _wait(None)
        if signal.SIGUSR1 in signals:
            process.send_signal(signal.SIGUSR1)
        if signals & {signal.SIGTERM, signal.SIGINT}:
            process.kill()
            journal.write("killed")
            return 128 + signal.SIGTERM
        code = process.poll()
        if code is not None:
            if code == 0:
                finish(folder)
            journal.write("ended", code=code)
            return _stay(patience) if code == REQUEUE else code if code >= 0 else 128 - code


def _wait(seconds: float | None) -> set[signal.Signals]:
    """Wait for signals; returns all that are there."""
    first = signal.sigwaitinfo(_WATCHED) if seconds is None else signal.sigtimedwait(_WATCHED, max(0.0, seconds))
    found = {signal.Signals(first.si_signo)} if first else set()
    while more := signal.sigtimedwait(_WATCHED, 0):
        found.add(signal.Signals(more.si_signo))
    return found


def _stay(patience: float) -> int:
    """Wait for the end of the job. Before Slurm 24.05 a job that ends in its grace time is completed instead of requeued."""
    give_up = time.monotonic() + patience
    while (left := give_up - time.monotonic()) > 0:
        if _wait(left) & {signal.SIGTERM, signal.SIGINT}:
            return 128 + signal.SIGTERM
    return REQUEUE


def _ended(pid: int) -> int | None:
    """Return the exit code of the child if it has ended."""
    found, status = os.waitpid(pid, os.WNOHANG)
    if not found:
        return None
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def _key() -> int:
    """Return the number by which the process id is chosen: the job's id, so that fillers of one cluster have different ids."""
    return int(os.environ.get("SLURM_JOB_ID") or os.getpid())


def programs(parser: argparse.ArgumentParser) -> None:
    """Add the options that name CRIU and at_pid."""
    parser.add_argument("--criu", type=Path, default=PROGRAMS / "run_criu", help="run_criu, beside CRIU (%(default)s)")
    parser.add_argument("--at-pid", type=Path, default=PROGRAMS / "at_pid", help="at_pid with its capability (%(default)s)")


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="filler_container.py", description="Runs a program as a filler job that CRIU saves.")
    orders = parser.add_subparsers(dest="order", required=True)
    programs(orders.add_parser("check", help="tell whether CRIU can save processes on this host"))
    run = orders.add_parser("run", help="start the program, or let it go on from its save")
    run.add_argument("--folder", type=Path, required=True, help="folder of this filler, shared by all nodes")
    run.add_argument("--interval", type=float, default=0.0, help="seconds between two saves; 0: only on SIGUSR1")
    run.add_argument("--patience", type=float, default=60.0, help="seconds to wait for the job's end after a save on SIGUSR1")
    run.add_argument("--own-saves", default="", metavar="WORDS", help="further arguments with which the program saves itself")
    programs(run)
    run.add_argument("command", nargs="+", metavar="PROGRAM", help="the program and its arguments, after --")
    given = parser.parse_args(words)
    if given.order == "check":
        with tempfile.TemporaryDirectory(prefix="filler-") as name:
            reason = Criu(given.criu, given.at_pid).refusal(Path(name), _key())
        print(f"CRIU cannot save processes on this host ({reason})" if reason else "CRIU saves and restores processes on this host")
        return 1 if reason else 0
    if not (given.interval >= 0 and given.patience >= 0):
        parser.error("--interval and --patience are seconds, 0 or more")
    # From here on signals wait until they are asked for.
    signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    criu = Criu(given.criu, given.at_pid)
    if (given.folder / DONE).exists():
        say(f"the work is done already ({given.folder / DONE})")
        return 0
    try:
        given.folder.mkdir(parents=True, exist_ok=True)
        save = newest(given.folder)
    except (OSError, Refused) as error:
        say(f"wrong use: {error}")
        return 2
    if save is not None and save.command != given.command:
        say(f"wrong use: {given.folder} has the save of another program ({shlex.join(save.command)})")
        return 2
    if save is None and not (alone := (given.folder / ALONE).exists()):
        if reason := criu.refusal(given.folder, _key()):
            how = "saves itself" if given.own_saves else "is not saved"
            say(f"CRIU cannot save processes on this node ({reason}); the program {how}")
        alone = bool(reason)
    if save is None and alone:
        return run_alone(given.folder, given.command + shlex.split(given.own_saves), given.patience)
    return Filler(criu, given.folder, given.command, given.interval).run(save, given.patience)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
