"""Shows the progress of an instance on this machine while an Ansible module waits for it.

An Ansible module shows nothing before it ends. A task takes more than half a second of processor time on the head, much more than
reading the state from files here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mirage.records.run_folder import RunFolder
from mirage.terminal.instance_commands import manager_at
from mirage.terminal.screen import Screen, progress_line, registration_line, start_line
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.farm.farm import read_state
from slurm_mirage.farm.pacing import Rate
from slurm_mirage.instance.instance import active_run, read_progress
from slurm_mirage.replay import prometheus
from slurm_mirage.rm.api import Nodes, ResourceManagerError

# Smallest number of seconds between two reads of the state, by the module that runs.
EVERY = {
    "slurm_farm": 1.0,
    "slurm_farm_info": 2.0,
    "slurm_replay_info": 2.0,
}
QUERY_TIMEOUT = 10.0  # seconds to wait for the controller's answer about the nodes


def nodes_of(directory: Path) -> Nodes | None:
    """The nodes of the instance in `directory`; None if its controller does not answer in time."""
    try:
        return manager_at(directory, QUERY_TIMEOUT).nodes()
    except (ResourceManagerError, WrongUse):
        return None


def write_metrics(results: Path | None, progress: Mapping[str, Any]) -> None:
    """Write metrics.prom of a run into the folder of its results if the folder exists. progress: content of progress.json."""
    if results is not None and results.is_dir():
        # A run must not fail because this file cannot be written.
        with suppress(OSError, ValueError, WrongUse):
            prometheus.write(results / prometheus.NAME, progress, RunFolder(results).manager.diagnostic_metrics)


class LocalProgress:
    """Shows the progress of the nodes' start or of the replay in a thread while an Ansible module waits for it."""

    def __init__(self, directory: Path, screen: Screen, results: Path | None = None) -> None:
        self.directory = directory
        self.screen = screen
        self.results = results
        self._lock = threading.Lock()
        self._stop = threading.Event()

    def begin(self, action: str) -> None:
        """Show progress while a task of the module `action` runs; has no effect for modules without progress."""
        if action in EVERY:
            self._stop = threading.Event()
            line_of = {"slurm_farm": self._daemons, "slurm_farm_info": self._registrations, "slurm_replay_info": self._replay}[
                action
            ]
            threading.Thread(target=self._show, args=(line_of, EVERY[action], self._stop), daemon=True).start()

    def end(self) -> None:
        """Stop showing progress."""
        with self._lock:
            self._stop.set()

    def _show(self, line_of: Callable[[Rate], str | None], every: float, stop: threading.Event) -> None:
        rate, took = Rate(), 0.0
        while not stop.wait(max(every, 4 * took)):
            began = time.monotonic()
            line = line_of(rate)
            took = time.monotonic() - began
            with self._lock:
                if line and not stop.is_set():
                    self.screen.live(line)

    def _daemons(self, _rate: Rate) -> str | None:
        state = self._state()
        return start_line(state) if state else None

    def _registrations(self, rate: Rate) -> str | None:
        state = self._state()
        nodes = nodes_of(self.directory) if state else None
        if nodes is None or not nodes.count or nodes.all_ready:
            return None
        return registration_line(nodes.ready, nodes.count, rate.note(nodes.ready, time.monotonic()))

    def _replay(self, _rate: Rate) -> str | None:
        progress = read_progress(self.directory, active_run(self.directory))
        if not progress:
            return None
        write_metrics(self.results, progress)
        return progress_line(progress)

    def _state(self) -> Mapping[str, Any] | None:
        try:
            return read_state(self.directory)
        except (OSError, ValueError):
            return None


@contextmanager
def local_progress(directory: Path | None, screen: Screen, results: Path | None = None) -> Iterator[LocalProgress | None]:
    """Yields the progress of the instance in `directory` and ends it on exit; None if the instance is on other machines.

    directory: None if the instance is on other machines
    results: the folder in which metrics.prom of the run is updated; None without a run
    """
    progress = LocalProgress(directory, screen, results) if directory is not None else None
    try:
        yield progress
    finally:
        if progress is not None:
            progress.end()
