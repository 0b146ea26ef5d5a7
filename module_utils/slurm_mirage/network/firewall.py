"""Generates the nftables table that limits which hosts reach an instance's ports.

The table's chain rejects packets to these ports from other hosts. All other packets are left to the host's own rules; packets that
the chain accepts may still be rejected by those rules, because nftables evaluates every chain of a hook. The chain keeps no state.
For TCP it rejects only the first packet of a connection, so outgoing and existing connections are not affected.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network

from ..base.errors import WrongUse

_PORTS = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?/(tcp|udp)\Z")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_DIGEST = re.compile(r'comment "slurm-mirage ([0-9a-f]+)"')
# Priority before that of the host's own chains, so that they need not evaluate rejected packets.
_TABLE = """\
table inet {name} {{
{sets}
  chain input {{
    type filter hook input priority filter - 5; policy accept;
    iif "lo" accept{comment}
{rules}
  }}
}}
"""


@dataclass(frozen=True)
class Ports:
    """The ports `first` to `last` (both included) of `protocol`, tcp or udp."""

    first: int
    last: int
    protocol: str

    @property
    def numbers(self) -> str:
        """The port or range in nftables' syntax."""
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


def parse_ports(text: str) -> Ports:
    """Parse a port or port range such as `111/udp` or `17000-17360/tcp`. Raises WrongUse."""
    match = _PORTS.match(text)
    if match:
        first, last = int(match[1]), int(match[2] or match[1])
        if 0 < first <= last < 65536:
            return Ports(first, last, match[3])
    raise WrongUse(f"mirage_firewall_ports: {text!r}: a port or a range of them, and tcp or udp, like 111/udp or 60001-60999/tcp")


def parse_network(text: str) -> IPv4Network | IPv6Network:
    """Parse an address or a network such as 192.0.2.0/24. Raises WrongUse."""
    try:
        if "%" not in text:  # behind it an IPv6 address has the name of an interface, which may be any text
            return ip_network(text, strict=False)
    except ValueError:
        pass
    raise WrongUse(f"mirage_firewall_from: {text!r}: an address or a network like 192.0.2.0/24")


def check_reachable(ports: Iterable[Ports], needed: Sequence[int]) -> None:
    """Raise WrongUse when `ports` contain a TCP port of `needed`, by which the control machine reaches the host."""
    for item in ports:
        for port in needed:
            if item.protocol == "tcp" and item.first <= port <= item.last:
                raise WrongUse(f"mirage_firewall_ports: {item.numbers}/tcp: contains port {port}, by which Ansible connects")


def table(name: str, hosts: Sequence[str], ports: Sequence[str]) -> str:
    """Return the text of the table `name`, with which only `hosts` (addresses and networks) reach `ports` (see `parse_ports`).

    Its first rule has a comment with a digest of the whole table; see `table_digest`. Raises WrongUse, also for what is no name.
    """
    if not _NAME.fullmatch(name):
        raise WrongUse(f"the nftables table {name[:40]!r}: a letter, then letters, digits, '_' and '-'")
    networks, parsed = [parse_network(host) for host in hosts], [parse_ports(port) for port in ports]
    members = {
        ("hosts4", "ipv4_addr"): sorted({str(network) for network in networks if network.version == 4}),
        ("hosts6", "ipv6_addr"): sorted({str(network) for network in networks if network.version == 6}),
        ("tcp_ports", "inet_service"): sorted({item.numbers for item in parsed if item.protocol == "tcp"}),
        ("udp_ports", "inet_service"): sorted({item.numbers for item in parsed if item.protocol == "udp"}),
    }
    sets = "\n".join(_set(set_name, kind, elements) for (set_name, kind), elements in members.items())
    reject = "counter reject with icmpx admin-prohibited"
    rules = (
        "    ip saddr @hosts4 accept\n"
        "    ip6 saddr @hosts6 accept\n"
        f"    tcp dport @tcp_ports tcp flags & (syn | ack) == syn {reject}\n"
        f"    udp dport @udp_ports {reject}"
    )
    without_digest = _TABLE.format(name=name, sets=sets, rules=rules, comment="")
    digest = hashlib.sha256(without_digest.encode()).hexdigest()[:16]
    return _TABLE.format(name=name, sets=sets, rules=rules, comment=f' comment "slurm-mirage {digest}"')


def _set(name: str, kind: str, elements: Sequence[str]) -> str:
    members = f" elements = {{ {', '.join(elements)} }};" if elements else ""
    return f"  set {name} {{ type {kind}; flags interval; auto-merge;{members} }}"


def replacement_script(name: str, content: str) -> str:
    """Return an nft script that atomically replaces the table `name`, which may not exist yet, with the table text `content`."""
    return f"table inet {name}\ndelete table inet {name}\n{content}"


def table_digest(listing: str) -> str:
    """Return the digest in the comment of a table's text or of the output of `nft list table`; empty when there is none."""
    match = _DIGEST.search(listing)
    return match[1] if match else ""
