"""Values of run.json."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.run_settings import RunSettings


def test_a_whole_number_is_0_if_it_is_not_there() -> None:
    settings = RunSettings(Path("run.json"), {"there": 604_799, "zero": 0})
    assert [settings.whole(name) for name in ("there", "zero", "missing")] == [604_799, 0, 0]


@pytest.mark.parametrize("value", [-1, 1.5, True, "1", None])
def test_what_is_no_whole_number(value: object) -> None:
    with pytest.raises(WrongUse, match=r"^run.json: second may not be "):
        RunSettings(Path("run.json"), {"second": value}).whole("second")
