"""The wheel in a virtual environment of its own, without the checkout: it has all that the targets without a cluster need.

Nothing is downloaded: the environment finds the packages that the wheel depends on in that of the tests.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from mirage.knobs.resolve import GIVEN
from mirage.knobs.table import BY_NAME

ROOT = Path(__file__).parents[3]
LOG = ROOT / "tests/logs/sessions.swf"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
REQUIREMENTS = [Requirement(text) for text in PROJECT["dependencies"]]
# Packages whose modules have other names, and those that only targets with a cluster import.
MODULES = {"vl-convert-python": "vl_convert", "pyyaml": "yaml"}
CHECKOUT_ONLY = {"ansible_runner", "openstack", "optuna"}


def program(*words: object) -> str:
    """Output of a program, which must succeed."""
    ended = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, built with the build backend of the tests."""
    folder = tmp_path_factory.mktemp("wheel")
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check")
    program(sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", folder, ROOT)
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def script(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The script `mirage` of a virtual environment with the wheel."""
    environment = tmp_path_factory.mktemp("environment")
    program(sys.executable, "-m", "venv", "--without-pip", environment)
    python = environment / "bin/python"
    options = ("--quiet", "--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check")
    program(sys.executable, "-m", "pip", "--python", python, "install", *options, wheel)
    # .pth files in a folder that a .pth file adds are not read: the checkout, installed editable there, is not on the path.
    own = Path(program(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (own / "packages_of_the_tests.pth").write_text(sysconfig.get_path("purelib") + "\n")
    places = "import mirage, slurm_mirage; print(mirage.__file__, slurm_mirage.__file__, sep='\\n')"
    for place in program(python, "-I", "-c", places).splitlines():
        assert Path(place).is_relative_to(own)
    return environment / "bin/mirage"


def run(command: list[str], folder: Path, environ: dict[str, str]) -> tuple[int, str, str]:
    """Exit code, output and errors of a command in a folder, without knobs of the caller's environment. Loops are not compiled,
    which takes longer than the rest."""
    clean = {name: value for name, value in os.environ.items() if name not in (*BY_NAME, GIVEN, "PYTHONPATH")}
    environ = clean | environ | {"NUMBA_DISABLE_JIT": "1"}
    ended = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=300, check=False)
    return ended.returncode, ended.stdout, ended.stderr


def folder_with_log(folder: Path) -> Path:
    folder.mkdir()
    shutil.copy(LOG, folder / "log.swf")
    return folder


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_wheel_holds_these_packages_only(wheel: Path) -> None:
    assert wheel.name == f"slurm_mirage-{PROJECT['version']}-py3-none-any.whl"
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {
        "mirage",
        "mirage_extras",
        "slurm_mirage",
        f"slurm_mirage-{PROJECT['version']}.dist-info",
    }
    assert not [name for name in names if "__pycache__" in name]


@pytest.mark.parametrize(
    ("target", "knobs", "written"),
    [
        ("metrics", {"TAU": "20", "OUT": "metrics.json"}, "metrics.json"),
        ("simulate", {"POLICY": "easy", "NODES": "10", "CPUS": "4", "FILLER": "slots", "OUT": "easy.swf"}, "easy.swf"),
        ("workload", {"JOBS": "20", "SHRINK": "50", "OUT": "w.swf"}, "w.swf"),
        ("workload-report", {"OUT": "results/workloads/log"}, "results/workloads/log/report.html"),
    ],
)
def test_the_script_does_what_make_does(script: Path, tmp_path: Path, target: str, knobs: dict[str, str], written: str) -> None:
    """The same output and the same files, byte for byte, as the program behind make in this checkout.

    workload-report is given no OUT: its default is in the current folder, and is that of make in the checkout.
    """
    by_script, by_make = folder_with_log(tmp_path / "script"), folder_with_log(tmp_path / "make")
    (by_make / written).parent.mkdir(parents=True, exist_ok=True)
    given = {"TRACE": "log.swf", **knobs}
    words = [f"{name}={value}" for name, value in given.items() if (target, name) != ("workload-report", "OUT")]
    checkout = {"PYTHONPATH": f"{ROOT}:{ROOT / 'module_utils'}", GIVEN: " ".join(given)}
    ended = run([str(script), target, *words], by_script, {})
    assert ended[0] == 0, ended
    assert written in files_of(by_script)
    assert ended == run([sys.executable, "-m", "mirage", target], by_make, given | checkout)
    assert files_of(by_script) == files_of(by_make)


def test_a_target_with_a_cluster_needs_the_checkout(script: Path, tmp_path: Path) -> None:
    line = "wrong use: experiment needs a checkout of Slurm Mirage, where `make experiment` runs it\n"
    assert run([str(script), "experiment", "NODES=4"], tmp_path, {}) == (2, line, "")
    assert files_of(tmp_path) == {}


def test_messages_name_the_script(script: Path, tmp_path: Path) -> None:
    folder = folder_with_log(tmp_path / "script")
    assert run([str(script), "metrics", "XYZZY=1"], folder, {})[:2] == (
        2,
        "wrong use: XYZZY: there is no such knob; `mirage` lists the knobs\n",
    )
    assert "note: mirage metrics ignores SPEED\n" in run([str(script), "metrics", "TRACE=log.swf", "SPEED=2"], folder, {})[1]


def test_dependencies_are_what_the_packages_import() -> None:
    known = {"mirage", "slurm_mirage", *sys.stdlib_module_names}
    imported = set()
    for path in (
        *(ROOT / "mirage").rglob("*.py"),
        *(ROOT / "module_utils/slurm_mirage").rglob("*.py"),
        *ROOT.glob("module_utils/slurm_mirage/extras/*/**/*.py"),
    ):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                imported.add(str(node.module).split(".")[0])
    assert imported - known - CHECKOUT_ONLY == {MODULES.get(each.name, each.name) for each in REQUIREMENTS}


def test_the_lock_has_versions_that_the_wheel_accepts() -> None:
    lock = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", (ROOT / "requirements.txt").read_text(), re.MULTILINE))
    assert [each.name for each in REQUIREMENTS if not each.specifier.contains(lock[each.name])] == []
