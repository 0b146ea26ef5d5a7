"""Describes the servers and resources of a cluster in OpenStack, and what is missing of a wanted one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import plan
from .guests import guests
from .project import Cluster, Wanted, fault_of


def describe(connection: Any, name: str, wanted: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the servers and resources of the cluster `name`, as the module openstack_cluster_info does.

    connection: of openstacksdk; wanted: what the cluster is to have, which is checked; the result then has what is to be created

    Raises WrongUse.
    """
    cluster = Cluster(connection, name)
    ports = cluster.ports()
    result: dict[str, Any] = {
        "servers": [server_entry(server, ports.get(server.id, "")) for server in cluster.servers],
        "found": {kind: item.name if kind == "key_pair" else item.id for kind, item in cluster.found.items() if item is not None},
        "network": cluster.found["network"].id if cluster.found["network"] else "",
        "external_network": "",
        "names": cluster.names,
    }
    if wanted is None:
        return {**result, "guests": guests(cluster)}
    request = Wanted(cluster, wanted)
    request.check_existing()
    quotas = request.quotas()
    request.check_quotas(quotas)
    result["plan"] = request.servers()
    result["preview"] = plan.preview(name, list(request.flavors().values()), request.missing(), quotas)
    return {**result, "network": request.network or result["network"], "external_network": request.external_network}


def server_entry(server: Any, port: str) -> dict[str, Any]:
    """Return the entry of a server in the returned list `servers`."""
    fault = fault_of(server) if server.status == "ERROR" else ""
    has_run = bool(server.launched_at)
    return {"id": server.id, "name": server.name, "status": server.status, "fault": fault, "has_run": has_run, "port": port}
