"""Limits of a gate: what is read, and what an interval says of them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from campaigns import run_of, with_errors
from hypothesis import given
from hypothesis import strategies as st

from mirage.metrics.registry import METRICS
from mirage.statistics import limits
from mirage.statistics.comparison import claims_on_these_jobs, compare
from mirage.statistics.limits import (
    BROKEN,
    DEFAULT,
    HOLDS,
    LOOKS,
    PASSES_FROM,
    UNDECIDED,
    Answer,
    Limit,
    Pairs,
    answer,
    parse,
    without_change,
)

KNOWN = [name for name, metric in METRICS.items() if metric.better != "neither"]
AMOUNTS = st.floats(-1e6, 1e6).map(lambda value: float(f"{value:.3f}") + 0.0)
LIMITS = st.builds(Limit, st.sampled_from(KNOWN), AMOUNTS, st.booleans())


def is_possible(limit: Limit) -> bool:
    """Whether a metric can change by so much."""
    return limit.change >= -100 if limit.in_percent else not METRICS[limit.metric].is_share or abs(limit.change) <= 1


ENDS = st.floats(-1e7, 1e7)
INTERVALS = st.tuples(ENDS, ENDS).map(sorted).map(lambda ends: (ends[0], ends[1]))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("wait_p95:+10%", [Limit("wait_p95", 10, True)]),
        ("wait_p95:+10% utilisation:-1%", [Limit("wait_p95", 10, True), Limit("utilisation", -1, True)]),
        (" wait_mean:+60s,wait_mean:+1min ", [Limit("wait_mean", 60, False)]),
        ("wait_mean:+1h30min wait_max:+90", [Limit("wait_mean", 5400, False), Limit("wait_max", 90, False)]),
        ("utilisation:-0.01", [Limit("utilisation", -0.01, False)]),
        ("wait_mean:-5%", [Limit("wait_mean", -5, True)]),
        ("wait_mean:-100% utilisation:+300%", [Limit("wait_mean", -100, True), Limit("utilisation", 300, True)]),
        ("utilisation:-1", [Limit("utilisation", -1, False)]),
        ("wait_mean:-0%", [Limit("wait_mean", 0, True)]),
    ],
)
def test_limits_are_read(text: str, expected: list[Limit]) -> None:
    assert list(parse(text)) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "NAME:"),
        ("wait_mean", "NAME:"),
        ("wait_mean:5%", "NAME:"),
        ("wait_mean:+", "NAME:"),
        ("wait_mean: +5%", "NAME:"),
        ("wait:+5%", "NAME is one of wait_mean, wait_median, "),
        ("absent_fraction:+5%", "NAME is one of wait_mean, "),
        ("wait_mean:+five", "an amount of wait_mean is a time in seconds, or such as 90min"),
        ("wait_mean:+-5", "'-5' is none"),
        ("wait_mean:+5s%", "'5s%' is none"),
        ("utilisation:-1min", "an amount of utilisation is a number, and '1min' is none"),
        ("wait_mean:+nan%", "'nan%' is none"),
        ("wait_mean:-150%", "wait_mean:-150% is beyond -100 %, at which wait_mean is 0"),
        ("utilisation:-100.5%", "utilisation:-100.5% is beyond -100 %"),
        ("utilisation:-5", "utilisation:-5 is beyond 1, as utilisation is a share; per cent have a %"),
        ("wait_p95:+5% wait_p95:+50%", "wait_p95:+5% and wait_p95:+50% are two limits of one metric"),
        ("wait_p95:+5% wait_mean:+5% wait_p95:+60s", "wait_p95:+5% and wait_p95:+60s are two limits of one metric"),
    ],
)
def test_what_is_no_limit_is_refused_in_one_line(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+\Z") as refusal:
        parse(text)
    assert words in str(refusal.value)


def test_the_default_is_of_main_metrics() -> None:
    assert all(METRICS[one.metric].is_main and abs(one.change) == 5 and one.in_percent for one in parse(DEFAULT))


@given(st.lists(LIMITS.filter(is_possible), min_size=1, unique_by=lambda limit: limit.metric))
def test_limits_are_read_as_they_are_written(of: list[Limit]) -> None:
    assert list(parse(" ".join(map(str, [*of, *of])))) == of


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse(text)
    except ValueError as error:
        assert "\n" not in str(error) or "\n" in text


@given(LIMITS, INTERVALS)
def test_an_interval_holds_a_limit_or_breaks_it_or_contains_it(limit: Limit, interval: tuple[float, float]) -> None:
    verdict, (low, high) = limit.judge(interval), interval
    if limit.higher_is_better:
        assert verdict == (HOLDS if low >= limit.change else BROKEN if high < limit.change else UNDECIDED)
    else:
        assert verdict == (HOLDS if high <= limit.change else BROKEN if low > limit.change else UNDECIDED)


@given(LIMITS, INTERVALS, st.floats(0, 1), st.floats(0, 1))
def test_a_narrower_interval_takes_no_decision_back(limit: Limit, interval: tuple[float, float], one: float, other: float) -> None:
    low, high = interval
    inner = sorted(min(max(low + share * (high - low), low), high) for share in (one, other))
    if (verdict := limit.judge(interval)) != UNDECIDED:
        assert limit.judge((inner[0], inner[1])) == verdict


@given(LIMITS, INTERVALS, st.floats(0, 1e6))
def test_a_better_interval_is_not_judged_worse(limit: Limit, interval: tuple[float, float], better: float) -> None:
    shift = better if limit.higher_is_better else -better
    order = (BROKEN, UNDECIDED, HOLDS)
    moved = limit.judge((interval[0] + shift, interval[1] + shift))
    assert order.index(moved) >= order.index(limit.judge(interval))


@given(st.lists(st.sampled_from([HOLDS, BROKEN, UNDECIDED])))
def test_a_gate_passes_only_if_each_limit_holds(verdicts: list[str]) -> None:
    found = limits.all_of([Answer(Limit("wait_mean", 5, True), verdict, 3, 1, 1) for verdict in verdicts])
    assert (found == HOLDS) == (bool(verdicts) and set(verdicts) == {HOLDS})
    assert (found == BROKEN) == (BROKEN in verdicts)


@given(st.sampled_from(KNOWN), st.floats(-90, 90), st.booleans(), st.lists(st.floats(1, 100), min_size=8, max_size=50))
def test_the_interval_contains_the_change_and_decides_the_limit(
    name: str, change: float, in_percent: bool, values: list[float]
) -> None:
    before = np.array(values)
    after, limit = before[::-1] * 1.1, Limit(name, change, in_percent)
    verdict, (low, high) = Pairs(before, after, (0.1, 0.1)).judge(limit, 1)
    found = (after.mean() - before.mean()) * (100 / before.mean() if in_percent else 1)
    assert low <= found <= high
    if len(values) >= PASSES_FROM:
        assert verdict == limit.judge((low, high))
    else:
        assert verdict != HOLDS


def test_better_is_the_other_way_round_where_higher_is_better() -> None:
    random = np.random.default_rng(3)
    before, after = random.normal(100, 5, 40), random.normal(90, 5, 40)
    lower = Pairs(before, after).judge(Limit("wait_mean", -5, True), 3)
    higher = Pairs(-before, -after).judge(Limit("utilisation", 5, True), 3)
    assert lower[0] == higher[0] == HOLDS
    assert lower[1] == pytest.approx((-higher[1][1], -higher[1][0]))


@cache
def claims(after: float, noise: float = 0.01, replicas: int = 3, error: float | None = 0.02, **change: Any) -> dict[str, Any]:
    """Claims on two configurations, the second of which has waits that are `after` times as long."""
    random = np.random.default_rng(5)
    base = 3600 * random.lognormal(0, 1, 300)
    runs = [
        with_errors(
            run_of(label, replica, base * factor * random.uniform(1 - noise, 1 + noise), **change), emulation=0.001, replicas=error
        )
        for replica in range(1, replicas + 1)
        for label, factor in (("before", 1.0), ("after", after))
    ]
    return claims_on_these_jobs(runs, METRICS)


@pytest.mark.parametrize(("after", "verdict"), [(1.0, HOLDS), (0.5, HOLDS), (1.5, BROKEN), (1.05, UNDECIDED)])
@pytest.mark.parametrize("text", ["wait_mean:+5%", "wait_mean:+300s"])
def test_a_change_within_a_limit_holds_it(after: float, verdict: str, text: str) -> None:
    (limit,) = parse(text)
    found = answer(limit, claims(after, replicas=PASSES_FROM)[limit.metric], LOOKS.index(PASSES_FROM))
    assert (found.verdict, found.by_replicas) == (verdict, verdict == UNDECIDED)
    assert found.interval is not None and found.change is not None and found.interval[0] < found.change < found.interval[1]
    assert bool(found.why) == (verdict == UNDECIDED)


@pytest.mark.parametrize(("after", "expected"), [(0.5, UNDECIDED), (1.5, BROKEN)])
def test_fewer_pairs_break_a_limit_but_do_not_hold_it(after: float, expected: str) -> None:
    (limit,), look = parse("wait_mean:+5%"), LOOKS.index(10)
    found = answer(limit, claims(after, replicas=10)["wait_mean"], look)
    assert found.verdict == expected and (found.why == "about 40 replicas of each decide it") == (after < 1)
    assert answer(limit, claims(after, replicas=10)["wait_mean"], look, 9).verdict == UNDECIDED, "each has its share of the error"


def test_equal_schedules_hold_limits_from_as_many_pairs_on() -> None:
    none, better, found = *parse("wait_mean:+0%"), *parse("wait_mean:-5%"), {}
    for number in (20, PASSES_FROM):
        for limit in (none, better):
            one = claims(1.0, noise=0.0, replicas=number)["wait_mean"]
            found[limit, number] = without_change(answer(limit, one, LOOKS.index(number)))
    assert [found[none, number].verdict for number in (20, PASSES_FROM)] == [UNDECIDED, HOLDS]
    assert "20 are alike" in found[none, 20].why and found[none, 20].by_replicas
    assert found[none, PASSES_FROM].interval == (0.0, 0.0)
    assert {found[better, number].verdict for number in (20, PASSES_FROM)} == {BROKEN}


def test_per_cent_of_nothing_are_nothing() -> None:
    (limit,) = parse("suspended_mean:+5%")
    same = answer(limit, claims(1.0, replicas=PASSES_FROM)[limit.metric], LOOKS.index(PASSES_FROM))
    assert (same.verdict, same.change, same.interval) == (HOLDS, None, None)


def test_claims_are_those_of_the_comparison() -> None:
    random = np.random.default_rng(5)
    base = random.lognormal(7, 1, 100)
    runs = [run_of(label, k, base * random.uniform(0.9, 1.1)) for k in (1, 2, 3) for label in ("before", "after")]
    content, found = compare(runs), claims_on_these_jobs(runs, METRICS)
    assert list(found) == list(METRICS)
    for name, claim in found.items():
        pair = content["metrics"][name]["pairs"][0]
        assert pair["mean"] == (None if claim.pair["mean"] is None else float(f"{claim.pair['mean']:.10g}"))
        if (shown := pair["these_jobs"]["percent_interval"]) is not None and claim.chance is not None:
            assert (estimate := claim.chance.relative()) is not None and estimate.percent() == pytest.approx(shown)
