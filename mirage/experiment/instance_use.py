"""The use of an instance by one order: an experiment, a sweep or a comparison. No other order uses the instance meanwhile."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from mirage import ROOT
from mirage.experiment import preflight
from mirage.experiment.endings import Failed, Interrupted
from mirage.experiment.playbook import end_leftovers, run_playbook
from mirage.experiment.runs import only_one
from mirage.knobs.knobs import ClusterKnobs
from mirage.terminal.screen import Screen
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.instance import instance_lock
from slurm_mirage.instance.instance_lock import Busy, Holder

LOOK = 2.0
"""Seconds between two looks whether the instance is free (BUSY=wait)."""

Result = TypeVar("Result")


class InstanceUse:
    """Holds the lock of the instance CLUSTER in its context, on the head (slurm_mirage.instance.instance_lock).

    As root on the head, the lock is taken before anything is checked or written. Otherwise the first playbook takes it, before it
    changes anything. While another order has the lock, BUSY=refuse raises Busy, and BUSY=wait waits.
    """

    def __init__(
        self,
        cluster: ClusterKnobs,
        order: str,
        own: Collection[str],
        folders: Sequence[Path],
        screen: Screen,
        host: str = "",
    ) -> None:
        """order: name of the order in results/; own: names of its runs on the head; folders: those of its runs; host: as for
        `run_playbook`.
        """
        self.interrupted: threading.Event | None = None
        """Set when the user asks to stop, where threads use instances (see `run_playbook`)."""
        self._cluster, self._order, self._own, self._folders, self._screen = cluster, order, own, folders, screen
        self._host = host
        self._directory = preflight.instance_directory(cluster)
        self._holder = Holder.of_process(os.getpid(), order, str(ROOT))
        self._has_direct_access = preflight.is_here(cluster) and os.geteuid() == 0
        self._inventory: Path | None = None  # on which a playbook may have taken the lock

    def __enter__(self) -> InstanceUse:
        for folder in self._folders:
            if folder.is_dir():
                with suppress(WrongUse), only_one(folder):
                    end_leftovers(folder)
        if self._has_direct_access:
            self.when_free(lambda: instance_lock.take(self._directory, self._holder, self._order, self._own))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._has_direct_access:
            instance_lock.release(self._directory, self._holder)
        elif self._inventory is not None and not preflight.is_here(self._cluster):
            # If this fails, the lock ends with the connection, some time later.
            with suppress(WrongUse, Failed, Interrupted):
                variables = {"mirage_cluster": self._cluster.name, "experiment_run": self._order, **self._as_variable()}
                log = Path(os.devnull)
                run_playbook("release", variables, self._inventory, self._screen, log, shows_tasks=False, host=self._host)

    def play(self, playbook: str, variables: Mapping[str, Any], inventory: Path, screen: Screen, log: Path) -> None:
        """Run the playbook of one run of the order, which takes or renews the lock. Raises what `run_playbook` raises."""

        def once() -> None:
            before, self._inventory = self._inventory, inventory
            try:
                own = {**variables, **self._as_variable()}
                run_playbook(playbook, own, inventory, screen, log, interrupted=self.interrupted, host=self._host)
            except Busy:
                self._inventory = before
                raise

        try:
            self.when_free(once)
        except KeyboardInterrupt:
            raise Interrupted from None

    def when_free(self, action: Callable[[], Result]) -> Result:
        """Do something that raises Busy while another order has the lock."""
        while True:
            try:
                return action()
            except Busy as busy:
                if self._cluster.busy == "refuse":
                    raise
                if self.interrupted is not None and self.interrupted.is_set():
                    raise Interrupted from None
                where = f" on {self._host}" if self._host else ""
                self._screen.live(f"waiting for cluster {self._cluster.name}{where}: {busy.message.split(';')[0]}")
            time.sleep(LOOK)

    def _as_variable(self) -> dict[str, Any]:
        return {"experiment_holder": asdict(self._holder), "experiment_has_lock": self._has_direct_access}
