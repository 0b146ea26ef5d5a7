"""Finding a cluster's resources in lists as openstacksdk returns them, other users of these resources, and refused clusters.

The scenario molecule/openstack queries a real control plane. The cases here would need a second project or many resources there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from openstack.compute.v2.flavor import Flavor
from openstack.compute.v2.keypair import Keypair
from openstack.compute.v2.server import Server
from openstack.compute.v2.server_group import ServerGroup
from openstack.image.v2.image import Image
from openstack.network.v2.floating_ip import FloatingIP
from openstack.network.v2.network import Network
from openstack.network.v2.port import Port
from openstack.network.v2.router import Router
from openstack.network.v2.security_group import SecurityGroup
from openstack.network.v2.subnet import Subnet

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.cloud.guests import guests
from slurm_mirage.cloud.project import Cluster, Wanted

OWN = {"description": "slurm-mirage:mirage", "project_id": "ours"}
THEIRS = {"description": "slurm-mirage:mirage", "project_id": "theirs"}
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGfhskMi5ahso6FV+rRzB75WsolndRbU+sZJ7j6W81TG"
WANTED = {"computes": 1, "head_is_compute": False, "image": "Debian 12", "zone": "", "network": "", "external_network": ""}


class Service:
    """A service of a cloud with lists of resources. Queries filter by attributes; an unknown attribute is an error."""

    def __init__(self, **lists: list[Any]) -> None:
        self.lists = lists

    def __getattr__(self, name: str) -> Any:
        kind = name.removeprefix("find_")

        def find(name_or_id: str) -> Any:
            return next((item for item in self.lists.get(f"{kind}s", []) if name_or_id in (item.id, item.name)), None)

        def items(details: bool = False, **filters: str) -> Iterator[Any]:
            return (item for item in self.lists.get(name, []) if all(item[key] == value for key, value in filters.items()))

        return find if name.startswith("find_") else items


class Cloud:
    current_project_id = "ours"

    def __init__(self, network: Service, compute: Service, image: Service) -> None:
        self.network, self.compute, self.image = network, compute, image


def server(name: str, **more: Any) -> Server:
    metadata = {"slurm_mirage_cluster": "mirage"} if name.startswith("mirage") else {}
    return Server(
        id=f"id-{name}", name=name, metadata=metadata, flavor={"original_name": "m2.medium"}, **{"status": "ACTIVE", **more}
    )


def own_resources() -> dict[str, list[Any]]:
    return {
        "networks": [Network(id="n", name="mirage-network", **OWN)],
        "subnets": [Subnet(id="s", name="mirage-subnet", network_id="n", **OWN)],
        "routers": [Router(id="r", name="mirage-router", **OWN)],
        "security_groups": [SecurityGroup(id="g", name="mirage-security", **OWN)],
        "ips": [FloatingIP(id="f", floating_ip_address="203.0.113.5", **OWN)],
        "ports": [
            port(device_owner="network:dhcp", device_id="dhcp", network_id="n"),
            port(device_owner="network:distributed", device_id="ovnmeta", network_id="n"),
            port(device_owner="network:router_interface", device_id="r", network_id="n"),
            port(device_owner="network:router_gateway", device_id="r", network_id="public", project_id=""),
            port(device_owner="compute:nova", device_id="id-mirage-head", network_id="n", security_group_ids=["g"]),
        ],
    }


def port(**attributes: Any) -> Port:
    return Port(**{"id": "port-id", "name": "", "project_id": "ours", "security_group_ids": [], **attributes})


def cluster(resources: dict[str, list[Any]], servers: list[Server] | None = None, images: list[Image] | None = None) -> Cluster:
    compute = Service(
        servers=[server("mirage-head")] if servers is None else servers,
        server_groups=[ServerGroup(id="sg", name="mirage-servers")],
        keypairs=[Keypair(id="mirage-key", name="mirage-key", public_key=f"{KEY} slurm-mirage:mirage")],
        flavors=[Flavor(id="2", name="m2.medium", vcpus=2, ram=6144)],
        availability_zones=[],
    )
    return Cluster(Cloud(Service(**resources), compute, Service(images=images or [Image(id="i", name="Debian 12")])), "mirage")


def wanted(of: Cluster, **more: Any) -> Wanted:
    return Wanted(of, {**WANTED, "flavor": "m2.medium", "head_flavor": "m2.medium", "public_key": KEY, **more})


def test_the_resources_of_the_cluster_are_found() -> None:
    mirage = cluster(own_resources())
    assert {kind: item.id for kind, item in mirage.found.items()} == {
        "network": "n",
        "subnet": "s",
        "router": "r",
        "security_group": "g",
        "floating_ip": "f",
        "key_pair": "mirage-key",
        "server_group": "sg",
    }
    assert not mirage.foreign
    assert guests(mirage) == []


def test_resources_of_another_project_that_an_administrator_sees_are_foreign() -> None:
    theirs = {
        "networks": [Network(id="n", name="mirage-network", **THEIRS)],
        "subnets": [Subnet(id="s", name="mirage-subnet", **THEIRS)],
        "routers": [Router(id="r", name="mirage-router", **THEIRS)],
        "security_groups": [SecurityGroup(id="g", name="mirage-security", **THEIRS)],
        "ips": [FloatingIP(id="f", **THEIRS)],
    }
    mirage = cluster(theirs, [])
    assert {kind for kind, item in mirage.found.items() if item is not None} == {"key_pair"}
    assert guests(mirage) == []
    with pytest.raises(WrongUse, match="another project has a security group mirage-security, which these credentials reach; give"):
        wanted(mirage).check_existing()


def test_an_own_and_a_foreign_network_of_one_name_are_distinguished() -> None:
    resources = own_resources()
    resources["networks"].append(Network(id="n2", name="mirage-network", **THEIRS))
    mirage = cluster(resources)
    assert mirage.found["network"].id == "n"
    assert mirage.foreign == ["another project has a network mirage-network, which these credentials reach"]


def test_a_network_without_the_mark_is_foreign() -> None:
    mirage = cluster({"networks": [Network(id="n", name="mirage-network", description="", project_id="ours")]})
    assert mirage.found["network"] is None
    assert "the project has a network mirage-network that is not part of this cluster" in mirage.foreign


@pytest.mark.parametrize(
    ("kind", "item", "description"),
    [
        ("ports", port(network_id="n", name="guest"), "port guest in mirage-network"),
        ("ports", port(network_id="n"), "port port-id in mirage-network"),
        ("ports", port(network_id="n", device_owner="compute:nova", device_id="id-other"), "server other in mirage-network"),
        ("ports", port(network_id="n", device_owner="compute:nova", device_id="unseen"), "server unseen in mirage-network"),
        (
            "ports",
            port(network_id="n", device_owner="network:router_interface", device_id="r2"),
            "router elsewhere in mirage-network",
        ),
        (
            "ports",
            port(network_id="n2", device_owner="compute:nova", device_id="id-other", security_group_ids=["x", "g"]),
            "server other with mirage-security",
        ),
        ("ports", port(network_id="n2", device_owner="network:router_interface", device_id="r"), "network office at mirage-router"),
        ("subnets", Subnet(id="s2", name="further", network_id="n", project_id="ours"), "subnet further in mirage-network"),
    ],
)
def test_guests_are_described(kind: str, item: Any, description: str) -> None:
    resources = own_resources()
    resources[kind].append(item)
    resources["routers"].append(Router(id="r2", name="elsewhere", project_id="ours"))
    resources["networks"].append(Network(id="n2", name="office", project_id="ours"))
    assert guests(cluster(resources, [server("mirage-head"), server("other")])) == [description]


def test_a_port_with_the_security_group_is_a_guest_without_an_own_network() -> None:
    resources = {
        "security_groups": own_resources()["security_groups"],
        "ports": [port(name="lodger", network_id="x", security_group_ids=["g"])],
    }
    assert guests(cluster(resources)) == ["port lodger with mirage-security"]


IMAGES = [Image(id="i1", name="Debian 12"), Image(id="i2", name="twice"), Image(id="i3", name="twice"), Image(id="i4", name=None)]


@pytest.mark.parametrize("image", ["Debian 12", "i1", "i2", "i3", "i4"])
def test_an_unambiguous_image_is_accepted(image: str) -> None:
    wanted(cluster(own_resources(), images=IMAGES), image=image)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        ("twice", "openstack_cluster_image: the cloud has 2 images 'twice'; give one's id: i2, i3"),
        ("i5", "openstack_cluster_image: the cloud has no image 'i5', as name or id; it may be Debian 12, twice"),
    ],
)
def test_an_ambiguous_or_unknown_image_is_refused(image: str, message: str) -> None:
    with pytest.raises(WrongUse) as refused:
        wanted(cluster(own_resources(), images=IMAGES), image=image)
    assert str(refused.value) == message


def test_a_server_in_error_that_has_run_is_refused() -> None:
    ran = server("mirage-compute-01", status="ERROR", launched_at="2026-01-01T00:00:00", fault={"message": "host\ndied"})
    with pytest.raises(
        WrongUse, match=r"the cloud has mirage-compute-01 \(host died\) in state ERROR; repair or delete what has run"
    ):
        wanted(cluster(own_resources(), [ran])).check_existing()


def test_a_server_in_error_that_has_never_run_is_accepted() -> None:
    wanted(cluster(own_resources(), [server("mirage-head", status="ERROR", launched_at=None)])).check_existing()


def test_an_incomplete_key_is_refused() -> None:
    with pytest.raises(WrongUse, match="openstack_cluster_public_key_file: not a complete public key"):
        wanted(cluster(own_resources()), public_key=KEY[:40]).check_existing()
