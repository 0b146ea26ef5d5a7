"""An upgrade rehearsal: a comparison of releases of Slurm (SLURMS), with what their parsers say of the configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mirage.campaign import rehearsal_summary
from mirage.campaign.campaign import Campaign
from mirage.campaign.releases import PARAMETER, Build, notes
from mirage.experiment import configuration, preflight, runs
from mirage.experiment.cluster_variables import cluster_variables
from mirage.experiment.endings import Ending, Failed
from mirage.experiment.playbook import run_playbook
from mirage.knobs.knobs import Knobs
from mirage.records.file_names import RELEASES_FILE
from mirage.site import conf_lines, own_parser
from mirage.terminal.screen import Screen
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import write_json
from slurm_mirage.rm.slurm.conf import Nodes, merge, render
from slurm_mirage.rm.slurm.setting_names import NODE_WORDS_SINCE, PARTITION_WORDS_SINCE, known, translated

_FIRST_PORT = 10_000  # of the nodes in a slurm.conf that is parsed only


@dataclass(frozen=True)
class Rehearsal:
    """The rehearsal, checked as far as possible without a cluster. builds: by the labels of the campaign's arms"""

    campaign: Campaign
    builds: Mapping[str, Build]

    def run(self, screen: Screen) -> Ending:
        """Install what is missing, let each release read the configuration, run the comparison, and write upgrade.md.

        Raises WrongUse for a release that cannot read the configuration.
        """
        for line in notes(self.builds):
            screen.say(line)
        knobs, folder = self.campaign.knobs, self.campaign.folder
        if runs.earlier(folder, self.campaign.inputs) is None and preflight.is_here(knobs.cluster):
            preflight.privileges(knobs.cluster)
            self._install(screen)
        refused = self._read_by_each(screen)
        ending = self.campaign.run(screen)
        if not ending.is_final:
            return ending
        releases = {
            label: {"version": build.version, "build": build.identity, "refused": refused.get(label, [])}
            for label, build in self.builds.items()
        }
        write_json(folder / RELEASES_FILE, releases)
        return rehearsal_summary.conclude(folder, ending, screen)

    def _install(self, screen: Screen) -> None:
        """Build the releases that this machine does not have yet. Raises what `run_playbook` raises."""
        log = runs.RESULTS / f".logs/{self.campaign.knobs.cluster.name}-slurm.log"
        for label, build in self.builds.items():
            if build.commands is not None:
                continue
            log.parent.mkdir(parents=True, exist_ok=True)
            screen.say(f"installing Slurm {label}; a build from its source takes some minutes, once")
            run_playbook("slurm", cluster_variables(self.campaign.prepared[label].knobs), self.campaign.inventory, screen, log)
            if build.commands is None:
                raise Failed(f"Slurm {label} was installed, but its commands are not found ({log})")

    def _read_by_each(self, screen: Screen) -> dict[str, list[str]]:
        """The lines of SLURM_CONF that one release refuses and another one reads, by the label of the release that refuses them.

        Empty if a release is not installed on this machine.

        Raises WrongUse where a release refuses a line of the configuration that its cluster is to have.
        """
        folders = {label: build.commands for label, build in self.builds.items()}
        found: dict[str, list[str]] = {}
        for label, folder in folders.items():
            if folder is None:
                return {}
            prepared = self.campaign.prepared[label].knobs
            said = own_parser.complaints(folder, emulated_lines(prepared, self.builds[label].version))
            found[label] = [line for line in said if not line.endswith(own_parser.RETIRED)]
        for label, lines in own_parser.only_of(found).items():
            for line in lines:
                screen.say(f"Slurm {label} cannot read {line}")
            if lines:
                where = f"{label} cannot read {len(lines)} of the lines that the others read, {lines[0]}"
                raise WrongUse(f"{where}; it may be releases that all know CONFIG", PARAMETER, self.campaign.knobs.campaign.slurms)
        path = self.campaign.knobs.scheduler.slurm_conf
        if not path:
            return {}
        given = list(conf_lines.ConfFiles(path).lines())
        return own_parser.only_of({label: own_parser.complaints(folder, given) for label, folder in folders.items() if folder})


def emulated_lines(knobs: Knobs, version: str) -> Iterator[conf_lines.Line]:
    """The lines of the slurm.conf of a cluster with these knobs, as far as CONFIG, SLURM_CONF and the nodes decide it."""
    config, site = configuration.of(knobs.scheduler), configuration.site_of(knobs.scheduler)
    own = {"ClusterName": "parsed", "SlurmctldHost": "localhost"}
    settings = translated(merge(own, site.settings if site else {}, config.settings), version)
    nodes = [
        Nodes(one.prefix, one.first, one.count, one.cpus, "localhost", _FIRST_PORT, tuple(_words(one.extra, version)))
        for one in knobs.nodes.machine.classes
    ]
    partitions = [known(partition, PARTITION_WORDS_SINCE, version) for partition in config.partitions]
    for line in conf_lines.parsed(render(settings, nodes, partitions), "slurm.conf"):
        yield replace(line, where=f"the line {line.words[0][0]}")


def _words(extra: Sequence[tuple[str, str]], version: str) -> Iterator[tuple[str, Any]]:
    yield from known(dict(extra), NODE_WORDS_SINCE, version).items()


def again(folder: Path, ending: Ending, screen: Screen) -> Ending:
    """The ending of a finished comparison that is computed again: that of the rehearsal, if it is one."""
    is_rehearsal = (folder / RELEASES_FILE).is_file()
    return rehearsal_summary.conclude(folder, ending, screen) if is_rehearsal else ending
