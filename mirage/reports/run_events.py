"""Draws the events of a run as bands and marks on the pictures over time, and lists what each of them caused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from html import escape
from typing import Any

from mirage.reports.page import Part, Section, Table
from mirage.reports.run_data import Run
from mirage.reports.theme import PURPLE, RED
from mirage.reports.timeline import ACROSS, DOWN, Panel, Timeline, moment
from mirage.text.words import duration, number, percent
from mirage.verdict.events import forgotten_words, outcome_words
from slurm_mirage.base import hostlist
from slurm_mirage.jobs import cluster_events as actions

TITLE = "Events"
NODES = "nodes"
"""Name of the picture of the nodes, in which an absence is a rectangle at its nodes."""
_WITHOUT_MARK = (*actions.NODE_ACTIONS, actions.RESERVE, actions.RELEASE)
"""Actions that are drawn as a time, and not as a moment."""
_NARROWEST = ACROSS / 1500
"""Width of a band that would be too narrow to be seen."""


def marked(run: Run, frame: Timeline, panels: Iterable[Panel | None]) -> list[Panel]:
    """The pictures with the events of the run: reservations as bands, absences at their nodes, moments as lines."""
    member = run.metrics.get("events")
    drawn = [panel for panel in panels if panel is not None]
    if not member:
        return drawn
    common = [*_bands(member, frame), *_marks(member, frame)]
    absences = list(_absences(run, member, frame))
    notes = "Coloured bands are reservations, dashed lines other events."
    return [
        replace(
            panel,
            body=panel.body + "".join([*common, *(absences if panel.name == NODES else [])]),
            notes=" ".join(
                words
                for words in (panel.notes, notes, "Framed rectangles are nodes out of service." if panel.name == NODES else "")
                if words
            ),
        )
        for panel in drawn
    ]


def _rectangle(left: float, right: float, top: float, height: float, style: str, title: str) -> str:
    width = max(right - left, _NARROWEST)
    return (
        f'<g class="event"><title>{escape(title)}</title><rect x="{left:.6g}" y="{top:.5g}" width="{width:.6g}" '
        f'height="{height:.5g}" {style}/></g>'
    )


def _bands(member: Mapping[str, Any], frame: Timeline) -> Iterable[str]:
    for one in member["reservations"]:
        left, right = frame.x([one["begin"], one["end"]])
        if one["begin"] < frame.end:
            title = f"reservation {one['name']} of {one['nodes'] or 'nodes that Slurm chose'}"
            yield _rectangle(left, right, 0, DOWN, f'fill="{PURPLE}" fill-opacity="0.15"', title)


def _marks(member: Mapping[str, Any], frame: Timeline) -> Iterable[str]:
    for one in member["events"]:
        if one["played"] is None or one["action"] in _WITHOUT_MARK:
            continue
        across = float(frame.x(one["played"]))
        title = escape(f"{one['action']} {one['target']}".strip())
        yield (
            f'<g class="event"><title>{title}</title><line x1="{across:.6g}" x2="{across:.6g}" y1="0" y2="{DOWN}" stroke="{RED}" '
            'stroke-width="1.5" stroke-dasharray="4 3" vector-effect="non-scaling-stroke"/></g>'
        )


def _absences(run: Run, member: Mapping[str, Any], frame: Timeline) -> Iterable[str]:
    """A rectangle for each range of neighbouring nodes of an absence."""
    places = run.machine.places
    height = DOWN / max(1, len(places))
    for one in member["absences"]:
        left, right = frame.x([one["begin"], frame.end if one["end"] is None else one["end"]])
        known = sorted(places[name] for name in hostlist.expand(one["nodes"]) if name in places)
        groups: list[list[int]] = []
        for place in known:
            if groups and place == groups[-1][-1] + 1:
                groups[-1].append(place)
            else:
                groups.append([place])
        for group in groups:
            style = f'fill="{RED}" fill-opacity="0.25" stroke="{RED}" stroke-width="1" vector-effect="non-scaling-stroke"'
            yield _rectangle(left, right, group[0] * height, len(group) * height, style, f"{one['action']} {one['nodes']}")


def section(run: Run) -> Section | None:
    """The table of the events; None for a run without any."""
    member = run.metrics.get("events")
    if not member:
        return None
    parts = [Part(_words(run, member), table=_table(run, member), is_wide=True)]
    if member["lost"]:
        rows = [
            (cause, number(of_cause["executions"]), number(round(of_cause["processor_hours"], 2)))
            for cause, of_cause in member["lost"].items()
        ]
        parts.append(Part("", table=Table("Work that was lost, by cause", ("cause", "executions", "processor hours"), rows)))
    return Section(TITLE, parts)


def _words(run: Run, member: Mapping[str, Any]) -> str:
    sentences = [f"{outcome_words(member['counts'])}{forgotten_words(member)}."]
    values = run.values
    if absent := values.get("absent_fraction"):
        sentences.append(
            f"{percent(absent)} of the machine's processor time was out of service. Of the rest "
            f"{percent(values.get('utilisation_available'))} was used (utilisation of the whole machine: "
            f"{percent(values.get('utilisation'))}), and "
            f"{percent(values.get('loss_of_capacity_available'))} was idle although waiting jobs asked for as many processors."
        )
    if any(one["is_maintenance"] for one in member["reservations"]) and (idle := values.get("maintenance_idle")) is not None:
        sentences.append(
            f"For {percent(idle)} of the machine's processor time nodes were empty before a maintenance window while jobs waited."
        )
    if member["halted_by_events"]:
        sentences.append(f"No controller started jobs for {duration(member['halted_by_events'])} after events that ended it.")
    return " ".join(sentences)


def _table(run: Run, member: Mapping[str, Any]) -> Table:
    begin = 0.0 if run.window is None else run.window.begin
    rows = [
        (
            moment(one["instant"] - begin),
            one["action"],
            one["target"] or "-",
            one["source"],
            one["outcome"] + (f": {one['words']}" if one["words"] else ""),
            number(one["jobs"]) if one["jobs"] else "-",
            number(round(one["processor_hours"], 2)) if one["processor_hours"] else "-",
        )
        for one in member["events"]
    ]
    headings = ("after", "action", "target", "from", "outcome", "jobs ended", "processor hours lost")
    return Table("Events, and what they caused", headings, rows, prose=(1, 2, 3, 4))
