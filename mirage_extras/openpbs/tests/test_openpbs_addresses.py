"""Addresses and ports in the network of an OpenPBS instance."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network

from slurm_mirage.extras.openpbs import addresses

NUMBERS = range(addresses.MOST_NODES + 1)


def test_each_port_is_one_daemons() -> None:
    """All daemons listen on all addresses of the network."""
    ports = [port for number in NUMBERS for port in addresses.node_ports(number)]
    ports += [
        addresses.SERVER_PORT,
        addresses.SERVER_PORT + 1,
        addresses.SCHEDULER_PORT,
        addresses.DATABASE_PORT,
        addresses.COMM_PORT,
    ]
    assert len(set(ports)) == len(ports)
    assert max(ports) < addresses.EPHEMERAL_PORTS[0]
    assert min(ports) > 1024


def test_each_node_has_an_address_of_the_network() -> None:
    network = IPv4Network("/".join(addresses.NETWORK), strict=False)
    found = {IPv4Address(addresses.node_address(number)) for number in NUMBERS}
    assert len(found) == len(NUMBERS)
    assert all(address in network for address in found)
    assert IPv4Address(addresses.HEAD_ADDRESS) not in found


def test_the_tree_of_addresses_that_a_node_builds_is_flat() -> None:
    """As pbs_mom inserts them, each below the others that it is smaller or larger than."""
    added = [int(IPv4Address(address)) for address in addresses.node_addresses()]
    assert sorted(added) == [int(IPv4Address(addresses.node_address(number))) for number in NUMBERS]
    depths: dict[int, int] = {}
    bounds = [(0, 1 << 32, 0)]
    for key in added:
        [around] = [one for one in bounds if one[0] < key < one[1]]
        bounds.remove(around)
        low, high, depths[key] = around
        bounds += [(low, key, depths[key] + 1), (key, high, depths[key] + 1)]
    assert max(depths.values()) < 10
