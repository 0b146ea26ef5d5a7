"""Tokens have the host's time, whatever the cluster's clock says."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from .clocked import HERE, Under, lines

SPEED = 1000
LENGTH = 100  # of `fake_jwt.c`, seconds


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("jwt")
    compiler = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", str(HERE / "fake_jwt.c")]
    subprocess.run([*compiler, "-shared", "-fPIC", "-Wl,-soname,libjwt.so.0", "-o", str(out / "libjwt.so.0")], check=True)
    linked = [str(out / "libjwt.so.0"), f"-Wl,-rpath,{out}"]
    subprocess.run([*compiler, "-DUSER", *linked, "-o", str(out / "user")], check=True)
    return out / "user"


def test_instants_are_the_hosts_and_other_numbers_as_they_are(under: Callable[..., Under], program: Path) -> None:
    answers = lines(under(float(SPEED)).run(program))
    kept = {name: values for name, values in answers if "kept" in values}
    seen = {name: values for name, values in answers if "read" in values}
    for name in ("exp", "iat"):
        assert LENGTH - 1 <= kept[name]["kept"] - kept[name]["raw"] <= LENGTH + 1
        # Two readings of the clock, each rounded to a second, and what passes between them.
        assert seen[name]["read"] >= seen[name]["written"] - 1
    assert seen["number"]["read"] == seen["number"]["written"] == kept["number"]["kept"]
    assert seen["none"]["read"] == 0


def test_without_libjwt_the_error_is_one_line(under: Callable[..., Under]) -> None:
    one = under(10.0)
    code = "import ctypes; ctypes.CDLL(None).jwt_get_grant_int(None, b'exp')"
    process = one.start("python3", "-c", code, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.communicate(timeout=60)[1] == f"virtual clock: SLURM_MIRAGE_CLOCK={one.file}: libjwt is not loaded\n"
