"""Builds the library of the virtual clock and the programs that test it."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_mirage.clock.clock import Clock

from .clocked import HERE, SOURCE, Builds, Under


def _compile(source: str, result: Path, *flags: str | Path) -> Path:
    command = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-o", str(result), str(HERE / source), *map(str, flags)]
    subprocess.run(command, check=True)
    return result


@pytest.fixture(scope="session")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Builds:
    """The library with run-time checks, and programs."""
    for tool in ("make", "cc", "nm"):
        if shutil.which(tool) is None:
            pytest.skip(f"skipped: {tool} is missing")
    out = tmp_path_factory.mktemp("virtual_clock")
    subprocess.run(["make", "-sC", str(SOURCE), f"OUT={out}", "sanitize"], check=True)
    shared = ("-shared", "-fPIC")
    munge = _compile("fake_munge.c", out / "libmunge.so.2", *shared, "-Wl,-soname,libmunge.so.2")
    with_munge = (munge, f"-Wl,-rpath,{out}")
    return Builds(
        library=out / "virtual_clock-sanitize.so",
        probe=_compile("probe.c", out / "probe", "-pthread", "-lrt", "-ldl"),
        beside=_compile("beside.c", out / "beside.so", *shared),
        fake_munge=munge,
        munge_plugin=_compile("munge_user.c", out / "plugin.so", *shared, *with_munge),
        munge_host=_compile("munge_user.c", out / "munge_host", "-DHOST", "-ldl"),
        munge_linked=_compile("munge_user.c", out / "munge_linked", *with_munge),
    )


@pytest.fixture(scope="session")
def under(builds: Builds, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Under]:
    """under(speed, virtual_ns=..., real_ns=...) returns a clock. By default it starts now, ten days ahead of the host's clock."""
    folder = tmp_path_factory.mktemp("clocks")
    number = iter(range(10**9))

    def make(speed: float, real_ns: int | None = None, virtual_ns: int | None = None) -> Under:
        real = time.time_ns() if real_ns is None else real_ns
        clock = Clock(real, real + 864_000 * 10**9 if virtual_ns is None else virtual_ns, speed)
        file = folder / str(next(number))
        clock.write(file)
        return Under(clock, file, builds)

    return make
