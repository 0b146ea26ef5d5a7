"""Events on a run's page: bands, marks and absences on the pictures, and the table."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from mirage.occupancy.machine import Machine
from mirage.reports import run_events
from mirage.reports.timeline import ACROSS, Panel, Timeline
from mirage.terminal.summary import events_line
from slurm_mirage.rm.evidence import Layout

FRAME = Timeline(0.0, 1000.0)
EVENT = {"instant": 0.0, "source": "a.csv:1", "outcome": "done", "words": "", "jobs": 0, "executions": 0, "processor_hours": 0.0}
VALUES = {
    "utilisation": 0.45,
    "absent_fraction": 0.1,
    "utilisation_available": 0.5,
    "loss_of_capacity_available": 0.1,
    "maintenance_idle": 0.0123,
}
MEMBER: dict[str, Any] = {
    "counts": {"done": 2, "refused": 1},
    "halted_by_events": 6.0,
    "lost": {"failure of a node": {"executions": 2, "processor_hours": 15.34}},
    "absences": [{"number": 0, "action": "fail", "nodes": "n[1-2,4]", "begin": 100.0, "end": None}],
    "reservations": [
        {"number": 1, "name": "week", "announced": 0.0, "begin": 500.0, "end": 600.0, "nodes": "n[1-4]", "is_maintenance": True}
    ],
    "events": [
        {**EVENT, "number": 0, "action": "fail", "target": "n[1-2,4]", "played": 100.0, "jobs": 2, "processor_hours": 15.34},
        {**EVENT, "number": 1, "action": "kill-controller", "target": "", "played": 250.0},
        {
            **EVENT,
            "number": 2,
            "action": "resume",
            "target": "n3",
            "played": None,
            "outcome": "refused",
            "words": "Invalid <state>",
        },
    ],
}


def run(member: dict[str, Any] | None) -> Any:
    metrics = {} if member is None else {"events": member}
    return SimpleNamespace(metrics=metrics, machine=Machine(Layout.of_equal(8, 4)), window=None, values=VALUES)


def test_events_are_drawn_on_every_picture_and_absences_on_that_of_the_nodes() -> None:
    panels = [Panel("busy", "", "", "<path/>", []), None, Panel("nodes", "", "", "", [])]
    busy, nodes = run_events.marked(run(MEMBER), FRAME, panels)
    assert busy.body.startswith("<path/>") and busy.body.count("<rect") == 1 and busy.body.count("<line") == 1
    assert f'x="{ACROSS / 2:.6g}"' in busy.body and f'x1="{ACROSS / 4:.6g}"' in busy.body
    assert "reservation week of n[1-4]" in busy.body and "kill-controller" in busy.body
    # n1 and n2 are neighbours, n4 is apart; without a return until the end of the picture.
    assert nodes.body.count("<rect") == 3
    assert 'y="0" width="9000" height="500"' in nodes.body and 'y="750" width="9000" height="250"' in nodes.body


def test_a_run_without_events_has_neither() -> None:
    panel = Panel("nodes", "", "", "", [])
    assert run_events.marked(run(None), FRAME, [panel, None]) == [panel]
    assert run_events.section(run(None)) is None


def test_the_table_says_what_each_event_caused() -> None:
    section = run_events.section(run(MEMBER))
    assert section is not None
    events, lost = section.parts
    assert events.words.startswith("3 events: 2 done, 1 refused. 10.0 % of the machine's processor time was out of service.")
    assert "Of the rest 50.0 % was used" in events.words and "For 1.2 % of the machine's processor time" in events.words
    assert events.table is not None and lost.table is not None
    assert [row[-2:] for row in events.table.rows] == [("2", "15.3"), ("-", "-"), ("-", "-")]
    assert events.table.rows[2][4] == "refused: Invalid <state>"
    assert lost.table.rows == [("failure of a node", "2", "15.3")]


def test_the_line_at_the_end_of_a_run() -> None:
    line = "3 events: 2 done, 1 refused; 2 executions of jobs lost (15.3 processor hours)"
    assert events_line(MEMBER) == line
