"""`make study STUDY=NAME`: the studies, and what is said of another name."""

from __future__ import annotations

import inspect

import pytest

from mirage.commands.main import command
from mirage.knobs.resolve import STUDY_TARGET
from mirage.knobs.table import BY_NAME
from studies.__main__ import STUDIES, main


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_has_a_function_and_knobs(name: str) -> None:
    assert list(inspect.signature(command(name, STUDIES)).parameters)[1] == "screen"
    assert STUDY_TARGET + name in BY_NAME["JOBS"].targets


@pytest.mark.parametrize(("given", "told"), [(["scm"], "scm"), ([], "none"), (["scms", "filler"], "scms filler")])
def test_a_study_that_there_is_not_is_refused_with_the_names_of_those_that_there_are(
    given: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(given) == 2
    names = "scms, suspend, cirrus, site, malleable, malleable-share, filler"
    assert capsys.readouterr().out == f"wrong use: STUDY: {told}; it may be one of: {names}\n"
