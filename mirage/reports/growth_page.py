"""The section of a comparison's page about machines with more nodes (the member `growth` of comparison.json)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mirage.reports.page import Part, Section, Table
from mirage.text.words import duration, number, percent, three_digits


def section(growth: Mapping[str, Any]) -> Section:
    """What more nodes bring, by machine and by class of nodes, and why new nodes were idle."""
    machines = growth["machines"]
    words = (
        f"Waits are those of the {number(growth['common_jobs'])} jobs that started in all runs. Use, backlog and idle "
        "nodes are over the time in which jobs were submitted. The backlog is the processor hours of the jobs that waited."
    )
    points = [sentence for one in machines for sentence in one["words"]]
    parts = [Part("", points=points, is_wide=True)] if points else []
    parts.append(Part(words, table=_machines(machines), is_wide=True))
    if any(one["cost"] is not None for one in machines):
        parts.append(Part("", table=_prices(machines), is_wide=True))
    parts += [Part("", table=_classes(one), is_wide=True) for one in machines]
    if (causes := _causes(machines)).rows:
        parts.append(Part("", table=causes, is_wide=True))
    return Section("More nodes", parts)


def _machines(machines: list[Mapping[str, Any]]) -> Table:
    rows = [
        (
            one["label"],
            number(one["nodes"]),
            number(one["processors"]),
            percent(one["utilisation"]),
            number(one["jobs"]),
            duration(one["wait_mean"]),
            duration(one["wait_p95"]),
            _hours(one["backlog"]),
            _hours(one["backlog_at_end"]),
        )
        for one in machines
    ]
    headings = (
        "machine", "nodes", "processors", "processors used", "jobs", "mean wait", "95 % wait less than", "mean backlog",
        "backlog at the last submission",
    )  # fmt: skip
    return Table("Machines", headings, rows)


def _prices(machines: list[Mapping[str, Any]]) -> Table:
    rows = [
        (
            one["label"],
            "-" if one["cost"] is None else number(round(one["cost"])),
            "-" if one["hours_avoided"] is None else number(round(one["hours_avoided"], 1)),
            "-" if one["cost_of_an_hour"] is None else three_digits(one["cost_of_an_hour"]),
        )
        for one in machines
        if one["grow"]
    ]
    headings = ("machine", "cost of the new nodes", "hours of waiting avoided", "cost of an hour")
    return Table("Cost while jobs were submitted", headings, rows)


def _classes(machine: Mapping[str, Any]) -> Table:
    rows = [
        (
            f"{one['names']}{' (new)' if one['new'] else ''}",
            number(one["nodes"]),
            ", ".join(filter(None, (f"{one['processors']} CPUs", one["gpus"] and f"GPUs {one['gpus']}", *one["features"]))),
            ", ".join(one["partitions"]) or "-",
            number(one["jobs"]),
            duration(one["wait_mean"]),
            _hours(one["backlog"]),
            percent(one["utilisation"]),
            percent(one["gpu_utilisation"]),
            percent(one["idle"]),
        )
        for one in machine["classes"]
    ]
    headings = (
        "nodes", "number", "each", "partitions", "jobs that may use them", "their mean wait", "their backlog", "processors used",
        "GPUs used", "nodes idle",
    )  # fmt: skip
    return Table(f"Classes of nodes of {machine['label']}", headings, rows, prose=(2, 3))


def _causes(machines: list[Mapping[str, Any]]) -> Table:
    rows = [
        (f"{one['label']}: {of_class['names']}", percent(cause["share"]), cause["words"], cause["reason"] or "-")
        for one in machines
        for of_class in one["classes"]
        for cause in of_class["idle_causes"]
    ]
    headings = ("new nodes", "share of their time", "why they were idle", "the manager's word")
    return Table("Why new nodes were idle", headings, rows, prose=(2,))


def _hours(value: float | None) -> str:
    return "-" if value is None else f"{number(round(value, 1))} h"
