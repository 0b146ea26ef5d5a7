"""How `module_main` reads DOCUMENTATION, and turns what a module returns or raises into its answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import ansible.module_utils
import pytest
import yaml
from ansible.module_utils.testing import patch_module_args
from modules import ROOT

ansible.module_utils.__path__.append(str(ROOT / "module_utils"))

from ansible.module_utils.module_main import AnsibleModule, module_main, read  # noqa: E402
from ansible.module_utils.slurm_mirage.base.errors import WrongUse  # noqa: E402
from ansible.module_utils.slurm_mirage.rm.api import Unavailable  # noqa: E402

DOCUMENTATION = r"""
extends_documentation_fragment: [shared, shared.nodes, shared.state]
options:
  count:
    description:
      - Lines are left out, also those with a colon: like this one
    type: int
    default: 3
  nodes:
    default: []
"""


def raiser(error: Exception) -> Callable[[AnsibleModule], dict[str, Any]]:
    def call(module: AnsibleModule) -> dict[str, Any]:
        raise error

    return call


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        (lambda module: {}, {"changed": False}),
        (lambda module: {"changed": True, "count": module.params["count"] + 1}, {"changed": True, "count": 4}),
        (raiser(WrongUse("too many", "count", 3)), {"failed": True, "msg": "wrong use: COUNT=3: too many"}),
        (raiser(Unavailable("no answer")), {"failed": True, "msg": "no answer"}),
        (raiser(OSError(28, "No space left", "/x")), {"failed": True, "msg": "failed: [Errno 28] No space left: '/x'"}),
    ],
)
def test_answers(
    call: Callable[[AnsibleModule], dict[str, Any]], answer: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with patch_module_args({}), pytest.raises(SystemExit):
        module_main(DOCUMENTATION)(call)()
    given = json.loads(capsys.readouterr().out)
    assert {key: given.get(key) for key in answer} == answer


def test_an_error_of_the_program_is_not_hidden() -> None:
    with patch_module_args({}), pytest.raises(ZeroDivisionError):
        module_main(DOCUMENTATION)(raiser(ZeroDivisionError()))()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"state": "there"}, "value of state must be one of: present, absent"),
        ({"nodes": [{"count": 1}]}, "missing required arguments: cpus found in nodes"),
        ({"other": 1}, "Unsupported parameters"),
    ],
)
def test_options_of_fragments_are_checked(wrong: dict[str, Any], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with patch_module_args(wrong), pytest.raises(SystemExit):
        module_main(DOCUMENTATION)(lambda module: {})()
    assert message in json.loads(capsys.readouterr().out)["msg"]


@pytest.mark.parametrize("value", ["3", "1.5", "true", "''", "'a b'", '"0755"', "127.0.0.1", "none", "[]", "[22]", "[a, b]", "{}"])
def test_values_are_those_of_yaml(value: str) -> None:
    text = f"a:\n  b: {value}\n\nc: d\n"
    assert read(text.splitlines()) == yaml.safe_load(text)
