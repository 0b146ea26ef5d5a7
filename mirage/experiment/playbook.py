"""Runs a playbook through ansible-runner and turns its events into a few lines.

The whole output of Ansible goes to a log file. A terminal shows one line that changes: the task that runs, or the progress of the
nodes' start and of the replay. A pipe or file gets a line for each play, with its number of tasks and changes, and progress lines
while nothing else is written. When a task fails, its own message is shown.
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
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mirage import ROOT
from mirage.experiment.endings import Failed, Interrupted
from mirage.experiment.preflight import INSTANCES
from mirage.knobs.table import BY_NAME
from mirage.terminal.progress import LocalProgress, local_progress, write_metrics
from mirage.terminal.screen import Screen, about, progress_line
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import read_json

# Set by make for its own children: a make that a role starts would take them for its own.
MAKE_ENVIRONMENT = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MAKE_TERMOUT", "MAKE_TERMERR")
# Beginnings of a site's own settings of Slurm's commands (SLURM_CLUSTERS, SQUEUE_STATES, ...), which lead them elsewhere.
SLURM_ENVIRONMENT = ("SLURM_", "SBATCH_", "SQUEUE_", "SINFO_", "SCANCEL_")
WRONG_USE = "wrong use:"
# Seconds between two looks of Ansible's at a replay that this program looks at itself.
LOOK = 60
# A play with fewer tasks has no line of its own in a pipe or file.
FEWEST_TASKS = 2


@dataclass
class Phase:
    """A play that runs. began: monotonic seconds; tasks: ids of those that were not skipped; changed: number of changes."""

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
    """What the events of one playbook have told so far; ansible-runner documents their shapes."""

    screen: Screen
    shows_tasks: bool = True
    # Shows how far an instance on this machine is while a task waits for it.
    local: LocalProgress | None = None
    # Folder of the results of the run that is played, which metrics.prom is kept in meanwhile.
    results: Path | None = None
    changed: int = 0
    # Of the last task that failed: an earlier one was rescued, or has the same cause.
    failure: str = ""
    # The last result of each module of this project that only reads (slurm_farm_info, ...), and those of each host by its name.
    information: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    of_hosts: dict[str, dict[str, Mapping[str, Any]]] = field(default_factory=dict)
    # Names of all hosts, and of those that the failure is of.
    hosts: set[str] = field(default_factory=set)
    failed_hosts: set[str] = field(default_factory=set)
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
        # Ansible's own task at the start of each role, which tells nobody anything.
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
        """Keep what an _info module returned; what a debug task says is meant for the user."""
        action = _module(data)
        result = data.get("res") or {}
        if action.endswith("_info"):
            self.information[action] = result
            self.of_hosts.setdefault(action, {})[str(data.get("host"))] = result
        elif action == "debug":
            said = result.get("msg") or []
            for line in said if isinstance(said, list) else str(said).splitlines():
                self.screen.say(str(line))

    def _fails(self, data: Mapping[str, Any]) -> None:
        message = self._item_failure or _message(data)
        failure = message if message.startswith(WRONG_USE) else f"{data.get('task', 'a task')}: {message}"
        if failure != self.failure:
            if self.failure.startswith(WRONG_USE):
                return
            self.failure, self.failed_hosts = failure, set()
        self.failed_hosts.add(str(data.get("host")))

    def told_failure(self) -> str:
        """The failure, and on which hosts it happened when that was not on all of them."""
        where = sorted(self.failed_hosts)
        if not self.failure or self.failed_hosts == self.hosts or any(host in self.failure for host in where):
            return self.failure
        return f"{self.failure} (on {', '.join(where)})"


def _module(data: Mapping[str, Any]) -> str:
    """Name of the module that a task calls, without its collection."""
    return str(data.get("task_action")).rpartition(".")[2]


def _message(data: Mapping[str, Any]) -> str:
    """The message of a failed task: `msg`, or the last line of what its command wrote."""
    result = data.get("res") or {}
    message = str(result.get("msg") or "").strip()
    if (not message or message.startswith("non-zero return code")) and (words := str(result.get("stderr") or "").strip()):
        message = words.splitlines()[-1]
    return message or "it failed and gave no message"


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """While it lasts, Ctrl-C, SIGTERM and a lost terminal set the event instead of ending the program."""
    asked = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    for number in before:
        signal.signal(number, lambda *_: asked.set())
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def environment() -> dict[str, str]:
    """What the programs of Ansible need."""
    return {
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_NOCOLOR": "1",
        # Ansible refuses a locale that this machine does not have, as ssh brings it along from another one.
        "LC_ALL": "C.UTF-8",
        # The Ansible that is installed beside this Python, whatever else is on PATH.
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
) -> Watcher:
    """Run playbooks/`name`.yml with the extra `variables` on `inventory`; its whole output is added to `log`.

    Raises WrongUse when a task failed with a `wrong use:` message, Failed when it failed otherwise, and
    Interrupted when the user asked to stop.
    """
    import ansible_runner  # a third of a second, which other targets need not pay

    is_here = inventory == ROOT / BY_NAME["INVENTORY"].default
    results = Path(str(variables["experiment_results_dir"])) if "experiment_results_dir" in variables else None
    here = INSTANCES / str(variables.get("mirage_cluster")) if is_here else None
    for variable in [name for name in os.environ if name in MAKE_ENVIRONMENT or name.startswith(SLURM_ENVIRONMENT)]:
        del os.environ[variable]
    with (
        tempfile.TemporaryDirectory(prefix="slurm-mirage-") as folder,
        interruptible() as asked,
        local_progress(here, screen, results) as local,
    ):
        watcher = Watcher(screen, shows_tasks, local, results)
        runner = ansible_runner.run(
            private_data_dir=folder,
            project_dir=str(ROOT),
            playbook=f"playbooks/{name}.yml",
            inventory=[str(ROOT / "inventories/common"), str(inventory)],
            extravars={**variables, **({"experiment_look": LOOK} if here else {})},
            envvars=environment(),
            # The runner looks at the wish to stop that often (seconds) while Ansible says nothing.
            settings={"pexpect_timeout": 1},
            event_handler=watcher.handle,
            cancel_callback=asked.is_set,
            quiet=True,
        )
        output = _keep_output(Path(folder, "artifacts", runner.config.ident, "stdout"), log)
        was_asked = asked.is_set()
        if was_asked:
            _end_workers(folder)
    screen.clear()
    if was_asked:
        raise Interrupted
    if results is not None and (last := read_json(results / "progress.json")):
        write_metrics(results, last)
    if runner.rc != 0:
        message = watcher.told_failure() or _last_words(output)
        if message.startswith(WRONG_USE):
            raise WrongUse(message.removeprefix(WRONG_USE).strip())
        raise Failed(f"{message} (all of it: {log})")
    return watcher


def end_leftovers(results: Path) -> None:
    """End what a program that was killed has left of Ansible, if it works on runs in the folder `results`.

    It would go on, and collect a run's records while the next one has begun. The caller holds the folder's lock, so no program that
    lives works on it.
    """
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            words = (process / "cmdline").read_bytes().split(b"\0")
            given = [Path(os.fsdecode(word[1:])) for word in words if word.startswith(b"@") and word.endswith(b"/env/extravars")]
            if any(f"{results}/" in path.read_text() for path in given):
                os.kill(int(process.name), signal.SIGKILL)


def _end_workers(folder: str) -> None:
    """End the workers of an ansible-playbook that was killed.

    Each has a session of its own (since ansible-core 2.19), so the runner, which kills a process group, misses them. They
    carry the words of ansible-playbook, which hold the temporary `folder` of this very call.
    """
    mark = f"@{folder}/env/extravars".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            if mark in (process / "cmdline").read_bytes().split(b"\0"):
                os.kill(int(process.name), signal.SIGKILL)


def _keep_output(stdout: Path, log: Path) -> str:
    output = stdout.read_text(errors="replace") if stdout.exists() else ""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as stream:
        stream.write(output)
    return output


def _last_words(output: str) -> str:
    """The error of an Ansible that came to no task: a mistake in a playbook or inventory."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"\[?ERROR\]?", line)]
    return (errors or lines or ["ansible-playbook said nothing"])[-1]
