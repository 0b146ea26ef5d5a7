"""Names of a cluster's resources in a cloud, the quotas that they need, and a preview. Pure functions that access no cloud."""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping
from dataclasses import dataclass

MARK = "slurm-mirage"
"""Prefix of the mark of every resource that is created in a cloud."""
CLUSTER_KEY, GROUPS_KEY = "slurm_mirage_cluster", "slurm_mirage_groups"
"""Keys of a server's metadata: the name of its cluster, and its inventory groups separated by commas."""

KINDS = {
    "security_group": "security",
    "network": "network",
    "subnet": "subnet",
    "router": "router",
    "key_pair": "key",
    "server_group": "servers",
}
"""Kinds of a cluster's resources besides its servers and floating IP, with the suffix of their names."""

LABELS = {
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
    """A flavor of servers. `memory` is in MiB."""

    name: str
    cores: int
    memory: int


@dataclass(frozen=True)
class Quota:
    """A quota of a project and its current usage. A limit of None or below 0 means unlimited."""

    limit: int | None
    used: int = 0

    @property
    def left(self) -> int | None:
        """What is left of the quota; None when it is unlimited."""
        return None if self.limit is None or self.limit < 0 else max(0, self.limit - self.used)


def mark(cluster: str) -> str:
    """Return the mark by which the resources of the cluster are recognised."""
    return f"{MARK}:{cluster}"


def names(cluster: str) -> dict[str, str]:
    """Return the name of each resource of the cluster besides its servers, by kind (see KINDS)."""
    return {kind: f"{cluster}-{ending}" for kind, ending in KINDS.items()}


def server_names(cluster: str, computes: int) -> list[str]:
    """Return the names of the head and of `computes` compute servers, head first.

    The numbers have leading zeros, so that sorting by name sorts by number.
    """
    width = max(2, len(str(computes)))
    return [f"{cluster}-head", *(f"{cluster}-compute-{number:0{width}}" for number in range(1, computes + 1))]


def required(flavors: Collection[Flavor]) -> dict[str, int]:
    """Return the servers, cores and memory (MiB) that servers of these flavors need."""
    return {
        "servers": len(flavors),
        "cores": sum(flavor.cores for flavor in flavors),
        "memory": sum(flavor.memory for flavor in flavors),
    }


def format_amount(resource: str, number: int) -> str:
    """Format a number of a resource (a key of LABELS): memory in GB instead of MiB."""
    return f"{round(number / 1024, 1):g}" if resource == "memory" else str(number)


def _format_resource(resource: str, number: int) -> str:
    label = LABELS[resource].removesuffix("s") if number == 1 else LABELS[resource]
    return f"{format_amount(resource, number)} {label}"


def format_resources(numbers: Mapping[str, int]) -> str:
    """Format numbers of resources, such as `3 servers, 6 cores, 18 GB of memory`."""
    return ", ".join(_format_resource(resource, number) for resource, number in numbers.items())


def preview(cluster: str, wanted: Collection[Flavor], missing: Collection[Flavor], quotas: Mapping[str, Quota]) -> list[str]:
    """Return lines that tell what the cluster needs, what has to be created for it, and what the project has left before that."""
    lines = [f"cluster {cluster}: {format_resources(required(wanted))}"]
    lines.append(f"  to be made: {format_resources(required(missing))}" if missing else "  all of them are there")
    left = {resource: quotas[resource].left for resource in ("servers", "cores", "memory") if resource in quotas}
    limited = {resource: number for resource, number in left.items() if number is not None}
    lines.append(f"  left in the project: {format_resources(limited) or 'as much as the cloud has'}")
    return lines


def is_public_key(line: str) -> bool:
    """Return whether `line` is a complete SSH public key: a type, and in base64 fields with their lengths, the type first."""
    kind, data = [*line.split()[:2], "", ""][:2]
    if not kind.startswith(("ssh-", "ecdsa-", "sk-")):
        return False
    try:
        body = base64.b64decode(data, validate=True)
    except ValueError:
        return False
    fields, position = [], 0
    while position < len(body):
        end = position + 4 + int.from_bytes(body[position : position + 4], "big")
        fields.append(body[position + 4 : end])
        position = end
    return position == len(body) and len(fields) > 1 and fields[0] == kind.encode()


def shortage(need: Mapping[str, int], quotas: Mapping[str, Quota]) -> str:
    """Return the resources of `need` that exceed what is left of their quotas, as text; empty when there is enough."""
    short = []
    for resource, number in need.items():
        left = quotas.get(resource, Quota(None)).left
        if left is not None and number > left:
            short.append(f"{LABELS[resource]}: {format_amount(resource, number)} to be made, {format_amount(resource, left)} left")
    return "; ".join(short)
