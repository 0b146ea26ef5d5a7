"""Limits of a gate: what is read, and what an interval says of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from campaigns import run_of, with_errors
from hypothesis import given
from hypothesis import strategies as st

from mirage.metrics.registry import METRICS
from mirage.statistics import limits
from mirage.statistics.bootstrap import Floats
from mirage.statistics.comparison import claims_on_these_jobs, compare
from mirage.statistics.inference import Chance
from mirage.statistics.limits import BROKEN, DEFAULT, HOLDS, LOOKS, UNDECIDED, Answer, Limit, answer, level_of, parse

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
    found = limits.all_of([Answer(Limit("wait_mean", 5, True), verdict, 1, 1) for verdict in verdicts])
    assert (found == HOLDS) == (bool(verdicts) and set(verdicts) == {HOLDS})
    assert (found == BROKEN) == (BROKEN in verdicts)


def test_all_looks_together_spend_no_more_than_the_error() -> None:
    spent = [1 - level_of(look) for look in range(len(LOOKS))]
    assert spent == sorted(spent, reverse=True) and math.fsum(spent) <= limits.ERROR


def decided(limit: Limit, before: Floats, after: Floats, reach: float) -> str:
    """The verdict on replicas that are looked at as a gate does."""
    for look, number in enumerate(LOOKS):
        chance = Chance([before[:number], after[:number]], None, math.nan, (0.0, 0.0), (reach, reach))
        interval = limits.interval_of(chance, in_percent=limit.in_percent, level=level_of(look))
        if interval is not None and (verdict := limit.judge(interval)) != UNDECIDED:
            return verdict
    return UNDECIDED


def test_a_change_at_its_limit_passes_seldom() -> None:
    """At most 2.5 % are allowed at either end; 4.5 % of 300 is that by chance in one of a hundred cases."""
    random, limit = np.random.default_rng(1), Limit("wait_mean", 10, True)
    verdicts = [decided(limit, random.normal(100, 5, 50), random.normal(110, 5, 50), 10.0) for _ in range(300)]
    assert verdicts.count(HOLDS) <= 0.045 * 300 and verdicts.count(BROKEN) <= 0.045 * 300


def test_a_change_far_from_its_limit_is_decided() -> None:
    random, limit = np.random.default_rng(2), Limit("wait_mean", 10, True)
    for mean, expected in ((100, HOLDS), (125, BROKEN)):
        verdicts = [decided(limit, random.normal(100, 3, 50), random.normal(mean, 3, 50), 6.0) for _ in range(40)]
        assert set(verdicts) == {expected}


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
    return claims_on_these_jobs(runs, 1, METRICS)


@pytest.mark.parametrize(("after", "verdict"), [(1.0, HOLDS), (0.5, HOLDS), (1.5, BROKEN), (1.05, UNDECIDED)])
@pytest.mark.parametrize("text", ["wait_mean:+5%", "wait_mean:+300s"])
def test_a_change_within_a_limit_holds_it(after: float, verdict: str, text: str) -> None:
    (limit,) = parse(text)
    found = answer(limit, claims(after)[limit.metric], 0)
    assert (found.verdict, found.by_replicas) == (verdict, verdict == UNDECIDED)
    assert found.interval is not None and found.change is not None and found.interval[0] < found.change < found.interval[1]
    assert bool(found.why) == (verdict == UNDECIDED)


def test_it_is_not_said_to_hold_where_it_is_not_known_how_far_runs_differ() -> None:
    (limit,) = parse("wait_mean:+50%")
    found = answer(limit, claims(1.0, error=None)["wait_mean"], 0)
    assert (found.verdict, found.by_replicas) == (UNDECIDED, True) and "12 replicas" in found.why
    assert answer(limit, claims(1.0, error=None, replicas=12)["wait_mean"], LOOKS.index(12)).verdict == HOLDS
    assert answer(limit, claims(3.0, error=None)["wait_mean"], 0).verdict == BROKEN


def test_per_cent_of_nothing_are_nothing() -> None:
    (limit,) = parse("suspended_mean:+5%")
    same = answer(limit, claims(1.0)[limit.metric], 0)
    assert (same.verdict, same.change, same.interval) == (HOLDS, None, None)


def test_claims_are_those_of_the_comparison() -> None:
    random = np.random.default_rng(5)
    base = random.lognormal(7, 1, 100)
    runs = [run_of(label, k, base * random.uniform(0.9, 1.1)) for k in (1, 2, 3) for label in ("before", "after")]
    content, found = compare(runs, 1), claims_on_these_jobs(runs, 1, METRICS)
    assert list(found) == list(METRICS)
    for name, claim in found.items():
        pair = content["metrics"][name]["pairs"][0]
        assert pair["mean"] == (None if claim.pair["mean"] is None else float(f"{claim.pair['mean']:.10g}"))
        if (shown := pair["these_jobs"]["percent_interval"]) is not None and claim.chance is not None:
            assert limits.interval_of(claim.chance, in_percent=True, level=0.95) == pytest.approx(shown)
