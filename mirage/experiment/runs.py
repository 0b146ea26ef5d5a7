"""results/RUN: the inputs of a run, and whether a run of that name is new, unfinished or finished."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mirage import RESULTS as RESULTS
from mirage import ROOT
from mirage.experiment import aspects, run_events
from mirage.experiment.configuration import site_of
from mirage.experiment.endings import Ending
from mirage.knobs import run_file
from mirage.knobs.knob import METRICS
from mirage.knobs.knobs import Knobs, text_of
from mirage.knobs.table import BY_NAME
from mirage.records.file_names import EXPERIMENT_FILE, KNOBS_FILE, RUN_FILE
from mirage.records.run_clock import EVENT, is_event
from mirage.records.run_folder import RunFolder
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import write_atomically, write_json
from slurm_mirage.base.strict_json import Damaged

# Folders of results/ that are not runs.
RESERVED = ("bench",)
_CALIBRATION = ".calibration"
# Keys of experiment.json that say where a run goes on.
PLACE = ("instance", "run_host")
PACKAGES = ("ansible", "ansible-core", "ansible-runner", "polars")


def name_for(run: str | None, trace: str, wanted: dict[str, str], now: datetime) -> str:
    """Name of the run: RUN; or the latest unfinished run with these inputs; or a new name from the time and the trace's name.

    run, trace: RUN and TRACE
    """
    if run:
        return run
    for folder in sorted(RESULTS.glob("*/"), key=lambda path: path.stat().st_mtime, reverse=True):
        with suppress(Damaged):
            before = RunFolder(folder).experiment.get("inputs")
            if before is not None and all(_same(n, before, wanted) for n in wanted) and not _is_over(folder):
                return folder.name
    source = re.sub(r"(\.swf|\.log|\.txt)?(\.gz)?$", "", Path(trace).name) or "generated"
    return f"{now:%Y%m%d-%H%M%S}-{re.sub(r'[^A-Za-z0-9._-]+', '_', source)}"[:80]


def name_by_inputs(kind: str, inputs: Mapping[str, str]) -> str:
    """Name of a folder in results/ that follows from the inputs, so that the same command finds it again. kind: how it begins"""
    return f"{kind}-{hashlib.sha256(json.dumps(dict(inputs), sort_keys=True).encode()).hexdigest()[:10]}"


def calibration_of(run: str) -> str:
    """Name on the head of the calibration for SPEED=auto, which precedes `run`."""
    return f"{run}{_CALIBRATION}"


def run_of(name: str) -> str:
    """Name of the run that a name on the head belongs to."""
    return name.removesuffix(_CALIBRATION)


def inputs(knobs: Knobs, trace_sha256: str, config: Path) -> dict[str, str]:
    """Inputs of a run by name. The trace, the configuration and the slurm.conf are represented by checksums of their content."""
    chosen = knobs.inputs()
    chosen["SLURM_CONF"] = slurm_conf_digest(knobs)
    chosen |= aspects.identities(knobs)
    if knobs.events.path:
        chosen["EVENTS"] = run_events.digest(knobs.events)
    chosen["TRACE"] = trace_sha256
    chosen["CONFIG content"] = hashlib.sha256(config.read_bytes()).hexdigest()
    return chosen


def slurm_conf_digest(knobs: Knobs) -> str:
    """Checksum of what is taken over of SLURM_CONF; empty without one."""
    if (site := site_of(knobs.scheduler)) is None:
        return ""
    of_site = (site.topology, site.of_accounts, site.accounts and [site.accounts.associations, site.accounts.qos])
    content = json.dumps([site.settings, site.partitions, site.accounting, *filter(None, of_site)], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def earlier(folder: Path, wanted: dict[str, str]) -> Ending | None:
    """Ending of a finished run with these inputs; None if the run is new or unfinished.

    Raises WrongUse when the folder holds a run with other inputs, or something else.
    """
    if folder.name in RESERVED:
        raise WrongUse(f"results/{folder.name} is kept for other results; it may be any other name", parameter="run")
    if not folder.exists():
        return None
    run = RunFolder(folder)
    if not run.has(EXPERIMENT_FILE):
        if folder.is_dir() and not any(folder.iterdir()):
            return None
        raise WrongUse(f"results/{folder.name} is there already and holds no run; it may be another name", parameter="run")
    if (before := run.experiment.get("inputs")) is None:
        raise WrongUse(f"{folder / EXPERIMENT_FILE}: inputs is missing", parameter="run")
    for name in wanted:
        if not _same(name, before, wanted):
            raise WrongUse(f"results/{folder.name} has other inputs: {_difference(name, before, wanted)}", parameter="run")
    return Ending.load(folder) if _is_over(folder) else None


def _is_over(folder: Path) -> bool:
    ending = Ending.load(folder)
    return ending is not None and ending.is_final


def _same(name: str, before: dict[str, str], now: dict[str, str]) -> bool:
    """Whether an input is equal. A run lacks inputs that came later; they count as their defaults."""
    default = BY_NAME[name].default if name in BY_NAME else ""
    return before.get(name, default) == now[name]


def _difference(name: str, before: dict[str, str], now: dict[str, str]) -> str:
    if name in ("TRACE", "CLASSES") or name.endswith("content"):
        return f"another {name}; give the same one, or another RUN"
    was, is_now = before.get(name) or "not set", now[name] or "not set"
    if name in BY_NAME and BY_NAME[name].group == METRICS:
        again = f"make metrics TRACE=results/RUN/jobs.csv {name}={is_now} measures a finished run again"
        return f"{name} was {was}, is {is_now}; give the same, or another RUN ({again})"
    return f"{name} was {was}, is {is_now}; give the same, or another RUN"


def describe(knobs: Knobs, wanted: dict[str, str], trace: dict[str, Any]) -> dict[str, Any]:
    """Content of experiment.json before the run. `complete` adds what only the cluster knows."""
    return {
        "inputs": wanted,
        "knobs": knobs.given(),
        "trace": trace,
        "clock": {"asked": text_of(knobs.clock.speed)},
        "host": {
            "name": platform.node(),
            "cores": os.cpu_count(),
            "memory_bytes": _memory(),
            "kernel": platform.release(),
        },
        "versions": {"python": platform.python_version()} | {name: version(name) for name in PACKAGES},
        "git": git_version(),
    }


def keep_knobs(folder: Path, knobs: Knobs) -> None:
    """Write the file with which RUN_FILE makes the same run, sweep or comparison again."""
    if knobs.texts is not None:
        write_atomically(folder / KNOBS_FILE, run_file.as_yaml(knobs.texts))


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def git_version() -> dict[str, Any] | None:
    """Commit of the clone, and whether files differ from it; None without git or outside a clone."""

    def ask(*words: str) -> str:
        # git refuses a clone of another user, as root has it, unless it is declared safe.
        command = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return {"commit": ask("rev-parse", "HEAD"), "changed": bool(ask("status", "--porcelain", "-uno"))}
    except (OSError, subprocess.CalledProcessError):
        return None


def complete(folder: Path) -> None:
    """Add to experiment.json what is known after the run: the resource manager's version, sha256 of its configuration file, the
    clock, the hosts."""
    run = RunFolder(folder)
    experiment, name = run.experiment, run.manager.configuration_file
    about: dict[str, str] = {}
    if name and (configuration := folder / name).is_file():
        about[f"{name.replace('.', '_')}_sha256"] = hashlib.sha256(configuration.read_bytes()).hexdigest()
    if (release := run.scheduling.version) is not None:
        about["version"] = release
    clock = experiment.get("clock", {})
    hosts: list[dict[str, Any]] = []
    if run.has(RUN_FILE):
        settings = run.settings
        event = is_event(settings)
        clock |= {"speed": EVENT if event else settings["speed"], "virtual": event or settings.get("clock") is not None}
        hosts = settings.get("hosts", [])
    if (start := run.start) is not None:
        # Start of the replay on both clocks, in seconds since the epoch.
        clock["began"] = {name: start[name] for name in ("real", "virtual")}
    if hosts:
        # The hosts of the cluster, the head first. Before the run `host` describes the machine that make runs on.
        experiment["hosts"] = hosts
        experiment["host"] = {name: hosts[0][name] for name in ("name", "cores", "memory_bytes", "kernel")}
    write_json(folder / EXPERIMENT_FILE, experiment | {run.manager_name: about, "clock": clock})


def instance_of(folder: Path) -> str | None:
    """The instance on which the run in the folder was begun; None for a new run."""
    return RunFolder(folder).experiment.get("instance")


def run_host_of(folder: Path) -> str | None:
    """The host of the inventory's `run_hosts` on which the run in the folder was begun; None without one."""
    return RunFolder(folder).experiment.get("run_host")


def set_place(folder: Path, place: Mapping[str, str]) -> None:
    """Note in experiment.json where the run goes on: the instance, and the host of `run_hosts` if it has one."""
    experiment = RunFolder(folder).experiment
    if any(experiment.get(name) != place.get(name) for name in PLACE):
        write_json(folder / EXPERIMENT_FILE, {k: v for k, v in experiment.items() if k not in PLACE} | dict(place))


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Hold the lock of a run's folder in results/. Raises WrongUse if another program holds it."""
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise WrongUse(f"another make works on results/{folder.name} now", parameter="run") from None
    finally:
        os.close(lock)
