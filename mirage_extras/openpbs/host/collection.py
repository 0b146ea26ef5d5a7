"""What the verdict needs of OpenPBS beside its record of jobs, from the configuration of a run: qmgr.txt.

qmgr.txt has parts, each below a line `# NAME`: the release (VERSION), the answers of qmgr about server and queues (SERVER) and
about the nodes (NODES), and the text of sched_config (SCHEDULER).

Facts are those of the source of commit cd7ab5eda: the server writes the start of a job when the node's answer has come
(server/req_runjob.c, complete_running), releases a job's nodes and then writes its end (server/req_jobobit.c, end_job); a node
looks at time limits every 120 s at most (resmom/mom_main.c, max_check_poll) and kills 10 s after it has terminated a job
(kill_delay).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from ...rm.api import Records
from ...rm.evidence import Layout, Names, Node, Scheduling

CONFIGURATION_FILE = "qmgr.txt"
PBS_CONF = "pbs.conf"
VERSION, SERVER, NODES, SCHEDULER = "version", "qmgr: print server", "qmgr: print node @default", "sched_config"
PARTS = (VERSION, SERVER, NODES, SCHEDULER)
_KILLED_WITHIN = 130.0
"""Virtual seconds from a job's limit to its end: max_check_poll and kill_delay."""
_CYCLE = 2.0
"""Virtual seconds after which a node at the latest sends what it has to tell the server (work_task.c, default_next_task)."""
_RECORD = 1.0
"""Virtual seconds: the record has whole ones."""
NAMES = Names(
    manager="OpenPBS",
    controller="pbs_server",
    node_daemon="pbs_mom",
    record="accounting log",
    hosts="exec_host in accounting.log",
    diagnostics="the scheduler's log",
    return_nodes="`pbsnodes -r NAMES`; `pbsnodes -l` has the names",
)
_QUEUE_LIMITS = re.compile(r"^set queue (\S+) (?:max_run\w*|max_\w+_run\w*|resources_available\.\w+) =", re.MULTILINE)
"""Limits of what runs at once. Others refuse a job when it is submitted."""


def joined(parts: Mapping[str, str]) -> str:
    """The content of qmgr.txt: `parts` by name, those of PARTS."""
    return "\n".join(f"# {name}\n{parts[name].strip()}\n" for name in PARTS)


def parts_of(configuration: str) -> dict[str, str]:
    """The parts of a qmgr.txt by name; those that are not there are empty."""
    parts, rest, current = dict.fromkeys(PARTS, ""), configuration, ""
    for name in PARTS:
        # In this order: sched_config, the last part, has comments of its own.
        before, heading, after = rest.partition(f"# {name}\n")
        if heading:
            if current:
                parts[current] = before
            rest, current = after, name
    if current:
        parts[current] = rest
    return parts


def scheduler_setting(parts: Mapping[str, str], key: str) -> str:
    """The value of a setting of sched_config for all hours; empty if it is not there."""
    values = re.findall(rf"^\s*{key}:\s*(\S+)", parts[SCHEDULER], re.MULTILINE)
    return str(values[-1]).lower() if values else ""


def does_backfill(configuration: str) -> bool:
    """Whether a job may start before one that came earlier: not with strict_ordering and a depth of 0."""
    parts = parts_of(configuration)
    depths = re.findall(r"^set (?:server|queue \S+) backfill_depth = (\d+)", parts[SERVER], re.MULTILINE)
    is_strict = scheduler_setting(parts, "strict_ordering") == "true"
    return not is_strict or not depths or any(int(depth) > 0 for depth in depths)


def layout_of(configuration: str) -> Layout | None:
    """The machine; None if the nodes are not there. Every queue has all nodes: a queue with limits is a limited partition."""
    parts = parts_of(configuration)
    nodes = {
        name: Node(int(count))
        for name, count in re.findall(r"^set node (\S+) resources_available\.ncpus = (\d+)", parts[NODES], re.MULTILINE)
    }
    if not nodes:
        return None
    queues = re.findall(r"^create queue (\S+)", parts[SERVER], re.MULTILINE)
    limited = frozenset(_QUEUE_LIMITS.findall(parts[SERVER]))
    return Layout(nodes, {name: frozenset(nodes) for name in queues}, limited)


class ConfiguredRecords(Records):
    """The part of OpenPBS's records that comes from the configuration of a run."""

    names = NAMES
    configuration_file = PBS_CONF
    frees_at_end = True
    end_delay = _CYCLE
    starts_when_accepted = True

    def configuration(self, folder: Path) -> str:
        path = folder / CONFIGURATION_FILE
        return path.read_text(errors="replace") if path.is_file() else ""

    def scheduling(self, configuration: str) -> Scheduling:
        version = re.search(r"(\d+(?:\.\d+)+\S*)", parts_of(configuration)[VERSION])
        return Scheduling(
            version=version[1] if version else None,
            backfills=does_backfill(configuration),
            has_cycles=True,
            # Every event begins a cycle: there is no pause between two cycles that could be a reason for a wait.
            bounds={"start_latency_seconds": _RECORD, "backfill_cycle_seconds": 0.0},
        )

    def over_limit(self, configuration: str, speed: float) -> float:
        return _KILLED_WITHIN

    def layout(self, folder: Path) -> Layout | None:
        return layout_of(self.configuration(folder))
