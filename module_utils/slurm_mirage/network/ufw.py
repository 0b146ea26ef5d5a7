"""Computes the ufw commands that add and remove the rules of an instance.

ufw identifies a rule by its source and its ports, so several instances share a rule that all of them need. The comment of such a
rule names these instances, and the rule is removed with the last of them. A rule without such a comment belongs to the
administrator and is never changed. When an administrator adds the same rule by hand, ufw removes the comment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network

from ..base.errors import WrongUse
from .firewall import Ports, parse_network, parse_ports

# A rule in ufw's files for packets to any address of this host, from any port, through any interface. A rule with another
# destination, source port or interface is a different rule for ufw.
_TUPLE = re.compile(
    r"^### tuple ### ([a-z_-]+) (tcp|udp) (\d+)(?::(\d+))? (?:0\.0\.0\.0/0|::/0) any ([0-9a-f.:/]+) in"
    r"(?: comment=([0-9a-f]+))?\s*$",
    re.MULTILINE,
)
_INSTANCE = re.compile(r"[a-z0-9-]+")
_COMMENT = re.compile(r"Slurm Mirage, instances? (.+)")


@dataclass(frozen=True)
class Rule:
    """The key of a ufw rule: the packets' source and their destination ports."""

    source: IPv4Network | IPv6Network
    ports: Ports

    @property
    def words(self) -> list[str]:
        """The rule as arguments of ufw's command line."""
        source = self.source.network_address if self.source.num_addresses == 1 else self.source
        return ["from", str(source), "to", "any", "port", self.ports.numbers.replace("-", ":"), "proto", self.ports.protocol]


@dataclass(frozen=True)
class ExistingRule:
    """The action of a rule that ufw has, and the instances that need it (none for a rule of the administrator)."""

    action: str
    instances: frozenset[str]


def required_rules(hosts: Iterable[str], ports: Iterable[str]) -> set[Rule]:
    """Return the rules with which `hosts` (addresses and networks) reach `ports` (see `parse_ports`). Raises WrongUse."""
    parsed = [parse_ports(text) for text in ports]
    return {Rule(parse_network(host), item) for host in hosts for item in parsed}


def parse_rules(text: str) -> dict[Rule, ExistingRule]:
    """Parse the text of ufw's files user.rules and user6.rules. Rules that no `Rule` describes are left out."""
    rules = {}
    for action, protocol, first, last, source, comment in _TUPLE.findall(text):
        match = _COMMENT.fullmatch(bytes.fromhex(comment).decode(errors="replace"))
        instances = match[1].split(", ") if match and action == "allow" else []
        rule = Rule(ip_network(source, strict=False), Ports(int(first), int(last or first), protocol))
        rules[rule] = ExistingRule(action, frozenset(instances))
    return rules


def changes(existing: Mapping[Rule, ExistingRule], instance: str, needed: set[Rule]) -> list[list[str]]:
    """Return the arguments of the ufw commands after which `instance` has the rules `needed` and no others.

    Raises WrongUse when a rule of the administrator blocks a host of the cluster: ufw would replace it with a rule that admits it;
    and for an instance whose name the comments of rules, which list names, cannot have.
    """
    if not _INSTANCE.fullmatch(instance):
        raise WrongUse(f"instance {instance[:40]!r}: lower-case letters, digits and '-'")
    commands = []
    for rule in sorted({*existing, *needed}, key=lambda rule: rule.words):
        current = existing.get(rule)
        before = current.instances if current else frozenset()
        after = before | {instance} if rule in needed else before - {instance}
        if current and not before:
            if rule in needed and not current.action.startswith("allow"):
                raise WrongUse(
                    f"mirage_firewall=ufw: the host's own rule `ufw {current.action} {' '.join(rule.words)}` blocks a host of the "
                    "cluster; delete it, or set mirage_firewall=none"
                )
        elif after != before:
            commands.append([*(["allow"] if after else ["delete", "allow"]), *rule.words, "comment", _comment(after or before)])
    return commands


def _comment(instances: frozenset[str]) -> str:
    return f"Slurm Mirage, instance{'s' * (len(instances) > 1)} {', '.join(sorted(instances))}"
