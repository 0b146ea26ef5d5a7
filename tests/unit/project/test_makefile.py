"""The Makefile with the real make: help, what it passes on, and that .venv is made once and never half."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pip
import pytest
from copies import left_out

from mirage.commands.main import TARGETS
from mirage.knobs import resolve as knobs
from mirage.knobs.table import BY_NAME, TABLE

ROOT = Path(__file__).parents[3]


def copy_of_project(project: Path) -> Path:
    """The Makefile and the packages in a folder. The lock has the build backend only: .venv is real, and quick to make."""
    for name in ("Makefile", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, project)
    (project / "docs").mkdir()
    shutil.copy(ROOT / "docs/knobs.md", project / "docs")
    for folder in ("mirage", "module_utils"):
        shutil.copytree(ROOT / folder, project / folder, ignore=left_out)
    backend = r"^(?:hatchling|packaging|pathspec|pluggy|tomlkit|trove-classifiers)==.*"
    lock = re.findall(backend, (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    (project / "requirements.txt").write_text("\n".join([*lock, ""]))
    with (project / "Makefile").open("a") as makefile:
        makefile.write('\nshow-path: $(STAMP)\n\t@echo "$$PATH"; echo "$$ANSIBLE_CONFIG"\n')
    return project


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project in a folder with a blank in its name, without .venv at first."""
    return copy_of_project(tmp_path_factory.mktemp("a clone"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project for which nothing is installed any more: its Python is that of these tests."""
    project = copy_of_project(tmp_path_factory.mktemp("an installed clone"))
    write_program(project / ".venv/bin/python", f'exec {sys.executable} "$@"')
    assert make(project, "--touch", "environment").returncode == 0
    assert len(stamps(project)) == 1
    return project


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python that makes each virtual environment with the pip of these tests. Installing pip would take most of the time."""
    folder = tmp_path_factory.mktemp("python")
    (folder / "packages").mkdir()
    (folder / "packages/pip").symlink_to(str(pip.__path__[0]))
    script = f"""
[ "$*" = "-m venv .venv" ] || exec {sys.executable} "$@"
{sys.executable} -m venv --without-pip .venv
echo {folder}/packages > "$(echo .venv/lib/*/site-packages)/pip.pth"
"""
    write_program(folder / "python", script)
    return str(folder / "python")


def write_program(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def make(project: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    ours = {*BY_NAME, knobs.GIVEN, "MFLAGS"}
    clean = {k: v for k, v in os.environ.items() if not k.startswith("MAKE") and k not in ours}
    python = {"PYTHON": sys.executable} if not any(word.startswith("PYTHON=") for word in words) else {}
    command = [str(shutil.which("make")), *words]
    return subprocess.run(
        command, cwd=project, env=clean | python | environ, capture_output=True, text=True, timeout=300, check=False
    )


def stamps(project: Path) -> list[str]:
    return [path.name for path in (project / ".venv").glob("installed-*")]


def test_help_is_the_default_and_tells_every_target_and_knob(clone: Path) -> None:
    done = make(clone)
    assert done.returncode == 0, done.stderr
    told = re.findall(r"^  make ([a-z-]+) +\S", done.stdout, re.MULTILINE)
    defined = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert told == defined
    targets = {*TARGETS, "study"}
    assert set(told) >= {*targets, "test", "unit", "lint", "molecule", "infra", "bench", "clean", "help"}
    listed = re.findall(r"^  ([A-Z0-9_]+) +(\S.*?)  +(\S.*)$", done.stdout, re.MULTILINE)
    assert sorted(listed) == sorted((knob.name, knob.default or knob.shown or "-", knob.meaning) for knob in TABLE)
    assert not (clone / ".venv").exists()


def test_a_failed_installation_leaves_no_stamp_and_is_made_again(clone: Path, python: str) -> None:
    lock = clone / "requirements.txt"
    good = lock.read_text()
    lock.write_text("./there-is-no-such-package\n")
    failed = make(clone, "show-path", f"PYTHON={python}")
    assert failed.returncode == 2
    assert (clone / ".venv/bin/python").exists()
    assert stamps(clone) == []
    lock.write_text(good)
    assert "installing" in make(clone, "show-path", f"PYTHON={python}").stdout
    assert len(stamps(clone)) == 1


def test_the_venv_is_made_once_and_again_when_the_lock_changes(clone: Path, python: str) -> None:
    shutil.rmtree(clone / ".venv", ignore_errors=True)
    first = make(clone, "show-path")
    assert first.returncode == 0, first.stderr
    assert "installing the locked packages" in first.stdout
    path, config = first.stdout.splitlines()[-2:]
    assert path.startswith(f"{clone}/.venv/bin:")
    assert config == f"{clone}/ansible.cfg"
    before = stamps(clone)
    assert len(before) == 1
    assert "installing" not in make(clone, "show-path").stdout
    with (clone / "requirements.txt").open("a") as lock:
        lock.write("# nothing else\n")
    assert "installing" in make(clone, "show-path", f"PYTHON={python}").stdout
    assert len(stamps(clone)) == 1
    assert stamps(clone) != before


def test_a_python_without_venv_is_named_in_one_line(clone: Path, tmp_path: Path) -> None:
    python = tmp_path / "python"
    write_program(python, f'case "$*" in *ensurepip*) exit 1;; esac\nexec {sys.executable} "$@"')
    shutil.rmtree(clone / ".venv", ignore_errors=True)
    done = make(clone, "status", f"PYTHON={python}")
    assert done.returncode == 2
    assert done.stdout == f"wrong use: {python} cannot make a virtual environment: apt-get install python3-venv\n"
    assert not (clone / ".venv").exists()


@pytest.mark.parametrize(
    "value", ["a b", "it's", 'say "x"', "$HOME", "$(HOME)", "$$", "a;b", "`id`", "back\\slash", "#x", "%", "*", "ü", "-n", "a=b"]
)
@pytest.mark.parametrize("way", ["argument", "environment"])
def test_knobs_arrive_as_they_were_typed(installed: Path, value: str, way: str) -> None:
    """CLUSTER refuses all of these, and its message shows what has arrived."""
    done = make(installed, "teardown", f"CLUSTER={value}") if way == "argument" else make(installed, "teardown", CLUSTER=value)
    assert f"wrong use: CLUSTER: {value!r}" in done.stdout
    assert done.returncode == 2


@pytest.mark.parametrize(("words", "told"), [(["NODE=10"], "did you mean NODES?"), (["NODES=0"], "NODES: '0' is not possible")])
def test_wrong_use_is_the_last_line(installed: Path, words: list[str], told: str) -> None:
    done = make(installed, "experiment", *words)
    assert done.returncode == 2
    assert done.stdout.splitlines()[-1].startswith("wrong use: ")
    assert told in done.stdout.splitlines()[-1]


BEDS = "debootstrap iproute2 nftables openssh-client systemd-container"


@pytest.mark.parametrize(
    ("target", "packages"), [("lint", "shellcheck clang-tidy"), ("unit", "gcc libc6-dev chromium"), ("molecule", BEDS)]
)
def test_missing_tools_are_named_in_one_line(installed: Path, tmp_path: Path, target: str, packages: str) -> None:
    """A PATH that holds only what the Makefile itself needs."""
    for name in ("sh", "sha256sum", "cut", "cat", "echo", "rm", "touch"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    done = make(installed, target, PATH=str(tmp_path))
    assert done.returncode == 2
    told = f"failed: tools are missing: apt-get install {packages} (make packages installs all)"
    assert done.stdout.splitlines()[-1] == told, done.stderr


def install(folder: Path, *packages: str, **popen: Any) -> subprocess.CompletedProcess[str]:
    """tests/install_packages.sh without sudo."""
    for name in ("bash", "env", "apt-get", "dpkg-query", "grep"):
        if (program := shutil.which(name)) is None:
            pytest.skip(f"skipped: no Debian, {name} is not there")
        (folder / name).symlink_to(program)
    command = [str(shutil.which("bash")), "-s", "--", *packages]
    script = (ROOT / "tests/install_packages.sh").read_text()
    return subprocess.run(command, input=script, env={"PATH": str(folder)}, capture_output=True, text=True, check=False, **popen)


def test_packages_that_are_there_are_not_installed_again(tmp_path: Path) -> None:
    done = install(tmp_path, "dpkg", "base-files")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.skipif(os.geteuid() != 0, reason="skipped: only root can become another user")
def test_a_user_who_may_not_install_is_told_what_is_missing() -> None:
    with tempfile.TemporaryDirectory() as folder:  # pytest's own may not be entered by others
        Path(folder).chmod(0o755)
        done = install(Path(folder), "dpkg", "no-such-package", "nor-this", user="nobody")
    assert done.returncode == 1
    assert done.stdout == "failed: Debian packages are missing: apt-get install no-such-package nor-this, as root\n"


def test_clean_leaves_results(clone: Path) -> None:
    (clone / "results/x").mkdir(parents=True)
    of_an_extra = "mirage_extras/one/files/program"
    for part in ("files/sigsleep", "files/virtual_clock", "files/job_users", of_an_extra):
        (clone / part).mkdir(parents=True)
        (clone / part / "Makefile").write_text("clean:\n\ttouch cleaned\n")
    assert make(clone, "clean").returncode == 0
    assert (clone / "results/x").is_dir()
    assert not (clone / ".venv").exists()
    assert (clone / "files/sigsleep/cleaned").exists()
    assert (clone / "files/virtual_clock/cleaned").exists()
    assert (clone / of_an_extra / "cleaned").exists()
