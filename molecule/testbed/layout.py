"""Defines the names and addresses of a bed. All of them are derived from the bed's name and number."""

from __future__ import annotations

import os
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurm_mirage.base.files import read_json, write_json

from .commands import BedError

HOSTS = ["head1", "compute1", "compute2"]
"""Default hosts of a bed. A host may not have the name of an Ansible group, such as head."""
NUMBERS = 250


def root() -> Path:
    """Return the folder of all beds: MIRAGE_BEDS, or /var/lib/slurm-mirage-beds."""
    return Path(os.environ.get("MIRAGE_BEDS") or "/var/lib/slurm-mirage-beds")


def settings() -> Path:
    """Return the file with the kernel settings that beds have changed; its folder is locked during changes."""
    return root() / ".host" / "settings.json"


@dataclass(frozen=True)
class Host:
    """A host of a bed. `index` counts from 1; the head is the first host."""

    bed: Bed
    name: str
    index: int

    @property
    def address(self) -> str:
        return f"{self.bed.network}.{10 + self.index}"

    @property
    def machine(self) -> str:
        """Name of the systemd-nspawn machine. Its interface on this machine is vb-MACHINE (at most 15 characters)."""
        return f"{self.bed.bridge}-{self.index}"

    @property
    def folder(self) -> Path:
        return self.bed.machines / self.name

    @property
    def tree(self) -> Path:
        """Folder of the host's root file system."""
        return self.folder / "root"

    @property
    def console(self) -> Path:
        return self.bed.folder / f"{self.name}.console"


@dataclass
class Bed:
    """A bed as recorded in its folder. The record exists before any other part of the bed, and until all of it is removed.

    `processes` holds, for each running host, the process id and start time of its systemd-nspawn and of its init.
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
    def shared(self) -> Path:
        """Folder that all hosts share."""
        return self.machines / ".shared"

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
        """Name of the bed's nftables table."""
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
    """Return the bed of this name; None if it has no record."""
    content: dict[str, Any] | None = read_json(root() / name / "bed.json")
    if content is None:
        return None
    processes = {host: [(pid, started) for pid, started in found] for host, found in content["processes"].items()}
    return Bed(name, content["number"], content["release"], content["names"], processes)


def new(name: str, release: str, names: list[str]) -> Bed:
    """Return a new bed with a free number, which is derived from the name if possible. Raises BedError if none is free."""
    taken = {bed.number for bed in all_beds()}
    first = zlib.crc32(name.encode()) % NUMBERS
    free = [number for number in ((first + step) % NUMBERS + 1 for step in range(NUMBERS)) if number not in taken]
    if not free:
        raise BedError(f"all {NUMBERS} numbers of beds are in use; remove a bed")
    return Bed(name, free[0], release, names, {})


def all_beds() -> list[Bed]:
    found = [load(path.parent.name) for path in sorted(root().glob("*/bed.json"))]
    return [bed for bed in found if bed is not None]


def check_name(name: str, what: str) -> str:
    """Return `name` if it is valid for folders, hosts and interfaces. Raises BedError otherwise."""
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,20}", name):
        raise BedError(f"wrong use: {what} {name!r}: must be a lower-case letter, then at most 20 letters, digits or hyphens")
    return name
