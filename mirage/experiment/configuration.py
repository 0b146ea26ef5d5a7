"""Reads and checks the scheduler configuration CONFIG, configs/NAME.yml (docs/configurations.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirage import ROOT
from mirage.knobs.knobs import Knobs, SchedulerKnobs
from mirage.knobs.machine import Machine
from mirage.knobs.parse import OPENPBS, SLURM
from mirage.site import site_conf
from mirage.site.site_conf import SiteConf
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.rm.openpbs import queues

if TYPE_CHECKING:
    from mirage.workloads.requests import Offer

KEYS = ("settings", "partitions", "routing", "accounting", "qos", "shares")
# Keys of a configuration of OpenPBS, in which `rm` is openpbs: settings of sched_config, attributes of the server, queues.
OPENPBS_KEYS = ("rm", "settings", "server", "partitions", "routing")
# Slurm's defaults of these SchedulerParameters (bf_max_job_test: from 21.08 on).
BF_INTERVAL, BF_MAX_JOB_TEST, BUILTIN_JOBS = 30, 500, 50
# Partitions of a configuration without any (roles/slurm_controller).
PARTITIONS: list[Mapping[str, Any]] = [{"name": "batch"}]


@dataclass(frozen=True)
class Configuration:
    """Content of the file: settings of slurm.conf, partitions, rules that route jobs, whether it needs accounting, QOS and shares;
    or, of OpenPBS, settings of sched_config, queues, rules, and attributes of the server."""

    path: Path
    settings: Mapping[str, Any]
    partitions: list[Mapping[str, Any]]
    routing: list[Mapping[str, Any]]
    accounting: bool
    qos: list[Mapping[str, Any]]
    rm: str = SLURM
    server: Mapping[str, Any] = field(default_factory=dict)
    shares: Mapping[str, Any] = field(default_factory=dict)

    @property
    def backfills(self) -> bool:
        """Whether a waiting job may start before one that came earlier."""
        if self.rm == OPENPBS:
            return str(self.server.get("backfill_depth", 1)) != "0"
        return self.settings.get("SchedulerType") != "sched/builtin"

    @property
    def backfill_interval(self) -> float | None:
        """Seconds between two backfill cycles of Slurm; None if the scheduler has none. OpenPBS has a cycle after each change."""
        if self.rm == OPENPBS or not self.backfills:
            return None
        return float(self._scheduler_parameter("bf_interval", BF_INTERVAL))

    @property
    def backfill_depth(self) -> int:
        """Waiting jobs that a backfill cycle of Slurm looks at, at most."""
        return int(self._scheduler_parameter("bf_max_job_test", BF_MAX_JOB_TEST))

    @property
    def cycles(self) -> tuple[float | None, int]:
        """Seconds between two cycles of Slurm's scheduler, None if it has none, and how many waiting jobs it looks at in one.

        sched/builtin computes in its cycles when waiting jobs may start (builtin.c).
        """
        if self.rm == OPENPBS or self.backfills:
            return self.backfill_interval, self.backfill_depth
        jobs = self._scheduler_parameter("bf_max_job_test", BUILTIN_JOBS)
        return float(self._scheduler_parameter("interval", BF_INTERVAL)), jobs

    def _scheduler_parameter(self, name: str, default: int) -> int:
        given = self.settings.get("SchedulerParameters") or {}
        words = given if isinstance(given, Mapping) else dict(word.partition("=")[::2] for word in str(given).split(","))
        try:
            return int(words.get(name, default))
        except (TypeError, ValueError):
            return default

    @property
    def shares_by_account(self) -> bool:
        """Whether the scheduler of OpenPBS divides the machine by account: each user of the log has one."""
        return self.rm == OPENPBS and str(self.settings.get("fair_share", "false")).lower().startswith("true")

    def has_accounting(self, knobs: Knobs) -> bool:
        """Whether a cluster with this configuration and the given knobs has accounting."""
        if self.rm != SLURM:
            return False
        asked = knobs.scheduler.accounting
        # Releases before 24.11 let a job change its size more than once only where slurmdbd answers.
        return asked == "yes" or (asked == "auto" and (self.accounting or knobs.malleable.is_wanted))


def manager_in(path: Path) -> str:
    """The resource manager that a file of configs/ is for. The rest of the file is not read."""
    match = re.search(r"^rm:\s*['\"]?(\w+)", path.read_text(errors="replace"), re.MULTILINE)
    return match[1] if match else SLURM


def names_for(managers: Sequence[str]) -> list[str]:
    """Names of the configurations that are for one of the resource managers."""
    return sorted(file.stem for file in (ROOT / "configs").glob("*.yml") if manager_in(file) in managers)


def path_of(scheduler: SchedulerKnobs) -> Path:
    """Path of the file. Raises WrongUse with the names of all configurations of RM if it does not exist, or is for another one."""
    path, managers = ROOT / f"configs/{scheduler.config}.yml", scheduler.managers
    names = ", ".join(names_for(managers)) or "none is there"
    if not path.is_file():
        raise WrongUse(f"there is no configs/{scheduler.config}.yml; it may be one of: {names}", parameter="config")
    if (other := manager_in(path)) not in managers:
        what = f"{scheduler.config} is a configuration of {other}"
        raise WrongUse(f"{what}; with RM={' '.join(managers)} it may be one of: {names}", parameter="config")
    return path


def of(scheduler: SchedulerKnobs) -> Configuration:
    """Read the configuration CONFIG. If SLURM_CONF is given, the partitions are those of that file."""
    return read(path_of(scheduler), site_of(scheduler))


def offer(config: Configuration, knobs: Knobs, machine: Machine) -> Offer:
    """Partitions, QOS, memory, features, GRES and licences that jobs can request of a cluster with this configuration."""
    from mirage.workloads import requests
    from slurm_mirage.rm.slurm import accounting

    if config.rm == OPENPBS:
        return requests.offer_of_queues(machine.classes, config.partitions)
    site = site_of(knobs.scheduler)
    settings = {key.lower(): value for key, value in {**(site.settings if site else {}), **config.settings}.items()}
    names = [accounting.FIRST_QOS, *(str(entry["name"]) for entry in config.qos)]
    # The role's default is CR_CPU, without memory (roles/slurm_controller).
    select = settings.get("selecttypeparameters", "")
    licences, qos = settings.get("licenses"), names if config.has_accounting(knobs) else None
    return requests.offer(machine.classes, config.partitions, select, qos, licences)


def site_of(scheduler: SchedulerKnobs) -> SiteConf | None:
    """Read SLURM_CONF. None if it is not given."""
    return site_conf.read(scheduler.slurm_conf, scheduler.accounting) if scheduler.slurm_conf else None


def read(path: Path, site: SiteConf | None = None) -> Configuration:
    """Read the configuration in a file. With a site's slurm.conf, the partitions are the site's.

    Raises WrongUse in one line that names the file.
    """
    try:
        return _read(path, site)
    except WrongUse as error:
        raise WrongUse(error.message, parameter="config") from None


def _read(path: Path, site: SiteConf | None) -> Configuration:
    import yaml

    from mirage.knobs import yaml_input
    from mirage.workloads import routing
    from slurm_mirage.rm.slurm import accounting

    where = f"{path.parent.name}/{path.name}"
    try:
        content = yaml_input.load(path, "config")
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        raise WrongUse(f"{where}{'' if mark is None else f' line {mark.line + 1}'}: is not YAML") from None
    if not isinstance(content, Mapping):
        raise WrongUse(f"{where}: is not a mapping; it may have {', '.join(KEYS)}")
    if (manager := content.get("rm", SLURM)) == OPENPBS:
        return _of_openpbs(path, content, where)
    if manager != SLURM:
        raise WrongUse(f"{where}: rm {manager!r} is neither {SLURM} nor {OPENPBS}")
    unknown = [key for key in content if key not in ("rm", *KEYS)]
    if unknown:
        raise WrongUse(f"{where}: there is no {unknown[0]!r}; it may have {', '.join(KEYS)}")
    settings = content.get("settings") or {}
    partitions = content.get("partitions") or PARTITIONS
    has_accounting = content.get("accounting", False)
    if site is not None:
        partitions = site.partitions
    qos = content.get("qos") or []
    if site is not None and site.accounts is not None and isinstance(qos, list):
        own = {str(entry.get("name")) for entry in qos if isinstance(entry, Mapping)}
        qos = [*(entry for entry in site.accounts.qos if entry["name"] not in own), *qos]
    if not isinstance(settings, Mapping):
        raise WrongUse(f"{where}: settings is not a mapping of keys of slurm.conf")
    if not isinstance(partitions, list) or not all(isinstance(item, Mapping) and item.get("name") for item in partitions):
        raise WrongUse(f"{where}: partitions is not a list of mappings with a name")
    if not isinstance(has_accounting, bool):
        raise WrongUse(f"{where}: accounting is neither true nor false")
    names = [accounting.FIRST_QOS, *accounting.qos_of(qos, where)]
    shares = content.get("shares") or {}
    accounting.shares_of(shares, where)
    rules = routing.check(content.get("routing") or [], [str(partition["name"]) for partition in partitions], where, names)
    needs_accounting = has_accounting or (site is not None and site.accounting)
    return Configuration(path, settings, partitions, rules, needs_accounting, qos, shares=shares)


def _of_openpbs(path: Path, content: Mapping[str, Any], where: str) -> Configuration:
    from mirage.workloads import routing

    if unknown := [key for key in content if key not in OPENPBS_KEYS]:
        what = "means nothing to OpenPBS" if unknown[0] in KEYS else "is none of its keys"
        raise WrongUse(f"{where}: {unknown[0]!r} {what}; it may have {', '.join(OPENPBS_KEYS)}")
    for key, of_what in (("settings", "keys of sched_config"), ("server", "attributes of the server")):
        if not isinstance(content.get(key) or {}, Mapping):
            raise WrongUse(f"{where}: {key} is not a mapping of {of_what}")
    partitions = content.get("partitions") or PARTITIONS
    if not isinstance(partitions, list) or not all(isinstance(item, Mapping) and item.get("name") for item in partitions):
        raise WrongUse(f"{where}: partitions is not a list of mappings with a name")
    queues.check(partitions, where)
    rules = content.get("routing") or []
    for number, rule in enumerate(rules if isinstance(rules, list) else [], 1):
        if isinstance(rule, Mapping) and "qos" in rule:
            raise WrongUse(f"{where}: routing rule {number}: OpenPBS has no QOS; a rule may name a queue as its partition")
    checked = routing.check(rules, [str(queue["name"]) for queue in partitions], where)
    settings, server = content.get("settings") or {}, content.get("server") or {}
    return Configuration(path, settings, partitions, checked, False, [], OPENPBS, server)
