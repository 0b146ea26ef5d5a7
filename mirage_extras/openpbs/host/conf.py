"""The text of the files that OpenPBS's daemons read: pbs.conf(5), sched_config, mom_priv/config and pbs_environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...base import line_text
from ...base.errors import WrongUse
from ...clock import instance_clock
from . import addresses
from .clock_settings import mom_settings
from .daemons import NODE_HOMES, SERVER_HOME

HEADER = "# Written by Slurm Mirage (module openpbs_config); changes made here are overwritten.\n"
ENVIRONMENT = "etc/pbs_environment"
"""The environment of all daemons and of the jobs, in the instance's directory."""
TEMPORARY = "tmp"
"""Folder of the jobs' own temporary folders, in a node's PBS_HOME."""
OMIT = "omit"
"""Value of a key of sched_config that is left out, so that the scheduler's own default holds."""
SCHEDULER_DEFAULTS: Mapping[str, str] = {
    # OpenPBS's own file has these, except where a comment says otherwise.
    "round_robin": "False all",
    # The order of submission holds across queues as well. OpenPBS's file: True, one queue after the other.
    "by_queue": "False all",
    "strict_ordering": "false all",
    "resources": '"ncpus, mem, arch, host, vnode"',
    "smp_cluster_dist": "pack",
    "node_sort_key": '"sort_priority HIGH" all',
    "fair_share": "false all",
    # No job ends or suspends another one. OpenPBS's file: true, for queues with a higher priority.
    "preemptive_sched": "false all",
    # Queues with these prefixes would be for dedicated, prime and non-prime time. A queue's name begins with a letter. OpenPBS's
    # file: ded, p_, np_. Without a setting the prefix is empty, and every queue has it (scheduler/queue_info.cpp).
    "dedicated_prefix": "0ded",
    "primetime_prefix": "0p_",
    "nonprimetime_prefix": "0np_",
}


_PLAIN = re.compile(r"[A-Za-z0-9_./:,@%+-]+")
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
LONGEST = 500
"""Bytes of a value of mom_priv/config: pbs_mom takes what is beyond 511 of a line for another one (resmom/mom_main.c,
parse_config). The lines of the other files may be longer."""


def _pbs_conf(settings: Mapping[str, Any]) -> str:
    """The text of pbs.conf. OpenPBS's own scripts also read it as a script of the shell, so values have only characters that mean
    nothing there. Raises WrongUse."""
    for name, value in settings.items():
        if not _PLAIN.fullmatch(str(value)):
            raise WrongUse(f"pbs.conf: {name}: may have letters, digits and ./:,@%+_- only")
    return HEADER + "".join(f"{name}={value}\n" for name, value in settings.items())


def _common(directory: Path, prefix: str) -> dict[str, Any]:
    return {
        "PBS_EXEC": prefix,
        "PBS_SERVER": addresses.HEAD,
        "PBS_LEAF_ROUTERS": f"{addresses.HEAD}:{addresses.COMM_PORT}",
        "PBS_BATCH_SERVICE_PORT": addresses.SERVER_PORT,
        "PBS_ENVIRONMENT": directory / ENVIRONMENT,
        # Times in logs to the microsecond: the length of a scheduling cycle is read from them.
        "PBS_LOG_HIGHRES_TIMESTAMP": 1,
        "PBS_CORE_LIMIT": 0,
    }


def server_conf(directory: Path, prefix: str) -> str:
    """etc/pbs.conf, for server, communication daemon, scheduler and commands. `prefix`: where OpenPBS is installed."""
    return _pbs_conf(
        {
            **_common(directory, prefix),
            "PBS_HOME": directory / SERVER_HOME,
            "PBS_LEAF_NAME": addresses.HEAD,
            "PBS_COMM_NAME": addresses.HEAD,
            # The server neither starts nor stops such a database server.
            "PBS_DATA_SERVICE_HOST": addresses.HEAD_ADDRESS,
            "PBS_DATA_SERVICE_PORT": addresses.DATABASE_PORT,
            # As many threads as the host has processors would make the length of a cycle depend on it.
            "PBS_SCHED_THREADS": 1,
            # The least that it takes: one listens, the other one has all connections (Libtpp/tpp_transport.c, assign_to_worker). Of
            # several with connections, messages of two nodes would overtake one another as the host's load has it.
            "PBS_COMM_THREADS": 2,
        }
    )


def node_conf(directory: Path, prefix: str, name: str, number: int) -> str:
    """etc/nodes/NAME.conf, for the pbs_mom of the node with this name and number."""
    service, monitor = addresses.node_ports(number)
    return _pbs_conf(
        {
            **_common(directory, prefix),
            "PBS_HOME": directory / NODE_HOMES / name,
            "PBS_MOM_NODE_NAME": name,
            "PBS_LEAF_NAME": name,
            "PBS_MOM_SERVICE_PORT": service,
            "PBS_MANAGER_SERVICE_PORT": monitor,
        }
    )


def environment(directory: Path, has_clock: bool) -> str:
    """etc/pbs_environment. `has_clock`: whether the instance's clock is another than the host's."""
    clock = (
        {"LD_PRELOAD": instance_clock.library(directory), instance_clock.VARIABLE: instance_clock.clock_file(directory)}
        if has_clock
        else {}
    )
    variables = {"PATH": "/usr/bin:/bin", "TZ": "UTC", **clock}
    # OpenPBS takes all up to the end of the line for the value (Liblog/setup_env.c), and a comment for a variable.
    return "".join(f"{name}={line_text.check(f'pbs_environment: {name}', str(value))}\n" for name, value in variables.items())


def mom_config(home: Path, speed: float) -> str:
    """mom_priv/config of the node with this PBS_HOME. Jobs only sleep, so a node watches nothing but their time."""
    lines = [
        # The default is /var/tmp of the host, where a job of another instance may have the same id.
        _mom_line("tmpdir", home / TEMPORARY),
        # Without a line of the log for each address.
        "$logevent 0x21",
        # A node refuses messages from addresses that it does not know, such as that of the first node of a job. pbs_server tells it
        # those of the other nodes, but not of one that is created while it registers (server/node_manager.c, IS_REGISTERMOM clears
        # INUSE_NEED_ADDRS). So it knows all that there may be from its start on, and their number changes no file.
        *(_mom_line("clienthost", address) for address in (addresses.HEAD, *addresses.node_addresses())),
        # Errors, and events of the system and of security.
        "$logevent 0x23",
        *(_mom_line(name, value) for name, value in mom_settings(speed).items()),
    ]
    return HEADER + "".join(line + "\n" for line in lines)


def _mom_line(name: str, value: object) -> str:
    """A line of mom_priv/config; the value is all after the first blank. Raises WrongUse."""
    text = line_text.check(f"mom_priv/config: {name}", str(value))
    if not text or text != text.strip() or len(text.encode()) > LONGEST:
        raise WrongUse(f"mom_priv/config: {name}: may have 1 to {LONGEST} bytes, and no blank at its ends")
    return f"${name} {text}"


def sched_config(settings: Mapping[str, Any]) -> str:
    """sched_priv/sched_config: SCHEDULER_DEFAULTS with `settings`, which win. A mapping becomes several lines of one key.

    Values are written as they are: they have quotes and the words prime, non_prime and all of their own. Raises WrongUse for a
    value that the scheduler would not read as the rest of the line, such as one whose backslash at the end continues it on the
    next.
    """
    merged = {**SCHEDULER_DEFAULTS, **settings}
    lines = [f"{key}: {text}\n" for key in sorted(merged, key=str) for text in _values(key, merged[key])]
    return HEADER + "".join(lines)


def _values(key: str, value: Any) -> list[str]:
    """The texts of a key: one for each item of a list, none for OMIT. true and false are for prime and non-prime time."""
    items = value if isinstance(value, (list, tuple)) else [value]
    texts = [f"{str(item).lower()} all" if isinstance(item, bool) else str(item) for item in items if item != OMIT]
    if (
        any(item is None or isinstance(item, Mapping) for item in items)
        or any(not text.strip() or text.rstrip().endswith("\\") for text in texts)
        or not (isinstance(key, str) and _KEY.fullmatch(key))
    ):
        raise WrongUse(f"sched_config: {key!r} is not a setting with a one-line value")
    return [line_text.check(f"sched_config: {key}", text) for text in texts]
