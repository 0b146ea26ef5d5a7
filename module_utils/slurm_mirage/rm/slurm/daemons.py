"""Slurm's daemons and those beside them: their kinds, and for the farm's specification (farm.daemons.Spec) their command lines and
ready files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ... import extras
from ...base import processes
from ...base.files import file_digest
from ..daemon_kinds import CLOCK, FIRST_CONTROLLER, WITHOUT_HWLOC_PLUGINS, DaemonKind, Role, coordinator
from . import job_users, second_controller, shared_folder
from .other_configurations import CONTROLLER_FILES, read_by_controller
from .wait_reasons import FORMATS

MANAGER = "Slurm"
# munged does not use the virtual clock: credentials are checked against real time on every host. The database server does not
# either: its time appears only in columns from which nothing is computed (docs/accounting.md).
MUNGED = DaemonKind(
    "munged", Role.PREREQUISITE, MANAGER, uses_clock=False, keeps_priority=True, is_real_time=True, may_restart_in_run=True
)
MARIADBD = DaemonKind("mariadbd", Role.PREREQUISITE, MANAGER, uses_clock=False, is_database=True)
SLURMDBD = DaemonKind("slurmdbd", Role.PREREQUISITE, MANAGER)
SLURMCTLD = DaemonKind(
    FIRST_CONTROLLER, Role.CONTROLLER, MANAGER, keeps_priority=True, is_real_time_by_events=True, records=(shared_folder.RECORD,)
)
SECOND_SLURMCTLD = replace(SLURMCTLD, name=second_controller.NAME)
SLURMD = DaemonKind("slurmd", Role.NODE, MANAGER, nodes_per_namespace=64)
KINDS = (MUNGED, CLOCK, MARIADBD, SLURMDBD, SLURMCTLD, SECOND_SLURMCTLD, SLURMD, *extras.listed("daemons", "SLURM"))
"""In the order in which they are started; the last ones are those of extras."""

ALLOCATOR = "usr/lib/*-linux-gnu/libjemalloc.so.2"
"""A memory allocator for slurmctld, in which a backfill cycle takes and gives back memory for each job that it tests. Without the
library slurmctld has that of the C library."""
_MALLOC_CONF = "dirty_decay_ms:3600000,muzzy_decay_ms:0,narenas:2"
"""Gives memory back that was not used for an hour of the cluster's time, which is some real seconds. By its default of 10 s it
would do so again and again; where it never did, slurmctld of 3,600 nodes took 810 MB in a run, and 112 MB without the library."""
OWN_DEBUG_FLAGS = {"NO_CONF_HASH", "TraceJobs", "Backfill"}
"""DebugFlags of the role slurm_controller."""
Specification = dict[str, Any]


@dataclass(frozen=True)
class Layout:
    """Which daemons run on a host, and with which programs."""

    hostname: str
    """Host name that the daemons see."""
    sbin: str
    """Folder of slurmctld, slurmd and slurmdbd."""
    munge_sbin: str
    controller_hostname: str | None
    """Host name that slurmctld sees; None: it does not run on this host."""
    controller_digest: str
    """Stands for slurmctld's configuration; it is restarted when this changes."""
    nodes: Sequence[Mapping[str, Any]]
    """Classes of nodes with prefix, first, count, digest and hostname (None: that of the host)."""
    wide_steps: bool
    """Whether slurmd read etc/slurm.conf, and not a file each."""
    database_port: int
    """Port of slurmdbd; 0: there is none."""
    mariadbd: str
    """The program of the database server."""
    event_clock: bool = False
    """Whether the instance has an event clock, whose coordinator then runs on this host."""
    second_hostname: str = ""
    """Host name that the second slurmctld sees; empty: there is none on this host."""


def layout_of(options: Mapping[str, Any]) -> Layout:
    """The daemons wanted on a host, by the options of the module that starts them (library/slurm_farm.py)."""
    return Layout(
        hostname=options["hostname"],
        sbin=options["sbin"],
        munge_sbin=options["munge_sbin"],
        controller_hostname=(options["controller_hostname"] or options["hostname"]) if options["controller"] else None,
        controller_digest=options["controller_digest"],
        nodes=options["nodes"],
        wide_steps=options["wide_steps"],
        database_port=options["database_port"],
        mariadbd=options["mariadbd"],
        event_clock=options["event_clock"],
        second_hostname=options["second_hostname"],
    )


def farm_content(directory: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """The part of the farm's specification that only Slurm has."""
    saved_in = {"saved_in": options["shared_folder"]} if options["shared_folder"] else {}
    wanted = extras.wanted("daemons", "of_slurm", options["extras"])
    further = [daemon for of, _ in wanted for daemon in of(directory, options)]
    daemons = [*specifications(directory, layout_of(options)), *further]
    for changed, _ in extras.wanted("daemons", "changed", options["extras"]):
        daemons = [changed(directory, daemon) for daemon in daemons]
    namespaces = [of for of, _ in extras.wanted("daemons", "USER_NAMESPACE", options["extras"])]
    return {"daemons": daemons, **saved_in, **({"users": namespaces[0]} if namespaces else {})}


def specifications(directory: Path, layout: Layout) -> list[Specification]:
    """All daemons of the instance in `directory`."""
    daemons = [_munged(directory, layout)]
    if layout.event_clock:
        daemons.append(coordinator(directory))
    if layout.controller_hostname is not None:
        if layout.database_port:
            daemons += [_mariadbd(directory, layout), _slurmdbd(directory, layout)]
        daemons.append(_slurmctld(directory, layout, layout.controller_hostname))
    if layout.second_hostname:
        daemons.append(_second_slurmctld(directory, layout))
    daemons += [_slurmd(directory, layout, nodes) for nodes in layout.nodes]
    of_slurm = {SLURMDBD.name, SLURMCTLD.name, SECOND_SLURMCTLD.name, SLURMD.name}
    return [_with_users(directory, daemon) if daemon["kind"] in of_slurm else daemon for daemon in daemons]


def _with_users(directory: Path, daemon: Specification) -> Specification:
    """The daemon with the library by which it knows the users of a log, if the instance has one."""
    preload = job_users.preload(directory)
    if not preload:
        return daemon
    digest = f"{daemon['digest']}-{file_digest(job_users.library(directory))}"
    return daemon | {"environment": processes.with_libraries(preload, daemon.get("environment", {})), "digest": digest}


def munge_socket(directory: Path) -> Path:
    """The socket of the instance's munged. The farm makes its folder, which only the instance's user and root can enter: the socket
    itself is open to everybody, and a user who gets a credential from it can submit jobs. A sandbox has a folder of root's for it,
    which the group of its users can enter too."""
    folder = directory / job_users.MUNGE
    return (folder if folder.is_dir() else directory / "run/private") / "munge.socket"


def database_socket(directory: Path) -> Path:
    """The socket of the instance's database server, in the same folder."""
    return directory / "run/private/mariadb.socket"


def _munged(directory: Path, layout: Layout) -> Specification:
    etc, run, log = directory / "etc", directory / "run", directory / "log"
    # --force: munged refuses a socket that not all users reach.
    command = [f"{layout.munge_sbin}/munged", "--foreground", "--force", "--num-threads=10"]
    command += [f"--socket={munge_socket(directory)}", f"--key-file={etc}/munge.key", f"--pid-file={run}/munged.pid"]
    command += [f"--log-file={log}/munged.log", f"--seed-file={run}/munge.seed"]
    if layout.hostname[0].isdecimal():
        # slurmctld asks for the name of the address that a credential was made at (auth_p_get_host): that of this one is in every
        # host's own file. Where no name server knows the hosts, theirs would take 10 s for each submission.
        command.append("--origin=127.0.0.1")
    return {
        "kind": MUNGED.name,
        "name": "munged",
        "command": command,
        "digest": file_digest(etc / "munge.key"),
        "ready_file": str(munge_socket(directory)),
    }


def _allocator() -> dict[str, str]:
    found = next(Path("/").glob(ALLOCATOR), None)
    return {} if found is None else {processes.PRELOAD: str(found), "MALLOC_CONF": _MALLOC_CONF}


_CHANGES_BY_ITSELF = re.compile(
    r"^(?:PreemptType=(?!preempt/none)|PreemptMode=(?!off)|(?:Prolog|Epilog)Slurmctld=|SuspendProgram=|BurstBufferType=(?!none)|FederationParameters=|CompleteWait=[1-9]"
    r"|SchedulerParameters=.*(?:assoc_limit_stop|bf_hetjob|bf_min_(?:age|prio)_reserve|batch_sched_delay=\d\d|extra_constraints))",
    re.MULTILINE | re.IGNORECASE,
)
"""Settings by which a backfill cycle may decide otherwise than the one before, although no job and no node has changed."""


_WINDOW = re.compile(r"^SchedulerParameters=(?:.*,)?bf_window=(\d{1,7})", re.MULTILINE | re.IGNORECASE)
_DEFAULT_WINDOW = 1440
"""Minutes: Slurm's default of bf_window."""
_SLURMD_TIMEOUT = re.compile(r"^SlurmdTimeout=(\d{1,7})$", re.MULTILINE | re.IGNORECASE)
_DEFAULT_SLURMD_TIMEOUT = 300
_PINGS_WITHOUT_TIMEOUT = 100
"""Seconds between pings of nodes if SlurmdTimeout is 0; else it is a third of SlurmdTimeout."""


def _seconds_between_pings(conf: str) -> int:
    """How often slurmctld pings all nodes with this slurm.conf (ping_interval in its controller.c)."""
    found = _SLURMD_TIMEOUT.search(conf)
    return int(found[1] if found else _DEFAULT_SLURMD_TIMEOUT) // 3 or _PINGS_WITHOUT_TIMEOUT


def _log_environment(conf: Path) -> dict[str, str]:
    """Keeps slurmctld from writing lines that nothing reads, unless its slurm.conf asks for more than the roles' own settings."""
    text = conf.read_text(errors="replace") if conf.exists() else ""
    debug, flags = (re.search(rf"^{key}=(.*)$", text, re.MULTILINE) for key in ("SlurmctldDebug", "DebugFlags"))
    own = debug and debug[1] in ("verbose", "debug2") and flags and set(flags[1].split(",")) <= OWN_DEBUG_FLAGS
    if not own:
        return {}
    window = _WINDOW.search(text)
    seconds = {
        "SLURM_MIRAGE_BF_WINDOW": str(60 * int(window[1] if window else _DEFAULT_WINDOW)),
        "SLURM_MIRAGE_PINGS": str(_seconds_between_pings(text)),
    }
    return {"SLURM_MIRAGE_LOG_LINES": FORMATS, **({} if _CHANGES_BY_ITSELF.search(text) else seconds)}


def _slurmctld(directory: Path, layout: Layout, hostname: str) -> Specification:
    conf = read_by_controller(directory)
    daemon: Specification = {
        "kind": SLURMCTLD.name,
        "name": "slurmctld",
        "command": [f"{layout.sbin}/slurmctld", "-D", "-f", str(conf)],
        "digest": layout.controller_digest,
        "ready_file": f"{directory}/run/slurmctld.pid",
        # Before it looks at its options, 16.05's reads the file that it was compiled with, if none is named here.
        "environment": {"SLURM_CONF": str(conf), **_allocator(), **_log_environment(conf)},
    }
    return daemon if hostname == layout.hostname else daemon | {"hostname": hostname}


def _second_slurmctld(directory: Path, layout: Layout) -> Specification:
    """Its pid file and its log are named in a slurm.conf of its own: a slurmctld ends the one whose pid file it finds."""
    conf = str(read_by_controller(directory, CONTROLLER_FILES[1]))
    return {
        **_slurmctld(directory, layout, layout.second_hostname),
        "kind": SECOND_SLURMCTLD.name,
        "name": SECOND_SLURMCTLD.name,
        "command": [f"{layout.sbin}/slurmctld", "-D", "-f", conf],
        "ready_file": str(directory / second_controller.PID_FILE),
        "environment": {"SLURM_CONF": conf, **_allocator(), **_log_environment(Path(conf))},
    }


def _slurmd(directory: Path, layout: Layout, nodes: Mapping[str, Any]) -> Specification:
    name = nodes["prefix"] + "{i}"
    conf = "slurm.conf" if layout.wide_steps else f"nodes/{name}.conf"
    return {
        "kind": SLURMD.name,
        "name": name,
        "first": nodes["first"],
        "count": nodes["count"],
        "command": [f"{layout.sbin}/slurmd", "-D", "-N", name, "-f", f"{directory}/etc/{conf}"],
        "digest": nodes["digest"],
        "ready_file": f"{directory}/run/slurmd.{name}.pid",
        "hostname": nodes["hostname"] or layout.hostname,
        "environment": dict(WITHOUT_HWLOC_PLUGINS),
    }


def _mariadbd(directory: Path, layout: Layout) -> Specification:
    etc = directory / "etc"
    return {
        "kind": MARIADBD.name,
        "name": "mariadbd",
        "command": [layout.mariadbd, f"--defaults-file={etc}/mariadb.cnf"],
        "digest": file_digest(etc / "mariadb.cnf"),
        "ready_file": str(database_socket(directory)),
    }


def _slurmdbd(directory: Path, layout: Layout) -> Specification:
    """slurmdbd finds its file beside slurm.conf, and the database server by its socket."""
    etc = directory / "etc"
    return {
        "kind": SLURMDBD.name,
        "name": "slurmdbd",
        "command": [f"{layout.sbin}/slurmdbd", "-D"],
        "digest": file_digest(etc / "slurmdbd.conf"),
        "ready_file": f"{directory}/run/slurmdbd.pid",
        "ready_port": layout.database_port,
        "environment": {"SLURM_CONF": f"{etc}/slurm.conf", "MYSQL_UNIX_PORT": str(database_socket(directory))},
    }
