"""Who may reach an instance's ports, as a table of nftables of the instance's own.

The table's chain refuses what comes to these ports from elsewhere, and leaves everything else to the host's own rules: what it
lets through they may still refuse, because nftables asks every chain. It keeps no state. Of TCP it refuses the first packet of a
connection, so connections that the host itself makes, and those that are there, are never touched.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network

from ..base.errors import WrongUse

_PORTS = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?/(tcp|udp)\Z")
_MARK = re.compile(r'comment "slurm-mirage ([0-9a-f]+)"')
# Before the host's own chains of the usual priority: what is refused here need not be looked at there.
_TABLE = """\
table inet {name} {{
{sets}
  chain input {{
    type filter hook input priority filter - 5; policy accept;
    iif "lo" accept{mark}
{rules}
  }}
}}
"""


@dataclass(frozen=True)
class Ports:
    """Ports `first` to `last` of `protocol`, tcp or udp."""

    first: int
    last: int
    protocol: str

    @property
    def numbers(self) -> str:
        """As nftables writes them."""
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


def ports_of(text: str) -> Ports:
    """From `111/udp` or `17000-17360/tcp`; WrongUse for anything else."""
    found = _PORTS.match(text)
    if found:
        first, last = int(found[1]), int(found[2] or found[1])
        if 0 < first <= last < 65536:
            return Ports(first, last, found[3])
    raise WrongUse(f"mirage_firewall_ports: {text!r}: a port or a range of them, and tcp or udp, like 111/udp or 60001-60999/tcp")


def network_of(text: str) -> IPv4Network | IPv6Network:
    """From an address, or a network like 192.0.2.0/24; WrongUse for anything else."""
    try:
        return ip_network(text, strict=False)
    except ValueError as error:
        raise WrongUse(f"mirage_firewall_from: {text!r}: an address or a network like 192.0.2.0/24") from error


def check_reachable(ports: Iterable[Ports], needed: Sequence[int]) -> None:
    """Raise WrongUse if a port would be closed that the control machine needs."""
    for some in ports:
        for port in needed:
            if some.protocol == "tcp" and some.first <= port <= some.last:
                raise WrongUse(
                    f"mirage_firewall_ports: {some.numbers}/tcp: Ansible comes by port {port}, which would be closed to it"
                )


def table(name: str, hosts: Sequence[str], ports: Sequence[str]) -> str:
    """The table, in which only `hosts` (addresses and networks) reach `ports`; with a mark that says what it is made of."""
    from_, to = [network_of(host) for host in hosts], [ports_of(some) for some in ports]
    members = {
        ("hosts4", "ipv4_addr"): sorted({str(network) for network in from_ if network.version == 4}),
        ("hosts6", "ipv6_addr"): sorted({str(network) for network in from_ if network.version == 6}),
        ("tcp_ports", "inet_service"): sorted({some.numbers for some in to if some.protocol == "tcp"}),
        ("udp_ports", "inet_service"): sorted({some.numbers for some in to if some.protocol == "udp"}),
    }
    sets = "\n".join(_set(set_name, kind, elements) for (set_name, kind), elements in members.items())
    refuse = "counter reject with icmpx admin-prohibited"
    rules = (
        "    ip saddr @hosts4 accept\n"
        "    ip6 saddr @hosts6 accept\n"
        f"    tcp dport @tcp_ports tcp flags & (syn | ack) == syn {refuse}\n"
        f"    udp dport @udp_ports {refuse}"
    )
    plain = _TABLE.format(name=name, sets=sets, rules=rules, mark="")
    digest = hashlib.sha256(plain.encode()).hexdigest()[:16]
    return _TABLE.format(name=name, sets=sets, rules=rules, mark=f' comment "slurm-mirage {digest}"')


def _set(name: str, kind: str, elements: Sequence[str]) -> str:
    members = f" elements = {{ {', '.join(elements)} }};" if elements else ""
    return f"  set {name} {{ type {kind}; flags interval; auto-merge;{members} }}"


def replacing(name: str, content: str) -> str:
    """What makes nft put the table in the place of an earlier one, if there is any, in one step."""
    return f"table inet {name}\ndelete table inet {name}\n{content}"


def mark_of(listing: str) -> str:
    """The mark in the text of a table, or in what `nft list table` prints of it; empty if there is none."""
    found = _MARK.search(listing)
    return found[1] if found else ""
