"""How OpenPBS differs from Slurm in what a cluster of it can have and needs."""

from __future__ import annotations

from ...rm.traits import Footprint, Traits
from .addresses import MOST_NODES

TRAITS = Traits(
    default_config="pbs-easy",
    config_prefix="pbs-",
    not_shrunk=("scheduler_iteration", "kill_delay", "the up to 120 s between two looks of a node at the time limits"),
    seen_by_bpf="the daemons of OpenPBS, which run as other accounts",
    needs_no_saves="OpenPBS's database never waits for the disk",
    is_on_one_host=True,
    most_nodes=MOST_NODES,
    nodes_bound="each node needs a port below 1024",
    # A node is a pbs_mom with its PBS_HOME; the others are pbs_server, pbs_comm, pbs_sched and PostgreSQL (README.md of its extra).
    footprint=Footprint(
        node=3.5,
        node_merged=2.0,
        node_pages=830,
        node_files=18,
        node_inodes=20,
        node_disk=0.1,
        base=130.0,
        base_node=0.06,
        base_tasks=60,
        base_files=500,
        base_inodes=1500,
        base_disk=150.0,
    ),
)
