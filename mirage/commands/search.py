"""`make search`: finds the values of settings of slurm.conf (TUNE) that are best for GOAL, and proves them on other jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mirage.campaign.at_once import runs_at_once
from mirage.campaign.campaign import REPLICAS, Campaign
from mirage.campaign.search import EARLY_SAVES, MOST_TRIALS, Search, asked_of
from mirage.campaign.search_plan import SearchPlan, second_of, shares_of, tuned_of
from mirage.experiment import aspects, clock_choice, managers, preflight, run_events, runs
from mirage.experiment.endings import Ending
from mirage.experiment.prepare import source
from mirage.knobs.knobs import Knobs
from mirage.knobs.parse import SLURM, Value
from mirage.records.run_clock import EVENT
from mirage.statistics.limits import parse
from mirage.terminal.screen import Screen
from slurm_mirage.base.errors import WrongUse


def search(knobs: Knobs, screen: Screen) -> Ending:
    """Check everything, and search."""
    if knobs.scheduler.rm != SLURM:
        raise WrongUse("a search is for Slurm only; it may be slurm", "rm", knobs.scheduler.rm)
    if not knobs.campaign.tune:
        raise WrongUse("nothing is given; it may be settings of slurm.conf, as in TUNE='bf_window bf_interval=5..120'", "tune")
    managers.check(knobs)
    run_events.check(knobs.events)
    aspects.check(knobs)
    if len(knobs.jobs.shrinks) > 1:
        raise WrongUse("a sweep is not possible here; it may be a percentage", parameter="shrink")
    preflight.config(knobs.scheduler)
    tuned, base = tuned_of(knobs)
    speed = clock_choice.chosen(knobs, screen)
    if speed != EVENT:
        raise WrongUse("trials are compared by single seconds, so that they need the event clock; it may be event", "speed")
    knobs = knobs.at_speed(speed)
    shares = shares_of(knobs, source(knobs.workload, knobs.nodes.machine))
    whole = _of(knobs, shares.search, 1)
    run = knobs.output.run or runs.name_by_inputs("search", {**whole.inputs, **asked_of(knobs)})
    part = _of(knobs, shares.early_part, 1) if shares.early else None
    if part is not None and not _saves(part, whole):
        part = None
    limits = parse(knobs.campaign.limits) if knobs.campaign.limits else ()
    plan = SearchPlan(
        names=[one.tunable.name for one in tuned],
        values=[list(one.values) for one in tuned],
        base=base,
        settings=knobs.scheduler.settings,
        goal=knobs.campaign.goal,
        second=second_of(knobs.campaign.goal, limits),
        limits=knobs.campaign.limits or "",
        margin=float(knobs.campaign.margin),
        batch=runs_at_once(knobs, EVENT, MOST_TRIALS),
        jobs=shares.searched,
        early_jobs=0 if part is None else next(iter(part.prepared.values())).workload.jobs.height,
        proof=f"{run}-proof",
    )
    # The text of its knobs is that of the search, which makes other runs.
    proof = _of(replace(knobs, texts=None), shares.proof, knobs.campaign.replicas or REPLICAS)
    return Search(plan, whole.of_size(1, run), part, proof).begun().run(screen)


def _of(knobs: Knobs, values: Mapping[str, Value], replicas: int) -> Campaign:
    """A campaign of the base alone, on other jobs."""
    knobs = knobs.with_values({**values, "REPLICAS": replicas, "CONFIGS": ""})
    return Campaign.of(knobs, EVENT, {"base": {"SETTINGS": knobs.scheduler.settings}})


def _saves(part: Campaign, whole: Campaign) -> bool:
    """Whether it saves time to run the first part of the jobs on its own."""
    return (part.takes() or 0.0) <= EARLY_SAVES * (whole.takes() or 0.0)
