"""Builds the file tree that a bed's hosts share: Debian with the packages of a cluster host.

A tree is named by the digest of its recipe. It is built under a temporary name and renamed last, so that an interrupted build
leaves no incomplete tree. It is never changed later.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from slurm_mirage.base.files import locked_folder

from .commands import BedError, run, say

# Debian as in a cloud image, including sudo and the login service (libpam-systemd).
_SYSTEM = (
    "ca-certificates",
    "dbus",
    "iproute2",
    "libpam-systemd",
    "nftables",
    "openssh-server",
    "procps",
    "python3",
    "python3-apt",
    "sudo",
    "systemd",
    "systemd-sysv",
)
ACCOUNT = "debian"
"""Account for SSH, as in Debian's images: an unprivileged account with sudo without a password."""
# Packages that the roles would otherwise install on each host in every test.
_CLUSTER = ("gcc", "libc6-dev", "libjemalloc2", "make", "munge", "slurm-client", "slurmctld", "slurmd")
# These services are disabled, as by the roles. The timers are masked, so that no apt job runs during a test.
_SERVICES = ("munge", "slurmctld", "slurmd")
_TIMERS = tuple(f"{name}.timer" for name in ("apt-daily", "apt-daily-upgrade", "dpkg-db-backup", "e2scrub_all", "fstrim", "man-db"))
# The build ends with this program, because the next build uses the same folder.
_TIED = ("setpriv", "--pdeathsig", "KILL")


@dataclass(frozen=True)
class Recipe:
    """Everything that determines the content of a tree.

    Raise `version` when this module builds other trees from the same values.
    """

    release: str
    system: tuple[str, ...] = _SYSTEM
    cluster: tuple[str, ...] = _CLUSTER
    version: int = 2

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]


def cache() -> Path:
    """Return the folder of the trees: MIRAGE_TREES, or ~/.cache/slurm-mirage/trees."""
    return Path(os.environ.get("MIRAGE_TREES") or Path.home() / ".cache/slurm-mirage/trees")


def tree(recipe: Recipe) -> Path:
    """Return the recipe's tree, which is built if it is missing. Concurrent calls wait for the first one's build."""
    place = cache() / f"{recipe.release}-{recipe.digest}"
    if place.exists():
        say(f"tree {place.name}: exists")
        return place
    with locked_folder(cache()):
        if not place.exists():
            _build(recipe, place)
    return place


def _build(recipe: Recipe, place: Path) -> None:
    unfinished = place.with_name(f"{place.name}.new")
    shutil.rmtree(unfinished, ignore_errors=True)
    say(f"tree {place.name}: debootstrap of {recipe.release}, once per recipe")
    # In its own namespaces, so that debootstrap's mounts and processes end with it in any case.
    alone = (*_TIED, "unshare", "--mount", "--pid", "--fork", "--kill-child")
    mirror = os.environ.get("MIRAGE_MIRROR", "")
    run(
        *alone,
        "debootstrap",
        "--variant=minbase",
        f"--include={','.join(recipe.system)}",
        recipe.release,
        str(unfinished),
        *filter(None, [mirror]),
    )
    say(f"tree {place.name}: {', '.join(recipe.cluster)}")
    inside = unfinished / "usr/sbin/policy-rc.d"
    inside.write_text("#!/bin/sh\nexit 101\n")
    inside.chmod(0o755)
    _inside(unfinished, "apt-get", "install", "--quiet=2", "--no-install-recommends", *recipe.cluster)
    inside.unlink()
    _settle(unfinished)
    unfinished.rename(place)
    say(f"tree {place.name}: done")


def _settle(root: Path) -> None:
    """Configure the tree for hosts that boot for the first time."""
    _inside(root, "systemctl", "disable", *_SERVICES)
    _inside(root, "systemctl", "mask", *_TIMERS)
    _inside(root, "systemctl", "enable", "systemd-networkd.service", "ssh.service")
    _inside(root, "apt-get", "clean")
    _inside(root, "useradd", "--create-home", "--shell=/bin/bash", ACCOUNT)
    _inside(root, "install", "--directory", "--mode=0700", f"--owner={ACCOUNT}", f"--group={ACCOUNT}", f"/home/{ACCOUNT}/.ssh")
    sudoers = root / "etc/sudoers.d" / ACCOUNT
    sudoers.write_text(f"{ACCOUNT} ALL=(ALL:ALL) NOPASSWD:ALL\n")
    sudoers.chmod(0o440)
    # Each host gets its own keys.
    for key in (root / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    for name in ("etc/machine-id", "var/lib/dbus/machine-id", "etc/hostname"):
        (root / name).unlink(missing_ok=True)
    leftovers = [service for service in _SERVICES if list((root / "etc/systemd/system").glob(f"*.wants/{service}.service"))]
    if leftovers:
        raise BedError(f"{root}: {', '.join(leftovers)} would start at boot")


def _inside(root: Path, *command: str) -> None:
    """Run a command in the tree, isolated from the host except for its network."""
    flags = ("--quiet", "--register=no", "--keep-unit", "--pipe", "--console=pipe", "--resolv-conf=copy-host", "--timezone=off")
    environment = ("--setenv=DEBIAN_FRONTEND=noninteractive", "--setenv=LC_ALL=C")
    run(*_TIED, "systemd-nspawn", *flags, *environment, f"--directory={root}", "--as-pid2", *command)
