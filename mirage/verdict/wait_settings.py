"""The settings to which the causes of a run's waits point, with values to try (docs/why.md)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl
from polars import col

from mirage.records.run_folder import RunFolder
from mirage.records.schedule import of_run
from mirage.records.wait_causes import BACKFILL, CYCLE
from mirage.text.words import counted, duration, number, percent
from slurm_mirage.rm.api import BACKFILL_DIAGNOSTICS
from slurm_mirage.rm.evidence import WaitWord

LEAST = 0.01
"""Share of the waiting time below which a cause points to nothing."""
_LIMITS = (WaitWord.USER, WaitWord.ACCOUNT, WaitWord.QOS)
_WITHOUT_LIMIT = {"bf_max_job_user", "bf_max_job_user_part", "bf_max_job_part", "bf_max_job_assoc", "bf_max_job_start"}
"""Words of SchedulerParameters for which 0 is no limit."""
_NAME = re.compile(r"[\w.:/+@-]+", re.ASCII)
"""Names of accounts, QOS and resources, as an event may have them."""
_OF_TRES = (
    (r"QOS (\S+?)(?:'s)? max tres\((\S+)\) per user", "qos", "MaxTRESPerUser"),
    (r"QOS (\S+?)(?:'s)? max tres\((\S+)\) per account", "qos", "MaxTRESPerAccount"),
    (r"QOS (\S+?)(?:'s)? group max tres\((\S+)\)$", "qos", "GrpTRES"),
    (r"QOS (\S+?)(?:'s)? group max running tres\((\S+)\) minutes", "qos", "GrpTRESRunMins"),
    (r"QOS (\S+?)(?:'s)? group max tres\((\S+)\) minutes", "qos", "GrpTRESMins"),
    (r"assoc \d+\((\S+?)/\(null\)/\S*\) group max tres\((\S+)\)$", "account", "GrpTRES"),
    (r"assoc \d+\((\S+?)/\(null\)/\S*\) group max running tres\((\S+)\) minutes", "account", "GrpTRESRunMins"),
    (r"assoc \d+\((\S+?)/\(null\)/\S*\) group max tres\((\S+)\) minutes", "account", "GrpTRESMins"),
    (r"assoc \d+\(\S+?/([^/(]\S*?)/\S*\) group max tres\((\S+)\)$", "user", "GrpTRES"),
    (r"assoc \d+\(\S+?/([^/(]\S*?)/\S*\) group max running tres\((\S+)\) minutes", "user", "GrpTRESRunMins"),
    (r"assoc \d+\(\S+?/([^/(]\S*?)/\S*\) group max tres\((\S+)\) minutes", "user", "GrpTRESMins"),
)
_OF_JOBS = (
    (r"max jobs per-user for QOS (\S+)", "qos", "MaxJobsPerUser"),
    (r"max jobs per-acct \S+ for QOS (\S+)", "qos", "MaxJobsPerAccount"),
    (r"group max jobs for QOS (\S+)", "qos", "GrpJobs"),
    (r"group wall for QOS (\S+)", "qos", "GrpWall"),
    (r"group max jobs for account (\S+)", "account", "GrpJobs"),
    (r"group wall for account (\S+)", "account", "GrpWall"),
    (r"group max jobs for user (\S+)", "user", "GrpJobs"),
    (r"group wall for user (\S+)", "user", "GrpWall"),
    (r"max jobs for user (\S+)", "user", "MaxJobs"),
)
"""Limits in the words of `wait_reasons.limit_of`, the entity and the option of sacctmgr that sets them; those of TRES with the
TRES as a second group."""


_INHERITED = {"MaxJobs": 1000000}
"""Limits that a user's association without one has from its account: a number lifts them, -1 does not."""


@dataclass(frozen=True)
class Trial:
    """A setting to try: words of SchedulerParameters, or an event that lifts a limit at the start of the run."""

    name: str
    held: str
    """What the present value held up, as the beginning of a sentence."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    event: str = ""

    @property
    def change(self) -> str:
        """The change in Slurm's words."""
        words = ",".join(name if value is True else f"{name}={value}" for name, value in self.parameters.items())
        return f"SchedulerParameters={words}" if words else self.event


def trials(run: RunFolder) -> list[Trial]:
    """The settings to which the waits of a run point, those that held most processor time first."""
    jobs = of_run(run).jobs
    spans = run.waits.join(jobs.select("id", "processors"), left_on="job", right_on="id", maintain_order="left")
    spans = spans.with_columns(length=col("to") - col("from"), reason=col("reason").fill_null(""))
    total = float(spans["length"].sum())
    if total <= 0:
        return []
    groups = spans.group_by("cause", "reason", maintain_order=True).agg(
        waited=col("length").sum(),
        held=(col("length") * col("processors")).sum(),
        jobs=col("job").n_unique(),
        spans=pl.struct("from", "to"),
    )
    length = float(jobs.select(pl.max_horizontal(col("end").max(), col("start").max()) - col("submit").min()).item() or 0.0)
    found: dict[str, Trial] = {}
    for group in groups.filter(col("waited") >= LEAST * total).sort("held", "cause", descending=[True, False]).to_dicts():
        trial = _trial(run, group["cause"], group["reason"], _held(group, length))
        if trial is not None:
            found.setdefault(trial.name, trial)
    return list(found.values())


def _held(group: Mapping[str, Any], length: float) -> str:
    """How much waiting time a cause made, and how often."""
    covered, last = 0.0, -math.inf
    for span in sorted(group["spans"], key=lambda one: (one["from"], one["to"])):
        covered += max(0.0, span["to"] - max(span["from"], last))
        last = max(last, span["to"])
    share = f", in {percent(covered / length)} of the run's length" if length > 0 else ""
    hours = number(group["held"] / 3600)
    return f"{duration(group['waited'])} of the waits of {counted(group['jobs'], 'job')} ({hours} processor hours){share}"


def _trial(run: RunFolder, cause: str, reason: str, held: str) -> Trial | None:
    if cause in {word.value for word in _LIMITS}:
        event = _lifted(reason)
        return None if event is None else Trial(_name_of(event), f"{held}: {reason}", event=event)
    name = "bf_interval" if cause == CYCLE else reason if cause == BACKFILL or reason == "bf_window" else ""
    values = _values(run, name)
    return Trial(name, held, values) if values else None


def _lifted(reason: str) -> str | None:
    """The event that lifts a limit; None for a limit of another form, or of names that a field of a file of events cannot have."""
    for form, entity, option in _OF_TRES:
        if (match := re.search(form, reason)) is not None and all(map(_NAME.fullmatch, match.groups())):
            return f"0,set,{entity} {match[1]},{option}={match[2]}=-1"
    for form, entity, option in _OF_JOBS:
        if (match := re.search(form, reason)) is not None and all(map(_NAME.fullmatch, match.groups())):
            return f"0,set,{entity} {match[1]},{option}={_INHERITED.get(option, -1)}"
    return None


def _name_of(event: str) -> str:
    """The name of the trial, which becomes that of a file: it has no path, whatever the names in the event are."""
    _, _, target, argument = event.split(",", 3)
    return re.sub(r"[^\w.=-]", "_", "-".join([*target.split(), *argument.split("=")[:-1]]), flags=re.ASCII)


def _values(run: RunFolder, name: str) -> dict[str, Any]:
    """The value of a setting to try; none for one that is not known."""
    interval = max(1, round(run.scheduling.bounds.get("backfill_cycle_seconds", 30.0)))
    if name == "bf_max_job_test":
        depth, queue = BACKFILL_DIAGNOSTICS[2:]
        known = run.diagnostics
        longest = max((float(known[column].max() or 0) for column in (depth, queue) if column in known.columns), default=0.0)  # type: ignore[arg-type]
        return {name: max(1000, 2 * math.ceil(longest))}
    if name == "bf_window":
        limits = of_run(run).jobs["requested"].max()
        return {name: math.ceil(float(limits) / 60) + 60} if limits is not None else {}  # type: ignore[arg-type]
    if name == "bf_interval":
        return {name: max(1, interval // 2)} if interval > 1 else {}
    if name in _WITHOUT_LIMIT:
        return {name: 0}
    others = {"bf_node_space_size": 20000, "bf_continue": True, "bf_max_time": 10 * interval}
    return {name: others[name]} if name in others else {}
