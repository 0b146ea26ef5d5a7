"""Malleable jobs of a run, from the knobs MALLEABLE and MALLEABLE_JOBS.

`check` refuses clusters that cannot have them. The workload's jobs are chosen and described by `jobs`.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import polars as pl

from mirage.experiment import configuration
from mirage.experiment.aspects import Needs
from mirage.experiment.hosts import host_count
from mirage.knobs.knobs import Knobs
from mirage.workloads import requests
from mirage.workloads.workload import Workload
from mirage_extras.malleable import jobs
from mirage_extras.malleable.knobs import MalleableKnobs
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.extras.malleable.words import Malleable
from slurm_mirage.rm.slurm.node_options import word

if TYPE_CHECKING:
    from mirage.experiment.prepare import Prepared


CHECKED = 0.014
"""Real seconds of each point at which a job asks the broker (docs/accuracy.md)."""


def of_slurm(knobs: Knobs) -> tuple[str, bool, str]:
    """The row of `managers`: the knob, whether it asks for something, and why only Slurm has it."""
    return "MALLEABLE", knobs.part(MalleableKnobs).is_wanted, "the broker of malleable jobs changes jobs of Slurm"


def check(knobs: Knobs) -> None:
    """If MALLEABLE asks for malleable jobs, check that the cluster can have them. Raises WrongUse with the reason."""
    if not knobs.part(MalleableKnobs).is_wanted:
        return
    if knobs.nodes.front_ends:
        raise _refused("malleable jobs need a slurmd for each of their nodes; leave out FRONT_END, or MALLEABLE")
    if (hosts := host_count(knobs.cluster)) > 1:
        raise _refused(
            f"the broker serves one host, and the cluster has {hosts}; take an inventory of one host, or leave out MALLEABLE"
        )


def needs(knobs: Knobs) -> Needs:
    """The broker asks for nodes as the instance's user, and malleable jobs compute their run times. Releases before 24.11 let a job
    change its size more than once only where slurmdbd answers."""
    is_wanted = knobs.part(MalleableKnobs).is_wanted
    return Needs(accounting=is_wanted, one_user=is_wanted, own_sizes=is_wanted)


def cluster_settings(knobs: Knobs, shrink: Decimal) -> dict[str, Any]:
    """The entry of a cluster with malleable jobs; none without."""
    return {"malleable": {}} if knobs.part(MalleableKnobs).is_wanted else {}


def run_settings(knobs: Knobs, shrink: Decimal) -> dict[str, Any]:
    """The kind of the jobs in run.json; none without malleable jobs."""
    return {"kind": "malleable"} if knobs.part(MalleableKnobs).is_wanted else {}


def applied(knobs: Knobs, chosen: Workload, slack: float) -> Workload:
    """The workload with its malleable jobs; unchanged without MALLEABLE. Raises WrongUse."""
    if not knobs.part(MalleableKnobs).is_wanted:
        return chosen
    rule, machine = jobs.Rule.of(knobs.part(MalleableKnobs).sizes), knobs.nodes.machine
    sizes = sorted({kind.cpus for kind in machine.classes})
    if len(sizes) > 1:
        nodes = ", ".join(map(str, sizes))
        raise _refused(f"malleable jobs take whole nodes of one size, and the nodes have {nodes} processors; give equal nodes")
    if any(word(kind.extra, "Gres") for kind in machine.classes):
        raise _refused("the nodes have GRES, and Slurm refuses to expand jobs there; leave out Gres, or MALLEABLE")
    return jobs.with_malleable(
        chosen,
        knobs.part(MalleableKnobs).share,
        rule,
        cpus=sizes[0],
        most=machine.nodes,
        seed=knobs.workload.seed,
        slack=slack,
        overrun=knobs.jobs.overrun,
    )


def check_partitions(jobs: pl.DataFrame, names: list[str], there: requests.Offer) -> None:
    """Check that each malleable job's partition has the nodes that the job has at least.

    jobs: of a workload; names: of their partitions, "" for the default one. Raises WrongUse.
    """
    rows = zip(jobs.select("id", "malleable").iter_rows(), names, strict=True)
    for (number, words), name in rows:
        partition = there.partitions.get(name or there.default)
        if not words or partition is None:
            continue
        nodes = min(partition.most_nodes, sum(kind.count for kind in partition.nodes))
        if (least := Malleable.parse(words).minimum) > nodes:
            text = f"job {number}: its minimum of {least} nodes is above the {nodes:g} of partition {name or there.default}"
            raise WrongUse(text, parameter="malleable_jobs")


def real_seconds(run: Prepared) -> float:
    """Real seconds that the points at which malleable jobs ask the broker add to a replay on the event clock."""
    if "malleable" not in run.workload.jobs.columns:
        return 0.0
    jobs = zip(run.workload.jobs["malleable"], run.executions(), strict=True)
    return sum(CHECKED * length / Malleable.parse(words).check for words, length in jobs if words)


def remarks(run: Prepared) -> list[str]:
    """Remarks on the jobs that may change their size."""
    notes, lines = run.workload.notes, []
    if (count := notes.get("malleable", 0)) > 0:
        share = f"{100 * count / run.workload.jobs.height:.3g} %"
        other = notes.get("malleable_of_other_size", 0)
        moved = f", {other} of them submitted with another size than in the log, and as much work" if other else ""
        lines.append(f"malleable: {count} jobs ({share}), MALLEABLE_JOBS={run.knobs.part(MalleableKnobs).sizes}{moved}")
    if (fewer := notes.get("malleable_fewer", 0)) > 0:
        lines.append(f"malleable: {fewer} jobs fewer than MALLEABLE asks for, the others have no other size on this machine")
    if count and run.knobs.scheduler.accounting == "auto" and not configuration.of(run.knobs.scheduler).accounting:
        lines.append("accounting: yes, because Slurm before 24.11 needs slurmdbd to resize a job again (ACCOUNTING=auto)")
    if (rounded := notes.get("malleable_rounded", 0)) > 0:
        lines.append(f"malleable jobs take whole nodes: the processors of {rounded} jobs are rounded up")
    return lines


def _refused(reason: str) -> WrongUse:
    return WrongUse(reason, parameter="malleable")
