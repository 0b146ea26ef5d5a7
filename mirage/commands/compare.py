"""`make compare`: runs the same workload under several configurations, several times each, and compares the metrics."""

from __future__ import annotations

from collections.abc import Mapping

from mirage.campaign import releases
from mirage.campaign.arms import Arms, check_speed, grown_machines, names_of
from mirage.campaign.campaign import Campaign
from mirage.campaign.conclusion import conclude, members_of
from mirage.campaign.parts import labels
from mirage.campaign.rehearsal import Rehearsal, again
from mirage.campaign.releases import Build
from mirage.experiment import aspects, clock_choice, managers, preflight, runs
from mirage.experiment import growth as of_growth
from mirage.experiment.endings import Ending
from mirage.experiment.run_events import name_of
from mirage.knobs.knobs import Knobs
from mirage.knobs.parse import SLURM
from mirage.records.run_folder import RunFolder
from mirage.site import growth
from mirage.terminal.screen import Screen
from slurm_mirage.base.errors import WrongUse


def compare(knobs: Knobs, screen: Screen) -> Ending:
    """Check everything, run what is not finished, and compare.

    Without CONFIGS the finished campaign RUN is compared again, from the records of its runs.
    """
    knobs, arms = aspects.arms(knobs) or _of_calendars(knobs)
    builds = _of_releases(knobs, arms)
    knobs, arms = _of_growth(knobs, arms, screen)
    if builds:
        arms = releases.arms(builds)
    managers.check(knobs, several=True)
    if not (knobs.campaign.configs or arms or len(knobs.scheduler.managers) > 1):
        return _again(knobs, screen)
    for arm in (arms or {"": {}}).values():
        for name in names_of(knobs):
            aspects.check(knobs.with_values({"CONFIG": name, **arm}))
    speed = clock_choice.chosen(knobs, screen)
    check_speed(knobs, speed)
    campaign = Campaign.of(knobs, speed, arms)
    now, *machines = campaign.prepared.items()
    if any(one.knobs.scheduler.grow for _, one in machines):
        own = [(label, of_growth.in_words(one.workload, now[1].workload)) for label, one in machines]
        screen.say(*(f"{label}: {line}" for label, lines in own for line in lines))
    return Rehearsal(campaign, builds).run(screen) if builds else campaign.run(screen)


def _of_calendars(knobs: Knobs) -> tuple[Knobs, Arms | None]:
    """The knobs of the campaign, and the arms if EVENTS has several values: these files, with one configuration. Otherwise None."""
    values = knobs.events.calendars
    if len(values) < 2:
        return knobs, None
    if knobs.campaign.configs:
        raise WrongUse("CONFIGS is compared already; it may be the path of one file", "events", knobs.events.files)
    names = labels([name_of(value) for value in values])
    return knobs.with_values({"EVENTS": values[0]}), {name: {"EVENTS": value} for name, value in zip(names, values, strict=True)}


def _of_growth(knobs: Knobs, arms: Arms | None, screen: Screen) -> tuple[Knobs, Arms | None]:
    """The knobs of the campaign, and the arms if GROW names machines: these, with one configuration."""
    if not knobs.scheduler.grow:
        return knobs, arms
    others = {
        "CONFIGS": knobs.campaign.configs != "",
        "SLURMS": knobs.campaign.slurms != "",
        "several FILLER or EVENTS": arms is not None,
        "several RM": len(knobs.scheduler.managers) > 1,
        "SIZES=scale": knobs.jobs.sizes == "scale",
    }
    if given := [name for name, is_given in others.items() if is_given]:
        what = f"machines are compared with the same jobs under one configuration; leave out {given[0]}"
        raise WrongUse(what, growth.PARAMETER, knobs.scheduler.grow)
    now = knobs.with_values({"GROW": ""})
    managers.check(knobs)
    own, lines = grown_machines(knobs)
    screen.say(*lines)
    return now, own


def _of_releases(knobs: Knobs, arms: Arms | None) -> Mapping[str, Build]:
    """The releases of Slurm that are compared, by label, with one configuration; none without SLURMS."""
    text = knobs.campaign.slurms
    if not text:
        return {}
    others = {
        "CONFIGS": knobs.campaign.configs != "",
        "several FILLER or EVENTS": arms is not None,
        "SLURM_SOURCE": knobs.scheduler.slurm_source is not None,
        "RM": knobs.scheduler.rm != SLURM,
    }
    if given := [name for name, is_given in others.items() if is_given]:
        raise WrongUse(f"releases are compared under one configuration of Slurm; leave out {given[0]}", releases.PARAMETER, text)
    return releases.by_label(releases.read(text, is_here=preflight.is_here(knobs.cluster)))


def _again(knobs: Knobs, screen: Screen) -> Ending:
    folder = runs.RESULTS / (knobs.output.run or "")
    content = RunFolder(folder).experiment if knobs.output.run else {}
    if "comparison" not in content:
        raise WrongUse(
            "nothing is given; it may be two names or more of files in configs/, without .yml: fifo backfill", parameter="configs"
        )
    members = members_of(content)
    unfinished = [one.folder for one in members if (end := Ending.load(folder / one.folder)) is None or not end.is_final]
    if unfinished:
        raise WrongUse(
            f"results/{folder.name} is not finished ({unfinished[0]} is not); give all knobs that it was begun with",
            parameter="configs",
        )
    ending = conclude(folder, members, screen, float(knobs.campaign.margin))
    return again(folder, ending, screen)
