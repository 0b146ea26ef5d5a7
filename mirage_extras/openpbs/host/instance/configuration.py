"""Writes the configuration of OpenPBS's daemons, and the folders that they work in, into an instance's directory."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ....base.errors import WrongUse
from ....instance.instance import refuse_during_run
from .. import conf, home
from ..node_classes import Nodes, node_classes


def configure(parameters: Mapping[str, Any], write: bool) -> dict[str, Any]:
    """Write what differs, if `write` is true; returns what the module openpbs_config returns, by its parameters.

    Raises WrongUse.
    """
    directory, prefix = Path(parameters["directory"]), parameters["prefix"]
    nodes = node_classes(parameters["nodes"])
    homes = wanted_homes(parameters, nodes)
    touched = update(directory, homes, nodes, write)
    server = conf.server_conf(directory, prefix)
    environment = homes.files[directory / conf.ENVIRONMENT][0]
    scheduler = conf.sched_config(parameters["settings"])
    # The same text for each node, so that a change of the number of nodes changes no digest.
    node = conf.node_conf(directory, prefix, "NODE", 0) + conf.mom_config(Path("NODE"), parameters["speed"])
    return {
        "changed": bool(touched),
        "files": [str(path) for path in touched[:10]],
        "server_digest": digest(server, environment),
        "scheduler_digest": digest(server, environment, scheduler),
        "nodes": [{**item.entry(), "digest": digest(node, environment)} for item in nodes],
    }


def wanted_homes(parameters: Mapping[str, Any], nodes: list[Nodes]) -> home.Homes:
    """Return all folders and files of the instance with the `nodes`."""
    directory, prefix = Path(parameters["directory"]), parameters["prefix"]
    homes = home.Homes(folders={directory / "etc/nodes": 0o755})
    homes.add_server(directory, Path(prefix), conf.sched_config(parameters["settings"]))
    homes.files[directory / "etc/pbs.conf"] = conf.server_conf(directory, prefix), 0o644
    has_clock = parameters["speed"] != 1 or parameters["event_clock"]
    homes.files[directory / conf.ENVIRONMENT] = conf.environment(directory, has_clock), 0o644
    for item in nodes:
        for name, number in item.numbered():
            homes.add_node(directory, name, parameters["speed"])
            homes.files[directory / f"etc/nodes/{name}.conf"] = conf.node_conf(directory, prefix, name, number), 0o644
    return homes


def update(directory: Path, homes: home.Homes, nodes: list[Nodes], write: bool) -> list[Path]:
    """Make what is missing or different and delete what belongs to removed nodes, if `write` is true. Returns all these paths.

    Raises WrongUse when there is any and a replay runs, or when a node to be removed has jobs.
    """
    names = {name for item in nodes for name, _ in item.numbered()}
    removed = home.surplus_nodes(directory, names)
    for path in removed:
        if jobs := home.jobs_of(path):
            raise WrongUse(
                f"node {path.name} is to be removed and runs job {jobs[0]}; wait for its end, or make teardown",
                parameter="nodes",
                value=len(names),
            )
    outdated = homes.outdated()
    surplus = [path for path in (directory / "etc/nodes").glob("*.conf") if path not in homes.files]
    if outdated or removed or surplus:
        refuse_during_run(directory)
    if write:
        homes.make(outdated)
        for path in removed:
            home.remove_node(directory, path.name)
        for path in surplus:
            path.unlink()
    return outdated + removed + surplus


def digest(*parts: str) -> str:
    """Return a short digest of texts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
