"""Numbers of nodes and jobs by state."""

from __future__ import annotations

import pytest

from slurm_mirage.rm.slurm import node_states


def test_states_are_counted() -> None:
    assert node_states.count_states("idle 9\nunknown* 5\nIDLE 1\n") == {"idle": 10, "unknown*": 5}
    assert node_states.count_states("RUNNING\nPENDING\nRUNNING\n") == {"running": 2, "pending": 1}
    assert node_states.ready({"idle": 9, "idle*": 5, "mixed": 1, "down": 3}) == 10


@pytest.mark.parametrize(
    ("states", "ready"),
    [
        ({"idle": 3}, True),
        ({"idle": 1, "mixed": 1, "allocated": 1, "completing": 1, "planned": 1, "reserved": 1}, True),
        ({}, False),
        ({"idle*": 1}, False),
        ({"idle": 3, "down": 1}, False),
        ({"idle": 3, "drained": 1}, False),
        ({"unknown": 1}, False),
    ],
)
def test_which_nodes_are_ready(states: dict[str, int], ready: bool) -> None:
    assert node_states.all_ready(states) is ready
