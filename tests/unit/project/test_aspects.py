"""The project works without any one aspect: each is a folder of mirage_extras that may be removed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from mirage import aspects

ROOT = Path(__file__).parents[3]
NAMES = sorted(path.parent.name for path in (ROOT / "mirage_extras").glob("*/__init__.py"))
LOG = "\n".join(f"{job} {10 * job} -1 {100 + job} 2 -1 -1 2 300 -1 1 1 1 1 1 -1 -1 -1" for job in range(1, 21))
ALL = (
    "import importlib, pkgutil, mirage\n"
    "for found in pkgutil.walk_packages(mirage.__path__, 'mirage.'):\n"
    "    importlib.import_module(found.name) if not found.name.endswith('__main__') else None\n"
)


@pytest.fixture(params=[*NAMES, "all"])
def without(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of the project's Python without an aspect, or without all of them."""
    for name in ("mirage", "mirage_extras", "module_utils", "configs", "machines"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in NAMES if request.param == "all" else [request.param]:
        shutil.rmtree(tmp_path / "mirage_extras" / name)
    return tmp_path


def python(folder: Path, *words: str, **knobs: str) -> subprocess.CompletedProcess[str]:
    """Run this Python with the packages in the folder."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{folder}:{folder}/module_utils", **knobs}
    environment |= {"MIRAGE_GIVEN": " ".join(knobs), "HOME": str(folder)}
    return subprocess.run([sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_each_aspect_has_a_place_of_its_own() -> None:
    places = [import_module(f"mirage_extras.{name}").PLACE for name in NAMES]
    assert len(set(places)) == len(NAMES) > 0


def test_every_module_can_be_imported(without: Path) -> None:
    done = python(without, "-c", ALL)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_log_is_simulated_and_its_knobs_are_gone(without: Path) -> None:
    (without / "log.swf").write_text(LOG)
    done = python(without, "-m", "mirage", "simulate", TRACE="log.swf", NODES="4", CPUS="1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "wait_mean" in done.stdout
    left = {path.parent.name for path in (without / "mirage_extras").glob("*/__init__.py")}
    for module in aspects.modules("knobs"):
        if module.__name__.split(".")[1] not in left:
            knob = module.ROWS[0].name
            refused = python(without, "-m", "mirage", "simulate", TRACE="log.swf", **{knob: "1"})
            assert (refused.returncode, f"{knob}: there is no such knob" in refused.stdout + refused.stderr) == (2, True)
