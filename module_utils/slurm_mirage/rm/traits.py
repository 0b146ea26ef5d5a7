"""How a resource manager differs from Slurm in what a cluster of it can have and needs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Footprint:
    """What the daemons of a cluster use on its host: memory and disk space in MiB, tasks (processes and threads), open files and
    inodes. Members `node...` are for the daemon of one node, members `base...` for the farm and all other daemons together.

    node_merged: memory of an idle node after ksmd has merged equal pages, of which it scans node_pages
    base_node: memory of the others for each node
    """

    node: float
    node_merged: float
    node_pages: int
    node_files: int
    node_inodes: int
    node_disk: float
    base: float
    base_node: float
    base_tasks: int
    base_files: int
    base_inodes: int
    base_disk: float


@dataclass(frozen=True)
class Traits:
    """The defaults are what holds for Slurm."""

    default_config: str = ""
    """Configuration (CONFIG) of a cluster for which none is given; "": that of the knob."""
    config_prefix: str = ""
    """Beginning of the names of its configurations, which labels of a comparison leave out."""
    not_shrunk: tuple[str, ...] = ()
    """Constants that SHRINK does not shrink with the workload."""
    seen_by_bpf: str = ""
    """Its daemons, if the event clock sees them by BPF only, and why."""
    needs_no_saves: str = ""
    """Why SAVES=memory means nothing to it; "" if it does."""
    is_on_one_host: bool = False
    """Whether a cluster has a network of its own, on one host."""
    most_nodes: int | None = None
    nodes_bound: str = ""
    """Why a cluster has at most so many nodes."""
    footprint: Footprint | None = None
    """None: that of Slurm's daemons, which instance/sizing.py computes."""
