"""OpenPBS's daemons: their kinds, and for the farm's specification (farm.daemons.Spec) their command lines, ports and environment.

Server, communication daemon and node daemons refuse to run as another user than root. The database server refuses root: the farm
runs it as an account of its own, and the server takes it for an external one (PBS_DATA_SERVICE_HOST), which it neither starts nor
stops.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ...base import processes
from ...base.errors import WrongUse
from ...base.files import file_digest
from ...rm.daemon_kinds import WITHOUT_HWLOC_PLUGINS, DaemonKind, Role, coordinator
from . import addresses

Specification = dict[str, Any]

MANAGER = "OpenPBS"
AS_ROOT = (
    "chown",
    "dac_override",
    "dac_read_search",
    "fowner",
    "kill",
    "net_bind_service",
    "setgid",
    "setuid",
    "sys_resource",
)
"""Capabilities that PBS needs to write its files, to know its clients by their reserved ports, and to run jobs as their users."""
POSTGRES = DaemonKind(
    "postgres",
    Role.PREREQUISITE,
    MANAGER,
    uses_clock=False,  # its time appears only in columns from which nothing is computed
    uses_event_clock=True,
    keeps_priority=True,
    end_signal=signal.SIGINT,  # it would wait for its clients at SIGTERM
    capabilities=("net_bind_service",),  # its port is one that `isolation.reserve_ports` keeps from the instance's user
)
# It passes on messages of others, and its own time-outs are those of the host's network: it does not use a constant clock.
PBS_COMM = DaemonKind(
    "pbs_comm",
    Role.PREREQUISITE,
    MANAGER,
    uses_clock=False,
    uses_event_clock=True,
    keeps_priority=True,
    capabilities=AS_ROOT,
)
PBS_SERVER = DaemonKind("pbs_server", Role.CONTROLLER, MANAGER, keeps_priority=True, capabilities=AS_ROOT)
PBS_SCHED = DaemonKind("pbs_sched", Role.SCHEDULER, MANAGER, keeps_priority=True, capabilities=AS_ROOT)
PBS_MOM = DaemonKind("pbs_mom", Role.NODE, MANAGER, nodes_per_namespace=8, capabilities=AS_ROOT)
KINDS = (POSTGRES, PBS_COMM, PBS_SERVER, PBS_SCHED, PBS_MOM)
"""In the order in which they are started."""

ACCOUNTING = "pbs/records/accounting.log"
"""The accounting record in the instance's directory. One file: its name does not change at midnight of the virtual clock."""
SERVER_HOME, NODE_HOMES, DATABASE = "pbs/server", "pbs/moms", processes.DATABASE
"""PBS_HOME of server, scheduler and communication daemon, the folder with PBS_HOME of each node, and the data of PostgreSQL."""
DATABASE_SETTINGS = "etc/postgresql.conf"
DATABASE_ACCOUNT = "postgres"
"""Account of the database server, which comes with PostgreSQL. Server and nodes trust the database, also for the user that a job
runs as: so it must not be the instance's user."""
NO_COMMANDS = "lib/openpbs"
"""Folder of commands that do nothing successfully: su and systemctl, which the server runs to start a database server
(Libdb/pgsql/db_common.c, pbs_ds_systemd)."""
NETWORK: dict[str, Any] = {
    "address": addresses.NETWORK[0],
    "mask": addresses.NETWORK[1],
    "ports": list(addresses.EPHEMERAL_PORTS),
    "kept": {"address": addresses.SPARE_ADDRESS, "ports": list(addresses.COMMAND_PORTS)},
}
"""The network of an instance, as in farm.daemons.Spec."""


@dataclass(frozen=True)
class Layout:
    """Which daemons run on a host, and with which programs."""

    sbin: str
    """Folder of pbs_server, pbs_comm, pbs_sched.bin and pbs_mom."""
    postgres: str
    """The program of the database server."""
    server_digest: str
    """Stands for the configuration of server and communication daemon; they are restarted when it changes."""
    scheduler_digest: str
    nodes: Sequence[Mapping[str, Any]]
    """Classes of nodes with prefix, first, count and digest."""
    event_clock: bool
    """Whether the instance has an event clock."""


def farm_content(directory: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """The part of the farm's specification that only OpenPBS has, by the options of the module that starts the daemons
    (library/slurm_farm.py). Raises WrongUse."""
    if wrong := {one.name for one in fields(Layout)} ^ {"nodes", "event_clock", *options["daemons"]}:
        raise WrongUse(f"daemons: {', '.join(sorted(wrong))}: missing, or not known to {MANAGER}")
    nodes = [(f"{one['prefix']}{i}", i) for one in options["nodes"] for i in range(one["first"], one["first"] + one["count"])]
    layout = Layout(**options["daemons"], nodes=options["nodes"], event_clock=options["event_clock"])
    return {
        "hostname": addresses.HEAD,
        "addresses": addresses.host_names(nodes),
        "network": NETWORK,
        "daemons": specifications(directory, layout),
    }


def specifications(directory: Path, layout: Layout) -> list[Specification]:
    """All daemons of the instance in `directory`."""
    clock = [coordinator(directory)] if layout.event_clock else []
    head = [_postgres(directory, layout), _comm(directory, layout), _server(directory, layout), _scheduler(directory, layout)]
    return clock + head + [_node(directory, layout, nodes) for nodes in layout.nodes]


def database_server(directory: Path, program: str, data: Path) -> list[str]:
    """The command of a database server with the instance's settings and the data in the folder `data`."""
    return [program, "-D", str(data), "-c", f"config_file={directory / DATABASE_SETTINGS}"]


def _postgres(directory: Path, layout: Layout) -> Specification:
    return {
        "kind": POSTGRES.name,
        "name": "postgres",
        "command": database_server(directory, layout.postgres, directory / DATABASE),
        "digest": file_digest(directory / DATABASE_SETTINGS),
        "ready_file": "",
        "ready_port": addresses.DATABASE_PORT,
        "account": DATABASE_ACCOUNT,
    }


def _comm(directory: Path, layout: Layout) -> Specification:
    return {
        "kind": PBS_COMM.name,
        "name": "pbs_comm",
        "command": [f"{layout.sbin}/pbs_comm", "-N"],
        "digest": layout.server_digest,
        "ready_file": "",
        "ready_port": addresses.COMM_PORT,
        "environment": _configuration(directory / "etc/pbs.conf"),
        "account": "root",
    }


def _server(directory: Path, layout: Layout) -> Specification:
    return {
        "kind": PBS_SERVER.name,
        "name": "pbs_server",
        "command": [f"{layout.sbin}/pbs_server.bin", "-N", "-A", str(directory / ACCOUNTING)],
        "digest": layout.server_digest,
        "ready_file": "",
        "ready_port": addresses.SERVER_PORT,
        # It asks for the variable, and runs `su - USER -c pg_ctl` and systemctl, even where the database server is not its own.
        "environment": {
            **_configuration(directory / "etc/pbs.conf"),
            "PGSQL_BIN": str(Path(layout.postgres).parent),
            "PATH": f"{directory / NO_COMMANDS}:/usr/sbin:/usr/bin:/sbin:/bin",
        },
        "account": "root",
    }


def _scheduler(directory: Path, layout: Layout) -> Specification:
    return {
        "kind": PBS_SCHED.name,
        "name": "pbs_sched",
        "command": [f"{layout.sbin}/pbs_sched", "-N"],
        "digest": layout.scheduler_digest,
        "ready_file": "",
        "environment": _configuration(directory / "etc/pbs.conf"),
        "account": "root",
    }


def _node(directory: Path, layout: Layout, nodes: Mapping[str, Any]) -> Specification:
    """-p: a restarted daemon goes on with the jobs that run on its node."""
    name = nodes["prefix"] + "{i}"
    port, next_port = (addresses.node_ports(number)[0] for number in (0, 1))
    return {
        "kind": PBS_MOM.name,
        "name": name,
        "first": nodes["first"],
        "count": nodes["count"],
        "command": [f"{layout.sbin}/pbs_mom", "-N", "-p"],
        "digest": nodes["digest"],
        "ready_file": "",
        "ready_port": port,
        "ready_port_step": next_port - port,
        "environment": {**_configuration(directory / f"etc/nodes/{name}.conf"), **WITHOUT_HWLOC_PLUGINS},
        "account": "root",
    }


def _configuration(file: Path) -> dict[str, str]:
    return {"PBS_CONF_FILE": str(file)}
