"""Every C library function related to time that Slurm calls is replaced or known to be harmless, and listed in the README."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from .clocked import SOURCE, Builds, exported, imported

PACKAGES = (
    *("slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins", "slurm-wlm-basic-plugins-dev"),
    *("slurmdbd", "slurm-wlm-mysql-plugin", "libmariadb3"),
)

# Names of C library functions that may be related to time, including file times.
TIME = re.compile("time|clock|sleep|poll|select|alarm|wait|suspend|stat|sysinfo|semop|recvmmsg|nftw|fts_|getrusage|^syscall$")

# Why the functions that Slurm calls and that are not replaced are harmless.
HARMLESS = {
    **dict.fromkeys(("mktime", "localtime_r", "gmtime_r", "strftime", "difftime"), "they compute"),
    **dict.fromkeys(("localtime", "gmtime", "ctime", "ctime_r", "asctime", "asctime_r"), "they compute"),
    **dict.fromkeys(("epoll_create1", "epoll_ctl"), "they do not wait"),
    **dict.fromkeys(("wait3", "wait4", "waitpid", "sigwait", "sem_wait"), "they wait without a limit"),
    **dict.fromkeys(("timer_create", "timer_delete"), "timer_settime is replaced"),
    **dict.fromkeys(("pthread_setcancelstate", "pthread_attr_setdetachstate"), "they are not about time"),
    **dict.fromkeys(("statfs", "statvfs", "nftw"), "Slurm looks at no times there"),
    **dict.fromkeys(("utime", "futimens"), "sbcast --preserve only"),
    "clock": "processor time stays real",
    "syscall": "for bpf(2)",
}


# Where the role slurm installs releases that it builds from source.
FROM_SOURCE = sorted(path for path in Path("/opt/slurm-mirage").glob("slurm-*") if (path / "sbin").is_dir())


def packaged_files() -> list[Path]:
    """Return the files of the installed packages of Slurm."""
    if shutil.which("dpkg") is None:
        return []
    listed = subprocess.run(["dpkg", "-L", *PACKAGES], capture_output=True, text=True, check=False).stdout.splitlines()
    return [Path(line) for line in listed if re.search(r"/s?bin/|\.so(\.\d+)*$", line)]


def is_program_or_library(path: Path) -> bool:
    """Whether a path is an ELF file, and no symbolic link."""
    return path.is_file() and not path.is_symlink() and path.open("rb").read(4) == b"\x7fELF"


@pytest.fixture(scope="module", params=[None, *FROM_SOURCE], ids=lambda prefix: prefix.name if prefix else "packages")
def slurm_calls(request: pytest.FixtureRequest) -> set[str]:
    """The functions of the C library that an installed Slurm calls: that of the packages, or one that was built from source."""
    if shutil.which("nm") is None:
        pytest.skip("skipped: nm (binutils) is missing")
    prefix: Path | None = request.param
    files = [path for path in (prefix.rglob("*") if prefix else packaged_files()) if is_program_or_library(path)]
    if not files:
        pytest.skip("skipped: Slurm is not installed")
    return set().union(*(imported(path) for path in files))


def test_an_installed_slurm_calls_no_other_function_related_to_time(builds: Builds, slurm_calls: set[str]) -> None:
    timed = {name for name in slurm_calls if TIME.search(name)}
    assert {"time", "gettimeofday", "poll", "pthread_cond_timedwait", "stat"} <= timed
    assert timed - exported(builds.library) - set(HARMLESS) == set()


def test_the_readme_lists_replaced_and_harmless_functions(builds: Builds) -> None:
    sections = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", (SOURCE / "README.md").read_text(), re.MULTILINE | re.DOTALL))
    named = {title: set(re.findall(r"`([a-z_0-9]+)`", text)) for title, text in sections.items()}
    assert named["What is scaled"] == exported(builds.library)
    assert named["What is not scaled"] >= set(HARMLESS)
