"""Saves a process to a folder by CRIU, and restores it from there, also on another host.

Python 3.9, standard library. CRIU runs without root: run_criu, which executes it, and at_pid have CAP_CHECKPOINT_RESTORE as a file
capability. run_criu has CAP_SETPCAP too, with which CRIU restores the bounding set of a host whose own is not full.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

_FIRST, _SHARE = 1000, 4
"""Process ids of fillers are from the last quarter of the host's ids (1 / _SHARE), and at least _FIRST."""
_ATTEMPTS = 20
_SAVE = re.compile(r"save-(\d+)")


class Refused(Exception):
    """CRIU, or the kernel, did not do what was asked. The message is one line."""


class PidInUse(Refused):
    """A process with the id that is to be restored exists on this host: it may be free later, or elsewhere."""


@dataclass(frozen=True)
class Save:
    """A finished save: the process that it has, how long saving took, and the size of its files in bytes."""

    number: int
    pid: int
    command: list[str]
    seconds: float
    size: int


class Criu:
    """The programs run_criu and at_pid of this host."""

    def __init__(self, criu: Path, at_pid: Path) -> None:
        self._criu = criu
        self._at_pid = at_pid

    def start(self, command: list[str], key: int) -> int:
        """Start a program at an id that `key` chooses, as a child of this process; returns the id. Raises Refused."""
        highest = int(Path("/proc/sys/kernel/pid_max").read_text()) - 1
        first = max(_FIRST, highest - highest // _SHARE)
        for attempt in range(_ATTEMPTS):
            pid = first + (key + attempt) % (highest - first)
            try:
                done = subprocess.run(
                    [str(self._at_pid), str(pid), *command], capture_output=True, text=True, check=False, preexec_fn=_unblock
                )
            except OSError as error:
                raise Refused(f"{self._at_pid}: {error.strerror}") from error
            if done.returncode == 0:
                return pid
            if done.returncode != 3:
                raise Refused(f"{done.stderr.strip() or f'at_pid: exit code {done.returncode}'} (CAP_CHECKPOINT_RESTORE)")
        raise Refused(f"process ids from {first + key % (highest - first)} on are in use")

    def save(self, pid: int, command: list[str], folder: Path, leave_running: bool) -> Save:
        """Save the process `pid`, a child of this one, into a new folder save-N; then remove the saves before.

        The process is gone afterwards, or goes on (`leave_running`). Nothing counts before all files are on disk. A process that
        could not be saved goes on, and the save before stays. Raises Refused.
        """
        began = time.monotonic()
        before = _saves(folder)
        number = max(before, default=0) + 1
        new = folder / f"save-{number}.new"
        try:
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir()
            words = ["dump", f"--tree={pid}", f"--images-dir={new}", "--log-file=criu.log"]
            # First in a state in which nothing is lost: the process is stopped, and goes on or ends when its save is complete.
            self._run([*words, "--leave-stopped"], new / "criu.log")
            (new / "criu.log").unlink()
            size = sum(path.stat().st_size for path in new.iterdir())
            save = Save(number, pid, command, 0.0, size)
            (new / "save.json").write_text(json.dumps(asdict(save)))
            _synchronise(new)
            new.rename(folder / f"save-{number}")
            _synchronise_folder(folder)
        except (OSError, Refused) as error:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
            shutil.rmtree(new, ignore_errors=True)
            raise Refused(str(error)) from error
        os.kill(pid, signal.SIGCONT if leave_running else signal.SIGKILL)
        for other in before:
            shutil.rmtree(folder / f"save-{other}", ignore_errors=True)
        return Save(number, pid, command, time.monotonic() - began, size)

    def restore(self, save: Save, folder: Path) -> float:
        """Let the saved process go on as a child of this one; returns the seconds that this took. Raises Refused, PidInUse."""
        began = time.monotonic()
        if Path(f"/proc/{save.pid}").exists():
            raise PidInUse(f"process id {save.pid} is in use")
        with tempfile.TemporaryDirectory(prefix="filler-") as work:
            words = ["restore", f"--images-dir={folder / f'save-{save.number}'}", f"--work-dir={work}", "--log-file=criu.log"]
            self._run([*words, "--restore-detached", "--restore-sibling"], Path(work, "criu.log"))
        return time.monotonic() - began

    def refusal(self, folder: Path, key: int) -> str:
        """Return why processes cannot be saved and restored on this host, in one line; "" if they can. Tries it with sleep(1)."""
        if not os.access(self._criu, os.X_OK):
            return f"{self._criu} is missing, or this user may not run it"
        trial = folder / f"trial-{os.getpid()}"
        pid = 0
        try:
            trial.mkdir(parents=True)
            sleep = shutil.which("sleep") or "/bin/sleep"
            pid = self.start([sleep, "60"], key)
            save = self.save(pid, [sleep, "60"], trial, leave_running=False)
            os.waitpid(pid, 0)
            pid = 0
            self.restore(save, trial)
            pid = save.pid
        except (OSError, Refused) as error:
            return str(error)
        finally:
            if pid:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            shutil.rmtree(trial, ignore_errors=True)
        return ""

    def _run(self, words: list[str], log: Path) -> None:
        """Run CRIU. Raises Refused with the first error in its log."""
        done = subprocess.run(
            [str(self._criu), *words, "--unprivileged"], capture_output=True, text=True, check=False, preexec_fn=_unblock
        )
        if done.returncode != 0:
            text = log.read_text(errors="replace") if log.exists() else done.stderr + done.stdout
            errors = [line.partition("Error ")[2] for line in text.splitlines() if "Error " in line]
            raise Refused(f"criu {words[0]}: {(errors or text.splitlines() or [f'exit code {done.returncode}'])[0].strip()}")


def newest(folder: Path) -> Save | None:
    """Return the newest complete save of a folder. Raises Refused if its record cannot be read."""
    saves = _saves(folder)
    if not saves:
        return None
    record = folder / f"save-{max(saves)}" / "save.json"
    try:
        return Save(**json.loads(record.read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise Refused(f"{record}: torn; remove the folder to start again") from error


def remove_saves(folder: Path) -> None:
    """Remove all saves of a folder, also incomplete ones."""
    for path in folder.glob("save-*"):
        shutil.rmtree(path, ignore_errors=True)


def _saves(folder: Path) -> list[int]:
    return [int(found[1]) for path in folder.iterdir() if (found := _SAVE.fullmatch(path.name))]


def _synchronise(folder: Path) -> None:
    """Wait until the folder and its files are on disk."""
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
    _synchronise_folder(folder)


def _synchronise_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unblock() -> None:
    """Let a program that this process starts get all signals."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
