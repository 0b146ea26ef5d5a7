"""A place for one fault at a time: a cluster of its own, the commands of make on it, and the checks after them."""

from __future__ import annotations

import csv
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mirage import RESULTS, ROOT
from mirage.experiment.preflight import INSTANCES as INSTANCES
from mirage.knobs.table import BY_NAME
from mirage.records.run_folder import RunFolder
from slurm_mirage.base import processes
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import read_json

from .table import Wrong

WORDS = ("ok", "invalid", "inconclusive", "failed", "wrong use")
DONE = ("ok", "inconclusive")
"""Endings of an experiment in which nothing went wrong: the jobs of the faults' workload are too short for a conclusive verdict."""
ENDED = (*DONE, "invalid")
"""Endings of an experiment that is complete."""
LONGEST = 300.0
"""Seconds after which a command counts as hanging. An undisturbed experiment takes less than a minute."""
NODES, CPUS = 4, 4
RUN_TIMES, PROCESSORS = (4, 6, 3, 7, 5), (1, 4, 8, 2, 3)
JOBS = 10
"""The workload: a job each second, of these run times in seconds and processors in turn."""
IN_REAL_TIME = {"SPEED": 1, "CONFIG": "backfill"}
"""Knobs with which these seconds are those of the host, and a fault meets running jobs."""


def swf() -> str:
    """The workload of all faults, in the Standard Workload Format."""
    lines = [f"; MaxProcs: {NODES * CPUS}"]
    for index in range(JOBS):
        runtime, processors = RUN_TIMES[index % len(RUN_TIMES)], PROCESSORS[index % len(PROCESSORS)]
        lines.append(f"{index + 1} {index} -1 {runtime} {processors} -1 -1 {processors} {runtime + 20} -1 1 1 1 -1 -1 -1 -1 -1")
    return "\n".join(lines) + "\n"


def until(condition: Callable[[], Any], what: str, seconds: float = LONGEST) -> Any:
    """Wait until `condition` is true and return its value. Raises Wrong after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise Wrong(f"did not happen within {seconds:.0f} s: {what}")
        time.sleep(0.05)
    return value


@dataclass(frozen=True)
class Ended:
    """How a command ended: its last line, split; all of its output; real seconds; the memory of its largest process in MiB."""

    label: str
    word: str
    message: str
    output: str
    seconds: float
    memory: float

    @property
    def line(self) -> str:
        return f"{self.word}: {self.message}"


class Command:
    """A target of make that runs in a process group of its own, as in a terminal."""

    def __init__(self, target: str, knobs: dict[str, str], prefix: Sequence[str] = ()) -> None:
        self.label = f"make {target}"
        # Closed by `end`.
        self._output, self._errors = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115
        self._began = time.monotonic()
        command = [*prefix, "make", "--no-print-directory", target, *(f"{name}={value}" for name, value in knobs.items())]
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._errors,
            process_group=0,
        )

    @property
    def is_running(self) -> bool:
        return self._process.returncode is None and os.waitid(os.P_PID, self._process.pid, _WITHOUT_REAPING) is None

    def interrupt(self) -> None:
        """Send SIGINT to the process group, as a terminal does on Ctrl-C."""
        os.killpg(self._process.pid, signal.SIGINT)

    def kill_group(self) -> None:
        """Send SIGKILL to the process group."""
        os.killpg(self._process.pid, signal.SIGKILL)

    def _kill_all(self) -> None:
        """Kill the process group and all descendants, which may have sessions of their own."""
        parents = processes.parents()
        members, added = {self._process.pid}, {self._process.pid}
        while added:
            added = {pid for pid, parent in parents.items() if parent in added} - members
            members |= added
        known = [(pid, started) for pid in members if (started := processes.start_time(pid)) is not None]
        processes.send_all(known, (signal.SIGKILL,))

    def end(self, longest: float = LONGEST) -> Ended:
        """Wait for the end. A command that lasts longer than `longest` seconds is killed, and has the word `hangs`."""
        deadline = self._began + longest
        hangs = False
        while True:
            pid, status, usage = os.wait4(self._process.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > deadline and not hangs:
                hangs = True
                self._kill_all()
            time.sleep(0.02)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - self._began
        self._output.seek(0)
        self._errors.seek(0)
        with self._output, self._errors:
            output, errors = (stream.read().decode(errors="replace") for stream in (self._output, self._errors))
        last = (output.strip().splitlines() or [""])[-1]
        word, _, message = last.partition(": ")
        if hangs:
            word, message = "hangs", f"for more than {longest:.0f} s; its last line was: {last}"
        elif word not in WORDS:
            word, message = "nothing", f"exit code {self._process.returncode}, without a last line of its own: {last}"
        return Ended(self.label, word, message, output + errors, seconds, usage.ru_maxrss / 1024)


_WITHOUT_REAPING = os.WEXITED | os.WNOHANG | os.WNOWAIT


def _environment() -> dict[str, str]:
    """The environment without make's own variables and without knobs."""
    left_out = {*BY_NAME, "FAULTS", "MIRAGE_GIVEN", "MFLAGS"}
    return {name: value for name, value in os.environ.items() if name not in left_out and not name.startswith("MAKE")}


class Lane:
    """A cluster and the runs of one fault on it. `stack` is undone at the end of each fault, before make teardown."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self.directory = INSTANCES / cluster
        self.user = f"slurm-{cluster}"
        self.inventory = ""
        self.nodes = NODES
        self.fault = ""
        self.endings: list[Ended] = []
        self.lines: list[str] = []
        self.stack = ExitStack()
        self.scratch = Path()

    # ---- one fault ----

    def begin(self, name: str) -> None:
        """Start with an empty scratch folder, which other users can enter, and without results of an earlier call."""
        self.fault = name
        self.endings, self.lines = [], []
        self.stack = ExitStack()
        self.scratch = Path(tempfile.mkdtemp(prefix=f"slurm-mirage-faults-{self.cluster}-"))
        self.scratch.chmod(0o755)
        (self.scratch / "workload.swf").write_text(swf())
        self.remove_results()

    def finish(self) -> None:
        """Undo what the fault has left on purpose, and remove its files."""
        try:
            self.stack.close()
        finally:
            self.remove_results()
            shutil.rmtree(self.scratch, ignore_errors=True)

    def remove_results(self) -> None:
        for folder in RESULTS.glob(f"{self.run()}*"):
            shutil.rmtree(folder)

    def run(self, suffix: str = "") -> str:
        """Name of a run of this fault."""
        return f"faults-{self.cluster}-{self.fault}{suffix}"

    # ---- commands ----

    def start(self, target: str, prefix: Sequence[str] = (), **knobs: Any) -> Command:
        """Start a target of make on the lane's cluster."""
        given = {"CLUSTER": self.cluster, **{name: str(value) for name, value in knobs.items()}}
        if self.inventory:
            given["INVENTORY"] = self.inventory
        return Command(target, given, prefix)

    def make(self, target: str, *, longest: float = LONGEST, label: str = "", **knobs: Any) -> Ended:
        """Run a target of make on the lane's cluster to its end."""
        return self.ended(self.start(target, **knobs), longest, label)

    def ended(self, command: Command, longest: float = LONGEST, label: str = "") -> Ended:
        """Wait for the end of a command and note its last line. Raises Wrong if it printed a stack trace or no last line."""
        ended = command.end(longest)
        # The name of the run is that of the fault, and must not match where a reason is looked for.
        ended = replace(ended, message=self.general(ended.message))
        self.endings.append(ended)
        self.lines.append(f"{label or ended.label}: {ended.line}")
        if "Traceback (most recent call last)" in ended.output:
            raise Wrong(f"{ended.label} printed a stack trace; its last line: {ended.line}")
        if "our mistake" in ended.message:
            raise Wrong(f"{ended.label} ended by an unexpected exception: {ended.line}")
        if ended.word not in WORDS:
            raise Wrong(f"{ended.label}: {ended.line}")
        return ended

    def general(self, line: str) -> str:
        """A line without what belongs to this machine, clone and call."""
        for path, name in ((self.scratch, "SCRATCH"), (self.directory, "INSTANCE"), (ROOT, "CLONE")):
            line = line.replace(str(path), name)
        line = line.replace(self.run(), "RUN").replace(self.cluster, "CLUSTER")
        return re.sub(r"\b(process|pid) \d+", r"\1 N", line)

    def knobs(self, run: str = "", **more: Any) -> dict[str, Any]:
        """Knobs of an experiment with the faults' workload."""
        shape = {"NODES": self.nodes, "CPUS": CPUS, "TRACE": self.scratch / "workload.swf", "RUN": run or self.run()}
        return {**shape, **IN_REAL_TIME, **more}

    def experiment(self, run: str = "", *, longest: float = LONGEST, label: str = "", **more: Any) -> Ended:
        """Run an experiment to its end."""
        return self.make("experiment", longest=longest, label=label, **self.knobs(run, **more))

    def start_experiment(self, run: str = "", prefix: Sequence[str] = (), **more: Any) -> Command:
        return self.start("experiment", prefix, **self.knobs(run, **more))

    def build(self, **more: Any) -> None:
        """Build the cluster. Raises Wrong if that fails."""
        expect(self.make("cluster", NODES=self.nodes, CPUS=CPUS, **{**IN_REAL_TIME, **more}), ("ok",))

    # ---- the run on the head ----

    def folder(self, run: str = "") -> Path:
        """Folder of a run in the instance."""
        return self.directory / "runs" / (run or self.run())

    def results(self, run: str = "") -> Path:
        return RESULTS / (run or self.run())

    def progress(self, run: str = "") -> dict[str, Any]:
        with suppress(OSError, ValueError):
            content: dict[str, Any] = read_json(self.folder(run) / "progress.json") or {}
            return content
        return {}

    def until_submitted(self, command: Command, jobs: int = 4, run: str = "") -> None:
        """Wait until so many jobs of the run have been submitted. Raises Wrong if the command ends before."""

        def are_submitted() -> bool:
            if self.progress(run).get("submitted", 0) >= jobs:
                return True
            if not command.is_running:
                raise Wrong(f"the experiment ended before the fault: {self.ended(command).line}")
            return False

        until(are_submitted, f"{jobs} jobs submitted")

    def account(self) -> pwd.struct_passwd:
        return pwd.getpwnam(self.user)

    def pids(self, *names: str) -> list[int]:
        """Processes of the instance whose program (comm) has one of these names."""
        return [pid for pid in sorted(processes.of_instance(str(self.directory))) if _comm(pid) in names]

    def pid_of(self, name: str) -> int:
        found = self.pids(name)
        if not found:
            raise Wrong(f"there is no {name} to inject the fault into")
        return found[0]

    def farm_pid(self) -> int:
        return int((read_json(self.directory / "run/farm.json") or {})["pid"])

    def replay_pid(self, run: str = "") -> int:
        words = (self.folder(run) / "replay.lock").read_text().split()
        return int(words[0])

    def kill_replay(self, run: str = "") -> None:
        pid = self.replay_pid(run)
        os.kill(pid, signal.SIGKILL)
        until(lambda: processes.start_time(pid) is None, "end of the killed replay")

    def slurm(self, *command: str, uid: int | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command of Slurm as the instance's user, or as `uid`."""
        account = self.account()
        environment = {"PATH": "/usr/bin:/bin", "SLURM_CONF": f"{self.directory}/etc/slurm.conf"}
        user, group = (account.pw_uid, account.pw_gid) if uid is None else (uid, uid)
        return subprocess.run(
            command, capture_output=True, text=True, check=False, cwd="/", env=environment, user=user, group=group, extra_groups=[],
            timeout=60,
        )  # fmt: skip

    def as_user(self, code: str, *arguments: str, text: str = "") -> subprocess.Popen[bytes]:
        """Start a Python program as the instance's user, outside of the instance. It is killed at the end of the fault.

        text: its standard input, for what is too long for an argument
        """
        account = self.account()
        process = subprocess.Popen(
            ["/usr/bin/python3", "-I", "-c", code, *arguments],
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=account.pw_uid,
            group=account.pw_gid,
            extra_groups=[],
        )

        def end() -> None:
            process.kill()
            process.wait()

        self.stack.callback(end)
        assert process.stdin is not None
        process.stdin.write(text.encode())
        process.stdin.close()
        return process

    # ---- what has to hold afterwards ----

    def goes_on(self, run: str = "", words: Sequence[str] = ENDED, **more: Any) -> Ended:
        """Give the same command again: it has to finish the run, with each job once."""
        ended = self.experiment(run, label="the same command", **more)
        expect(ended, words)
        self.complete(run)
        return ended

    def complete(self, run: str = "", jobs: int = JOBS) -> None:
        """Check that each of the `jobs` is in jobs.csv exactly once, that none is lost, and that none ran to its end twice."""
        folder = self.results(run)
        missing = [name for name in ("plan.csv", "jobs.csv", "metrics.json", "status.json") if not (folder / name).exists()]
        if missing:
            raise Wrong(f"the run left no {' and no '.join(missing)}")
        planned = Counter(row["id"] for row in read_rows(folder / "plan.csv"))
        found = Counter(row["id"] for row in read_rows(folder / "jobs.csv"))
        if planned != found or len(planned) != jobs:
            raise Wrong(f"{planned.total()} jobs planned, in jobs.csv: lost {planned - found}, doubled {found - planned}")
        lost = read_json(folder / "metrics.json")["jobs"]["lost"]
        if lost:
            raise Wrong(f"{lost} jobs lost")
        ran: dict[str, set[int]] = {}
        records = RunFolder(folder).manager
        for job in records.completions(_text(folder / records.completions_file)):
            if job.state == "COMPLETED":
                ran.setdefault(job.name, set()).add(job.job_id)
        # The jobs that measure what a launch costs have one name.
        names = {row["name"] for row in read_rows(folder / "plan.csv")}
        doubled = sorted(name for name, ids in ran.items() if len(ids) > 1 and name in names)
        if doubled:
            raise Wrong(f"jobs that completed under two job ids: {', '.join(doubled)}")

    def states(self, run: str = "") -> Counter[str]:
        """Number of jobs by state in jobs.csv."""
        return Counter(row["state"] for row in read_rows(self.results(run) / "jobs.csv"))

    def validity(self, run: str = "") -> dict[str, Any]:
        content: dict[str, Any] = read_json(self.results(run) / "metrics.json")["validity"]
        return content

    def left(self) -> list[str]:
        """What is left of the instance on this machine: processes, folder, user, mounts, units, tables of the firewall."""
        found = []
        if os.path.lexists(self.directory):
            found.append(f"folder {self.directory}")
        with suppress(KeyError):
            pwd.getpwnam(self.user)
            found.append(f"user {self.user}")
        mark = f"{processes.INSTANCE_VARIABLE}={self.directory}"
        for pid in sorted(processes.parents()):
            if any(str(self.directory) + "/" in word for word in processes.command_line(pid)) or mark in _environ(pid):
                found.append(f"process {_comm(pid)}")
        mounts = [line.split()[1] for line in _text(Path("/proc/self/mounts")).splitlines()]
        found += [f"mount {point}" for point in mounts if point.startswith(f"{self.directory}/")]
        found += [f"unit {path.name}" for path in Path("/etc/systemd/system").glob(f"slurm-*{self.cluster}*")]
        if f'"{self.cluster}"' in _text(INSTANCES / "host-settings.json"):
            found.append("claim on kernel settings")
        return found

    def clear(self) -> None:
        """Remove what make teardown has left, so that the next fault finds nothing."""
        processes.end(processes.of_instance(str(self.directory)), 5.0)
        for line in reversed(_text(Path("/proc/self/mounts")).splitlines()):
            if line.split()[1].startswith(f"{self.directory}/"):
                subprocess.run(["umount", "--lazy", line.split()[1]], check=False)
        shutil.rmtree(self.directory, ignore_errors=True)
        subprocess.run(["userdel", self.user], capture_output=True, check=False)


def expect(ended: Ended, words: Sequence[str], pattern: str = "") -> Ended:
    """Check the word and the reason of a command's last line. Raises Wrong."""
    if ended.word not in words:
        raise Wrong(f"{ended.label} ended with `{ended.word}:`, wanted {' or '.join(words)}: {ended.message}")
    if pattern and not re.search(pattern, ended.message, re.IGNORECASE):
        raise Wrong(f"the reason does not match /{pattern}/: {ended.message}")
    return ended


def says(ended: Ended, pattern: str) -> None:
    """Check that a line of the command's output matches. Raises Wrong."""
    if not re.search(pattern, ended.output, re.IGNORECASE):
        raise Wrong(f"no line of {ended.label} matches /{pattern}/; the last one: {ended.line}")


def quick_refusal(ended: Ended, seconds: float, mebibytes: float) -> None:
    """Check that a command did not take longer and no more memory. Raises Wrong."""
    if ended.seconds > seconds:
        raise Wrong(f"{ended.label} took {ended.seconds:.1f} s, wanted at most {seconds:g} s")
    if ended.memory > mebibytes:
        raise Wrong(f"{ended.label} took {ended.memory:.0f} MiB, wanted at most {mebibytes:g} MiB")


class Snapshot:
    """Owners, modes, times of change and contents of everything below a folder, to find out whether anything has touched it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._before = self._look()

    def _look(self) -> dict[str, tuple[object, ...]]:
        entries = [self._folder, *sorted(self._folder.rglob("*"))]
        found: dict[str, tuple[object, ...]] = {}
        for path in entries:
            seen = path.lstat()
            content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
            found[str(path)] = (seen.st_uid, seen.st_gid, oct(seen.st_mode), seen.st_ctime_ns, content)
        return found

    def unchanged(self) -> None:
        """Raises Wrong if anything differs."""
        now = self._look()
        for path in sorted({*now, *self._before}):
            before, after = self._before.get(path), now.get(path)
            if before != after:
                shown = "it is new" if before is None else "it is gone" if after is None else f"{before[:3]} became {after[:3]}"
                raise Wrong(f"changed outside the instance: {Path(path).name}: {shown} (uid, gid, mode)")


def holds_secret(folders: Iterable[Path], secret: str) -> list[str]:
    """Names of the files below the folders that contain the text."""
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return sorted({path.name for path in files if secret.encode() in path.read_bytes()})


def unix_socket(path: Path) -> socket.socket:
    """A listening socket of the file system."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(1)
    return listener


def checked(command: Sequence[str]) -> str:
    """Run a command of this machine. Raises WrongUse with its error."""
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise WrongUse(f"{' '.join(command)}: {result.stderr.strip()}")
    return result.stdout


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file, by the names of its head."""
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _comm(pid: int) -> str:
    return _text(Path(f"/proc/{pid}/comm")).strip()


def _environ(pid: int) -> list[str]:
    return _text(Path(f"/proc/{pid}/environ")).split("\0")
