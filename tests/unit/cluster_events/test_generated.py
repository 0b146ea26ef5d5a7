"""Generated failures and maintenance windows."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from datetime import datetime, timedelta
from statistics import mean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.cluster_events.checks import World
from mirage.cluster_events.generated import Failures, Maintenance, absences
from mirage.cluster_events.planned import PlannedEvent, words_of

YEAR = 365.25 * 86400
NODES = [f"n{number}" for number in range(1, 1001)]


def world(*nodes: str) -> World:
    return World(nodes, set(), set(), last=1e9)


@pytest.mark.parametrize("shape", [0.7, 1.0, 2.0])
def test_number_and_spacing_of_failures_over_a_thousand_node_years(shape: float) -> None:
    """In a year each of 1,000 nodes fails YEAR / (mtbf + repair) times in the mean, from the first day on, and the times between a
    return and the next failure have the Weibull distribution's mean and coefficient of variation."""
    failures = Failures(mtbf=30 * 86400, repair=4 * 3600, shape=shape)
    events = failures.events(NODES, YEAR, seed=1, replica=1)
    begins = [event.instant for event in events if event.action == "fail"]
    expected = 1000 * YEAR / (failures.mtbf + failures.repair)
    gamma = [math.gamma(1 + k / shape) for k in (1, 2)]
    variation = math.sqrt(gamma[1] / gamma[0] ** 2 - 1)
    # The variance of the number of renewals is about the mean times the squared coefficient of variation; 4 standard errors.
    assert abs(len(begins) - expected) < 4 * max(variation, 0.5) * math.sqrt(expected)
    first_month = sum(begin < 30 * 86400 for begin in begins)
    assert abs(first_month - expected / 12.175) < 5 * math.sqrt(expected / 12.175), "the process does not begin with new nodes"
    # As many node-years of fewer nodes: of a year the long gaps are cut off.
    gaps = [
        begin - end
        for number in range(20)
        for of_node in [list(failures.of_node(np.random.default_rng(number), 50 * YEAR))]
        for (_, end), (begin, _) in itertools.pairwise(of_node)
    ]
    assert mean(gaps) == pytest.approx(failures.mtbf, rel=4 * variation / math.sqrt(len(gaps)))
    assert np.std(gaps) / mean(gaps) == pytest.approx(variation, rel=0.15)
    repairs = [back.instant - out.instant for out, back in zip(events[::2], events[1::2], strict=True)]
    assert mean(repairs) == pytest.approx(failures.repair, rel=4 / math.sqrt(len(repairs)))


def test_failures_are_those_of_seed_and_replica_whatever_other_nodes_there_are() -> None:
    failures = Failures(86400, 3600, 0.7)
    some = failures.events(NODES[:5], 10 * 86400, seed=3, replica=2)
    assert some == [event for event in failures.events(NODES[:9], 10 * 86400, 3, 2) if event.target in NODES[:5]]
    assert some != failures.events(NODES[:5], 10 * 86400, seed=4, replica=2)
    assert some != failures.events(NODES[:5], 10 * 86400, seed=3, replica=1)


@pytest.mark.parametrize(
    "text", ["", "mtbf=30d", "mtbf=30d repair=x", "mtbf=0 repair=1h", "mtbf=1d repair=1h shape=0", "mtbf=1d repair=1h a=1"]
)
def test_wrong_failures(text: str) -> None:
    with pytest.raises(ValueError):
        Failures.parse(text)


def test_failures_are_parsed() -> None:
    assert Failures.parse("mtbf=30d repair=4h shape=0.7") == Failures(2592000, 14400, 0.7)
    assert Failures.parse("repair=30min mtbf=1d12h") == Failures(129600, 1800, 1.0)


def test_weekly_windows_follow_the_calendar_of_the_log() -> None:
    maintenance = Maintenance.parse("weekly tue 08:00 6h all announced=1d")
    # The run begins on a Wednesday at 09:30: the next Tuesday 08:00 is 5 days 22 h 30 min later.
    start = datetime(2026, 11, 25, 9, 30)
    begins = maintenance.windows(15 * 86400, start)
    assert begins == [5 * 86400 + 22.5 * 3600, 12 * 86400 + 22.5 * 3600]
    first, _ = maintenance.events(world("n1", "n2"), 15 * 86400, start)
    assert (first.instant, first.action, first.target) == (begins[0] - 86400, "reserve", "maintenance-1")
    words = {"StartTime": "513000", "Duration": "21600", "Nodes": "ALL", "Flags": "MAINT,IGNORE_JOBS", "Users": "root"}
    assert words_of(first.argument) == words


def test_without_a_calendar_a_run_begins_on_monday() -> None:
    assert Maintenance.parse("weekly tue 08:00 6h all").windows(7 * 86400, None) == [32 * 3600]
    assert Maintenance.parse("daily 02:00 30min n1").windows(2 * 86400, None) == [7200, 93600]
    assert Maintenance.parse("once 3d 6h all").windows(2 * 86400, None) == []


@given(st.integers(0, 6), st.integers(0, 23), st.datetimes(datetime(2000, 1, 1), datetime(2030, 1, 1)), st.floats(0, 3e6))
def test_every_window_is_at_its_day_and_hour(day: int, hour: int, start: datetime, until: float) -> None:
    names = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
    begins = Maintenance.parse(f"weekly {names[day]} {hour}:00 6h all").windows(until, start)
    for begin in begins:
        assert 0 <= begin < until
        monday = start - timedelta(days=start.weekday(), hours=start.hour, minutes=start.minute, seconds=start.second)
        since = (start - monday).total_seconds() + start.microsecond / 1e6 + begin - (24 * day + hour) * 3600
        assert abs(since / 604800 - round(since / 604800)) < 1e-8
    assert len(begins) in (int(until // 604800), int(until // 604800) + 1)


@pytest.mark.parametrize(
    "text", ["", "weekly", "weekly x 08:00 6h all", "daily 25:00 1h all", "daily 02:00 25h all", "once 3d 6h", "hourly 1 1 1"]
)
def test_wrong_maintenance(text: str) -> None:
    with pytest.raises(ValueError):
        Maintenance.parse(text)


def test_a_window_of_unknown_nodes() -> None:
    with pytest.raises(ValueError, match="there is no node n9"):
        Maintenance.parse("once 1d 1h n9").events(world("n1"), 1e6, None)


def test_nodes_of_a_window_are_named_as_in_events() -> None:
    named = Maintenance.parse("once 1d 1h head,n[01-02]").events(
        replace(world("n1", "n2", "n3"), renamed={"head": "n3"}), 1e6, None
    )
    assert words_of(named[0].argument)["Nodes"] == "n[1-3]"


def test_a_node_that_the_user_lets_fail_does_not_fail_meanwhile() -> None:
    """The first of two returns would end both failures."""
    failures = Failures(86400, 7200)
    alone = failures.events(NODES[:3], 10 * 86400, seed=1, replica=1)
    first, end = [event for event in alone if event.target == "n2"][:2]
    user = [
        PlannedEvent(first.instant - 60, "not-responding", "n[2-3]", "", "a.csv:1"),
        PlannedEvent(first.instant + 0.5, "responding", "n[2-3]", "", "a.csv:1"),
    ]
    beside = failures.events(NODES[:3], 10 * 86400, 1, 1, user)
    assert {first, end} <= set(alone) - set(beside)
    for event in set(alone) - set(beside):
        assert event.target in ("n2", "n3")
    for node, spans in absences(sorted([*beside, *user], key=lambda event: event.instant)).items():
        assert all(one[1] < other[0] for one, other in itertools.pairwise(sorted(spans))), node
