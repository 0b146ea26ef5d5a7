"""The machine of a run as its configuration describes it: processors and memory of the nodes, nodes of the partitions, limits."""

from __future__ import annotations

from pathlib import Path

from slurm_mirage.rm.evidence import Layout as Layout
from slurm_mirage.rm.evidence import Node as Node
from slurm_mirage.rm.registry import records_of
from slurm_mirage.rm.slurm.layout import parse_layout as parse_layout


def read_layout(folder: Path, processors: int, nodes: int) -> Layout:
    """The machine of the run in `folder`; equal nodes if it has no configuration that describes `nodes` nodes."""
    found = records_of(folder).layout(folder)
    return found if found and len(found.nodes) == nodes else Layout.of_equal(processors, nodes)
