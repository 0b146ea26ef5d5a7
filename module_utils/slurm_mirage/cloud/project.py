"""What a cluster has in a project of an OpenStack cloud, and what the cloud says to what it shall have. Nothing is changed here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.errors import WrongUse
from . import guests as cloud_guests
from . import plan as cloud_plan
from .plan import Flavor, Room


def the_only(kind: str, items: list[Any]) -> Any:
    """The thing of its name and mark, or None."""
    if len(items) > 1:
        raise WrongUse(
            f"{len(items)} things of the cloud are called {items[0].name}; remove the {kind} that is too many", parameter="cluster"
        )
    return items[0] if items else None


def reason_of(server: Any) -> str:
    """What the cloud says to a server's state ERROR, in one line; `no reason` where it says nothing, or nothing yet."""
    return " ".join((server.fault or {}).get("message", "").split()) or "no reason"


def in_error(servers: list[Any]) -> str:
    """Names of servers that are in error, with what the cloud says to it."""
    told = [f"{server.name} ({reason_of(server)})" for server in servers]
    return f"the cloud has {', '.join(told)} in state ERROR"


class Cluster:
    """A cluster's things in a project. `foreign` tells of those that bear its names, and are not its.

    Things of other projects are among what is looked up: administrators see all of them, and a network can be shared. The modules
    that make things would take those for what is wanted, so they have to be known as foreign.
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
        self.found = {kind: self._described(kind, look) for kind, look in described.items()}
        self.found["floating_ip"] = the_only("floating IP", list(network.ips(description=self.mark, project_id=self.project)))
        self.found["key_pair"] = self._key_pair()
        self.found["server_group"] = self._server_group()
        self.server_names: dict[str, str] = {}
        self.servers = self._servers(compute)

    def _sort(self, kind: str, items: list[Any], own: list[Any]) -> Any:
        words = kind.replace("_", " ")
        if len(own) < len(items):
            self.foreign.append(f"the project has a {words} {self.names[kind]} that is not of this cluster")
        return the_only(words, own)

    def _described(self, kind: str, look: Any) -> Any:
        seen = list(look(name=self.names[kind]))
        items = [item for item in seen if item.project_id == self.project]
        if len(items) < len(seen):
            self.foreign.append(f"another project has a {kind.replace('_', ' ')} {self.names[kind]}, which these credentials reach")
        return self._sort(kind, items, [item for item in items if item.description == self.mark])

    def _key_pair(self) -> Any:
        item = self.connection.compute.find_keypair(self.names["key_pair"])
        items = [item] if item else []
        return self._sort("key_pair", items, [item for item in items if item.public_key.split()[2:] == [self.mark]])

    def _server_group(self) -> Any:
        items = [item for item in self.connection.compute.server_groups() if item.name == self.names["server_group"]]
        return self._sort("server_group", items, items if self.found["security_group"] else [])

    def _servers(self, compute: Any) -> list[Any]:
        own = []
        for server in compute.servers(details=True):
            self.server_names[server.id] = server.name
            if (server.metadata or {}).get(cloud_plan.CLUSTER_KEY) == self.name:
                own.append(server)
            elif server.name == f"{self.name}-head" or server.name.startswith(f"{self.name}-compute-"):
                self.foreign.append(f"the project has a server {server.name} that is not of this cluster")
        return sorted(own, key=lambda server: str(server.name))

    def ports(self) -> dict[str, str]:
        """The first port of each server, by the server's id, as far as it has one."""
        own = {server.id for server in self.servers}
        ports: dict[str, str] = {}
        for server in own:
            for port in self.connection.network.ports(device_id=server):
                ports.setdefault(server, port.id)
        return ports

    def guests(self) -> list[str]:
        """What else uses things of the cluster."""
        return cloud_guests.guests(self)


class Wanted:
    """What a cluster shall be, with all that the cloud says of it. Raises WrongUse for what the cloud does not have."""

    def __init__(self, cluster: Cluster, wanted: Mapping[str, Any]) -> None:
        self.cluster, self.wanted, self.connection = cluster, wanted, cluster.connection
        self.flavor, self.head_flavor = self._flavor("flavor"), self._flavor("head_flavor")
        self._image(wanted["image"])
        self._zone(wanted["zone"])
        self.network = self._network("network", wanted["network"])
        self.external_network = self._network("external_network", wanted["external_network"])

    def _flavor(self, option: str) -> Flavor:
        name = self.wanted[option]
        found = self.connection.compute.find_flavor(name)
        if found is None:
            there = sorted(flavor.name for flavor in self.connection.compute.flavors())
            raise WrongUse(f"openstack_cluster_{option}: the cloud has no flavour {name!r}; it may be {', '.join(there) or 'none'}")
        return Flavor(found.name, found.vcpus, found.ram)

    def _image(self, name: str) -> None:
        images = list(self.connection.image.images(name=name))
        if len(images) > 1:
            ids = ", ".join(sorted(image.id for image in images))
            raise WrongUse(f"openstack_cluster_image: the cloud has {len(images)} images {name!r}; give one's id: {ids}")
        if not images:
            there = list(self.connection.image.images())
            if name not in (image.id for image in there):
                known = ", ".join(sorted({image.name for image in there if image.name})) or "none"
                raise WrongUse(f"openstack_cluster_image: the cloud has no image {name!r}, as name or id; it may be {known}")

    def _zone(self, name: str) -> None:
        there = sorted(zone.name for zone in self.connection.compute.availability_zones() if zone.state.get("available"))
        if name and name not in there:
            raise WrongUse(f"openstack_cluster_zone: the cloud has no availability zone {name!r}; it may be {', '.join(there)}")

    def _network(self, option: str, name: str) -> str:
        if not name:
            return ""
        found = list(self.connection.network.networks(name=name))
        outer = option == "external_network"
        fitting = [network for network in found if network.is_router_external or not outer]
        if not fitting:
            there = sorted(
                network.name for network in self.connection.network.networks() if network.is_router_external or not outer
            )
            what = "external network" if outer else "network"
            raise WrongUse(f"openstack_cluster_{option}: the cloud has no {what} {name!r}; it may be {', '.join(there) or 'none'}")
        return str(fitting[0].id)

    def flavors(self) -> dict[str, Flavor]:
        """Flavour of each server by its name."""
        head, *computes = cloud_plan.server_names(self.cluster.name, self.wanted["computes"])
        return {head: self.head_flavor, **dict.fromkeys(computes, self.flavor)}

    def servers(self) -> list[dict[str, Any]]:
        """Name, flavour and metadata of each server, the head first."""
        head = cloud_plan.server_names(self.cluster.name, 0)[0]
        of_the_head = "head,compute" if self.wanted["head_is_compute"] else "head"
        return [
            {
                "name": name,
                "flavor": flavor.name,
                "metadata": {
                    cloud_plan.CLUSTER_KEY: self.cluster.name,
                    cloud_plan.GROUPS_KEY: of_the_head if name == head else "compute",
                },
            }
            for name, flavor in self.flavors().items()
        ]

    def check_what_is_there(self) -> None:
        """Raise WrongUse when something stands in the way, or is other than it is wanted."""
        cluster, flavors = self.cluster, self.flavors()
        if cluster.foreign:
            raise WrongUse(f"{cluster.foreign[0]}; give another CLUSTER", parameter="cluster")
        # What could not be built is deleted and made again. What has run may have something on it.
        broken = [server for server in cluster.servers if server.status == "ERROR" and server.launched_at]
        if broken:
            raise WrongUse(f"{in_error(broken)}; repair or delete what has run, and the same command goes on", parameter="cluster")
        more = [server.name for server in cluster.servers if server.name not in flavors]
        if more:
            raise WrongUse(f"openstack_cluster_computes: {', '.join(more)} would be left over; remove them, or give a larger one")
        for server in cluster.servers:
            has = server.flavor.original_name or server.flavor.name
            if has and has != flavors[server.name].name:
                raise WrongUse(f"openstack_cluster_flavor: {server.name} is a {has}; make deprovision, or give that flavour")
        if not cloud_plan.is_public_key(self.wanted["public_key"]):
            raise WrongUse("openstack_cluster_public_key_file: it holds no whole public key; it may be as ssh-keygen makes it")
        key = cluster.found["key_pair"]
        if key is not None and key.public_key.split()[:2] != self.wanted["public_key"].split()[:2]:
            raise WrongUse("openstack_cluster_public_key_file: the servers have another key; give that, or make deprovision")

    def missing(self) -> list[Flavor]:
        there = {server.name for server in self.cluster.servers}
        return [flavor for name, flavor in self.flavors().items() if name not in there]

    def need(self) -> dict[str, int]:
        """What has to be made, in the words of the quotas."""
        servers, found = self.missing(), self.cluster.found
        own_network = not self.wanted["network"]
        router = own_network and bool(self.wanted["external_network"])
        lacks = {kind: int(found[kind] is None) for kind in found}
        need = {
            **cloud_plan.need_of(servers),
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
        return {what: number for what, number in need.items() if number}

    def rooms(self) -> dict[str, Room]:
        """What the project may have. A cloud that does not tell is taken to have enough."""
        limits = self.connection.compute.get_limits().absolute
        rooms = {
            "servers": Room(limits.instances, limits.instances_used or 0),
            "cores": Room(limits.total_cores, limits.total_cores_used or 0),
            "memory": Room(limits.total_ram, limits.total_ram_used or 0),
            "key_pairs": Room(limits.keypairs, len(list(self.connection.compute.keypairs()))),
            "server_groups": Room(limits.server_groups, limits.server_groups_used or 0),
        }
        from openstack import exceptions as errors

        try:
            quota = self.connection.network.get_quota(self.connection.current_project_id, details=True)
        except (errors.ForbiddenException, errors.NotFoundException):
            return rooms
        for what in ("networks", "subnets", "routers", "floating_ips", "security_groups", "security_group_rules", "ports"):
            told = quota[what] or {}
            rooms[what] = Room(told.get("limit"), (told.get("used") or 0) + int(told.get("reserved") or 0))
        return rooms

    def check_room(self, rooms: Mapping[str, Room]) -> None:
        """Raise WrongUse when the project's quotas are too small."""
        short = cloud_plan.shortage(self.need(), rooms)
        members = Room(self.connection.compute.get_limits().absolute.server_group_members)
        if self.wanted["policy"] != "none" and not short:
            short = cloud_plan.shortage({"server_group_members": len(self.flavors())}, {"server_group_members": members})
        if short:
            raise WrongUse(f"openstack_cluster_computes: the project's quota is exceeded: {short}")
