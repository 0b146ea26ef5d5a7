"""Checks before Ansible starts and before anything is written. Each raises WrongUse."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from mirage import ROOT
from mirage.experiment import configuration
from mirage.experiment.runs import calibration_of, run_of
from mirage.knobs.knobs import ClusterKnobs, Knobs, SchedulerKnobs
from mirage.knobs.table import BY_NAME, SHAPE
from mirage.records.run_folder import RunFolder
from mirage.text.input_file import open_input
from mirage.text.words import about
from slurm_mirage.base import user_folders
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.clock import instance_clock
from slurm_mirage.farm import isolation
from slurm_mirage.instance import capacity, sizing
from slurm_mirage.instance.instance import active_run, nodes_in, read_instance
from slurm_mirage.instance.instance_lock import Work, busy, work_in
from slurm_mirage.rm.managers import traits_of

INSTANCES = Path("/var/lib/slurm-mirage")
# Files and folders of an inventory, and bytes of one file.
_MOST_OF_INVENTORY, _LARGEST_OF_INVENTORY = 10_000, 16 << 20
# Slurm keeps some instants in 32 bits, which end on 2038-01-19.
LAST_INSTANT = datetime(2038, 1, 18, tzinfo=UTC).timestamp()
_INITIAL_PIDS = 0xEFFFFFFC  # inode of the first process id namespace (PROC_PID_INIT_INO of Linux)
STEPS_AUTO = 1000  # mirage_steps_auto of inventories/common


def inventory(cluster: ClusterKnobs) -> Path:
    """Absolute path of the inventory. Raises WrongUse if it does not exist, or if Ansible would read a file of it without end."""
    path = ROOT / cluster.inventory
    if not path.exists():
        raise WrongUse(f"{cluster.inventory} is not there; it may be {BY_NAME['INVENTORY'].may_be}", parameter="inventory")
    files = list(islice(path.rglob("*"), _MOST_OF_INVENTORY + 1)) if path.is_dir() else [path]
    if len(files) > _MOST_OF_INVENTORY:
        raise WrongUse(f"{path}: is not an inventory: it holds more than {_MOST_OF_INVENTORY} files", parameter="inventory")
    for file in files:
        if not file.is_dir():
            with open_input(file, "inventory") as stream:
                size = os.fstat(stream.fileno()).st_size
            if size > _LARGEST_OF_INVENTORY:
                most = f"{_LARGEST_OF_INVENTORY >> 20} MiB"
                raise WrongUse(f"{file}: is too large for an inventory; it may have up to {most}", parameter="inventory")
    return path


def is_here(cluster: ClusterKnobs) -> bool:
    """Whether the inventory is the default one: the whole cluster is on this machine."""
    return ROOT / cluster.inventory == ROOT / BY_NAME["INVENTORY"].default


def why_threads_are_not_counted() -> str | None:
    """Why BPF programs cannot count an instance's threads on this machine, for the event clock; None if no reason is known.

    The kernel's version is not looked at.
    """
    limits = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapBnd:")]
    allowed = int(limits[0].split()[1], 16) if limits else 0
    if not all(allowed >> capability & 1 for capability in isolation.COUNTING_CAPABILITIES):
        return "this machine keeps CAP_BPF or CAP_PERFMON from root"
    if Path("/proc/self/ns/pid").stat().st_ino != _INITIAL_PIDS:
        return "this container has process ids of its own"
    return None


def config(scheduler: SchedulerKnobs) -> Path:
    """Path of the scheduler configuration, which is read and checked."""
    return configuration.of(scheduler).path


def privileges(cluster: ClusterKnobs) -> None:
    """Check for root, or sudo without a password, if the cluster is on this machine."""
    if os.geteuid() == 0 or not is_here(cluster):
        return
    with suppress(OSError):
        if subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode == 0:
            return
    raise WrongUse("root: a cluster on this machine needs root, or sudo that asks for no password")


def instance_directory(cluster: ClusterKnobs) -> Path:
    """Directory of the instance CLUSTER on the head."""
    return INSTANCES / cluster.name


def running(cluster: ClusterKnobs) -> str | None:
    """Name of the run whose replay or calibration is running in CLUSTER on this machine; None without one, or for other hosts."""
    if not is_here(cluster):
        return None
    with suppress(OSError):
        active = active_run(instance_directory(cluster))
        return None if active is None else run_of(active)
    return None


def at_work(cluster: ClusterKnobs) -> Work | None:
    """Return the run that is prepared, replayed or collected in CLUSTER on this machine; None if there is none, or for other hosts.

    A user other than root sees replays only.
    """
    if not is_here(cluster):
        return None
    with suppress(OSError):
        return work_in(instance_directory(cluster))
    return None


def has_journal(cluster: ClusterKnobs, run: str) -> bool:
    """Whether the replay of `run` can continue where it stopped. On other hosts this is not checked, and assumed."""
    if not is_here(cluster):
        return True
    return user_folders.status(instance_directory(cluster), f"runs/{run}/journal.jsonl") is not None


def nothing_disturbed(knobs: Knobs, own_run: str | None) -> None:
    """Check that no other run is active in CLUSTER, and that the knobs do not change the cluster of an active run.

    own_run: the run that this command continues; None: this command has no run, and a run that is being prepared is active, too.
    Raises Busy for another run.
    """
    cluster = knobs.cluster
    if own_run is None:
        work = at_work(cluster)
        run = run_of(work.run) if work else None
    else:
        run = running(cluster)
    if run is None:
        return
    if own_run is not None and own_run != run:
        work = at_work(cluster)
        raise busy(instance_directory(cluster), Work(run, work.content if work else None))
    for name, value in _shape_of(run, cluster).items():
        if knobs.text(name) != value:
            has = "other CLASSES" if name == "CLASSES" else f"{name}={value}"
            raise WrongUse(
                f"run {run} goes on in cluster {cluster.name} with {has}; wait for it, or make teardown CLUSTER={cluster.name}",
                parameter=BY_NAME[name].parameter,
            )


def has_room(knobs: Knobs) -> None:
    """Check that this host can hold the nodes. For other hosts the role `instance` checks."""
    if not is_here(knobs.cluster):
        return
    directory = instance_directory(knobs.cluster)
    sizing.check(load_of(knobs), capacity.running_load(directory), capacity.look(directory))


def load_of(knobs: Knobs) -> sizing.Load:
    """The load of the cluster on a host that has all of its nodes."""
    nodes, scheduler = knobs.nodes, knobs.scheduler
    if (footprint := traits_of(scheduler.rm).footprint) is not None:
        return sizing.Load(nodes.count, footprint=footprint)
    wide_steps = nodes.front_ends > 0 or nodes.steps == "yes" or (nodes.steps == "auto" and nodes.count <= STEPS_AUTO)
    names = (knobs.campaign.configs or scheduler.config).split()
    database = any(configuration.of(replace(scheduler, config=name)).has_accounting(knobs) for name in names)
    return sizing.Load(nodes.count, wide_steps, front_ends=nodes.front_ends, database=database)


def before_2038(cluster: ClusterKnobs, length: float) -> None:
    """Check that the cluster's clock stays before LAST_INSTANT, with any resource manager, in a run of `length` virtual seconds."""
    clock = instance_clock.both_times(instance_directory(cluster)) if is_here(cluster) else None
    now = time.time() if clock is None else clock["virtual"]
    if now + length <= LAST_INSTANT:
        return
    today, end = (f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}" for at in (now, LAST_INSTANT))
    instead = "take fewer JOBS, or a smaller SHRINK"
    if clock is not None and time.time() + length <= LAST_INSTANT:
        instead = f"make teardown CLUSTER={cluster.name} starts the clock at today's date again"
    raise WrongUse(
        f"the clock of cluster {cluster.name} is at {today}, and the run is {about(length)} long, "
        f"but the daemons cannot count beyond {end}; {instead}",
        parameter="speed",
    )


def no_leftover(cluster: ClusterKnobs, folder: Path, run: str = "") -> None:
    """Check that a new run does not find the journal of an earlier run with its name, whose results were removed.

    run: the name of the run on the head, by default that of the folder.
    """
    own = run or folder.name
    for name in (own, calibration_of(own)):
        kept = instance_directory(cluster) / "runs" / name
        if is_here(cluster) and not folder.exists() and os.path.lexists(kept):
            raise WrongUse(f"results/{own} is gone, but {kept} is not; remove that too, or give another RUN", parameter="run")


def _shape_of(run: str, cluster: ClusterKnobs) -> dict[str, str]:
    """Values of SHAPE that `run` was started with. If it was started from another clone, only NODES is known."""
    experiment = RunFolder(ROOT / "results" / run).experiment
    # The runs of a comparison have other configurations.
    if experiment and "comparison" not in experiment:
        return {name: str(experiment["inputs"].get(name, BY_NAME[name].default)) for name in SHAPE}
    instance = read_instance(instance_directory(cluster))
    return {} if instance is None else {"NODES": str(nodes_in(instance))}
