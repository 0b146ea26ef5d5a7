"""Errors of the domain code name parameters; only mirage.knobs adds the names of the knobs."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from mirage.knobs.resolve import user_message
from mirage.knobs.table import BY_NAME, BY_PARAMETER
from slurm_mirage.base.errors import WrongUse

ROOT = Path(__file__).parents[3]
FOLDERS = ("mirage", "mirage_extras", "module_utils", "library")
SOURCES = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py") if "tests" not in path.parts]


def errors(path: Path) -> list[ast.Call]:
    """Calls of WrongUse in a file."""
    calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    return [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "WrongUse"]


def beginning(text: ast.expr) -> str:
    """The constant text that a message begins with."""
    part = text.values[0] if isinstance(text, ast.JoinedStr) else text
    return str(part.value) if isinstance(part, ast.Constant) else ""


def test_errors_outside_of_the_table_do_not_begin_with_a_knob() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for path in SOURCES
        if path.parent != ROOT / "mirage/knobs"
        for call in errors(path)
        if beginning(call.args[0]).replace("=", ":").split(":")[0] in BY_NAME
    ]
    assert found == []


def test_parameters_of_errors_are_those_of_knobs() -> None:
    named = {
        name
        for path in SOURCES
        for call in errors(path)
        for keyword in call.keywords
        if keyword.arg == "parameter" and isinstance(keyword.value, ast.Constant)
        for name in str(keyword.value.value).split(", ")
    }
    assert len(named) > 20
    assert named <= set(BY_PARAMETER)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (WrongUse("too many", parameter="nodes", value=9), "NODES=9: too many"),
        (WrongUse("no free port", parameter="port"), "PORT: no free port"),
        (WrongUse("they leave nothing", parameter="warmup_cut, cooldown_cut"), "WARMUP_CUT, COOLDOWN_CUT: they leave nothing"),
        (WrongUse("thresholds: 'x' may be a number"), "thresholds: 'x' may be a number"),
    ],
)
def test_users_read_the_names_of_knobs(error: WrongUse, message: str) -> None:
    """The program behind make and the Ansible modules print the same."""
    assert user_message(error) == message
    assert error.module_message() == f"wrong use: {message}"
