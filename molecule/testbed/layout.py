"""Names and addresses of a bed: everything that it has on the host is told by its name and its number."""

from __future__ import annotations

import os
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurm_mirage.base.files import read_json, write_json

from .words import BedError

HOSTS = ["head1", "compute1", "compute2"]
"""The hosts of a bed, unless others are asked for. A host that has the name of a group, as head, confuses Ansible."""
NUMBERS = 250


def root() -> Path:
    """The folder of all beds: MIRAGE_BEDS, or /var/lib/slurm-mirage-beds."""
    return Path(os.environ.get("MIRAGE_BEDS") or "/var/lib/slurm-mirage-beds")


def settings() -> Path:
    """What the beds have set on this machine, in a folder of its own, which is locked while they do."""
    return root() / ".host" / "settings.json"


@dataclass(frozen=True)
class Host:
    """A host of a bed; `index` counts from 1, the head being the first."""

    bed: Bed
    name: str
    index: int

    @property
    def address(self) -> str:
        return f"{self.bed.network}.{10 + self.index}"

    @property
    def machine(self) -> str:
        """systemd-nspawn's name of it. vb-MACHINE is its interface on the host, which may have 15 letters."""
        return f"{self.bed.bridge}-{self.index}"

    @property
    def folder(self) -> Path:
        return self.bed.machines / self.name

    @property
    def tree(self) -> Path:
        """What it sees as /."""
        return self.folder / "root"

    @property
    def console(self) -> Path:
        return self.bed.folder / f"{self.name}.console"


@dataclass
class Bed:
    """A bed as it is written down in its folder, from before anything of it is made until everything is gone.

    `processes` tells of each host that runs the systemd-nspawn and the init in it, each as process id and start time.
    """

    name: str
    number: int
    release: str
    names: list[str]
    processes: dict[str, list[tuple[int, int]]]

    @property
    def folder(self) -> Path:
        return root() / self.name

    @property
    def machines(self) -> Path:
        return self.folder / "machines"

    @property
    def inventory(self) -> Path:
        return self.folder / "inventory"

    @property
    def key(self) -> Path:
        return self.folder / "key"

    @property
    def bridge(self) -> str:
        return f"mb{self.number:02x}"

    @property
    def network(self) -> str:
        return f"10.213.{self.number}"

    @property
    def table(self) -> str:
        """Its table of nftables."""
        return f"mirage_bed_{self.number:02x}"

    @property
    def hosts(self) -> list[Host]:
        return [Host(self, name, index) for index, name in enumerate(self.names, 1)]

    def host(self, name: str) -> Host:
        for host in self.hosts:
            if host.name == name:
                return host
        raise BedError(f"bed {self.name} has no host {name}; it has {', '.join(self.names)}")

    def save(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_json(self.folder / "bed.json", {k: getattr(self, k) for k in ("number", "release", "names", "processes")})


def load(name: str) -> Bed | None:
    """The bed of that name; None when there is none, or only a folder that nothing was made in yet."""
    content: dict[str, Any] | None = read_json(root() / name / "bed.json")
    if content is None:
        return None
    processes = {host: [(pid, started) for pid, started in found] for host, found in content["processes"].items()}
    return Bed(name, content["number"], content["release"], content["names"], processes)


def new(name: str, release: str, names: list[str]) -> Bed:
    """A bed that is nowhere yet, with a number of its own. Its name decides which, unless another bed has that."""
    taken = {bed.number for bed in all_beds()}
    first = zlib.crc32(name.encode()) % NUMBERS
    free = [number for number in ((first + step) % NUMBERS + 1 for step in range(NUMBERS)) if number not in taken]
    if not free:
        raise BedError(f"there are {NUMBERS} beds already")
    return Bed(name, free[0], release, names, {})


def all_beds() -> list[Bed]:
    found = [load(path.parent.name) for path in sorted(root().glob("*/bed.json"))]
    return [bed for bed in found if bed is not None]


def check_name(name: str, what: str) -> str:
    """`name`, if it can be one of a folder, a host and an interface."""
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,20}", name):
        raise BedError(f"wrong use: {what} {name!r}: a lower-case letter, then at most 20 letters, digits or hyphens")
    return name
