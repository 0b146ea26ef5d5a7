"""The instances on which the runs of a campaign go on side by side: their locks, the threads that run them, their removal.

They are instances of one host, CLUSTER, CLUSTER-2 and so on, or the instance CLUSTER on each host of the inventory's `run_hosts`.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Generic, TypeVar

from mirage.campaign.at_once import belongs, places, places_of, runs_at_once
from mirage.campaign.run_queue import RunQueue
from mirage.experiment import launch_costs, preflight
from mirage.experiment.endings import Ending, Failed, Interrupted
from mirage.experiment.hosts import run_hosts
from mirage.experiment.instance_use import InstanceUse
from mirage.experiment.lane import Lane
from mirage.experiment.playbook import interruptible, run_playbook
from mirage.knobs.knobs import ClusterKnobs, Knobs
from mirage.knobs.parse import Speed
from mirage.records.file_names import ANSIBLE_LOG_FILE
from mirage.records.run_clock import EVENT
from mirage.terminal.campaign_screen import RunScreen, SharedScreen
from mirage.terminal.screen import Screen
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.rm.managers import manager_of

LOOK = 0.5
"""Seconds between two looks at the campaign while its runs go on."""

Run = TypeVar("Run")


@dataclass(frozen=True)
class RunsLeft(Generic[Run]):
    """The runs that are left of a campaign, and how they are executed.

    knobs, inventory: as given. speed: SPEED as chosen. folder: in results/, with its experiment.json. use: the use of CLUSTER, on
    the first of `run_hosts` if there are any.
    on_head: names of all runs on the head. left: the runs that are left, in order.
    """

    knobs: Knobs
    inventory: Path
    speed: Speed
    folder: Path
    use: InstanceUse
    on_head: Collection[str]
    left: Sequence[Run]
    play: Callable[[Run, Lane], bool]
    """Executes a run and returns whether further runs may begin."""
    which: Callable[[Run], str]
    """The title of a run on the screen."""
    name: Callable[[Run], str]
    """The name of a run on the head."""
    folder_of: Callable[[Run], Path]
    home: Callable[[Run], str | None]
    """The instance, or the host of `run_hosts`, on which a run has begun and can go on; None if it may begin on any."""
    foot: Callable[[], str]
    """How far the campaign is."""
    arm: Callable[[Run], str] | None = None
    """The arm of a comparison that a run belongs to."""
    keeps: bool = False
    """Whether the instances beside CLUSTER stay for further runs."""

    def manager(self) -> str:
        """The first resource manager of the campaign."""
        return self.knobs.scheduler.managers[0]

    def at_once(self) -> int:
        """Number of runs that go on side by side. Raises WrongUse."""
        return runs_at_once(self.knobs, self.speed, len(self.left))

    def run(self, used: Collection[str], screen: Screen) -> bool:
        """Execute all runs that are left, and remove the instances beside CLUSTER (see `keeps`); returns whether all were executed.

        If a run fails, no further run begins, those that go on are waited for, and all instances stay.
        used: instances, or hosts of `run_hosts`, on which runs of the campaign have begun before
        """
        cluster, count = self.knobs.cluster, self.at_once()
        hosts, names = run_hosts(cluster), places(cluster, count)
        homes = {self.name(run): self.home(run) for run in self.left}
        order = self.folder.name
        with Lanes(cluster, order, [order, *self.on_head], self.use, screen) as lanes:
            lanes.open([*names, *(name for name in sorted(set(used)) if self._is_ours(name))])
            for name in names:
                for run in self.left:
                    preflight.no_leftover(lanes.cluster(name), self.folder_of(run), self.name(run))
            # With a constant speed above 1 the first run measures what a launch costs, for all runs on its host.
            measures = (
                self.speed not in (EVENT, Decimal(1)) and not hosts and not launch_costs.is_known(self.folder, self.manager())
            )
            # On the event clock the host does not affect results: an instance keeps its configuration from run to run.
            arm = self.arm if self.speed == EVENT and not hosts else None
            queue = RunQueue(self.left, lambda run: homes[self.name(run)], names, count > 1 and measures, arm)
            is_complete = lanes.play(self, queue) if count == 1 else lanes.play_side_by_side(self, queue, count)
            if is_complete and not self.keeps:
                lanes.remove(self.inventory, self.folder / ANSIBLE_LOG_FILE)
            return is_complete

    def run_beside(self, folders: Sequence[Path], endings: Mapping[Path, Ending], screen: Screen) -> None:
        """`run`, where each run is a folder beside `self.folder`, which is removed again if no run could begin.

        folders: of all runs; endings: of those that have ended. Raises WrongUse, and Interrupted if runs are left and none failed.
        """
        try:
            is_complete = self.run(places_of(folders), screen)
        except WrongUse:
            if not any(folder.exists() for folder in folders):
                shutil.rmtree(self.folder)
            raise
        if not is_complete and all(ending.is_final for ending in endings.values()):
            raise Interrupted

    def _is_ours(self, name: str) -> bool:
        """Whether an instance on which runs have begun may still be used, and removed. On other hosts this is assumed."""
        cluster = self.knobs.cluster
        if hosts := run_hosts(cluster):
            return name in hosts
        return not preflight.is_here(cluster) or ((preflight.INSTANCES / name).exists() and belongs(name, cluster.name))


class Lanes:
    """The instances on which the runs of a campaign go on. As a context it holds their locks, except CLUSTER's, which `use`
    holds."""

    def __init__(self, cluster: ClusterKnobs, order: str, own: Collection[str], use: InstanceUse, screen: Screen) -> None:
        """order, own: as for InstanceUse."""
        self._cluster, self._order, self._own, self._screen = cluster, order, own, screen
        self._hosts = run_hosts(cluster)
        self._first = self._hosts[0] if self._hosts else cluster.name
        self._uses = {self._first: use}
        self._stack = ExitStack()

    def __enter__(self) -> Lanes:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.__exit__(kind, error, trace)

    def open(self, names: Sequence[str]) -> None:
        """Take the locks of these instances. Raises Busy if another order has one."""
        for name in names:
            if name not in self._uses:
                host = name if self._hosts else ""
                use = InstanceUse(self.cluster(name), self._order, self._own, [], self._screen, host)
                self._uses[name] = self._stack.enter_context(use)

    def cluster(self, name: str) -> ClusterKnobs:
        """The campaign's cluster with the name of this instance. On `run_hosts` each has the name CLUSTER."""
        if self._hosts:
            return self._cluster
        return replace(self._cluster, name=name, port=self._cluster.port if name == self._first else None)

    def play(self, campaign: RunsLeft[Run], queue: RunQueue[Run]) -> bool:
        """Execute the runs of the queue one after another; returns whether all were executed."""
        while (taken := queue.take()) is not None:
            run, name = taken
            if not campaign.play(run, self._lane(name, RunScreen(self._screen, campaign.which(run)))):
                return False
            queue.give_back(name)
        return True

    def play_side_by_side(self, campaign: RunsLeft[Run], queue: RunQueue[Run], count: int) -> bool:
        """Execute the runs of the queue, `count` at once; returns whether all were executed. See `RunsLeft.run`.

        After an unexpected exception no further run begins either; it is raised when the others have ended.
        """
        errors: list[BaseException] = []

        def work() -> None:
            try:
                while (taken := queue.take()) is not None:
                    run, name = taken
                    try:
                        lane = self._lane(name, shared.of_run(name, campaign.which(run)))
                        if interrupted.is_set() or not campaign.play(run, lane):
                            queue.close()
                            if (others := sorted(set(queue.going) - {name})) and not interrupted.is_set():
                                shared.say(f"no other run begins; those on {', '.join(others)} go on to their ends, unless Ctrl-C")
                    finally:
                        queue.give_back(name)
            except BaseException as error:
                errors.append(error)
                queue.close()

        with interruptible() as interrupted, SharedScreen(self._screen, campaign.foot) as shared:
            for use in self._uses.values():
                use.interrupted = interrupted
            threads = [threading.Thread(target=work) for _ in range(count)]
            for thread in threads:
                thread.start()
            while alive := [thread for thread in threads if thread.is_alive()]:
                alive[0].join(LOOK)
                self._look(campaign, queue)
                if interrupted.is_set():
                    queue.close()
            for use in self._uses.values():
                use.interrupted = None
        if errors:
            raise errors[0]
        return not queue.is_closed

    def _look(self, campaign: RunsLeft[Run], queue: RunQueue[Run]) -> None:
        """Let the other runs begin when the first one, on this machine, has measured what a launch costs."""
        if queue.waits:
            for name, run in queue.going.items():
                instance = preflight.instance_directory(self.cluster(name))
                launch_costs.keep_from_head(campaign.folder, instance, campaign.name(run), manager_of(instance))
            if launch_costs.is_known(campaign.folder, campaign.manager()):
                queue.open()

    def _lane(self, name: str, screen: Screen) -> Lane:
        return Lane(name, self.cluster(name), self._uses[name], screen, self._first, name if self._hosts else "")

    def remove(self, inventory: Path, log: Path) -> None:
        """Remove the instances beside CLUSTER, side by side. Those that cannot be removed are named. On `run_hosts` all stay."""
        names = [] if self._hosts else [name for name in self._uses if name != self._first]
        if not names:
            return
        self._screen.live(f"removing {', '.join(names)}")
        with interruptible() as interrupted, ThreadPoolExecutor(len(names)) as pool:
            jobs = {name: pool.submit(remove, name, inventory, self._screen, log, interrupted) for name in names}
        for name, job in jobs.items():
            try:
                job.result()
            except (WrongUse, Failed, Interrupted) as error:
                self._screen.say(f"{name} is left ({str(error) or 'interrupted'}): make teardown CLUSTER={self._first} removes it")


def remove(
    name: str, inventory: Path, screen: Screen, log: Path, interrupted: threading.Event | None = None, host: str = ""
) -> int:
    """Stop and remove the instance `name`; returns the number of changes. host, errors: as for `run_playbook`."""
    watcher = run_playbook(
        "teardown", {"mirage_cluster": name}, inventory, screen, log, shows_tasks=False, interrupted=interrupted, host=host
    )
    return watcher.changed
