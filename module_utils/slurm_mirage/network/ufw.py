"""Which rules of ufw an instance needs, and which of them are its own.

To ufw a rule is from where it lets through, to which ports: there is one of each, whoever needs it. So the comment of a rule names
the instances that need it, and it goes with the last of them. A rule without such a comment is the administrator's, and is never
touched; ufw itself takes the comment from a rule that is given to it once more by hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network

from ..base.errors import WrongUse
from .firewall import Ports, network_of, ports_of

# How ufw writes a rule about packets to any address of this host that came by any interface from any port. (Rules about other
# packets are other rules to it.)
_TUPLE = re.compile(
    r"^### tuple ### ([a-z_-]+) (tcp|udp) (\d+)(?::(\d+))? (?:0\.0\.0\.0/0|::/0) any ([0-9a-f.:/]+) in"
    r"(?: comment=([0-9a-f]+))?\s*$",
    re.MULTILINE,
)
_COMMENT = re.compile(r"Slurm Mirage, instances? (.+)")


@dataclass(frozen=True)
class Rule:
    """What is one rule to ufw: where packets come from, and the ports that they are for."""

    source: IPv4Network | IPv6Network
    ports: Ports

    @property
    def words(self) -> list[str]:
        """As ufw's command line has them."""
        source = self.source.network_address if self.source.num_addresses == 1 else self.source
        return ["from", str(source), "to", "any", "port", self.ports.numbers.replace("-", ":"), "proto", self.ports.protocol]


@dataclass(frozen=True)
class Made:
    """What a rule that ufw has does, and the instances that need it, which is none of the administrator's."""

    action: str
    instances: frozenset[str]


def wanted(hosts: Iterable[str], ports: Iterable[str]) -> set[Rule]:
    """The rules that let `hosts` (addresses and networks) reach `ports`."""
    some = [ports_of(text) for text in ports]
    return {Rule(network_of(host), each) for host in hosts for each in some}


def rules_in(text: str) -> dict[Rule, Made]:
    """The rules in the text of ufw's files user.rules and user6.rules."""
    found = {}
    for action, protocol, first, last, source, comment in _TUPLE.findall(text):
        words = _COMMENT.fullmatch(bytes.fromhex(comment).decode(errors="replace"))
        instances = words[1].split(", ") if words and action == "allow" else []
        rule = Rule(ip_network(source, strict=False), Ports(int(first), int(last or first), protocol))
        found[rule] = Made(action, frozenset(instances))
    return found


def changes(there: Mapping[Rule, Made], instance: str, needed: set[Rule]) -> list[list[str]]:
    """The commands, without the name of the program, after which `instance` has the rules that it needs, and no others.

    Raises WrongUse when the administrator keeps one of the cluster's hosts out: ufw would let it in instead, by the same rule.
    """
    commands = []
    for rule in sorted({*there, *needed}, key=lambda rule: rule.words):
        made = there.get(rule)
        before = made.instances if made else frozenset()
        after = before | {instance} if rule in needed else before - {instance}
        if made and not before:
            if rule in needed and not made.action.startswith("allow"):
                raise WrongUse(
                    f"mirage_firewall=ufw: the host's own rule `ufw {made.action} {' '.join(rule.words)}` keeps out who shall be "
                    "let in; delete it, or take mirage_firewall=none"
                )
        elif after != before:
            kept = after or before
            commands.append([*(["allow"] if after else ["delete", "allow"]), *rule.words, "comment", _comment(kept)])
    return commands


def _comment(instances: frozenset[str]) -> str:
    return f"Slurm Mirage, instance{'s' * (len(instances) > 1)} {', '.join(sorted(instances))}"
