"""`mirage TARGET KNOB=VALUE ...`: words that become knobs, help, and targets that need a checkout."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

import pytest

from mirage import ROOT
from mirage.commands import command_line
from mirage.commands.command_line import WITHOUT_CLUSTER, parse
from mirage.commands.main import TARGETS
from mirage.knobs.resolve import GIVEN
from mirage.knobs.table import BY_NAME, TABLE
from slurm_mirage.base.errors import WrongUse


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], dict[str, str]]]:
    """The targets that were run, each with the knobs in the environment. Nothing is run, and the environment is put back."""
    seen: list[tuple[list[str], dict[str, str]]] = []

    def run(arguments: Sequence[str]) -> int:
        seen.append((list(arguments), {name: os.environ[name] for name in (*BY_NAME, GIVEN) if name in os.environ}))
        return 0

    clean = {name: value for name, value in os.environ.items() if name not in (*BY_NAME, GIVEN)}
    monkeypatch.setattr(os, "environ", clean)
    monkeypatch.setattr(command_line.targets, "main", run)
    return seen


@pytest.mark.parametrize(
    ("words", "names", "knobs"),
    [
        ("metrics TRACE=log.swf TAU=10", ["metrics"], {"TRACE": "log.swf", "TAU": "10"}),
        ("TRACE=log.swf metrics", ["metrics"], {"TRACE": "log.swf"}),
        ("metrics TAU=1 TAU=2", ["metrics"], {"TAU": "2"}),
        ("metrics TRACE=a=b TAU=", ["metrics"], {"TRACE": "a=b", "TAU": ""}),
        ("TAU=10", [], {"TAU": "10"}),
    ],
)
def test_words_are_a_target_and_knobs(words: str, names: list[str], knobs: dict[str, str]) -> None:
    assert parse(words.split()) == (names, knobs)


def test_a_value_may_hold_blanks_and_line_breaks() -> None:
    assert parse(["simulate", "FILLER_JOBS=work=10 slot=5\n"])[1] == {"FILLER_JOBS": "work=10 slot=5\n"}


@pytest.mark.parametrize("word", ["--tau", "log.swf", "=10", "A B=1", "-x=1"])
def test_other_words_are_refused(word: str) -> None:
    with pytest.raises(WrongUse, match=re.escape(f"{word!r} is not a knob; a knob is given as in TAU=10")):
        parse(["metrics", word])


def test_knobs_are_given_as_make_gives_them(calls: list[tuple[list[str], dict[str, str]]]) -> None:
    assert command_line.main(["metrics", "TRACE=log", "TAU=10"]) == 0
    assert calls == [(["metrics"], {"TRACE": "log", "TAU": "10", GIVEN: "TRACE TAU"})]


def test_without_knobs_the_environment_stays_as_make_has_set_it(calls: list[tuple[list[str], dict[str, str]]]) -> None:
    assert command_line.main(["experiment"]) == 0
    assert calls == [(["experiment"], {})]


@pytest.mark.parametrize("target", TARGETS)
def test_without_a_checkout_targets_that_need_a_cluster_are_refused(
    target: str,
    calls: list[tuple[list[str], dict[str, str]]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(command_line, "IS_CHECKOUT", False)
    code = command_line.main([target, "NODES=4"])
    if target in BY_NAME["INVENTORY"].targets:
        assert (code, calls) == (2, [])
        expected = f"wrong use: {target} needs a checkout of Slurm Mirage, where `make {target}` runs it\n"
        assert capsys.readouterr().out == expected
    else:
        assert (code, [names for names, _ in calls]) == (0, [[target]])


def test_targets_without_a_cluster_have_the_lines_of_make_help() -> None:
    lines = dict(re.findall(r"^([a-z-]+):.*?## (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {name: lines[name] for name in TARGETS if name not in BY_NAME["INVENTORY"].targets} == WITHOUT_CLUSTER


@pytest.mark.parametrize("words", [[], ["--help"], ["help"], ["-h"]])
def test_help_lists_targets_and_their_knobs(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main(words) == 0
    text = capsys.readouterr().out
    for target in TARGETS:
        pattern = rf"^  {target} +\S" if target in WITHOUT_CLUSTER else rf"\b{target}\b"
        assert re.search(pattern, text, re.MULTILINE)
    listed = re.findall(r"^  ([A-Z0-9_]+) +\S", text, re.MULTILINE)
    assert listed == [knob.name for knob in TABLE if set(knob.targets) & WITHOUT_CLUSTER.keys()]


def test_help_of_one_target_lists_its_knobs_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main(["metrics", "--help"]) == 0
    listed = re.findall(r"^  ([A-Z0-9_]+) +\S", capsys.readouterr().out, re.MULTILINE)
    assert listed == [knob.name for knob in TABLE if "metrics" in knob.targets]
