"""What a search is about: settings with their values, the goal, the limits, the jobs of the search and those of the proof."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from mirage.experiment import configuration
from mirage.experiment.prepare import Prepared, Source
from mirage.knobs.knobs import Knobs
from mirage.knobs.parse import Value
from mirage.metrics.registry import METRICS
from mirage.statistics.limits import Limit, parse
from mirage.text.words import counted
from mirage.tuning.conclusions import Response
from mirage.tuning.surrogate import Axis, Point
from mirage.tuning.tunables import BY_NAME, NO, Tuned, parse_settings, parse_tune, settings_text, value_in
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.strict_json import Damaged

SEARCHED, LEAST_PROOF = 2 / 3, 1 / 3
"""Share of the selected jobs that a search takes without JOBS; jobs of the proof, at least, as a share of those of the search."""
EARLY = 3
"""The first part of the jobs is one of so many."""
SECOND, OTHER_SECOND = "wait_max", "wait_mean"
"""The other metric of the front: what a better GOAL may cost, first of all."""


@dataclass(frozen=True)
class SearchPlan:
    """The question of a search, as its experiment.json has it.

    names, values: of the settings; base: the place of each setting's value in the base
    settings: SETTINGS of the base
    goal, second: names of metrics, those of the front
    limits: as in LIMITS; empty for none
    margin: per cent
    batch: trials of a round
    jobs: of the search. early_jobs: of the first part of them, with presets; 0: there is none
    proof: how the name of the comparison in results/ begins
    """

    names: Sequence[str]
    values: Sequence[Sequence[str]]
    base: Point
    settings: str
    goal: str
    second: str
    limits: str
    margin: float
    batch: int
    jobs: int
    early_jobs: int
    proof: str

    @classmethod
    def read(cls, content: Mapping[str, Any], path: Path) -> SearchPlan:
        """The plan in experiment.json. Raises Damaged for one that names what there is not, as that of another release may."""
        if any(one.name not in content for one in fields(cls)):
            raise Damaged(f"{path}: search is missing")
        plan = cls(**{one.name: content[one.name] for one in fields(cls)})
        plan = replace(plan, base=tuple(plan.base))
        places = list(zip(plan.values, plan.base, strict=False))
        try:
            parse_settings(plan.settings)
            fits = len(plan.names) == len(plan.values) == len(places) and all(place < len(values) for values, place in places)
            metrics = {plan.goal, plan.second, *(one.metric for one in plan.parsed_limits)}
            is_known = {*plan.names} <= BY_NAME.keys() and metrics <= METRICS.keys()
        except ValueError:
            fits = is_known = False
        if not (fits and is_known and plan.batch):
            raise Damaged(f"{path}: search is not the plan of a search of this release")
        return plan

    @property
    def axes(self) -> list[Axis]:
        return [Axis(len(values), BY_NAME[name].is_ordered) for name, values in zip(self.names, self.values, strict=True)]

    @property
    def response(self) -> Response:
        """The question without trials."""
        lower, second = (METRICS[name].better != "higher" for name in (self.goal, self.second))
        return Response(self.axes, [], lower, second, self.base)

    @property
    def parsed_limits(self) -> tuple[Limit, ...]:
        return parse(self.limits) if self.limits else ()

    def changed(self, point: Point) -> dict[str, str]:
        """The settings in which a point differs from the base, with their values."""
        every = zip(self.names, self.values, point, self.base, strict=True)
        return {name: values[place] for name, values, place, base in every if place != base}

    def text(self, point: Point) -> str:
        """SETTINGS of a point."""
        return settings_text({**parse_settings(self.settings), **self.changed(point)})

    def point(self, text: str) -> Point | None:
        """The point with these SETTINGS; None for none of the search."""
        try:
            given = parse_settings(text)
        except ValueError:
            return None
        places = []
        for name, values, base in zip(self.names, self.values, self.base, strict=True):
            value = Tuned(BY_NAME[name], tuple(values)).same(given.get(name, values[base]))
            if value not in values:
                return None
            places.append(values.index(value))
        return tuple(places)


def tuned_of(knobs: Knobs) -> tuple[list[Tuned], Point]:
    """The settings of TUNE with the base's value among the values of each, and the places of these. Raises WrongUse for a setting
    that has no part in the base, and for settings that decide how much the scheduler computes without CHARGE."""
    given = parse_tune(knobs.campaign.tune)
    config = configuration.of(knobs.scheduler)
    settings = {**configuration.in_force(knobs.scheduler), **config.settings}
    found, places = [], []
    for one in given:
        _check_part(one, given, settings, config.has_accounting(knobs))
        if one.tunable.computes and knobs.clock.charge == NO:
            what = (
                f"{one.tunable.name} decides how much slurmctld computes, which takes no time then, so that more is always better"
            )
            raise WrongUse(f"{what}; it may be yes, the default of make search", "charge", NO)
        base = one.same(value_in(one.tunable, settings))
        values = list(one.values) if base in one.values else [*one.values, base]
        if one.tunable.is_ordered:
            values.sort(key=one.tunable.place)
        if len(values) < 2:
            raise WrongUse(f"{one.tunable.name} has only the value {base}, that of the base; give it another one", "tune")
        found.append(Tuned(one.tunable, tuple(values)))
        places.append(values.index(base))
    return found, tuple(places)


def _check_part(one: Tuned, given: Sequence[Tuned], settings: Mapping[str, Any], has_accounting: bool) -> None:
    name = one.tunable.name
    in_small = {key.lower(): str(value).lower() for key, value in settings.items()}
    if name.startswith("Priority") and in_small.get("prioritytype") == "priority/basic":
        what = f"{name} has no part in PriorityType=priority/basic, which the base has"
        raise WrongUse(f"{what}; give CONFIG=multifactor, or leave it out", "tune")
    if name in ("PriorityWeightFairshare", "PriorityWeightAssoc", "PriorityWeightQOS") and not has_accounting:
        raise WrongUse(f"{name} has no part without accounting; give ACCOUNTING=yes, or leave it out", "tune")
    is_builtin = in_small.get("schedulertype") == "sched/builtin" and "SchedulerType" not in [it.tunable.name for it in given]
    if name.startswith("bf_") and is_builtin:
        raise WrongUse(f"{name} has no part in SchedulerType=sched/builtin, which the base has; leave it out", "tune")


@dataclass(frozen=True)
class Shares:
    """Knobs, by name, that select the jobs of the search, the first part of them, and those of the proof.

    searched, early, proved: their numbers; early 0: there is no such part
    """

    search: Mapping[str, Value]
    early_part: Mapping[str, Value]
    proof: Mapping[str, Value]
    searched: int
    early: int
    proved: int


def shares_of(knobs: Knobs, source: Source) -> Shares:
    """The jobs of the search and those after them in the log, for the proof; of a generated workload those of the next SEED.

    Raises WrongUse if too few jobs are left for the proof.
    """
    wanted, shrink = knobs.workload, knobs.jobs.shrinks[0]
    if not wanted.trace:
        jobs = Prepared.make(knobs, source.trace, shrink).workload.jobs.height
        return Shares({}, {}, {"SEED": wanted.seed + 1}, jobs, 0, jobs)
    every = Prepared.make(replace(knobs, workload=replace(wanted, jobs=None)), source.trace, shrink).workload
    submits = every.jobs["submit"].to_list()[every.presets() :]
    searched = wanted.jobs or math.ceil(SEARCHED * len(submits))
    after = [submit for submit in submits[searched:] if submit > submits[searched - 1]] if searched <= len(submits) else []
    if len(after) < LEAST_PROOF * searched:
        what = f"{counted(len(after), 'job')} after them are too few to prove what is found"
        raise WrongUse(f"{what}; take at most {math.floor(len(submits) * SEARCHED)} of these {len(submits)}", "jobs", wanted.jobs)
    proved = min(searched, len(after))
    proof: dict[str, Value] = {"FROM": f"{after[0]:.15g}", "OFFSET": 0, "JOBS": proved}
    early = searched // EARLY
    return Shares({"JOBS": searched}, {"JOBS": early}, proof, searched, early, proved)


def second_of(goal: str, limits: Sequence[Limit]) -> str:
    """The other metric of the front."""
    others = [limit.metric for limit in limits if limit.metric != goal]
    return others[0] if others else SECOND if goal != SECOND else OTHER_SECOND
