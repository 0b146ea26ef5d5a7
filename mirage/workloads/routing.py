"""Routing: which job of a workload goes to which partition, by the rules of a scheduler configuration (configs/NAME.yml).

A rule names a partition, a QOS or both, and the jobs it is for; a job takes the first rule that it fulfils in every word, and the
cluster's defaults if it fulfils none, or for what its rule does not name.

    routing:
      - {partition: urgent, queues: [3]}
      - {partition: wide, min_processors: 64}
      - {qos: high, users: [12]}
      - {partition: urgent, share: 0.1}

| word | the rule is for |
|---|---|
| `queues`, `users`, `groups` | jobs with one of these numbers in the log's field of that name |
| `min_processors`, `max_processors` | jobs of that size, both ends included |
| `min_requested`, `max_requested` | jobs that ask for that long, in seconds of the trace, both ends included |
| `share` | that share of all jobs, picked by job number and SEED: the same jobs in every run of a workload |
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
"""What a rule names for its jobs."""
_WORDS = (*GOALS, *_MEMBERSHIP, *_BOUNDS, "share")


def check(rules: Any, partitions: Sequence[str], where: str, qos: Sequence[str] = ()) -> list[Mapping[str, Any]]:
    """The rules as they can be used; WrongUse, which begins with `where`, for the first that cannot.

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
    """What is wrong with a rule; empty: nothing."""
    unknown = [word for word in rule if word not in _WORDS]
    if unknown:
        return f"{unknown[0]!r} is none of its words, which are {', '.join(_WORDS)}"
    if ("partition" in rule or "qos" not in rule) and rule.get("partition") not in partitions:
        return f"partition {rule.get('partition')!r} is none of {', '.join(partitions)}"
    if "qos" in rule and rule["qos"] not in qos:
        return f"qos {rule['qos']!r} is none of {', '.join(qos)}"
    for word in _MEMBERSHIP:
        numbers = rule.get(word, [])
        if not isinstance(numbers, list) or not all(isinstance(number, int) for number in numbers):
            return f"{word} is not a list of whole numbers"
    for word in _BOUNDS:
        if word in rule and (isinstance(rule[word], bool) or not isinstance(rule[word], (int, float))):
            return f"{word} is not a number"
    share = rule.get("share", 1)
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share <= 1:
        return "share is not a number from 0 to 1"
    return ""


def routes(jobs: pl.DataFrame, rules: Sequence[Mapping[str, Any]], seed: int, goal: str) -> pl.Series:
    """The partition or the QOS (one of `GOALS`) of each job, empty for the default one.

    `jobs`: columns of `workload.Workload.jobs`; `rules`: checked.
    """
    chosen = pl.lit("")
    for number, rule in reversed(list(enumerate(rules))):
        conditions = [pl.col(column).is_in(rule[word]) for word, column in _MEMBERSHIP.items() if word in rule]
        conditions += [compare(pl.col(column), rule[word]) for word, (column, compare) in _BOUNDS.items() if word in rule]
        if "share" in rule:
            conditions.append(pl.lit(_picked(jobs["id"], rule["share"], seed, number)))
        fulfilled = pl.all_horizontal(conditions) if conditions else pl.lit(True)
        chosen = pl.when(fulfilled).then(pl.lit(rule.get(goal, ""))).otherwise(chosen)
    return jobs.with_columns(route=chosen)["route"]


def _picked(ids: pl.Series, share: float, seed: int, rule: int) -> pl.Series:
    """Whether each job is in the rule's share: its number, mixed (splitmix64 of Steele, Lea and Flood 2014), as a fraction.

    By number, not by place, so that a longer stretch of a log has the same jobs in it.
    """
    import numpy as np

    mixed = ids.to_numpy().astype(np.uint64) + np.uint64(1)
    with np.errstate(over="ignore"):
        mixed = mixed * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed * 1_000_003 + rule)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    fraction = ((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) / 2.0**53
    return pl.Series(fraction < share)
