"""The jobs that tell FIFO, EASY and conservative backfilling apart on a running cluster."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mirage.simulation.simulation import schedule

SCENARIO = json.loads((Path(__file__).parents[3] / "tests/data/policies.json").read_text())


@pytest.mark.parametrize(("policy", "simulated"), [("fifo", "fcfs"), ("easy", "easy"), ("conservative", "conservative")])
def test_the_simulated_schedule_is_the_one_known_by_hand(policy: str, simulated: str) -> None:
    width, units = (np.array(column) for column in zip(*SCENARIO["jobs"], strict=True))
    submit = np.zeros(len(units))
    start = schedule(submit, width, units, units, 4, simulated, cancel=np.full(len(units), np.inf))
    assert start.tolist() == SCENARIO["starts"][policy]


def test_no_two_policies_have_the_same_schedule() -> None:
    assert len({tuple(starts) for starts in SCENARIO["starts"].values()}) == len(SCENARIO["starts"])
