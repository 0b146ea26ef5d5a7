"""Slurm's front-end mode: one slurmd, or a few, stand for all nodes (the thesis this project comes from, figure 3.2).

slurmctld schedules on the nodes as usual, but none of them has a slurmd: it sends each job that it starts to the front end with the
fewest jobs. The mode has to be compiled in (configure's --enable-front-end); Slurm 25.05 no longer has it.
docs/versions.md.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...base.errors import WrongUse
from .conf import Nodes, line_of, render_settings
from .node_classes import NodeClass
from .node_options import Words, gres_of
from .setting_names import translated

PREFIX = "frontend"
"""The front ends are frontend1, frontend2, ..."""
MOST = 64
"""Largest number of front ends: more do not help, because a host has fewer processors."""
GOOD = "24.11"
"""The last release with the mode, and one that works in it."""

Release = tuple[int, ...]
GONE: Release = (25, 5)
INSTEAD = f"build {GOOD} from its source (SLURM_SOURCE: docs/versions.md)"
PACKAGES = f"no package has the front-end mode (Debian's slurm-wlm-emulator is not built as a whole for it); {INSTEAD}"
BAD: tuple[tuple[Release, Release, str], ...] = (
    # The batch step has no nodes in this mode, and _step_dealloc_lps (slurmctld/step_mgr.c) looks at them.
    ((19, 5), (23, 11), "its slurmctld dies in this mode when a job ends"),
    # validate_nodes_via_front_end (slurmctld/node_mgr.c) takes the number of jobs for the index of a node.
    ((23, 11), (23, 11, 2), "its slurmctld dies in this mode when a front end with many jobs registers"),
)
"""Releases from the first on and before the second that cannot be used, and why."""

PLACED = re.compile(rf"^FrontendName={PREFIX}(?P<number>\d+) FrontendAddr=(?P<address>[\d.]+) Port=(?P<port>\d+)$", re.MULTILINE)
"""A line as `FrontEnd.line` writes it."""


@dataclass(frozen=True)
class FrontEnd:
    """A slurmd that stands for nodes, and where it listens."""

    number: int
    address: str
    port: int

    def line(self) -> str:
        """Its line of slurm.conf: one for each, because a line has one port."""
        return line_of("FrontendName", f"{PREFIX}{self.number}", {"FrontendAddr": self.address, "Port": self.port})


@dataclass(frozen=True)
class Emulated:
    """Equal nodes without a slurmd. They have no ports; the address is that of a front end, where their jobs may run."""

    names: str
    cpus: int
    address: str
    extra: Words = ()

    def line(self) -> str:
        """Their line of slurm.conf."""
        return line_of("NodeName", self.names, {"NodeAddr": self.address, "CPUs": str(self.cpus), **dict(self.extra)})


def classes(count: int) -> list[NodeClass]:
    """The front ends as a class of nodes, which are given places as nodes are."""
    return [NodeClass(PREFIX, 1, count, 1)] if count else []


def lines(placed: Iterable[Nodes], nodes: Sequence[NodeClass]) -> list[FrontEnd | Emulated]:
    """All that slurm.conf has instead of nodes with ports: the front ends at their places, and the nodes behind them."""
    ends = [
        FrontEnd(node_class.first + offset, node_class.address, node_class.port + offset)
        for node_class in placed
        for offset in range(node_class.count)
    ]
    return [*ends, *(Emulated(node_class.names, node_class.cpus, ends[0].address, node_class.extra) for node_class in nodes)]


def check_nodes(nodes: Iterable[NodeClass]) -> None:
    """Raise WrongUse for nodes that cannot be without a slurmd of their own, or have the names of front ends."""
    for node_class in nodes:
        if node_class.prefix == PREFIX:
            raise WrongUse(f"nodes: prefix {PREFIX!r}: with FRONT_END the slurmd have these names; take another one")
        if gres_of(node_class.extra):
            raise WrongUse(f"{node_class.names} have GRES, which needs a slurmd for each node: FRONT_END=0", parameter="front_end")


def placed_in(slurm_conf: str) -> list[Nodes]:
    """Places of the front ends of an earlier slurm.conf."""
    return [Nodes(PREFIX, int(match[1]), 1, 1, match[2], int(match[3])) for match in PLACED.finditer(slurm_conf)]


def check_change(slurm_conf: str, wanted: int, cluster: str) -> None:
    """Raise WrongUse when the cluster with that slurm.conf has another number of front ends: its jobs would be lost."""
    number = len(placed_in(slurm_conf))
    if slurm_conf and number != wanted:
        raise WrongUse(
            f"cluster {cluster} was built with FRONT_END={number}; make teardown CLUSTER={cluster} first, or name another CLUSTER",
            parameter="front_end",
            value=wanted,
        )


def check_release(release: str, count: int) -> None:
    """Raise WrongUse for a release that does not have the mode, or does not work in it; an empty one is that of the packages."""
    if not release:
        raise WrongUse(PACKAGES, parameter="front_end", value=count)
    numbers: Release = tuple(int(number) for number in re.findall(r"\d+", release)[:3])
    if numbers >= GONE:
        raise WrongUse(f"Slurm {release} has no front-end mode any more; {INSTEAD}", parameter="front_end", value=count)
    for first, fixed, why in BAD:
        if first <= numbers < fixed:
            raise WrongUse(f"Slurm {release} cannot be used: {why}; {INSTEAD}", parameter="front_end", value=count)


def has_commands(commands: Path) -> bool:
    """Whether Slurm's commands are in that folder."""
    return (commands / "scontrol").exists()


def release_of(commands: Path) -> str:
    """The release of the Slurm whose commands are in that folder (18.08 or later)."""
    scontrol = commands / "scontrol"  # it tells its release only where it has a slurm.conf to read
    answer = _ask(scontrol, _conf(""), "-V")
    words = answer.stdout.split()
    if answer.returncode != 0 or not words:
        raise WrongUse(f"{scontrol} does not tell its release: {(answer.stderr.strip().splitlines() or ['no answer'])[-1]}")
    return words[-1]


def check_build(commands: Path, release: str, count: int) -> None:
    """Raise WrongUse when the Slurm whose commands are in that folder, of that release, was not built for the mode.

    Its scontrol is given a slurm.conf with a front end, which others refuse to read: no file and no option of a build shows it.
    Debian's daemons named slurm*-wlm-emulator were built for it, but not the library that reads the file for them.
    """
    scontrol = commands / "scontrol"
    answer = _ask(scontrol, _conf(release) + "FrontendName=frontend1\n", "show", "hostnames", "n1")
    if answer.returncode == 0 and answer.stdout.split() == ["n1"]:
        return
    if "--enable-front-end" in answer.stderr:
        raise WrongUse(
            f"the Slurm in {scontrol.parent} was not built with --enable-front-end; {INSTEAD}", parameter="front_end", value=count
        )
    words = (answer.stderr.strip().splitlines() or [f"exit code {answer.returncode}"])[-1]
    raise WrongUse(f"{scontrol} cannot tell whether it has the front-end mode: {words}", parameter="front_end", value=count)


def _conf(release: str) -> str:
    """The least that a scontrol of the release reads; one before 18.08 refuses words that came later."""
    settings = translated({"ClusterName": "probe", "SlurmctldHost": "localhost"}, release)
    return render_settings(settings) + "NodeName=n1\nPartitionName=p Nodes=n1\n"


def _ask(scontrol: Path, slurm_conf: str, *words: str) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory(prefix="slurm-mirage-") as folder:
        conf = Path(folder, "slurm.conf")
        conf.write_text(slurm_conf)
        environment = {"SLURM_CONF": str(conf)}
        return subprocess.run([str(scontrol), *words], env=environment, capture_output=True, text=True, check=False)
