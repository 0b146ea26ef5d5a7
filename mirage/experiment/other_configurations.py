"""The configurations that take the place of CONFIG during a run (events `configure`): whether they can, and what the role gets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from mirage import ROOT
from mirage.experiment import aspects, configuration
from mirage.experiment.configuration import Configuration
from mirage.knobs.knobs import Knobs
from mirage.knobs.parse import SLURM
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import file_digest
from slurm_mirage.rm.slurm.conf import OMIT
from slurm_mirage.rm.slurm.other_configurations import way_of

PARAMETER = "events"


def digest(name: str) -> str:
    """Digest of the content of a configuration; empty if there is none of this name."""
    names = configuration.names_for((SLURM,))
    return file_digest(ROOT / f"configs/{name}.yml") if name in names else ""


def variable(knobs: Knobs, names: Iterable[str]) -> dict[str, Any]:
    """The variable slurm_controller_other_configurations of the playbooks. Raises WrongUse."""
    found = {name: configuration.of(_with(knobs, name).scheduler) for name in names}
    return {name: {"settings": dict(one.settings), "partitions": list(one.partitions)} for name, one in found.items()}


def way(knobs: Knobs, before: str, after: str) -> str:
    """How the configuration `after` takes the place of `before` on the cluster of a run: RESTART or RECONFIGURE.

    Raises WrongUse with the reason why it cannot.
    """
    old, new = (configuration.of(_with(knobs, name).scheduler) for name in (before, after))
    own = configuration.of(knobs.scheduler)
    has_accounting = own.has_accounting(knobs)
    if new.accounting and not has_accounting:
        raise _refused("it needs accounting, which this cluster does not have; give ACCOUNTING=yes")
    if has_accounting and (new.qos, new.shares) != (own.qos, own.shares) and (new.qos or new.shares):
        raise _refused(f"its qos or shares are not those of {own.path.stem}, which are made before the run")
    if gone := sorted(_names(old) - _names(new)):
        raise _refused(f"it has no partition {gone[0]}: Slurm would end the jobs there")
    new.offer(knobs, knobs.nodes.machine)
    try:
        aspects.check(_with(knobs, after))
        return way_of(_settings(knobs, old, has_accounting), _settings(knobs, new, has_accounting))
    except (ValueError, WrongUse) as error:
        raise _refused(error.message if isinstance(error, WrongUse) else str(error)) from None


def _with(knobs: Knobs, name: str) -> Knobs:
    return replace(knobs, scheduler=replace(knobs.scheduler, config=name))


def _names(config: Configuration) -> set[str]:
    return {str(partition["name"]) for partition in config.partitions}


def _settings(knobs: Knobs, config: Configuration, has_accounting: bool) -> Mapping[str, Any]:
    """The settings that a configuration gives the cluster, over those of SLURM_CONF.

    Without accounting those of it are left out, as in the role slurm_controller.
    """
    site = configuration.site_of(knobs.scheduler)
    settings = {**(site.settings if site is not None else {}), **config.settings}
    return settings if has_accounting else {**settings, "AccountingStorageEnforce": OMIT, "AccountingStorageTRES": OMIT}


def _refused(reason: str) -> WrongUse:
    return WrongUse(reason, PARAMETER)
