"""What else in a project of an OpenStack cloud uses a cluster's things: they could not be deleted then, or would be missed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .project import Cluster

OF_THE_CLOUD = ("network:dhcp", "network:distributed", "network:floatingip_agent_gateway")
"""Owners of ports that the cloud puts into each network, and takes out of it when the network is deleted."""
ROUTER_INTERFACES = (
    "network:router_interface",
    "network:router_interface_distributed",
    "network:ha_router_replicated_interface",
)
"""Owners of a router's ports in the networks that it serves."""


def guests(cluster: Cluster) -> list[str]:
    """What else is in the cluster's network, at its router and behind its security group."""
    return sorted([*_in_network(cluster), *_at_router(cluster), *_behind_security_group(cluster)])


def _in_network(cluster: Cluster) -> list[str]:
    if (own := cluster.found["network"]) is None:
        return []
    network, subnet = cluster.connection.network, cluster.found["subnet"]
    subnets = [item for item in network.subnets(network_id=own.id) if subnet is None or item.id != subnet.id]
    ports = [port for port in network.ports(network_id=own.id) if port.device_owner not in OF_THE_CLOUD]
    others = [f"subnet {item.name or item.id}" for item in subnets] + _owners(cluster, ports)
    return [f"{other} in {own.name}" for other in others]


def _at_router(cluster: Cluster) -> list[str]:
    """The router is taken out of its networks before it is deleted: the cloud would not object."""
    if (own := cluster.found["router"]) is None:
        return []
    look, network = cluster.connection.network, cluster.found["network"]
    inner = {port.network_id for port in look.ports(device_id=own.id) if port.device_owner in ROUTER_INTERFACES}
    others = inner - {network.id if network else ""}
    return [f"network {_name(look.find_network, item)} at {own.name}" for item in others]


def _behind_security_group(cluster: Cluster) -> list[str]:
    if (own := cluster.found["security_group"]) is None:
        return []
    # Not every cloud can be asked for the ports of a security group.
    ports = [port for port in cluster.connection.network.ports(project_id=cluster.project) if own.id in port.security_group_ids]
    return [f"{owner} with {own.name}" for owner in _owners(cluster, ports)]


def _owners(cluster: Cluster, ports: list[Any]) -> list[str]:
    """Who has these ports, other than the cluster's servers and router."""
    own = {server.id for server in cluster.servers}
    if router := cluster.found["router"]:
        own.add(router.id)
    return list(dict.fromkeys(_owner(cluster, port) for port in ports if port.device_id not in own))


def _owner(cluster: Cluster, port: Any) -> str:
    kind, device = port.device_owner or "", port.device_id
    if device and kind.startswith("compute:"):
        return f"server {cluster.server_names.get(device, device)}"
    if device and "router" in kind:
        return f"router {_name(cluster.connection.network.find_router, device)}"
    return f"port {port.name or port.id}"


def _name(find: Any, item_id: str) -> str:
    """What it is called, as far as it may be seen."""
    item = find(item_id)
    return str((item and item.name) or item_id)
