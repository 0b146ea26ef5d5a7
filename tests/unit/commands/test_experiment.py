"""How `make experiment` ends, by the verdict on its run or runs."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from mirage.campaign import sweep
from mirage.experiment import order
from mirage.experiment.endings import Ending

JOBS = {"jobs": {"submitted": 40}}


@pytest.mark.parametrize(
    ("validity", "line", "code"),
    [
        ({"verdict": "valid", "valid": True, "reasons": []}, "ok: 40 jobs, results/r", 0),
        ({"verdict": "invalid", "valid": False, "reasons": ["a", "b"]}, "invalid: a; b (results/r)", 1),
        ({"verdict": "inconclusive", "valid": False, "reasons": ["a"]}, "inconclusive: a (results/r)", 1),
    ],
)
def test_the_ending_of_a_run(tmp_path: Path, validity: dict[str, Any], line: str, code: int) -> None:
    ending = order._verdict({**JOBS, "validity": validity}, tmp_path / "r")
    assert (ending.line, ending.code, ending.is_final) == (line, code, True)
    ending.store(tmp_path)
    assert Ending.load(tmp_path) == ending


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("ok", "ok"), "ok: 2 runs, results/s/sweep.csv"),
        (("ok", "inconclusive"), "inconclusive: 1 of 2 runs (s-1), results/s/sweep.csv"),
        (("inconclusive", "invalid"), "invalid: 1 of 2 runs (s-1), results/s/sweep.csv"),
        (("inconclusive", "failed"), "failed: s-1: why"),
    ],
)
def test_the_ending_of_a_sweep(tmp_path: Path, words: tuple[str, ...], line: str) -> None:
    runs = [(Decimal(place), tmp_path / f"s-{place}", Ending(word, "why")) for place, word in enumerate(words)]
    assert sweep._ending(tmp_path / "s", runs).line == line
