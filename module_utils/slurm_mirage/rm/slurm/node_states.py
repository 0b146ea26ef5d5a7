"""Nodes as sinfo(1) counts them: which have registered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

# States of a node that has registered and takes jobs, now or when the scheduler or a reservation lets it.
WELL = {"idle", "mixed", "allocated", "completing", "planned", "reserved", "maint"}


def count_states(output: str) -> dict[str, int]:
    """Numbers by state of an answer with lines of `state number`, or of a `state` each (sinfo -o '%T %D', squeue -o %T)."""
    numbers: Counter[str] = Counter()
    for line in output.splitlines():
        words = line.split()
        numbers[words[0].lower()] += int(words[1]) if len(words) > 1 else 1
    return dict(numbers)


def registered(nodes: Mapping[str, int]) -> int:
    """How many nodes have registered and take jobs, of numbers by state."""
    return sum(number for state, number in nodes.items() if state in WELL)


def are_well(nodes: Mapping[str, int]) -> bool:
    """Whether there are nodes, and every one has registered and takes jobs."""
    return bool(nodes) and set(nodes) <= WELL
