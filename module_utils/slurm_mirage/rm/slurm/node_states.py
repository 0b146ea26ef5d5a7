"""Numbers of nodes or jobs by state, as sinfo(1) and squeue(1) print them, and which nodes are ready for jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

READY = frozenset({"idle", "mixed", "allocated", "completing", "planned", "reserved", "maint"})
"""States of a node that has registered and takes jobs, now or when the scheduler or a reservation lets it."""


def count_states(output: str) -> dict[str, int]:
    """Numbers by state of an answer with lines of `state number`, or of a `state` each (sinfo -o '%T %D', squeue -o %T)."""
    numbers: Counter[str] = Counter()
    for line in output.splitlines():
        words = line.split()
        numbers[words[0].lower()] += int(words[1]) if len(words) > 1 else 1
    return dict(numbers)


def ready(nodes: Mapping[str, int]) -> int:
    """How many nodes are ready, of numbers by state."""
    return sum(number for state, number in nodes.items() if state in READY)


def all_ready(nodes: Mapping[str, int]) -> bool:
    """Whether there are nodes, and all of them are ready."""
    return bool(nodes) and set(nodes) <= READY
