"""Writes the configuration of Slurm's daemons into an instance's directory."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from .. import extras
from ..base import user_folders
from ..base.files import differs, write_atomically
from ..rm.slurm import front_end, other_configurations, release_change, second_controller
from ..rm.slurm.clock_settings import follow, on_event_clock
from ..rm.slurm.conf import (
    CONTROLLER_FILE_ONLY,
    HEADER,
    Nodes,
    for_nodes,
    merge,
    read_by_nodes,
    render,
    render_settings,
    slim_files,
    value_of,
)
from ..rm.slurm.node_classes import NodeClass, check_partitions, node_classes
from ..rm.slurm.node_options import GPU, gpus, gres_lines, gres_of, gres_types
from ..rm.slurm.other_configurations import CONTROLLER_FILES
from ..rm.slurm.second_controller import with_second
from ..rm.slurm.setting_names import NODE_WORDS_SINCE, PARTITION_WORDS_SINCE, files_beside, known, translated
from .instance import refuse_during_run
from .placement import Block, place, place_on_hosts, placed_in

TOPOLOGY = "etc/topology.conf"
"""slurmctld's topology.conf, in the instance's directory."""


def configure(options: Mapping[str, Any], write: bool) -> dict[str, Any]:
    """Write the files that differ, if `write` is true; returns what the module slurm_config returns, by its options.

    Raises WrongUse.
    """
    directory, version = Path(options["directory"]), options["version"]
    slurm_conf = directory / "etc/slurm.conf"
    before = slurm_conf.read_text() if slurm_conf.exists() else ""
    given = node_classes(options["nodes"])
    classes = [replace(one, extra=tuple(known(dict(one.extra), NODE_WORDS_SINCE, version).items())) for one in given]
    front_ends = front_end.classes(options["front_ends"])
    second = second_controller.second_of(options)
    runs_here = second is not None and second.runs_on(options["address"], not options["hosts"])
    parameters = _completed(
        {**options, "second": second, "has_second": runs_here, "wide_steps": options["wide_steps"] or bool(front_ends)}, classes
    )
    nodes, own_nodes = placed(parameters, front_ends or classes, before)
    wanted = wanted_files(directory, parameters, classes, nodes, own_nodes)
    of_controllers = [file for file in CONTROLLER_FILES if directory / "etc" / file in wanted]
    for name, other in options["others"].items():
        files = wanted_files(directory, _completed({**parameters, **other}, classes), classes, nodes, own_nodes)
        wanted |= {directory / other_configurations.other(file, name): files[directory / "etc" / file] for file in of_controllers}
    links = dict.fromkeys(device_files(directory, classes), "/dev/null")
    if options["others"]:
        links |= {directory / other_configurations.link(file): f"../{other_configurations.copy(file)}" for file in of_controllers}
    touched = update(directory, wanted, links, write)
    return {
        "changed": bool(touched),
        "files": [str(path) for path in touched[:10]],
        "diff": {"before": before, "after": wanted[slurm_conf], "before_header": "slurm.conf", "after_header": "slurm.conf"},
        "slurmctld_digest": digest(
            *(wanted[path] for path in (slurm_conf, directory / second_controller.CONF, directory / TOPOLOGY) if path in wanted)
        ),
        "second_hostname": second.hostname if second is not None and runs_here else "",
        "nodes": [farm_entry(directory, parameters, wanted, item) for item in own_nodes],
    }


def _completed(parameters: Mapping[str, Any], classes: Sequence[NodeClass]) -> dict[str, Any]:
    """The parameters, with what extras and a second slurmctld need besides. Raises WrongUse."""
    settings, partitions, version = parameters["settings"], parameters["partitions"], parameters["version"]
    check_partitions(partitions, classes)
    for of, own in extras.wanted("configuration", "completed", parameters["extras"]):
        settings, partitions = of({**own, "directory": parameters["directory"]}, settings, partitions, version)
    return {**parameters, "settings": with_second(settings, parameters["second"], version), "partitions": partitions}


def wanted_files(
    directory: Path, parameters: Mapping[str, Any], classes: Sequence[NodeClass], nodes: Sequence[Nodes], here: Sequence[Nodes]
) -> dict[Path, str]:
    """Return the content of every file to be written, by path. `here` are the `nodes` of this host."""
    types = gres_types(node_class.extra for node_class in classes)
    settings = follow(merge(gres_settings(types, parameters["settings"]), parameters["settings"]), parameters["speed"])
    if parameters["event_clock"]:
        settings = on_event_clock(settings, parameters["silent_nodes"])
    settings = translated(settings, parameters["version"])
    common = directory / "etc/common.conf"
    if parameters["wide_steps"]:  # slurmd reads the same file
        nodes = for_nodes(nodes)
    lines = front_end.lines(nodes, classes) if parameters["front_ends"] else nodes
    built_for = release_change.line(parameters["version"])
    partitions = [known(partition, PARTITION_WORDS_SINCE, parameters["version"]) for partition in parameters["partitions"]]
    files = {directory / "etc/slurm.conf": render(settings, lines, partitions, built_for)}
    if parameters["has_second"]:
        own = second_controller.own_settings(settings, directory)
        files[directory / second_controller.CONF] = render(own, lines, partitions, built_for)
    # Every daemon reads its other files from the folder of its slurm.conf (common/read_config.c, get_extra_conf_path).
    folder = directory / ("etc" if parameters["wide_steps"] else "etc/nodes")
    for name, text in files_beside(parameters["version"]).items():
        files |= dict.fromkeys((directory / "etc" / name, folder / name), HEADER + text)
    if parameters["topology"]:
        files[directory / TOPOLOGY] = HEADER + parameters["topology"]
    if types:
        gres = (gres_lines(node_class.names, node_class.extra, directory / "etc") for node_class in classes)
        files[folder / "gres.conf"] = HEADER + "".join(gres)
    if parameters["wide_steps"]:
        return files
    files[common] = HEADER + render_settings(
        {key: value for key, value in settings.items() if key.lower() not in CONTROLLER_FILE_ONLY}
    )
    files |= {directory / "etc/nodes" / name: text for name, text in slim_files(for_nodes(here), str(common))}
    return files


def gres_settings(types: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings for nodes with these GRES. Jobs have them as TRES with slurmdbd only; without it slurmctld does not start."""
    if not types:
        return {}
    has_database = "slurmdbd" in value_of(settings.get("AccountingStorageType"))
    tres = {"AccountingStorageTRES": [f"gres/{name}" for name in types.split(",")]} if has_database else {}
    return {"GresTypes": types, **tres}


def placed(parameters: Mapping[str, Any], classes: Sequence[NodeClass], before: str) -> tuple[list[Nodes], list[Nodes]]:
    """Return all nodes with their places, and those of this host. `before` is the text of its existing slurm.conf."""
    block = Block(*(parameters[name] for name in ("address", "port", "ports")))
    if not parameters["hosts"]:
        nodes = place(classes, block, [*placed_in(before), *front_end.placed_in(before)])
        return nodes, nodes
    nodes = place_on_hosts(classes, parameters["hosts"], block, placed_in(parameters["known"]))
    return nodes, [item for item in nodes if item.address == parameters["address"]]


def device_files(directory: Path, classes: Sequence[NodeClass]) -> list[Path]:
    """Return the paths of the device files of GPUs: as many as the node with the most GPUs has."""
    most = max(gpus(gres_of(node_class.extra)) for node_class in classes)
    return [directory / f"etc/{GPU}{number}" for number in range(most)]


def update(directory: Path, wanted: dict[Path, str], links: Mapping[Path, str], write: bool) -> list[Path]:
    """Write the files that differ, create missing links and delete surplus files, if `write` is true.

    links: what each link names. Returns the paths of all these files. Raises WrongUse when there are any and a replay runs.
    """
    outdated = [path for path, text in wanted.items() if differs(path, text)]
    missing = [path for path in links if not path.is_symlink()]
    etc = directory / "etc"
    own = [
        directory / second_controller.CONF,
        etc / "common.conf",
        etc / "gres.conf",
        etc / "cgroup.conf",
        directory / TOPOLOGY,
        *(etc / "nodes").glob("*.conf"),
        *etc.glob(f"{GPU}[0-9]*"),
    ]
    for file in CONTROLLER_FILES:
        own += [directory / other_configurations.link(file), *etc.glob(f"{file}.*")]
    surplus = [path for path in own if path not in wanted and path not in links and os.path.lexists(path)]
    if outdated or missing or surplus:
        refuse_during_run(directory)
    if write:
        for path in missing:
            path.symlink_to(links[path])
        for path in outdated:
            write_atomically(path, wanted[path])
        for path in surplus:
            path.unlink()
        update_copies(directory, outdated)
    return outdated + missing + surplus


def update_copies(directory: Path, outdated: Sequence[Path]) -> None:
    """Where slurmctld reads copies of its files, write those that are missing or of a file that was outdated. Others stay: a run
    may have chosen another configuration."""
    for file in CONTROLLER_FILES:
        copy, source = other_configurations.copy(file), directory / "etc" / file
        if not (directory / other_configurations.link(file)).is_symlink():
            user_folders.remove(directory, copy)
        elif source in outdated or user_folders.status(directory, copy) is None:
            user_folders.write_atomically(directory, copy, source.read_bytes())


def farm_entry(directory: Path, parameters: Mapping[str, Any], wanted: dict[Path, str], nodes: Nodes) -> dict[str, Any]:
    """Return the entry for `nodes` in the returned list `nodes`."""
    has_hostname = nodes.address == parameters["address"] and not parameters["hosts"]
    return {
        "prefix": nodes.prefix,
        "first": nodes.first,
        "count": nodes.count,
        "hostname": parameters["hostname"] if has_hostname else nodes.address,
        "digest": node_digest(directory, wanted, nodes),
    }


def node_digest(directory: Path, wanted: dict[Path, str], nodes: Nodes) -> str:
    """Return the digest of what each slurmd of `nodes` uses of its file: the whole file or the settings and its own line, without
    the scheduler's settings and the partitions.

    The digest does not depend on the number of the first node, so that a change of neighbouring nodes does not change it.
    """
    common = wanted.get(directory / "etc/common.conf")
    if common is None:
        return digest(read_by_nodes(wanted[directory / "etc/slurm.conf"]))
    [nodes] = for_nodes([nodes])
    return digest(read_by_nodes(common), replace(nodes, first=0, count=1, port=nodes.port - nodes.first).line())


def digest(*parts: str) -> str:
    """Return a short digest of texts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
