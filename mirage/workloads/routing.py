"""Assigns jobs to partitions and QOS by the routing rules of a scheduler configuration (configs/NAME.yml).

A rule names a partition, a QOS or both, and conditions. The first rule whose conditions a job fulfils applies to it. Without such a
rule, and for what the rule does not name, the cluster's defaults apply.

    routing:
      - {partition: urgent, queues: [3]}
      - {partition: wide, min_processors: 64}
      - {qos: high, users: [12]}
      - {partition: urgent, share: 0.1}

| condition | jobs that fulfil it |
|---|---|
| `queues`, `users`, `groups` | jobs with one of these numbers in the log's field of that name |
| `min_processors`, `max_processors` | jobs of that size, bounds included |
| `min_requested`, `max_requested` | jobs with that requested time, in seconds of the trace, bounds included |
| `share` | that share of all jobs, chosen by job number and SEED: the same jobs in every run of a workload |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from slurm_mirage.base.errors import WrongUse

_MEMBERSHIP = {"queues": "queue", "users": "user", "groups": "group"}
_BOUNDS = {
    "min_processors": ("processors", pl.Expr.ge),
    "max_processors": ("processors", pl.Expr.le),
    "min_requested": ("requested", pl.Expr.ge),
    "max_requested": ("requested", pl.Expr.le),
}
GOALS = ("partition", "qos")
"""What a rule can assign to jobs."""
_KEYS = (*GOALS, *_MEMBERSHIP, *_BOUNDS, "share")


def check(rules: Any, partitions: Sequence[str], where: str, qos: Sequence[str] = ()) -> list[Mapping[str, Any]]:
    """Returns the rules if they are valid; raises WrongUse for the first invalid one. The message begins with `where`.

    `partitions` and `qos` are the names of the configuration's partitions and QOS.
    """
    if not isinstance(rules, list) or not all(isinstance(rule, Mapping) for rule in rules):
        raise WrongUse(f"{where}: routing is not a list of rules")
    for number, rule in enumerate(rules, 1):
        fault = _fault(rule, partitions, qos)
        if fault:
            raise WrongUse(f"{where}: routing rule {number}: {fault}")
    return rules


def _fault(rule: Mapping[str, Any], partitions: Sequence[str], qos: Sequence[str]) -> str:
    """Describes what is wrong with a rule; "" if it is valid."""
    unknown = [key for key in rule if key not in _KEYS]
    if unknown:
        return f"{unknown[0]!r} is none of the keys {', '.join(_KEYS)}"
    if ("partition" in rule or "qos" not in rule) and rule.get("partition") not in partitions:
        return f"partition {rule.get('partition')!r} is none of {', '.join(partitions)}"
    if "qos" in rule and rule["qos"] not in qos:
        return f"qos {rule['qos']!r} is none of {', '.join(qos)}"
    for key in _MEMBERSHIP:
        numbers = rule.get(key, [])
        if not isinstance(numbers, list) or not all(isinstance(number, int) for number in numbers):
            return f"{key} is not a list of whole numbers"
    for key in _BOUNDS:
        if key in rule and (isinstance(rule[key], bool) or not isinstance(rule[key], (int, float))):
            return f"{key} is not a number"
    share = rule.get("share", 1)
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share <= 1:
        return "share is not a number from 0 to 1"
    return ""


def routes(jobs: pl.DataFrame, rules: Sequence[Mapping[str, Any]], seed: int, goal: str) -> pl.Series:
    """The partition or the QOS (`goal`, one of `GOALS`) of each job; "" for the default.

    `jobs` has the columns of `workload.Workload.jobs`; `rules` are those that `check` returned.
    """
    chosen = pl.lit("")
    for number, rule in reversed(list(enumerate(rules))):
        conditions = [pl.col(column).is_in(rule[key]) for key, column in _MEMBERSHIP.items() if key in rule]
        conditions += [compare(pl.col(column), rule[key]) for key, (column, compare) in _BOUNDS.items() if key in rule]
        if "share" in rule:
            conditions.append(pl.lit(_picked(jobs["id"], rule["share"], seed, number)))
        fulfilled = pl.all_horizontal(conditions) if conditions else pl.lit(True)
        chosen = pl.when(fulfilled).then(pl.lit(rule.get(goal, ""))).otherwise(chosen)
    return jobs.with_columns(route=chosen)["route"]


def _picked(ids: pl.Series, share: float, seed: int, rule: int) -> pl.Series:
    """Whether each job belongs to the rule's share.

    The job number is hashed by splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014)
    to a number from 0 to 1. It does not depend on the other jobs, so that a longer selection of a log picks the same jobs.
    """
    import numpy as np

    mixed = ids.to_numpy().astype(np.uint64) + np.uint64(1)
    with np.errstate(over="ignore"):
        mixed = mixed * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed * 1_000_003 + rule)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    fraction = ((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) / 2.0**53
    return pl.Series(fraction < share)
