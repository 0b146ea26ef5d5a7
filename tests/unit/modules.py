"""The project's Ansible modules, run in process as Ansible runs them, on real files."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import ansible.module_utils
import pytest
from ansible.module_utils.testing import patch_module_args

ROOT = Path(__file__).parents[2]


def load(name: str) -> ModuleType:
    """Import NAME.py of library, of the project or of an extra, with our module_utils beside Ansible's own."""
    utils = str(ROOT / "module_utils")
    if utils not in ansible.module_utils.__path__:
        ansible.module_utils.__path__.append(utils)
    [path] = [*ROOT.glob(f"library/{name}.py"), *ROOT.glob(f"mirage_extras/*/library/{name}.py")]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


class Caller:
    """Calls modules and gives back what they print: `call("slurm_config", check=True, directory=...)`."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, module: str, /, check: bool = False, **params: Any) -> dict[str, Any]:
        with patch_module_args({**params, "_ansible_check_mode": check}), pytest.raises(SystemExit):
            load(module).main()
        result: dict[str, Any] = json.loads(self._capsys.readouterr().out)
        return result
