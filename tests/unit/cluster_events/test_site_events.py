"""mirage.cluster_events.site_events: outages and reservations of a site's week as events of a run."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from captures import BEGIN, COLUMNS, EVENT_COLUMNS, JOBS, RESERVATION_COLUMNS, capture, table
from hypothesis import given, settings
from hypothesis import strategies as st

from mirage.cluster_events import checks, site_events
from mirage.cluster_events.planned import PlannedEvent, as_csv
from mirage.experiment.prepare import Prepared, source
from mirage.knobs import resolve
from mirage.site.archive import opened
from slurm_mirage.base import hostlist
from slurm_mirage.base.errors import WrongUse

NODES = ("c1", "c2", "c3", "c4", "g1", "g2")
HAVE = {name: site_events.resources(32, "gpu:a100:4") if name[0] == "g" else site_events.resources(16, "") for name in NODES}
RENAMED = {f"c0{number}": f"c{number}" for number in range(1, 5)}
LAST = 86400.0


def event(node: str, begin: Any, end: Any, state: str, reason: str = "t_1", number: int | str = "") -> tuple[Any, ...]:
    times = [BEGIN + one if isinstance(one, int) else one for one in (begin, end)]
    return ("s_1", "Node", "", node, *times, state, number, "root", reason)


def reservation(name: str, begin: int, end: int, nodes: str, flags: str = "", tres: str = "") -> tuple[Any, ...]:
    return ("s_1", name, 1, tres, BEGIN + begin, BEGIN + end, 0, flags, nodes, "4")


def read(folder: Path, **parts: str) -> site_events.SiteEvents:
    names = {"events": "sacctmgr/event.txt", "reservations": "sacctmgr/reservation.txt", "jobs": "sacct/20261031T230000Z.txt"}
    changes: dict[str, str | None] = {names[part]: text for part, text in parts.items()}
    return site_events.of(opened(capture(folder, changes)), HAVE, RENAMED, float(BEGIN), LAST)


def planned(found: site_events.SiteEvents) -> list[PlannedEvent]:
    return checks.expanded(found.lines, checks.World(NODES, {"cpu", "gpu"}, {1}, LAST, renamed=RENAMED))


def test_nodes_leave_and_return_as_at_the_site(tmp_path: Path) -> None:
    rows = [
        ("s_1", "Cluster", "c[01-04]", "", BEGIN - 999, "Unknown", "", "", "", "Cluster Registered TRES"),
        event("c01", -3600, 600, "DOWN*"),  # drained at the start, whatever its state
        event("c02", 60, 120, "DRAIN"),
        event("c03", 60, 120, "IDLE+DRAIN", number=514),
        event("c04", 100, 200, "DRAINED"),
        event("c04", 200, 300, "DOWN+DRAIN"),
        event("g1", 50, "Unknown", "DRAIN", number=513),  # down as well
        event("g2", -500, -100, "DOWN"),
        event("g2", 10, 20, "IDLE+POWERED_DOWN"),
        event("f1", 10, 20, "DOWN"),
    ]
    found = read(tmp_path, events=table(EVENT_COLUMNS, *rows))
    assert [(e.instant, e.action, e.target, e.source) for e in planned(found)] == [
        (0.0, "drain", "c1", "SITE"), (50.0, "down", "g1", "SITE"), (60.0, "drain", "c[2-3]", "SITE"),
        (100.0, "drain", "c4", "SITE"), (120.0, "resume", "c[2-3]", "SITE"), (200.0, "down", "c4", "SITE"),
        (300.0, "resume", "c4", "SITE"), (600.0, "resume", "c1", "SITE"),
    ]  # fmt: skip
    assert found.taken == {"outages of nodes": 6}
    assert found.left_out == {"outages of nodes: another state": 1, "outages of nodes: nodes that the cluster does not have": 1}


def test_without_events_the_states_that_scontrol_showed(tmp_path: Path) -> None:
    nodes = (
        "NodeName=c01 CPUTot=16 State=DOWN*+DRAIN Weight=1\nNodeName=c02 State=IDLE Weight=1\nNodeName=f1 State=DOWN Weight=1\n"
        "NodeName=c03 State=IDLE+DRAIN+NEW_FLAG Weight=1 Reason=a b\n"
    )
    path = capture(tmp_path, {"sacctmgr/event.txt": None, "scontrol/node.txt": nodes})
    found = site_events.of(opened(path), HAVE, RENAMED, float(BEGIN), LAST)
    assert [(e.instant, e.action, e.target) for e in planned(found)] == [(0.0, "drain", "c[1,3]")]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("NodeName=c02 Arch=x86_64 Cor", r"node\.txt:2: is torn: it has no State, or ends there"),
        ("NodeName=c02 Arch=x86_64 State=DOW", r"node\.txt:2: is torn: it has no State, or ends there"),
        ("NodeName=c02 State=DOW Weight=1", r"node\.txt:2: State 'DOW' is none of a node"),
        ("NodeName=c02", r"node\.txt:2: is torn: it has no NodeName, or ends there"),
        ("State=IDLE Weight=1", r"node\.txt:2: 'State=IDLE Weight=1' does not begin with NodeName="),
        ("\x01garbage", r"node\.txt:2: '\\x01garbage' does not begin with NodeName="),
        ("", r"node\.txt:2: '' does not begin with NodeName="),
    ],
)
def test_a_torn_line_of_a_node_is_no_node_in_service(tmp_path: Path, line: str, words: str) -> None:
    nodes = f"NodeName=c01 State=IDLE Weight=1\n{line}\nNodeName=c03 State=IDLE Weight=1\n"
    path = capture(tmp_path, {"sacctmgr/event.txt": None, "scontrol/node.txt": nodes})
    with pytest.raises(WrongUse, match=words):
        site_events.of(opened(path), HAVE, RENAMED, float(BEGIN), LAST)


def test_reservations_are_made_at_the_start(tmp_path: Path) -> None:
    rows = [
        reservation("r_1", -7200, 3600, "c[01-02]", "MAINT,IGNORE_JOBS,SPEC_NODES"),
        reservation("r_2", 7200, 10800, "g1", "DAILY"),
        reservation("r_2", 9000, 9030, "g2"),  # shorter than a minute
        reservation("r_2", 20000, 23600, "g1", "DAILY"),
        reservation("r_3", 7300, 7400, "g1"),  # at the same time as r_2
        reservation("r_4", 100, 200, "f[1-2]"),
        reservation("r_5", 100, 900, "c03"),
    ]
    index = COLUMNS.index("JobIDRaw")
    jobs = [(*job[:index], "r_5", *job[index:]) for job in JOBS]
    columns = (*COLUMNS[:index], "Reservation", *COLUMNS[index:])
    found = read(tmp_path, reservations=table(RESERVATION_COLUMNS, *rows), jobs=table(columns, *jobs))
    assert [(e.instant, e.target, e.argument) for e in planned(found)] == [
        (0.0, "r_1", "StartTime=0 Duration=3600 Nodes=c[1-2] Flags=MAINT,IGNORE_JOBS Users=root"),
        (0.0, "r_2", "StartTime=7200 Duration=3600 Nodes=g1 Flags=IGNORE_JOBS Users=root"),
        (0.0, "r_2-2", "StartTime=20000 Duration=3600 Nodes=g1 Flags=IGNORE_JOBS Users=root"),
    ]
    assert found.taken["reservations"] == 3 and found.left_out == {
        "reservations: at the same time as others": 1,
        "reservations: without nodes of the cluster": 1,
        "reservations: jobs of the log used them, and run without here": 1,
    }


@pytest.mark.parametrize(
    ("nodes", "tres", "is_whole"),
    [
        ("c[01-02]", "cpu=32", True), ("c[01-02]", "cpu=4", False), ("c[01-02]", "cpu=31", False), ("c[01-02]", "", True),
        ("c[01-02],f[1-9]", "cpu=176", True), ("c[01-02]", "cpu=1K", True), ("c01", "license/matlab=2", True),
        ("c01", "license/matlab=2,cpu=4", False), ("g1", "gres/gpu=2", False), ("g1", "gres/gpu=4", False), ("g1", "cpu=32", True),
        ("g1", "cpu=32,gres/gpu=4", True), ("g1", "cpu=32,gres/gpu=2", False), ("g1", "cpu=32,gres/gpu:a100=4", True),
        ("g1", "cpu=32,gres/gpu=2,gres/gpu:a100=2", False), ("g[1-2]", "cpu=64,gres/gpu=8,gres/gpu:a100=8", True),
    ],
)  # fmt: skip
def test_a_reservation_of_some_cpus_or_gpus_of_its_nodes_is_left_out(tmp_path: Path, nodes: str, tres: str, is_whole: bool) -> None:
    found = read(tmp_path, reservations=table(RESERVATION_COLUMNS, reservation("r_1", 100, 900, nodes, tres=tres)))
    assert len(planned(found)) == found.taken["reservations"] == is_whole
    assert found.left_out == ({} if is_whole else {"reservations: of some CPUs or GRES of their nodes": 1})


def test_a_reservation_that_moves_with_the_time_is_left_out(tmp_path: Path) -> None:
    rows = [reservation("r_1", 100, 900, "c01", "TIME_FLOAT,SPEC_NODES"), reservation("r_2", 100, 900, "c01", "SPEC_NODES")]
    found = read(tmp_path, reservations=table(RESERVATION_COLUMNS, *rows))
    assert [one.target for one in planned(found)] == ["r_2"]
    assert found.left_out == {"reservations: that move with the time (TIME_FLOAT)": 1}


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([event("c01", "x", 5, "DOWN")], r"event\.txt:2: TimeStart 'x' is no number of seconds"),
        ([event("c01", 5, "2026-11-01", "DOWN")], r"event\.txt:2: TimeEnd '2026-11-01' is no number"),
        ([event("c01", 5, 6, "DOWN"), event("c[", 5, 6, "DOWN")], r"event\.txt:3: "),
        ([event("c01", 5, 6, "DOWN")[1:]], r"event\.txt:2: has 9 fields, the heading has 10"),
    ],
)
def test_wrong_events(tmp_path: Path, rows: list[tuple[Any, ...]], words: str) -> None:
    with pytest.raises(WrongUse, match=words):
        read(tmp_path, events=table(EVENT_COLUMNS, *rows))


def test_the_events_of_a_run_count_from_its_first_submission(tmp_path: Path) -> None:
    rows = [event("c01", 3600, 7200, "DRAIN")]
    given = {"SITE": str(capture(tmp_path, {"sacctmgr/event.txt": table(EVENT_COLUMNS, *rows)})), "SPEED": "event"}
    for more, instants in (({}, [3600.0, 7200.0]), ({"PRESET": "none"}, [3540.0, 7140.0])):
        knobs = resolve.resolve({resolve.GIVEN: " ".join([*given, *more]), **given, **more}, "experiment")
        trace = source(knobs.workload, knobs.nodes.machine).trace
        events = Prepared.make(knobs, trace, knobs.jobs.shrinks[0]).events
        assert [(one.instant, one.source) for one in events] == [(instant, "SITE") for instant in [0.0, *instants]]
        assert (events[0].action, events[0].target, events[0].argument) == ("set", "partition gpu", "QOS=gpus AllowAccounts=a_1")
        assert "drain,c1,t_1,SITE" in as_csv(events)


OUTAGES = st.lists(
    st.tuples(st.sampled_from(["c01", "c02", "g1"]), st.integers(-50, 300), st.integers(1, 90), st.sampled_from(["DOWN", "DRAIN"])),
    max_size=8,
)


@settings(max_examples=50, deadline=None)
@given(outages=OUTAGES)
def test_a_node_is_out_of_service_exactly_when_it_was(tmp_path_factory: pytest.TempPathFactory, outages: list[Any]) -> None:
    rows = [event(node, begin, begin + length, state) for node, begin, length, state in outages]
    events = planned(read(tmp_path_factory.mktemp("e"), events=table(EVENT_COLUMNS, *rows)))
    out: dict[str, float] = {}
    spans: dict[str, list[tuple[float, float]]] = {}
    for one in events:
        for node in hostlist.expand(one.target):
            if one.action == "resume":
                spans.setdefault(node, []).append((out.pop(node), one.instant))
            else:
                out.setdefault(node, one.instant)
    assert not out
    for node in ("c01", "c02", "g1"):
        here = RENAMED.get(node, node)
        for second in range(-1, 400):
            instant = second + 0.5
            was = instant > 0 and any(n == node and begin < instant < begin + length for n, begin, length, _ in outages)
            assert was == any(begin < instant < end for begin, end in spans.get(here, []))
    assert all(0 <= one.instant < math.inf for one in events)
