"""Malleable jobs in a plan: their words, and the command line of their program."""

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
from slurm_mirage.extras.malleable.kinds import MalleableSigsleep, run_settings
from slurm_mirage.jobs.kinds import Sigsleep, kind_of
from slurm_mirage.jobs.plan import COLUMNS, PlanRow, parse_plan, plan_text

ROW = PlanRow(0, 7, 0.0, 4, None, 12.5, 2, None, "batch", "first.7")


def settings(**content: Any) -> RunSettings:
    return RunSettings(Path("run.json"), {"sigsleep": "s", "sigsleep_log": "l", "clock": None, **content})


def test_malleable_jobs_get_their_words_and_others_the_same_line() -> None:
    kind = kind_of(settings(kind="malleable", broker="/srv/my cluster/broker.socket"))
    assert isinstance(kind, MalleableSigsleep)
    assert kind.command_line(ROW, 1.5, 12.25) == Sigsleep("s", "l", None).command_line(ROW, 1.5, 12.25)
    row = replace(ROW, nodes=2, extras={"malleable": "1:8:2:- check=5 async"})
    line = kind.command_line(row, 1.5, 12.25)
    assert shlex.split(line) == [
        *shlex.split(kind.command_line(ROW, 1.5, 12.25)),
        *("--malleable", "1:8:2:- check=5 async", "--nodes", "2", "--broker", "/srv/my cluster/broker.socket"),
    ]


def test_run_json_names_the_socket_of_the_broker() -> None:
    assert run_settings(Path("/srv/one"), "malleable") == {"broker": "/srv/one/run/private/broker.socket"}
    assert run_settings(Path("/srv/one"), "") == {}


@given(st.lists(st.sampled_from(["", "1:8:2:-", "2:4:2:4 check=5 async"]), max_size=5))
def test_the_words_survive_the_file(words: list[str]) -> None:
    rows = [
        replace(ROW, index=i, id=i, name=f"run.{i}", nodes=4, extras={"malleable": each} if each else {})
        for i, each in enumerate(words)
    ]
    assert parse_plan(plan_text(rows)) == rows


@pytest.mark.parametrize(
    ("nodes", "words", "message"),
    [
        ("", "1:4:2:-", "plan.csv:2: a malleable job needs whole nodes"),
        ("2", "4:1:2:-", "plan.csv:2: malleable job 4:1:2:-: the minimum 4 is above the maximum 1"),
        ("3", "4:5:2:-", "plan.csv:2: no size from 4 to 5 is reached from 3 nodes by the factor 2"),
    ],
)
def test_plans_with_bad_malleable_jobs(nodes: str, words: str, message: str) -> None:
    with pytest.raises(WrongUse) as caught:
        parse_plan(f"{','.join(COLUMNS)}\n0,7,0,1,{nodes},12,2,,,a.7,,,,,,0,{words},,,,\n")
    assert str(caught.value) == message
