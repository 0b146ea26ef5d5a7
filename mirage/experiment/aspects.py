"""What the aspects have in an experiment: the functions in their modules `experiment`, each of which a module may leave out.

`of_slurm(knobs)`: its knob, whether it asks for the aspect, and why only a cluster of Slurm can have it.
`identities(knobs)`: inputs of a run whose values stand for the content of files: text by knob.
`arms(knobs)`: the knobs of a comparison and its arms, where a knob of the aspect has several values; None otherwise.
`real_seconds(run)`: real seconds that it adds to a replay on the event clock, beyond a submission, a launch and an end of each job.
`remarks(run)`: remarks that are printed before a run (`Prepared`), one line each.
The others are as the functions here, for one aspect.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from mirage import aspects
from mirage.knobs.knobs import Knobs

if TYPE_CHECKING:
    import polars as pl

    from mirage.workloads import requests
    from mirage.workloads.workload import Workload

_MODULE = "experiment"


@dataclass(frozen=True)
class Needs:
    """What an aspect needs of a run. Its function `needs` makes it from the knobs."""

    accounting: bool = False
    """slurmdbd, where ACCOUNTING=auto leaves it open."""
    one_user: bool = False
    """All jobs belong to the instance's user."""
    own_sizes: bool = False
    """The aspect decides the sizes and the run times of jobs: they keep whole seconds, and are not fitted to partitions."""
    no_arrays: bool = False
    """No job is submitted as a task of an array."""


def needs(knobs: Knobs) -> Needs:
    """What the aspects need together: a member is true if it is for one of them."""
    of_each: list[Needs] = [of(knobs) for of in aspects.offers(_MODULE, "needs")]
    return Needs(*(any(getattr(one, part.name) for one in of_each) for part in fields(Needs)))


def of_slurm(knobs: Knobs) -> tuple[tuple[str, bool, str], ...]:
    """For each aspect that only a cluster of Slurm can have: its knob, whether it asks for the aspect, and why."""
    return tuple(of(knobs) for of in aspects.offers(_MODULE, "of_slurm"))


def check_words(knobs: Knobs) -> None:
    """Check the knobs of the aspects for themselves, without a cluster. Raises WrongUse."""
    for of in aspects.offers(_MODULE, "check_words"):
        of(knobs)


def check(knobs: Knobs) -> None:
    """Check that the cluster can have what the knobs of the aspects ask for. Raises WrongUse with the reason."""
    for of in aspects.offers(_MODULE, "check"):
        of(knobs)


def cluster_settings(knobs: Knobs, shrink: Decimal) -> dict[str, Any]:
    """Settings of the aspects that the cluster has, by name. shrink: SHRINK of the run that follows, in per cent"""
    return aspects.merged(_MODULE, "cluster_settings", knobs, shrink)


def run_settings(knobs: Knobs, shrink: Decimal) -> dict[str, Any]:
    """Members of run.json. shrink: SHRINK in per cent"""
    return aspects.merged(_MODULE, "run_settings", knobs, shrink)


def identities(knobs: Knobs) -> dict[str, str]:
    """Inputs of a run whose values stand for the content of files, by knob. Raises WrongUse."""
    return aspects.merged(_MODULE, "identities", knobs)


def arms(knobs: Knobs) -> tuple[Knobs, dict[str, dict[str, str]]] | None:
    """The knobs of a comparison and its arms (knobs by label), where a knob of an aspect has several values; None if none has.
    Raises WrongUse."""
    found = [chosen for of in aspects.offers(_MODULE, "arms") if (chosen := of(knobs)) is not None]
    return found[0] if found else None


def applied(knobs: Knobs, chosen: Workload, slack: float) -> Workload:
    """The workload with what the aspects change of its jobs. slack: virtual seconds that time limits leave. Raises WrongUse."""
    for of in aspects.offers(_MODULE, "applied"):
        chosen = of(knobs, chosen, slack)
    return chosen


def check_partitions(jobs: pl.DataFrame, names: list[str], offer: requests.Offer) -> None:
    """Check that each job's partition has what the aspects need for it.

    jobs: of a workload; names: of their partitions, "" for the default one. Raises WrongUse.
    """
    for of in aspects.offers(_MODULE, "check_partitions"):
        of(jobs, names, offer)
