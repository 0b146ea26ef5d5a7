"""Kinds of jobs: sigsleep's command line and record, and the choice by run.json."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.run_settings import RunSettings
from slurm_mirage.jobs import kinds
from slurm_mirage.jobs.kinds import PlayedJob, Sigsleep, kind_of
from slurm_mirage.jobs.plan import PlanRow
from slurm_mirage.jobs.sigsleep_log import Record, pack

ROW = PlanRow(0, 7, 0.0, 4, None, 12.5, 2, None, "large memory of more than 31 letters", "first.7")
KIND = Sigsleep("/srv/my bin/sigsleep", "/srv/sigsleep.log", None)


def settings(**content: Any) -> RunSettings:
    return RunSettings(Path("run.json"), {"sigsleep": "s", "sigsleep_log": "l", "clock": None, **content})


def test_sigsleeps_command_line() -> None:
    line = KIND.command_line(ROW, submitted=1795199259.25, runtime=12.25)
    assert shlex.split(line) == [
        *("exec", "/srv/my bin/sigsleep", "--id", "7", "--cores", "4", "--priority", ROW.partition[:31]),
        *("--submit", "1795199259.250000", "--runtime", "12.250000000", "--log", "/srv/sigsleep.log"),
    ]
    wide = replace(ROW, partition="\u00e4" * 20)  # of two bytes each, and sigsleep takes 31
    assert shlex.split(KIND.command_line(wide, 0.0, 1.0))[7] == "\u00e4" * 15
    fast = Sigsleep("sigsleep", "log", "/srv/state/clock")
    assert shlex.split(fast.command_line(ROW, 0.0, 1.0, Path("/srv/other.log")))[-4:] == [
        *("--log", "/srv/other.log", "--clock", "/srv/state/clock")
    ]


def record(number: int, completed: bool = True) -> bytes:
    return pack(Record(number, 1, "p", 10**9, 2 * 10**9, 5 * 10**9, 3 * 10**9, 3 * 10**9, completed))


@given(st.integers(0, 4 * len(record(1)) + 5))
def test_sigsleeps_record_is_read_up_to_what_is_whole(length: int) -> None:
    """What is not read now is read with what follows; foreign bytes and jobs that were killed do not count."""
    data = record(1) + record(2, completed=False) + b"noise" + record(3) + record(4)
    first, taken = KIND.played(data[:length])
    rest, _ = KIND.played(data[taken:])
    assert first + rest == [PlayedJob(1, 5.0), PlayedJob(3, 5.0), PlayedJob(4, 5.0)]


def test_the_kind_is_chosen_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = Sigsleep("s", "l", None)
    assert kind_of(settings()) == kind_of(settings(kind="sigsleep")) == chosen
    assert chosen.record == Path("l")
    monkeypatch.setitem(kinds.KINDS, "other", lambda content: KIND)
    assert kind_of(settings(kind="other")) is KIND
    with pytest.raises(WrongUse, match=r"kind 'mpi': may be one of .*other, sigsleep"):
        kind_of(settings(kind="mpi"))
    with pytest.raises(WrongUse, match="sigsleep_log may not be 7"):
        kind_of(settings(sigsleep_log=7))
