"""Names of a cluster's servers in a cloud, what they take, and whether the project has that left. No cloud is asked here."""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping
from dataclasses import dataclass

MARK = "slurm-mirage"
"""First word of the mark on everything that is made in a cloud."""
CLUSTER_KEY, GROUPS_KEY = "slurm_mirage_cluster", "slurm_mirage_groups"
"""Keys of a server's metadata: its cluster, and its groups of the inventory separated by commas."""

KINDS = {
    "security_group": "security",
    "network": "network",
    "subnet": "subnet",
    "router": "router",
    "key_pair": "key",
    "server_group": "servers",
}
"""What a cluster has in a cloud beside its servers and floating IP, and how its name ends."""

WORDS = {
    "servers": "servers",
    "cores": "cores",
    "memory": "GB of memory",
    "key_pairs": "key pairs",
    "server_groups": "server groups",
    "server_group_members": "servers in a server group",
    "networks": "networks",
    "subnets": "subnets",
    "routers": "routers",
    "ports": "ports",
    "floating_ips": "floating IPs",
    "security_groups": "security groups",
    "security_group_rules": "rules of security groups",
}


@dataclass(frozen=True)
class Flavor:
    """A size of servers. memory is in MiB, as the cloud counts it."""

    name: str
    cores: int
    memory: int


@dataclass(frozen=True)
class Room:
    """How much of something a project may have, and has. A limit of None or below 0 is none."""

    limit: int | None
    used: int = 0

    @property
    def left(self) -> int | None:
        return None if self.limit is None or self.limit < 0 else max(0, self.limit - self.used)


def mark(cluster: str) -> str:
    """What stands on everything of a cluster that has room for it."""
    return f"{MARK}:{cluster}"


def names(cluster: str) -> dict[str, str]:
    """Name of each thing of a cluster beside its servers."""
    return {kind: f"{cluster}-{ending}" for kind, ending in KINDS.items()}


def server_names(cluster: str, computes: int) -> list[str]:
    """Names of the servers, the head first. With equal widths their order by name is that of their numbers."""
    width = max(2, len(str(computes)))
    return [f"{cluster}-head", *(f"{cluster}-compute-{number:0{width}}" for number in range(1, computes + 1))]


def need_of(flavors: Collection[Flavor]) -> dict[str, int]:
    """What servers of these flavours take. memory is in MiB."""
    return {
        "servers": len(flavors),
        "cores": sum(flavor.cores for flavor in flavors),
        "memory": sum(flavor.memory for flavor in flavors),
    }


def amount(what: str, number: int) -> str:
    """A number of `what` as people say it: memory in GB."""
    return f"{round(number / 1024, 1):g}" if what == "memory" else str(number)


def _counted(what: str, number: int) -> str:
    words = WORDS[what].removesuffix("s") if number == 1 else WORDS[what]
    return f"{amount(what, number)} {words}"


def in_words(need: Mapping[str, int]) -> str:
    """For instance `3 servers, 6 cores, 18 GB of memory`."""
    return ", ".join(_counted(what, number) for what, number in need.items())


def preview(cluster: str, wanted: Collection[Flavor], missing: Collection[Flavor], rooms: Mapping[str, Room]) -> list[str]:
    """What a cluster costs, what of it has to be made, and what the project has left before that."""
    lines = [f"cluster {cluster}: {in_words(need_of(wanted))}"]
    lines.append(f"  to be made: {in_words(need_of(missing))}" if missing else "  all of them are there")
    left = {what: rooms[what].left for what in ("servers", "cores", "memory") if what in rooms}
    known = {what: number for what, number in left.items() if number is not None}
    lines.append(f"  left in the project: {in_words(known) or 'as much as the cloud has'}")
    return lines


def is_public_key(line: str) -> bool:
    """Whether it is a type, and in base64 that same type and more, each with its length before it, to the end."""
    kind, data = [*line.split()[:2], "", ""][:2]
    if not kind.startswith(("ssh-", "ecdsa-", "sk-")):
        return False
    try:
        body = base64.b64decode(data, validate=True)
    except ValueError:
        return False
    parts, place = [], 0
    while place < len(body):
        end = place + 4 + int.from_bytes(body[place : place + 4], "big")
        parts.append(body[place + 4 : end])
        place = end
    return place == len(body) and len(parts) > 1 and parts[0] == kind.encode()


def shortage(need: Mapping[str, int], rooms: Mapping[str, Room]) -> str:
    """What the project has too little of; empty when it has enough."""
    short = []
    for what, number in need.items():
        room = rooms.get(what, Room(None))
        if room.left is not None and number > room.left:
            short.append(f"{WORDS[what]}: {amount(what, number)} to be made, {amount(what, room.left)} left")
    return "; ".join(short)
