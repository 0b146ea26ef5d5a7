"""The file tree that a bed's hosts share: Debian with what a cluster host needs, made once and kept by its recipe.

A tree is named by the digest of its recipe, so that another recipe makes another tree. It is built beside its place and
renamed when it is whole: an interrupted build leaves nothing that could be taken for a tree. Nothing writes to it later.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from slurm_mirage.base.files import locked_folder

from .words import BedError, run, say

# Debian as it comes with an image for the cloud: sudo and a login service (libpam-systemd) belong to what has to be lived with.
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
"""Who logs in, as in Debian's images: an ordinary account that may use sudo without a password."""
# What the roles would install on each host otherwise: in the tree it is unpacked once instead of three times in every test.
_CLUSTER = ("gcc", "libc6-dev", "make", "munge", "slurm-client", "slurmctld", "slurmd")
# The packages' own services do not start, as after the roles have installed them; nothing of apt's wakes up during a test.
_SERVICES = ("munge", "slurmctld", "slurmd")
_TIMERS = tuple(f"{name}.timer" for name in ("apt-daily", "apt-daily-upgrade", "dpkg-db-backup", "e2scrub_all", "fstrim", "man-db"))
# A build whose program was killed does not go on by itself: the next one would begin in the same folder.
_TIED = ("setpriv", "--pdeathsig", "KILL")


@dataclass(frozen=True)
class Recipe:
    """All that decides what is in a tree; `version` is raised when this module makes another tree of the same values."""

    release: str
    system: tuple[str, ...] = _SYSTEM
    cluster: tuple[str, ...] = _CLUSTER
    version: int = 2

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]


def cache() -> Path:
    """The folder of the trees: MIRAGE_TREES, or ~/.cache/slurm-mirage/trees."""
    return Path(os.environ.get("MIRAGE_TREES") or Path.home() / ".cache/slurm-mirage/trees")


def tree(recipe: Recipe) -> Path:
    """The recipe's tree, which is built where it is missing. Of several who ask at a time one builds, the others wait."""
    place = cache() / f"{recipe.release}-{recipe.digest}"
    if place.exists():
        say(f"tree {place.name}: kept from before")
        return place
    with locked_folder(cache()):
        if not place.exists():
            _build(recipe, place)
    return place


def _build(recipe: Recipe, place: Path) -> None:
    unfinished = place.with_name(f"{place.name}.new")
    shutil.rmtree(unfinished, ignore_errors=True)
    say(f"tree {place.name}: debootstrap of {recipe.release}, once")
    # In name spaces of its own: what debootstrap mounts and starts ends with it, however it ends.
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
    """Make the tree one of hosts that boot for the first time, over and over."""
    _inside(root, "systemctl", "disable", *_SERVICES)
    _inside(root, "systemctl", "mask", *_TIMERS)
    _inside(root, "systemctl", "enable", "systemd-networkd.service", "ssh.service")
    _inside(root, "apt-get", "clean")
    _inside(root, "useradd", "--create-home", "--shell=/bin/bash", ACCOUNT)
    _inside(root, "install", "--directory", "--mode=0700", f"--owner={ACCOUNT}", f"--group={ACCOUNT}", f"/home/{ACCOUNT}/.ssh")
    sudoers = root / "etc/sudoers.d" / ACCOUNT
    sudoers.write_text(f"{ACCOUNT} ALL=(ALL:ALL) NOPASSWD:ALL\n")
    sudoers.chmod(0o440)
    # Each host gets its own.
    for key in (root / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    for name in ("etc/machine-id", "var/lib/dbus/machine-id", "etc/hostname"):
        (root / name).unlink(missing_ok=True)
    leftovers = [service for service in _SERVICES if list((root / "etc/systemd/system").glob(f"*.wants/{service}.service"))]
    if leftovers:
        raise BedError(f"{root}: {', '.join(leftovers)} would start at boot")


def _inside(root: Path, *command: str) -> None:
    """Run a command in the tree, with the host's network, seeing and leaving nothing else of the host."""
    flags = ("--quiet", "--register=no", "--keep-unit", "--pipe", "--console=pipe", "--resolv-conf=copy-host", "--timezone=off")
    environment = ("--setenv=DEBIAN_FRONTEND=noninteractive", "--setenv=LC_ALL=C")
    run(*_TIED, "systemd-nspawn", *flags, *environment, f"--directory={root}", "--as-pid2", *command)
