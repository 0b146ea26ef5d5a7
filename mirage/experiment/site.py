"""Reports what of SLURM_CONF and SITE was not taken over, how nodes were renamed, and which settings did not take effect."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from mirage.cluster_events.site_events import SiteEvents
from mirage.experiment import configuration
from mirage.knobs.knobs import SchedulerKnobs
from mirage.site.archive import Archive
from mirage.site.in_force import not_in_force
from mirage.site.site_conf import LeftOut, SiteConf, summary, too_new
from mirage.site.site_words import GROUPS
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import write_atomically
from slurm_mirage.base.printing import one_line
from slurm_mirage.rm.slurm.records import configuration_of, version_in
from slurm_mirage.rm.slurm.setting_names import release_of

LEFT_OUT = "slurm_conf_left_out.txt"


def in_short(scheduler: SchedulerKnobs, where: str) -> list[str]:
    """Lines for the terminal: how nodes are called, and what of the file is not used, the most important first.

    where: the file that `write` writes, as the user finds it
    """
    site = configuration.site_of(scheduler)
    if site is None:
        return []
    parts = summary(left_out(scheduler))
    lines = [*_renamed(site), *(f"not taken over, {line}" for line in parts)]
    return [f"SLURM_CONF: {line}" for line in [*lines, *([f"all of this in full: {where}"] if lines else [])]]


def left_out(scheduler: SchedulerKnobs) -> list[LeftOut]:
    """What of SLURM_CONF is not used: what is not taken over, and what the cluster's release of Slurm does not have."""
    site = configuration.site_of(scheduler)
    return [] if site is None else [*site.left_out, *too_new(site, _release(scheduler))]


def write(scheduler: SchedulerKnobs, file: Path) -> None:
    """Write each part of the file that is not used, with its reason, and the new names of nodes, if there are any."""
    site = configuration.site_of(scheduler)
    if site is None or not (site.left_out or site.renamed):
        return
    lines = []
    for group in GROUPS:
        items = [item for item in left_out(scheduler) if item.group == group]
        if items:
            lines += [f"Not taken over, {group}:", *(f"  {item}" for item in items), ""]
    if site.renamed:
        lines += ["Names of nodes:", *(f"  {old}: {new}" for old, new in site.renamed.items())]
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, "".join(f"{one_line(line, None)}\n" for line in lines))


TAKEN, APPROXIMATED, ABSENT = "taken", "approximated", "absent"
"""Parts of the table of SITE."""


@dataclass(frozen=True)
class Jobs:
    """Jobs of a run of SITE: those submitted in its window, those that ran or waited at its begin, those left out by reason, and
    the users with their accounts."""

    submitted: int
    presets: int
    left_out: Mapping[str, int]
    owners: Set[tuple[str, str]]


def table(scheduler: SchedulerKnobs, taken: Archive, events: SiteEvents, jobs: Jobs) -> dict[str, dict[str, int]]:
    """What of the archive of a site's week the run has: numbers by what, in the parts TAKEN, APPROXIMATED and ABSENT."""
    conf = configuration.site_of(scheduler) or SiteConf()
    accounts = conf.accounts.associations if conf.accounts is not None else []
    users = {(one["user"], one["account"]) for one in accounts if one["user"]}
    left_out = [*conf.left_out, *too_new(conf, _release(scheduler))]
    groups = Counter(item.group for item in left_out)
    parts: dict[str, dict[str, int]] = {
        TAKEN: {
            "jobs submitted in the window": jobs.submitted,
            "nodes": sum(node_class.count for node_class in conf.nodes),
            "partitions": len(conf.partitions),
            "settings": len(conf.settings),
            "switches": len(conf.topology.splitlines()),
            "accounts": sum(not one["user"] for one in accounts),
            "users": len({user for user, _ in users}),
            "QOS": len(conf.accounts.qos) if conf.accounts is not None else 0,
            **events.taken,
        },
        APPROXIMATED: {
            "jobs that ran or waited at the begin: submitted then, without their age": jobs.presets,
            "associations that are gone: one share, no limits": len(jobs.owners - users) if users else 0,
            "partitions with access or a QOS: given at the start of the run": len(conf.of_accounts),
            "reservations: made at the start of the run": events.taken.get("reservations", 0),
        },
        ABSENT: {
            **{f"lines of the configuration, {group} ({LEFT_OUT})": groups[group] for group in GROUPS},
            "nodes that are not there yet (FUTURE)": len(conf.future),
            **{f"jobs: {reason}": count for reason, count in jobs.left_out.items()},
            **events.left_out,
            "accounts and QOS: not in the archive, or no accounting": int(conf.accounts is None),
            "usage at the begin, for fair share (sshare.txt)": taken.parts["sshare.txt"].rows if "sshare.txt" in taken.parts else 0,
            "steps, which show tasks that job scripts ask for": sum(taken.parts[name].rows for name in taken.pieces("steps")),
            **{f"could not be taken at the site: {name}": 1 for name in taken.failed},
            **{f"hidden at the site: {words}": 1 for words in taken.not_allowed},
        },
    }  # fmt: skip
    return {part: {what: count for what, count in counts.items() if count} for part, counts in parts.items()}


def in_words(parts: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Lines for the terminal: what is only approximated, and what is absent."""
    return [f"SITE: {part}: {what}: {count}" for part in (APPROXIMATED, ABSENT) for what, count in parts.get(part, {}).items()]


def not_taken(scheduler: SchedulerKnobs, folder: Path) -> list[str]:
    """Settings of the file that did not take effect in a run, one line each, by the settings that Slurm showed during it.

    Settings that CONFIG overrides are left out.
    """
    shown = configuration_of(folder)
    site = configuration.site_of(scheduler)
    if site is None or not shown:
        return []
    ours = {key.lower() for key in configuration.of(scheduler).settings}
    kept = {key: value for key, value in site.settings.items() if key.lower() not in ours}
    lines = [str(item) for item in too_new(site, version_in(shown) or "")] + not_in_force(kept, shown)
    return [f"SLURM_CONF: {line}" for line in lines] or [f"SLURM_CONF: {len(kept)} settings taken over, all in force as written"]


def _renamed(site: SiteConf) -> list[str]:
    """How nodes got other names, with an example of each way."""
    zeros = [(old, new) for old, new in site.renamed.items() if re.sub(r"0+(\d+)\Z", r"\1", old) == new]
    others = [(old, new) for old, new in site.renamed.items() if (old, new) not in set(zeros)]
    total = sum(node_class.count for node_class in site.nodes)
    lines = []
    for renamed, how in (
        (zeros, "without leading zeros in the last number"),
        (others, "with a number, or beside one of that name"),
    ):
        if renamed:
            old, new = renamed[0]
            lines.append(f"{len(renamed)} of {total} nodes are called otherwise here, {how}: {old} is {new}")
    return lines


def _release(scheduler: SchedulerKnobs) -> str:
    """The release of the cluster's Slurm: that of SLURM_SOURCE, or of this host's packages; empty if that is not known."""
    if scheduler.slurm_source is not None:
        return scheduler.slurm_source.version
    program = shutil.which("slurmctld", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        return ""
    output = subprocess.run([program, "-V"], capture_output=True, text=True, check=False).stdout
    try:
        release_of(output)
    except WrongUse:
        return ""
    return output
