"""Configurations of OpenPBS: settings of sched_config, attributes of the server, queues, and rules (README.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirage.experiment.configuration import KEYS, Configuration, partitions_of
from mirage.knobs.knobs import Knobs
from mirage.knobs.machine import Machine
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.extras.openpbs import conf, qmgr, queues

if TYPE_CHECKING:
    from mirage.workloads.requests import Offer

RM = "openpbs"
OPENPBS_KEYS = ("rm", "settings", "server", "partitions", "routing")


@dataclass(frozen=True)
class OpenPbsConfiguration(Configuration):
    """The partitions are queues, the settings those of sched_config."""

    rm = RM
    server: Mapping[str, Any] = field(default_factory=dict)
    """Attributes of the server."""

    @property
    def backfills(self) -> bool:
        """Whether a waiting job may start before a job that was submitted earlier (attribute backfill_depth of the server)."""
        return str(self.server.get("backfill_depth", 1)) != "0"

    @property
    def backfill_interval(self) -> float | None:
        """None: it has a cycle after each change."""
        return None

    @property
    def cycles(self) -> tuple[float | None, int]:
        """As for Slurm."""
        return None, self.backfill_depth

    @property
    def shares_by_account(self) -> bool:
        """Whether fair share is on (sched_config), which OpenPBS computes by account. Then each user of the log gets an account."""
        return str(self.settings.get("fair_share", "false")).lower().startswith("true")

    def has_accounting(self, knobs: Knobs) -> bool:
        """It has no slurmdbd."""
        return False

    def offer(self, knobs: Knobs, machine: Machine) -> Offer:
        """Queues, which all have all nodes."""
        from mirage.workloads import requests

        limits = {str(queue[queues.NAME]): queues.most_minutes(queue) for queue in self.partitions}
        return requests.offer_of_queues(machine.classes, limits, queues.default_of(self.partitions))


def read(path: Path, content: Mapping[str, Any], where: str) -> OpenPbsConfiguration:
    """The configuration in a file with that content. where: names the file. Raises WrongUse."""
    from mirage.workloads import routing

    if unknown := [key for key in content if key not in OPENPBS_KEYS]:
        what = "means nothing to OpenPBS" if unknown[0] in KEYS else "is none of its keys"
        raise WrongUse(f"{where}: {unknown[0]!r} {what}; it may have {', '.join(OPENPBS_KEYS)}")
    for key, of_what in (("settings", "keys of sched_config"), ("server", "attributes of the server")):
        if not isinstance(content.get(key) or {}, Mapping):
            raise WrongUse(f"{where}: {key} is not a mapping of {of_what}")
    partitions = partitions_of(content, where)
    queues.check(partitions, where)
    rules = content.get("routing") or []
    for number, rule in enumerate(rules if isinstance(rules, list) else [], 1):
        if isinstance(rule, Mapping) and "qos" in rule:
            raise WrongUse(f"{where}: routing rule {number}: OpenPBS has no QOS; a rule may name a queue as its partition")
    checked = routing.check(rules, [str(queue["name"]) for queue in partitions], where)
    server, settings = content.get("server") or {}, content.get("settings") or {}
    try:
        conf.sched_config(settings)
        qmgr.wanted([], server, partitions, 1.0)
    except WrongUse as error:
        raise WrongUse(f"{where}: {error.message}") from None
    return OpenPbsConfiguration(path, settings, partitions, checked, False, [], server=server)
