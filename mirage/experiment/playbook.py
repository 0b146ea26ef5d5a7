"""Runs a playbook through ansible-runner and shows its progress.

The complete output of Ansible is written to a log file. A terminal shows one line that is rewritten: the current task, or the
progress of the nodes' start or of the replay. A pipe or file gets a line for each play, with its number of tasks and changes, and
progress lines while nothing else is written. If a task fails, its message is shown.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mirage import ROOT
from mirage.experiment import standing
from mirage.experiment.endings import Failed, Interrupted
from mirage.experiment.extra_variables import untrusted
from mirage.experiment.preflight import INSTANCES
from mirage.knobs.table import BY_NAME
from mirage.records.run_folder import RunFolder
from mirage.terminal.progress import LocalProgress, local_progress, write_metrics
from mirage.terminal.screen import Screen, progress_line
from mirage.text.words import about
from slurm_mirage.base import processes
from slurm_mirage.base.disk import is_full, no_space
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import write_json
from slurm_mirage.base.printing import log_text
from slurm_mirage.base.strict_json import Damaged
from slurm_mirage.instance.instance_lock import Busy

# Variables that make sets for its children. They are removed, because a make that a role starts would use them.
MAKE_ENVIRONMENT = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MAKE_TERMOUT", "MAKE_TERMERR")
# Prefixes of variables that change the behaviour of Slurm's commands (SLURM_CLUSTERS, SQUEUE_STATES, ...). They are removed.
SLURM_ENVIRONMENT = ("SLURM_", "SBATCH_", "SQUEUE_", "SINFO_", "SCANCEL_")
WRONG_USE = "wrong use:"
# Seconds between two polls of the replay by Ansible, if this program polls the replay itself.
LOOK = 60
# Seconds to wait for the end of killed processes.
_ENDS_WITHIN = 5.0
# A play with fewer tasks has no line of its own in a pipe or file.
FEWEST_TASKS = 2


@dataclass
class Phase:
    """The current play. began: monotonic seconds; tasks: ids of the tasks that were not skipped; changed: number of changes."""

    name: str
    began: float
    tasks: set[str] = field(default_factory=set)
    changed: int = 0

    def counts(self) -> str:
        """`Build the cluster: 41 tasks, 3 changed, 12 s`."""
        tasks = f"{len(self.tasks)} task{'s' * (len(self.tasks) != 1)}"
        return f"{self.name}: {tasks}, {self.changed} changed, {about(time.monotonic() - self.began)}"


@dataclass
class Watcher:
    """Handles the events of one playbook run, in the format that ansible-runner documents, and keeps their results."""

    screen: Screen
    shows_tasks: bool = True
    # Shows the progress of an instance on this machine while a task waits for it.
    local: LocalProgress | None = None
    # Folder of the results of the run, in which metrics.prom is updated.
    results: Path | None = None
    changed: int = 0
    # Message of the last task that failed: an earlier failure was rescued, or has the same cause.
    failure: str = ""
    # The last result of each module whose name ends with _info, and the last result by host of each of them.
    information: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    of_hosts: dict[str, dict[str, Mapping[str, Any]]] = field(default_factory=dict)
    # Names of all hosts, and of those on which the failure occurred.
    hosts: set[str] = field(default_factory=set)
    failed_hosts: set[str] = field(default_factory=set)
    # Whether the failure was that another run has the lock of the instance.
    is_busy: bool = False
    _item_failure: str = ""
    _phase: Phase | None = None

    def handle(self, event: Mapping[str, Any]) -> bool:
        """ansible-runner's event handler. Returns False: events are not kept as files."""
        data = event.get("event_data") or {}
        if host := data.get("host"):
            self.hosts.add(host)
        if self.local is not None and event.get("event") not in (None, "verbose", "runner_on_start", "runner_retry"):
            self.local.end()
        match event.get("event"):
            case "playbook_on_play_start":
                self._end_phase()
                self._phase = Phase(str(data.get("name")), time.monotonic())
            case "playbook_on_task_start":
                self._task_starts(data)
            case "runner_retry":
                self._progress(data)
            case "runner_on_ok":
                self._count(data)
                self._progress(data)
                self._keep(data)
            case "runner_item_on_failed":
                self._item_failure = _message(data)
            case "runner_on_failed" if not data.get("ignore_errors"):
                self._fails(data)
            case "runner_on_unreachable":
                self._fails(data)
            case "playbook_on_stats":
                self.changed = sum((data.get("changed") or {}).values())
                if not (data.get("failures") or data.get("dark")):
                    self._end_phase()
        return False

    def _count(self, data: Mapping[str, Any]) -> None:
        if self._phase is not None:
            self._phase.tasks.add(str(data.get("task_uuid")))
            self._phase.changed += bool((data.get("res") or {}).get("changed"))

    def _end_phase(self) -> None:
        if self._phase is not None and self.shows_tasks and len(self._phase.tasks) >= FEWEST_TASKS:
            self.screen.say_in_log(f"  {self._phase.counts()}")
        self._phase = None

    def _task_starts(self, data: Mapping[str, Any]) -> None:
        self._item_failure = ""
        role = data.get("role")
        name = str(data.get("name") or data.get("task") or "").removeprefix(f"{role} : ")
        # Ansible inserts the task that validates arguments at the start of each role; it is not shown.
        if self.shows_tasks and not name.startswith("Validating arguments"):
            in_log = None if self._phase is None else f"  {self._phase.counts()} so far"
            self.screen.live(f"  {role}: {name}" if role else f"  {name}", in_log)
            if self.local is not None:
                self.local.begin(_module(data))

    def _progress(self, data: Mapping[str, Any]) -> None:
        progress = (data.get("res") or {}).get("progress")
        if isinstance(progress, Mapping):
            if progress:
                write_metrics(self.results, progress)
            self.screen.live(progress_line(progress))

    def _keep(self, data: Mapping[str, Any]) -> None:
        """Keep the result of an _info module, and print the message of a debug task and the notes of a module."""
        action = _module(data)
        result = data.get("res") or {}
        for note in result.get("notes") or []:
            self.screen.say(f"note: {note}")
        if action.endswith("_info"):
            self.information[action] = result
            self.of_hosts.setdefault(action, {})[str(data.get("host"))] = result
        elif action == "debug":
            message = result.get("msg") or []
            for line in message if isinstance(message, list) else str(message).splitlines():
                self.screen.say(str(line))

    def _fails(self, data: Mapping[str, Any]) -> None:
        message = self._item_failure or _message(data)
        failure = message if message.startswith(WRONG_USE) else f"{data.get('task', 'a task')}: {message}"
        if failure != self.failure:
            if self.failure.startswith(WRONG_USE):
                return
            self.failure, self.failed_hosts = failure, set()
            self.is_busy = bool((data.get("res") or {}).get("busy"))
        self.failed_hosts.add(str(data.get("host")))

    def failure_message(self) -> str:
        """Message of the failure, with the names of the hosts unless all hosts failed or the message names one of them."""
        hosts = sorted(self.failed_hosts)
        if not self.failure or self.failed_hosts == self.hosts or any(host in self.failure for host in hosts):
            return self.failure
        return f"{self.failure} (on {', '.join(hosts)})"


def _module(data: Mapping[str, Any]) -> str:
    """Name of the module that a task calls, without its collection."""
    return str(data.get("task_action")).rpartition(".")[2]


def _message(data: Mapping[str, Any]) -> str:
    """The message of a failed task: `msg`, or the last line of the standard error of its command."""
    result = data.get("res") or {}
    message = str(result.get("msg") or "").strip()
    if (not message or message.startswith("non-zero return code")) and (words := str(result.get("stderr") or "").strip()):
        message = words.splitlines()[-1]
    return message or "it failed and gave no message"


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """In this context SIGINT, SIGTERM and SIGHUP set the event that it yields, and do not end the program."""
    interrupted = threading.Event()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    for number in handlers:
        signal.signal(number, lambda *_: interrupted.set())
    try:
        yield interrupted
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def environment() -> dict[str, str]:
    """Environment variables for the programs of Ansible."""
    return {
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_NOCOLOR": "1",
        # Ansible refuses a locale that is not installed here; ssh may pass on such a locale.
        "LC_ALL": "C.UTF-8",
        # The Ansible that is installed with this Python comes first.
        "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}",
    }


def run_playbook(
    name: str,
    variables: Mapping[str, Any],
    inventory: Path,
    screen: Screen,
    log: Path,
    *,
    shows_tasks: bool = True,
    interrupted: threading.Event | None = None,
    host: str = "",
) -> Watcher:
    """Run playbooks/`name`.yml with the extra `variables` on `inventory`; its output is appended to `log`.

    host: the host of the inventory's `run_hosts` that is head and compute host; none for the hosts of the inventory's own groups.
    interrupted: set when the user asks to stop, by a caller that handles the signals. Without it they are handled here, which only
    the main thread can do.

    Raises WrongUse when a task failed with a `wrong use:` message (Busy if another run has the lock of the instance), Failed when
    it failed otherwise, and Interrupted when the user asked to stop.
    """
    import ansible_runner  # takes a third of a second, and other targets do not need it

    is_local = inventory == ROOT / BY_NAME["INVENTORY"].default
    results = Path(str(variables["experiment_results_dir"])) if "experiment_results_dir" in variables else None
    instance = INSTANCES / str(variables.get("mirage_cluster")) if is_local else None
    for variable in [name for name in os.environ if name in MAKE_ENVIRONMENT or name.startswith(SLURM_ENVIRONMENT)]:
        os.environ.pop(variable, None)  # another thread may have removed it
    with (
        tempfile.TemporaryDirectory(prefix="slurm-mirage-") as folder,
        nullcontext(interrupted) if interrupted is not None else interruptible() as interrupted,
        local_progress(instance, screen, results) as local,
    ):
        watcher = Watcher(screen, shows_tasks, local, results)
        inventories = [str(ROOT / "inventories/common"), str(inventory)]
        if host:
            groups = Path(folder, "one_host.json")
            write_json(groups, {group: {"hosts": {host: None}} for group in ("head", "compute")})
            inventories.append(str(groups))
        runner = ansible_runner.run(
            private_data_dir=folder,
            project_dir=str(ROOT),
            playbook=f"playbooks/{name}.yml",
            inventory=inventories,
            extravars=untrusted(
                {**variables, **standing.digests(variables, inventory), **({"experiment_look": LOOK} if instance else {})}
            ),
            envvars=environment(),
            # Seconds between two calls of cancel_callback while Ansible writes nothing.
            settings={"pexpect_timeout": 1},
            event_handler=watcher.handle,
            cancel_callback=interrupted.is_set,
            quiet=True,
        )
        output = _keep_output(Path(folder, "artifacts", runner.config.ident, "stdout"), log)
        was_interrupted = interrupted.is_set()
        if was_interrupted:
            _end_workers(folder)
    screen.clear()
    if was_interrupted:
        raise Interrupted
    with suppress(Damaged):
        if results is not None and (last := RunFolder(results).progress):
            write_metrics(results, last)
    if runner.rc != 0:
        message = watcher.failure_message() or _last_error(output)
        if is_full(log.parent):
            raise Failed(f"{no_space(log.parent)}, then the same command goes on")
        if "No space left on device" in message:
            raise Failed(f"{_lack_of_space(message, is_local)}, then the same command goes on (all of it: {log})")
        if message.startswith(WRONG_USE):
            raise (Busy if watcher.is_busy else WrongUse)(message.removeprefix(WRONG_USE).strip())
        raise Failed(f"{message} (all of it: {log})")
    return watcher


def end_leftovers(results: Path) -> None:
    """End the processes of Ansible that a killed program has left, if they work on the run or on runs in the folder `results`.

    They would continue, and collect a run's records during the next run. The caller holds the lock of the folder, so no running
    program works on it.
    """
    ended: dict[int, int] = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # the process has ended
            started = processes.start_time(int(process.name)) or 0
            arguments = (process / "cmdline").read_bytes().split(b"\0")
            files = [
                Path(os.fsdecode(word[1:])) for word in arguments if word.startswith(b"@") and word.endswith(b"/env/extravars")
            ]
            texts = [path.read_text() for path in files]
            if any(f'"{results}"' in text or f"{results}/" in text for text in texts):
                ended[int(process.name)] = started
                processes.send(int(process.name), started, signal.SIGKILL)
    deadline = time.monotonic() + _ENDS_WITHIN
    while any(processes.is_alive(*one) for one in ended.items()) and time.monotonic() < deadline:
        time.sleep(0.02)


def _end_workers(folder: str) -> None:
    """End the workers of an ansible-playbook that was killed.

    Since ansible-core 2.19 each worker has its own session, so the runner, which kills a process group, does not end them. Their
    command line is that of ansible-playbook, which contains the temporary `folder` of this run.
    """
    argument = f"@{folder}/env/extravars".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # the process has ended
            started = processes.start_time(int(process.name)) or 0
            if argument in (process / "cmdline").read_bytes().split(b"\0"):
                processes.send(int(process.name), started, signal.SIGKILL)


def _keep_output(stdout: Path, log: Path) -> str:
    output = log_text(stdout.read_text(errors="replace")) if stdout.exists() else ""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as stream:
        stream.write(output)
    return output


def _lack_of_space(message: str, is_local: bool) -> str:
    """The message for a full disk, from that of a module of Ansible's that names the file that could not be written."""
    paths = re.findall(r"/[^'\"\s,:]+", message)
    path = next((path for path in paths if path.startswith(f"{INSTANCES}/")), paths[-1] if paths else "a disk")
    return no_space(path) if is_local and paths else f"no space left on {path}: free some"


def _last_error(output: str) -> str:
    """The error of Ansible if no task failed, such as a mistake in a playbook or inventory."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"\[?ERROR\]?", line)]
    return (errors or lines or ["ansible-playbook said nothing"])[-1]
