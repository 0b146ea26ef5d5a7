"""The code for cluster hosts needs Python 3.9 and its standard library, and nothing else."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "module_utils/slurm_mirage"
EXTRAS = sorted(PACKAGE.glob("extras/*/"))
"""Links, which `**` does not follow."""
SOURCES = sorted([*PACKAGE.rglob("*.py"), *(path for extra in EXTRAS for path in extra.glob("**/*.py"))])
MODULES = sorted(path.relative_to(PACKAGE.parent).with_suffix("") for path in SOURCES)
ON_HOSTS = sorted(path for path in (ROOT / "library").glob("*.py") if path.stem != "run_collection")
ON_HOSTS += [PACKAGE.parent / name for name in ("module_main.py", "doc_fragments/shared.py")]


@pytest.mark.parametrize("path", [*SOURCES, *ON_HOSTS], ids=lambda path: str(path.relative_to(ROOT)))
def test_the_grammar_is_that_of_python_3_9(path: Path) -> None:
    ast.parse(path.read_text(), feature_version=(3, 9))


def test_functions_and_types_of_the_standard_library_are_those_of_python_3_9() -> None:
    command = [str(Path(sys.executable).parent / "vermin"), "--target=3.9-", "--violations", "--eval-annotations", "--no-tips"]
    done = subprocess.run([*command, PACKAGE, *EXTRAS, *ON_HOSTS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_every_module_can_be_imported_without_site_packages() -> None:
    names = [".".join(path.parts).removesuffix(".__init__") for path in MODULES]
    code = f"""
import importlib, sys
sys.path.append({str(PACKAGE.parent)!r})
for name in {names}:
    importlib.import_module(name)
"""
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
