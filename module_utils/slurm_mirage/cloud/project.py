"""Finds the resources of a cluster in a project of an OpenStack cloud, and checks a wanted cluster against cloud and quotas.

Nothing here changes a cloud.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.errors import WrongUse
from . import plan as cloud_plan
from .plan import Flavor, Quota


def at_most_one(kind: str, items: list[Any]) -> Any:
    """Return the only item, or None when there is none. Raises WrongUse when there are several."""
    if len(items) > 1:
        raise WrongUse(f"the cloud has {len(items)} resources {items[0].name}; delete the surplus {kind}", parameter="cluster")
    return items[0] if items else None


def fault_of(server: Any) -> str:
    """Return the cloud's fault message for a server in state ERROR, in one line; `no reason` while the cloud gives none."""
    return " ".join((server.fault or {}).get("message", "").split()) or "no reason"


def describe_errors(servers: list[Any]) -> str:
    """Return a clause that names these servers in state ERROR, with their fault messages."""
    faults = [f"{server.name} ({fault_of(server)})" for server in servers]
    return f"the cloud has {', '.join(faults)} in state ERROR"


class Cluster:
    """The resources of a cluster in a project.

    found: resource or None, by kind (see cloud.plan.KINDS, and `floating_ip`); servers: the cluster's servers, sorted by name;
    foreign: messages about resources that have a name of the cluster but do not belong to it

    Queries also return resources of other projects: an administrator sees all of them, and networks can be shared. The modules that
    create resources would mistake them for the cluster's, so they are reported as foreign. Raises WrongUse for duplicates.
    """

    def __init__(self, connection: Any, name: str) -> None:
        self.connection, self.name, self.project = connection, name, connection.current_project_id
        self.names, self.mark = cloud_plan.names(name), cloud_plan.mark(name)
        self.foreign: list[str] = []
        network, compute = connection.network, connection.compute
        described = {
            "security_group": network.security_groups,
            "network": network.networks,
            "subnet": network.subnets,
            "router": network.routers,
        }
        self.found = {kind: self._described(kind, query) for kind, query in described.items()}
        self.found["floating_ip"] = at_most_one("floating IP", list(network.ips(description=self.mark, project_id=self.project)))
        self.found["key_pair"] = self._key_pair()
        self.found["server_group"] = self._server_group()
        self.server_names: dict[str, str] = {}
        self.servers = self._servers(compute)

    def _select(self, kind: str, items: list[Any], own: list[Any]) -> Any:
        """Return the one of `own`, which are the cluster's of `items`, or None; note the others as foreign."""
        label = kind.replace("_", " ")
        if len(own) < len(items):
            self.foreign.append(f"the project has a {label} {self.names[kind]} that is not part of this cluster")
        return at_most_one(label, own)

    def _described(self, kind: str, query: Any) -> Any:
        """Return the resource of a kind that has the mark in its description, or None."""
        visible = list(query(name=self.names[kind]))
        items = [item for item in visible if item.project_id == self.project]
        if len(items) < len(visible):
            self.foreign.append(f"another project has a {kind.replace('_', ' ')} {self.names[kind]}, which these credentials reach")
        return self._select(kind, items, [item for item in items if item.description == self.mark])

    def _key_pair(self) -> Any:
        item = self.connection.compute.find_keypair(self.names["key_pair"])
        items = [item] if item else []
        return self._select("key_pair", items, [item for item in items if item.public_key.split()[2:] == [self.mark]])

    def _server_group(self) -> Any:
        items = [item for item in self.connection.compute.server_groups() if item.name == self.names["server_group"]]
        return self._select("server_group", items, items if self.found["security_group"] else [])

    def _servers(self, compute: Any) -> list[Any]:
        own = []
        for server in compute.servers(details=True):
            self.server_names[server.id] = server.name
            if (server.metadata or {}).get(cloud_plan.CLUSTER_KEY) == self.name:
                own.append(server)
            elif server.name == f"{self.name}-head" or server.name.startswith(f"{self.name}-compute-"):
                self.foreign.append(f"the project has a server {server.name} that is not part of this cluster")
        return sorted(own, key=lambda server: str(server.name))

    def ports(self) -> dict[str, str]:
        """Return the id of the first port of each server, by the server's id. Servers without a port are left out."""
        ports: dict[str, str] = {}
        for server in self.servers:
            for port in self.connection.network.ports(device_id=server.id):
                ports.setdefault(server.id, port.id)
        return ports


class Wanted:
    """A cluster as requested, with the flavors and networks that the cloud has for it.

    `wanted` has the suboptions of the option `wanted` of the module openstack_cluster_info. Raises WrongUse for a flavor, an image,
    an availability zone or a network that the cloud does not have.
    """

    def __init__(self, cluster: Cluster, wanted: Mapping[str, Any]) -> None:
        self.cluster, self.wanted, self.connection = cluster, wanted, cluster.connection
        self.flavor, self.head_flavor = self._flavor("flavor"), self._flavor("head_flavor")
        self._image(wanted["image"])
        self._zone(wanted["zone"])
        self.network = self._network("network", wanted["network"])
        self.external_network = self._network("external_network", wanted["external_network"])

    def _flavor(self, option: str) -> Flavor:
        name = self.wanted[option]
        flavor = self.connection.compute.find_flavor(name)
        if flavor is None:
            known = ", ".join(sorted(flavor.name for flavor in self.connection.compute.flavors())) or "none"
            raise WrongUse(f"openstack_cluster_{option}: the cloud has no flavour {name!r}; it may be {known}")
        return Flavor(flavor.name, flavor.vcpus, flavor.ram)

    def _image(self, name: str) -> None:
        images = list(self.connection.image.images(name=name))
        if len(images) > 1:
            ids = ", ".join(sorted(image.id for image in images))
            raise WrongUse(f"openstack_cluster_image: the cloud has {len(images)} images {name!r}; give one's id: {ids}")
        if not images:
            images = list(self.connection.image.images())
            if name not in (image.id for image in images):
                known = ", ".join(sorted({image.name for image in images if image.name})) or "none"
                raise WrongUse(f"openstack_cluster_image: the cloud has no image {name!r}, as name or id; it may be {known}")

    def _zone(self, name: str) -> None:
        zones = sorted(zone.name for zone in self.connection.compute.availability_zones() if zone.state.get("available"))
        if name and name not in zones:
            raise WrongUse(f"openstack_cluster_zone: the cloud has no availability zone {name!r}; it may be {', '.join(zones)}")

    def _network(self, option: str, name: str) -> str:
        if not name:
            return ""
        api, external = self.connection.network, option == "external_network"
        matching = [network for network in api.networks(name=name) if network.is_router_external or not external]
        if not matching:
            known = ", ".join(sorted(network.name for network in api.networks() if network.is_router_external or not external))
            kind = "external network" if external else "network"
            raise WrongUse(f"openstack_cluster_{option}: the cloud has no {kind} {name!r}; it may be {known or 'none'}")
        return str(matching[0].id)

    def flavors(self) -> dict[str, Flavor]:
        """Return the flavor of each server, by the server's name."""
        head, *computes = cloud_plan.server_names(self.cluster.name, self.wanted["computes"])
        return {head: self.head_flavor, **dict.fromkeys(computes, self.flavor)}

    def servers(self) -> list[dict[str, Any]]:
        """Return name, flavor and metadata of each server, the head first."""
        head = cloud_plan.server_names(self.cluster.name, 0)[0]
        head_groups = "head,compute" if self.wanted["head_is_compute"] else "head"
        return [
            {
                "name": name,
                "flavor": flavor.name,
                "metadata": {
                    cloud_plan.CLUSTER_KEY: self.cluster.name,
                    cloud_plan.GROUPS_KEY: head_groups if name == head else "compute",
                },
            }
            for name, flavor in self.flavors().items()
        ]

    def check_existing(self) -> None:
        """Raise WrongUse when existing resources conflict with the wanted cluster or differ from it."""
        cluster, flavors = self.cluster, self.flavors()
        if cluster.foreign:
            raise WrongUse(f"{cluster.foreign[0]}; give another CLUSTER", parameter="cluster")
        # The role deletes and recreates servers that the cloud could not build. A server that has run may hold data.
        broken = [server for server in cluster.servers if server.status == "ERROR" and server.launched_at]
        if broken:
            raise WrongUse(
                f"{describe_errors(broken)}; repair or delete what has run, then run the command again", parameter="cluster"
            )
        surplus = [server.name for server in cluster.servers if server.name not in flavors]
        if surplus:
            raise WrongUse(
                f"openstack_cluster_computes: {', '.join(surplus)} would be surplus; delete them, or give a larger number"
            )
        for server in cluster.servers:
            flavor = server.flavor.original_name or server.flavor.name
            if flavor and flavor != flavors[server.name].name:
                raise WrongUse(
                    f"openstack_cluster_flavor: {server.name} has flavour {flavor}; make deprovision, or give that flavour"
                )
        if not cloud_plan.is_public_key(self.wanted["public_key"]):
            raise WrongUse("openstack_cluster_public_key_file: not a complete public key as ssh-keygen writes it")
        key = cluster.found["key_pair"]
        if key is not None and key.public_key.split()[:2] != self.wanted["public_key"].split()[:2]:
            raise WrongUse("openstack_cluster_public_key_file: the servers have another key; give that, or make deprovision")

    def missing(self) -> list[Flavor]:
        """Return the flavor of each server that does not exist yet."""
        existing = {server.name for server in self.cluster.servers}
        return [flavor for name, flavor in self.flavors().items() if name not in existing]

    def need(self) -> dict[str, int]:
        """Return the number of resources to be created, by the names of their quotas (see cloud.plan.LABELS), without zeros."""
        servers, existing = self.missing(), self.cluster.found
        own_network = not self.wanted["network"]
        router = own_network and bool(self.wanted["external_network"])
        lacks = {kind: int(existing[kind] is None) for kind in existing}
        need = {
            **cloud_plan.required(servers),
            "key_pairs": lacks["key_pair"],
            "server_groups": lacks["server_group"] * (self.wanted["policy"] != "none"),
            "networks": lacks["network"] * own_network,
            "subnets": lacks["subnet"] * own_network,
            "routers": lacks["router"] * router,
            "floating_ips": lacks["floating_ip"] * bool(self.wanted["external_network"]),
            "security_groups": lacks["security_group"],
            "security_group_rules": lacks["security_group"] * self.wanted["rules"],
            "ports": len(servers) + lacks["router"] * router,
        }
        return {resource: number for resource, number in need.items() if number}

    def quotas(self) -> dict[str, Quota]:
        """Return the project's quotas by name. A quota that the cloud does not show is left out and counts as unlimited."""
        limits = self.connection.compute.get_limits().absolute
        quotas = {
            "servers": Quota(limits.instances, limits.instances_used or 0),
            "cores": Quota(limits.total_cores, limits.total_cores_used or 0),
            "memory": Quota(limits.total_ram, limits.total_ram_used or 0),
            "key_pairs": Quota(limits.keypairs, len(list(self.connection.compute.keypairs()))),
            "server_groups": Quota(limits.server_groups, limits.server_groups_used or 0),
        }
        from openstack import exceptions as errors

        try:
            network_quotas = self.connection.network.get_quota(self.connection.current_project_id, details=True)
        except (errors.ForbiddenException, errors.NotFoundException):
            return quotas
        for resource in ("networks", "subnets", "routers", "floating_ips", "security_groups", "security_group_rules", "ports"):
            values = network_quotas[resource] or {}
            quotas[resource] = Quota(values.get("limit"), (values.get("used") or 0) + int(values.get("reserved") or 0))
        return quotas

    def check_quotas(self, quotas: Mapping[str, Quota]) -> None:
        """Raise WrongUse when the project's quotas are too small for the resources to be created."""
        short = cloud_plan.shortage(self.need(), quotas)
        members = Quota(self.connection.compute.get_limits().absolute.server_group_members)
        if self.wanted["policy"] != "none" and not short:
            short = cloud_plan.shortage({"server_group_members": len(self.flavors())}, {"server_group_members": members})
        if short:
            raise WrongUse(f"openstack_cluster_computes: the project's quota is exceeded: {short}")
