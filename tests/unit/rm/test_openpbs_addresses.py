"""Addresses and ports in the network of an OpenPBS instance."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network

from slurm_mirage.rm.openpbs import addresses

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
