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
PARTS = [
    "mirage",
    "mirage_extras",
    "module_utils",
    "library",
    "roles",
    "playbooks",
    "inventories",
    "configs",
    "machines",
    "files",
    "studies",
]
LOG = "\n".join(f"{job} {10 * job} -1 {100 + job} 2 -1 -1 2 300 -1 1 1 1 1 1 -1 -1 -1" for job in range(1, 21))
ALL = (
    "import importlib, pkgutil, mirage, slurm_mirage, studies\n"
    "for package in (mirage, slurm_mirage, studies):\n"
    "    for found in pkgutil.walk_packages(package.__path__, f'{package.__name__}.'):\n"
    "        importlib.import_module(found.name) if not found.name.endswith('__main__') else None\n"
)
ON_HOSTS = """
import sys
from pathlib import Path
from slurm_mirage import extras
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.run_settings import RunSettings
from slurm_mirage.jobs.kinds import kind_of
from slurm_mirage.programs.replay import beside
name = sys.argv[1]
given = {"sigsleep": "s", "sigsleep_log": "l", "clock": None, "broker": "b", "kind": name}
for of in (lambda: kind_of(RunSettings(Path("run.json"), given)), lambda: extras.wanted("configuration", "completed", {name: {}})):
    try:
        of()
    except WrongUse as error:
        print(error)
assert beside(RunSettings(Path("run.json"), {}), Path(), 0, None, None) is None
"""


@pytest.fixture(params=[*NAMES, "all"])
def without(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of the project without an aspect, or without all of them."""
    for name in PARTS:
        shutil.copytree(ROOT / name, tmp_path / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("site.yml", "ansible.cfg"):
        shutil.copy(ROOT / name, tmp_path)
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
            knob = (*getattr(module, "ROWS", ()), *getattr(module, "OF_MANAGER", ()))[0].name
            refused = python(without, "-m", "mirage", "simulate", TRACE="log.swf", **{knob: "1"})
            assert (refused.returncode, f"{knob}: there is no such knob" in refused.stdout + refused.stderr) == (2, True)


MANAGERS = sorted(path.parent.parent.name for path in (ROOT / "mirage_extras").glob("*/host/other.py"))


@pytest.mark.parametrize("manager", MANAGERS)
def test_a_resource_manager_is_refused_without_its_folder(without: Path, manager: str) -> None:
    is_there = (without / "mirage_extras" / manager).exists()
    done = python(without, "-m", "mirage", "cluster", RM=manager)
    reason = f"{manager.upper()}_SOURCE: nothing is given" if is_there else f"RM: {manager!r} is not possible; it may be slurm"
    assert done.returncode == 2
    assert (done.stdout + done.stderr).splitlines()[-1].startswith(f"wrong use: {reason}")
    assert is_there or len(done.stdout.splitlines()) == 1


def ansible(folder: Path, program: str, *words: str) -> str:
    """Run a program of Ansible in the folder; returns what it writes."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "ANSIBLE_CONFIG": str(folder / "ansible.cfg")}
    command = [str(Path(sys.executable).with_name(program)), *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_playbooks_are_read(without: Path) -> None:
    assert "playbook: site.yml" in ansible(without, "ansible-playbook", "--syntax-check", "site.yml")


def test_modules_are_shipped_to_hosts(without: Path) -> None:
    """This one imports the tables of resource managers."""
    options = ("localhost", "--check", "--module-name=slurm_farm_info", f"--args=directory={without}/instance")
    assert "phase: stopped" in ansible(without, "ansible", *options)


def test_its_part_on_hosts_is_gone(without: Path) -> None:
    """Its kind of jobs and its settings are refused in one line each, and the link to its folder leads nowhere."""
    for name in set(NAMES) - {path.parent.name for path in (without / "mirage_extras").glob("*/__init__.py")}:
        if not (ROOT / "mirage_extras" / name / "host").is_dir():
            continue
        done = python(without, "-c", ON_HOSTS, name)
        assert (done.returncode, done.stderr) == (0, "")
        kind, settings = done.stdout.splitlines()
        assert f"kind '{name}': may be one of" in kind and name not in kind.partition("may be")[2]
        assert settings.endswith(f"there is no folder {name} in mirage_extras")


def test_a_replay_works(without: Path) -> None:
    tests = ROOT / "tests/unit/replay/test_replay_in_memory.py"
    words = (
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-c",
        str(ROOT / "pyproject.toml"),
        "-k",
        "played_to_its_end or collected",
    )
    shown = "import slurm_mirage, sys; sys.stdout.write(slurm_mirage.__path__[0])"
    assert python(without, "-c", shown).stdout == f"{without}/module_utils/slurm_mirage"
    done = python(without, *words, str(tests))
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout + done.stderr
