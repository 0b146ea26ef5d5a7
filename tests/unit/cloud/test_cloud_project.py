"""What of a cloud is a cluster's, what of that others use, and what is refused, told by lists as openstacksdk returns them.

The scenario molecule/openstack asks a real control plane; here is what would need a second project, or many things, in it.
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
from slurm_mirage.cloud.project import Cluster, Wanted

OWN = {"description": "slurm-mirage:mirage", "project_id": "ours"}
THEIRS = {"description": "slurm-mirage:mirage", "project_id": "theirs"}
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGfhskMi5ahso6FV+rRzB75WsolndRbU+sZJ7j6W81TG"
WANTED = {"computes": 1, "head_is_compute": False, "image": "Debian 12", "zone": "", "network": "", "external_network": ""}


class Service:
    """Lists of a cloud. What is asked for by its attributes is looked up as a cloud does it; unknown ones are an error."""

    def __init__(self, **lists: list[Any]) -> None:
        self.lists = lists

    def __getattr__(self, name: str) -> Any:
        kind = name.removeprefix("find_")

        def find(name_or_id: str) -> Any:
            return next((one for one in self.lists.get(f"{kind}s", []) if name_or_id in (one.id, one.name)), None)

        def items(details: bool = False, **asked: str) -> Iterator[Any]:
            return (one for one in self.lists.get(name, []) if all(one[key] == value for key, value in asked.items()))

        return find if name.startswith("find_") else items


class Cloud:
    current_project_id = "ours"

    def __init__(self, network: Service, compute: Service, image: Service) -> None:
        self.network, self.compute, self.image = network, compute, image


def server(name: str, **more: Any) -> Server:
    of_the_cluster = {"slurm_mirage_cluster": "mirage"} if name.startswith("mirage") else {}
    return Server(
        id=f"id-{name}", name=name, metadata=of_the_cluster, flavor={"original_name": "m2.medium"}, **{"status": "ACTIVE", **more}
    )


def own_things() -> dict[str, list[Any]]:
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


def cluster(things: dict[str, list[Any]], servers: list[Server] | None = None, images: list[Image] | None = None) -> Cluster:
    compute = Service(
        servers=[server("mirage-head")] if servers is None else servers,
        server_groups=[ServerGroup(id="sg", name="mirage-servers")],
        keypairs=[Keypair(id="mirage-key", name="mirage-key", public_key=f"{KEY} slurm-mirage:mirage")],
        flavors=[Flavor(id="2", name="m2.medium", vcpus=2, ram=6144)],
        availability_zones=[],
    )
    return Cluster(Cloud(Service(**things), compute, Service(images=images or [Image(id="i", name="Debian 12")])), "mirage")


def wanted(of: Cluster, **more: Any) -> Wanted:
    return Wanted(of, {**WANTED, "flavor": "m2.medium", "head_flavor": "m2.medium", "public_key": KEY, **more})


def test_own_things_are_found() -> None:
    found = cluster(own_things())
    assert {kind: item.id for kind, item in found.found.items()} == {
        "network": "n",
        "subnet": "s",
        "router": "r",
        "security_group": "g",
        "floating_ip": "f",
        "key_pair": "mirage-key",
        "server_group": "sg",
    }
    assert not found.foreign
    assert found.guests() == []


def test_an_administrator_does_not_find_the_things_of_another_project() -> None:
    theirs = {
        "networks": [Network(id="n", name="mirage-network", **THEIRS)],
        "subnets": [Subnet(id="s", name="mirage-subnet", **THEIRS)],
        "routers": [Router(id="r", name="mirage-router", **THEIRS)],
        "security_groups": [SecurityGroup(id="g", name="mirage-security", **THEIRS)],
        "ips": [FloatingIP(id="f", **THEIRS)],
    }
    found = cluster(theirs, [])
    assert {kind for kind, item in found.found.items() if item is not None} == {"key_pair"}
    assert found.guests() == []
    with pytest.raises(WrongUse, match="another project has a security group mirage-security, which these credentials reach; give"):
        wanted(found).check_what_is_there()


def test_things_of_both_projects_are_told_apart() -> None:
    things = own_things()
    things["networks"].append(Network(id="n2", name="mirage-network", **THEIRS))
    found = cluster(things)
    assert found.found["network"].id == "n"
    assert found.foreign == ["another project has a network mirage-network, which these credentials reach"]


def test_a_network_that_is_not_of_the_cluster_is_foreign() -> None:
    found = cluster({"networks": [Network(id="n", name="mirage-network", description="", project_id="ours")]})
    assert found.found["network"] is None
    assert "the project has a network mirage-network that is not of this cluster" in found.foreign


@pytest.mark.parametrize(
    ("kind", "item", "told"),
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
def test_guests_are_named(kind: str, item: Any, told: str) -> None:
    things = own_things()
    things[kind].append(item)
    things["routers"].append(Router(id="r2", name="elsewhere", project_id="ours"))
    things["networks"].append(Network(id="n2", name="office", project_id="ours"))
    assert cluster(things, [server("mirage-head"), server("other")]).guests() == [told]


def test_a_security_group_has_guests_where_the_network_is_another_one() -> None:
    things = {
        "security_groups": own_things()["security_groups"],
        "ports": [port(name="lodger", network_id="x", security_group_ids=["g"])],
    }
    assert cluster(things).guests() == ["port lodger with mirage-security"]


IMAGES = [Image(id="i1", name="Debian 12"), Image(id="i2", name="twice"), Image(id="i3", name="twice"), Image(id="i4", name=None)]


@pytest.mark.parametrize("image", ["Debian 12", "i1", "i2", "i3", "i4"])
def test_images_that_are_one(image: str) -> None:
    wanted(cluster(own_things(), images=IMAGES), image=image)


@pytest.mark.parametrize(
    ("image", "told"),
    [
        ("twice", "openstack_cluster_image: the cloud has 2 images 'twice'; give one's id: i2, i3"),
        ("i5", "openstack_cluster_image: the cloud has no image 'i5', as name or id; it may be Debian 12, twice"),
    ],
)
def test_images_that_are_not(image: str, told: str) -> None:
    with pytest.raises(WrongUse) as refused:
        wanted(cluster(own_things(), images=IMAGES), image=image)
    assert str(refused.value) == told


def test_a_server_that_has_run_is_not_made_again() -> None:
    ran = server("mirage-compute-01", status="ERROR", launched_at="2026-01-01T00:00:00", fault={"message": "host\ndied"})
    with pytest.raises(
        WrongUse, match=r"the cloud has mirage-compute-01 \(host died\) in state ERROR; repair or delete what has run"
    ):
        wanted(cluster(own_things(), [ran])).check_what_is_there()


def test_a_server_that_never_ran_is() -> None:
    wanted(cluster(own_things(), [server("mirage-head", status="ERROR", launched_at=None)])).check_what_is_there()


def test_half_a_key_is_refused() -> None:
    with pytest.raises(WrongUse, match="openstack_cluster_public_key_file: it holds no whole public key"):
        wanted(cluster(own_things()), public_key=KEY[:40]).check_what_is_there()
