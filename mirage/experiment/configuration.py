"""Reads and checks the scheduler configuration CONFIG, configs/NAME.yml (docs/configurations.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from mirage import ROOT
from mirage.aspects import modules
from mirage.experiment import aspects
from mirage.knobs.knobs import Knobs, SchedulerKnobs
from mirage.knobs.machine import Machine
from mirage.knobs.parse import MANAGERS, SLURM
from mirage.site import growth, site_conf
from mirage.site.site_conf import SiteConf
from mirage.tuning import tunables
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.rm.slurm import conf
from slurm_mirage.rm.slurm.conf import value_of

if TYPE_CHECKING:
    from mirage.workloads.requests import Offer

KEYS = ("settings", "partitions", "routing", "accounting", "qos", "shares")
# Slurm's defaults of these SchedulerParameters (bf_max_job_test: from 21.08 on).
BF_INTERVAL, BF_MAX_JOB_TEST, BUILTIN_JOBS = 30, 500, 50
# Partitions of a configuration without any (roles/slurm_controller).
PARTITIONS: list[Mapping[str, Any]] = [{"name": "batch"}]


@dataclass(frozen=True)
class Configuration:
    """Content of the file: settings of slurm.conf, partitions, rules that route jobs, whether it needs accounting, QOS and shares.
    Those of another resource manager have a class of their own, in the module `configuration` of its extra."""

    rm: ClassVar[str] = SLURM
    path: Path
    settings: Mapping[str, Any]
    partitions: list[Mapping[str, Any]]
    routing: list[Mapping[str, Any]]
    accounting: bool
    qos: list[Mapping[str, Any]]
    shares: Mapping[str, Any] = field(default_factory=dict)

    @property
    def backfills(self) -> bool:
        """Whether a waiting job may start before a job that was submitted earlier."""
        return self.settings.get("SchedulerType") != "sched/builtin"

    @property
    def backfill_interval(self) -> float | None:
        """Seconds between two backfill cycles of Slurm; None if the scheduler has none."""
        return float(self._scheduler_parameter("bf_interval", BF_INTERVAL)) if self.backfills else None

    @property
    def backfill_depth(self) -> int:
        """Waiting jobs that a backfill cycle of Slurm looks at, at most."""
        return int(self._scheduler_parameter("bf_max_job_test", BF_MAX_JOB_TEST))

    @property
    def cycles(self) -> tuple[float | None, int]:
        """Seconds between two cycles of Slurm's scheduler, None if it has none, and how many waiting jobs it looks at in one.

        sched/builtin computes in its cycles when waiting jobs may start (builtin.c).
        """
        if self.backfills:
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
        """Whether fair share is computed by account without a database, as Slurm never does. Then each user gets an account."""
        return False

    def has_accounting(self, knobs: Knobs) -> bool:
        """Whether a cluster with this configuration and the given knobs has accounting."""
        asked = knobs.scheduler.accounting
        return asked == "yes" or (asked == "auto" and (self.accounting or aspects.needs(knobs).accounting))

    def offer(self, knobs: Knobs, machine: Machine) -> Offer:
        """Partitions, QOS, memory, features, GRES and licences that jobs can request of a cluster with this configuration."""
        from mirage.workloads import requests
        from slurm_mirage.rm.slurm import accounting

        site = site_of(knobs.scheduler)
        settings = {key.lower(): value for key, value in {**(site.settings if site else {}), **self.settings}.items()}
        names = [accounting.FIRST_QOS, *(str(entry["name"]) for entry in self.qos)]
        # The role's default is CR_CPU, without memory (roles/slurm_controller).
        select = settings.get("selecttypeparameters", "")
        licences, qos = settings.get("licenses"), names if self.has_accounting(knobs) else None
        return requests.offer(machine.classes, self.partitions, select, qos, licences)


def enforces_limits(settings: Mapping[str, Any]) -> bool:
    """Whether AccountingStorageEnforce among settings of slurm.conf makes Slurm hold jobs that exceed a limit (read_config.c)."""
    given = next((value for key, value in settings.items() if key.lower() == "accountingstorageenforce"), "")
    words = {word.strip().lower() for word in value_of(given).split(",")}
    return bool(words & {"limits", "safe", "all"})


def manager_in(path: Path) -> str:
    """The resource manager that a file of configs/ is for. The rest of the file is not read."""
    match = re.search(r"^rm:\s*['\"]?(\w+)", path.read_text(errors="replace"), re.MULTILINE)
    return match[1] if match else SLURM


def names_for(managers: Sequence[str]) -> list[str]:
    """Names of the configurations that are for one of the resource managers."""
    return sorted(file.stem for file in (ROOT / "configs").glob("*.yml") if file.is_file() and manager_in(file) in managers)


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
    """Read the configuration CONFIG, with SETTINGS. If SLURM_CONF is given, the partitions are those of that file."""
    found = _without_settings(scheduler)
    changed = tuned(scheduler)
    return replace(found, settings={**found.settings, **changed}) if changed else found


def tuned(scheduler: SchedulerKnobs) -> Mapping[str, Any]:
    """What SETTINGS sets: settings of slurm.conf by name, which take precedence over those of CONFIG and SLURM_CONF."""
    if not scheduler.settings:
        return {}
    return tunables.merged(in_force(scheduler), tunables.parse_settings(scheduler.settings))


def in_force(scheduler: SchedulerKnobs) -> Mapping[str, Any]:
    """The settings of CONFIG over those of SLURM_CONF, without SETTINGS; names as CONFIG, or else SLURM_CONF, spells them."""
    site = site_of(scheduler)
    return conf.merge(site.settings if site is not None else {}, _without_settings(scheduler).settings)


def _without_settings(scheduler: SchedulerKnobs) -> Configuration:
    return read(path_of(scheduler), site_of(scheduler))


def site_of(scheduler: SchedulerKnobs) -> SiteConf | None:
    """Read SLURM_CONF, once in a process unless the file changes, with the nodes of GROW. None if it is not given. Callers change
    nothing in it."""
    path = scheduler.slurm_conf
    return _grown(path, scheduler.accounting, _identity(Path(path)), scheduler.grow) if path else None


@lru_cache(maxsize=32)
def _grown(path: str, accounting: str, identity: tuple[int, int, int] | None, grow: str) -> SiteConf:
    return growth.of_site(_site(path, accounting, identity), grow)


@lru_cache(maxsize=4)
def _site(path: str, accounting: str, identity: tuple[int, int, int] | None) -> SiteConf:
    del identity
    return site_conf.read(path, accounting)


def _identity(path: Path) -> tuple[int, int, int] | None:
    """Tells a file from what it was before a change; None if it cannot be looked at."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


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

    from mirage.text import yaml_input
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
    if (manager := content.get("rm", SLURM)) != SLURM:
        readers = {module.RM: module.read for module in modules("configuration")}
        if (read_other := readers.get(str(manager))) is None:
            raise WrongUse(f"{where}: rm {manager!r} is neither {' nor '.join(MANAGERS)}")
        found: Configuration = read_other(path, content, where)
        return found
    unknown = [key for key in content if key not in ("rm", *KEYS)]
    if unknown:
        raise WrongUse(f"{where}: there is no {unknown[0]!r}; it may have {', '.join(KEYS)}")
    settings = content.get("settings") or {}
    has_accounting = content.get("accounting", False)
    qos = content.get("qos") or []
    if site is not None and site.accounts is not None and isinstance(qos, list):
        own = {str(entry.get("name")) for entry in qos if isinstance(entry, Mapping)}
        qos = [*(entry for entry in site.accounts.qos if entry["name"] not in own), *qos]
    if not isinstance(settings, Mapping):
        raise WrongUse(f"{where}: settings is not a mapping of keys of slurm.conf")
    partitions: list[Mapping[str, Any]] = partitions_of(content, where) if site is None else [*site.partitions]
    conf.check(settings, partitions if site is None else [], where)
    if not isinstance(has_accounting, bool):
        raise WrongUse(f"{where}: accounting is neither true nor false")
    names = [accounting.FIRST_QOS, *accounting.qos_of(qos, where)]
    shares = content.get("shares") or {}
    accounting.shares_of(shares, where)
    rules = routing.check(content.get("routing") or [], [str(partition["name"]) for partition in partitions], where, names)
    needs_accounting = has_accounting or (site is not None and site.accounting)
    return Configuration(path, settings, partitions, rules, needs_accounting, qos, shares=shares)


def partitions_of(content: Mapping[str, Any], where: str) -> list[Mapping[str, Any]]:
    """The partitions in the content of a file. Raises WrongUse."""
    partitions = content.get("partitions") or PARTITIONS
    if not isinstance(partitions, list) or not all(isinstance(item, Mapping) and item.get("name") for item in partitions):
        raise WrongUse(f"{where}: partitions is not a list of mappings with a name")
    return partitions
