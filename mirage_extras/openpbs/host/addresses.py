"""Addresses, host names and ports of OpenPBS's daemons inside the network namespace of an instance.

OpenPBS's message layer uses no loopback address (Libtpp/tpp_platform.c skips 127/8), and its daemons listen on all addresses. So
each instance has a network namespace with NETWORK on its own loopback device, and all instances have the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

NETWORK = ("10.77.0.1", "255.255.0.0")
"""Address of the loopback device, and its mask: all addresses of this network are local in the namespace."""
EPHEMERAL_PORTS = (40000, 65000)
"""First and last port of outgoing connections, above those of all nodes."""
HEAD = "pbs-head"
"""Host name of all daemons; that of the server, the communication daemon and the database server in each file."""
HEAD_ADDRESS = NETWORK[0]
SERVER_PORT, SCHEDULER_PORT, DATABASE_PORT, COMM_PORT = 15001, 15004, 15007, 17001
COMMAND_PORTS = (1004, 1023)
"""First and last port that are kept for commands. pbs_comm knows a daemon, and pbs_server a command's user, by a port below 1024.
Each node keeps one for its connection, on all addresses of the network, and would leave none for commands."""
SPARE_ADDRESS = "10.77.255.254"
"""An address that no daemon uses. A socket there reserves a port against the nodes, which bind it on all addresses, but not against
commands, which bind it on the head's address."""
MOST_NODES = 1000
"""Nodes that can have a port below COMMAND_PORTS, beside the server."""
_FIRST_NODE_PORT = 2000
_NODES_PER_BLOCK = 250


def node_address(number: int) -> str:
    """Address of the node with this number, 0 to MOST_NODES."""
    block, rest = divmod(number, _NODES_PER_BLOCK)
    return f"10.77.{1 + block}.{1 + rest}"


def node_addresses() -> Iterator[str]:
    """Addresses of all nodes that there may be, a middle one first, and so on in each half.

    pbs_mom keeps addresses in a tree that it does not balance (resmom/mom_server.c, addrinsert): in this order it is flat.
    """

    def middle_first(numbers: range) -> Iterator[int]:
        if numbers:
            middle = len(numbers) // 2
            yield numbers[middle]
            yield from middle_first(numbers[:middle])
            yield from middle_first(numbers[middle + 1 :])

    return map(node_address, middle_first(range(MOST_NODES + 1)))


def node_ports(number: int) -> tuple[int, int]:
    """Ports of the node with this number: of its service and of its resource monitor. The second follows the first."""
    first = _FIRST_NODE_PORT + 2 * number
    return first, first + 1


def host_names(nodes: Iterable[tuple[str, int]]) -> dict[str, str]:
    """Host names by address, of the head and of the nodes, each with its name and number."""
    return {HEAD_ADDRESS: HEAD, **{node_address(number): name for name, number in nodes}}
