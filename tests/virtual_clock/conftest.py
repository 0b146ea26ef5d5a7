"""Builds the library of the virtual clock and the programs that test it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slurm_mirage.clock.clock import Clock

from .clocked import HERE, SOURCE, Builds, Under
from .event_instance import BPF, SCAN, EventBuilds, Instance, reserve_user


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
        **{name: _compile(f"{name}.c", out / name, "-pthread", "-lrt", "-ldl") for name in ("probe", "event_probe", "answers")},
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


# ---- the event-driven clock ----


@pytest.fixture(scope="session")
def event_builds(builds: Builds) -> Iterator[EventBuilds]:
    """The library and the coordinator with run-time checks, and programs, where any user can read them."""
    if os.geteuid() != 0:
        pytest.skip("skipped: only root can run an instance as a user without other processes")
    if shutil.which("setpriv") is None:
        pytest.skip("skipped: setpriv is missing")
    folder = Path(tempfile.mkdtemp(prefix="slurm-mirage-event-"))
    folder.chmod(0o755)
    build = ("make", "-sC", str(SOURCE))
    coordinator = folder / "clock_coordinator-sanitize"
    subprocess.run([*build, f"OUT={folder}", "CPPFLAGS=-DFORGET_AFTER=500000000", str(coordinator)], check=True)
    forgetful = coordinator.rename(folder / "forgetful")
    yield EventBuilds(
        library=Path(shutil.copy(builds.library, folder)),
        coordinator=Path(shutil.copy(builds.library.with_name(coordinator.name), folder)),
        forgetful=forgetful,
        **{name: Path(shutil.copy(getattr(builds, name), folder)) for name in ("probe", "event_probe", "answers")},
    )
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def event_user(event_builds: EventBuilds) -> Iterator[int]:
    """A user without other processes, for one instance at a time."""
    user, reservation = reserve_user()
    yield user
    reservation.close()


def _instance(builds: EventBuilds, user: int, mode: str) -> Instance:
    folder = Path(tempfile.mkdtemp(dir=builds.library.parent))
    folder.chmod(0o755)
    return Instance(folder, builds, user, mode)


@pytest.fixture(params=[BPF, SCAN])
def instance(event_builds: EventBuilds, event_user: int, request: pytest.FixtureRequest) -> Iterator[Instance]:
    """An instance whose coordinator runs, without a driver; with both ways to know which threads work."""
    one = _instance(event_builds, event_user, request.param)
    one.start_coordinator()
    yield one
    one.close()


@pytest.fixture
def bpf_instance(event_builds: EventBuilds, event_user: int) -> Iterator[Instance]:
    """As `instance`, by BPF only: for what scans of /proc do not see, or what does not depend on it."""
    one = _instance(event_builds, event_user, BPF)
    one.start_coordinator()
    yield one
    one.close()


@pytest.fixture
def scan_instance(event_builds: EventBuilds, event_user: int) -> Iterator[Instance]:
    """As `instance`, by scans of /proc only: for the files that they keep open."""
    one = _instance(event_builds, event_user, SCAN)
    one.start_coordinator()
    yield one
    one.close()


@pytest.fixture
def driven(instance: Instance) -> Instance:
    """An instance with a driver: its time jumps."""
    instance.drive()
    return instance
