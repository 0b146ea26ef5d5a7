"""Finds other resources of an OpenStack project that use a cluster's resources.

The cluster's resources could not be deleted while these use them, or the others would stop working.
"""

from __future__ import annotations

from typing import Any

from .project import Cluster

CLOUD_PORT_OWNERS = ("network:dhcp", "network:distributed", "network:floatingip_agent_gateway")
"""Values of device_owner for the ports that the cloud itself adds to each network and removes with it."""
ROUTER_INTERFACES = (
    "network:router_interface",
    "network:router_interface_distributed",
    "network:ha_router_replicated_interface",
)
"""Values of device_owner for a router's ports in the networks that it connects."""


def guests(cluster: Cluster) -> list[str]:
    """Return descriptions of the other resources in the cluster's network, at its router and with its security group, sorted."""
    return sorted([*_in_network(cluster), *_at_router(cluster), *_behind_security_group(cluster)])


def _in_network(cluster: Cluster) -> list[str]:
    if (own := cluster.found["network"]) is None:
        return []
    network, subnet = cluster.connection.network, cluster.found["subnet"]
    subnets = [item for item in network.subnets(network_id=own.id) if subnet is None or item.id != subnet.id]
    ports = [port for port in network.ports(network_id=own.id) if port.device_owner not in CLOUD_PORT_OWNERS]
    others = [f"subnet {item.name or item.id}" for item in subnets] + _owners(cluster, ports)
    return [f"{other} in {own.name}" for other in others]


def _at_router(cluster: Cluster) -> list[str]:
    """Return the other networks at the cluster's router.

    They have to be looked for: the router is disconnected from its networks before it is deleted, and the cloud does not object.
    """
    if (own := cluster.found["router"]) is None:
        return []
    api, network = cluster.connection.network, cluster.found["network"]
    connected = {port.network_id for port in api.ports(device_id=own.id) if port.device_owner in ROUTER_INTERFACES}
    others = connected - {network.id if network else ""}
    return [f"network {_name(api.find_network, item)} at {own.name}" for item in others]


def _behind_security_group(cluster: Cluster) -> list[str]:
    if (own := cluster.found["security_group"]) is None:
        return []
    # Not every cloud can filter ports by their security group.
    ports = [port for port in cluster.connection.network.ports(project_id=cluster.project) if own.id in port.security_group_ids]
    return [f"{owner} with {own.name}" for owner in _owners(cluster, ports)]


def _owners(cluster: Cluster, ports: list[Any]) -> list[str]:
    """Return descriptions of the owners of `ports`, without the cluster's servers and router."""
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
    """Return the name of the resource `item_id`, or its id when it has no name or these credentials cannot see it."""
    item = find(item_id)
    return str((item and item.name) or item_id)
