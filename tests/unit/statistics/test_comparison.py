"""Comparisons of schedules whose differences are known."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from campaigns import NODES, campaign, run_of, with_errors
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_runs import in_run, verdict

from mirage.metrics import metrics
from mirage.metrics.formulas import Mean, MeanByNodes, Quantile, RatioOfSums
from mirage.statistics.comparison import Run, compare
from mirage.statistics.comparison_text import OTHER_JOBS, QUESTIONS, THESE_JOBS, Finding, judged, sentence, words, words_of_others
from mirage.statistics.sums_over_jobs import FOR_OTHER_JOBS, quantiles
from slurm_mirage.base.errors import WrongUse

OVER_JOBS = {name for name, one in metrics.METRICS.items() if isinstance(one.formula, (Mean, MeanByNodes, Quantile, RatioOfSums))}


def pair(content: dict[str, Any], name: str = "wait_mean", question: str = OTHER_JOBS) -> dict[str, Any]:
    """The pair of a metric, with the answer to one question."""
    (only,) = content["metrics"][name]["pairs"]
    return {**only, **only[question]}


def test_means_are_those_of_the_metrics() -> None:
    """The sums over jobs are another computation of what metrics.py computes."""
    runtimes = np.random.default_rng(3).choice([0.0, 0.5, 1.0, 7.0, 1000.0, 99_999.0], 1000)
    runs = [run_of(label, 1, one.jobs["start"].to_numpy() - one.jobs["submit"].to_numpy(), runtimes=runtimes)
            for label, one in zip("ab", campaign(1, 1000, replicas=1), strict=True)]  # fmt: skip
    content = compare(runs)
    for name in OVER_JOBS:
        for run, member in zip(runs, ("baseline_mean", "mean"), strict=True):
            assert pair(content, name)[member] == pytest.approx(run.metrics["metrics"][name], rel=1e-9), name
    # Schedule-wide: a single run of each tells no chance.
    assert pair(content, "utilisation")["interval"] is None
    assert [pair(content, "utilisation", question)["verdict"] for question in QUESTIONS] == ["undecided", "unknown"]


def test_classes_are_those_of_the_metrics() -> None:
    runs = campaign(2, replicas=1)
    content = compare(runs)
    told = {(row["size"], row["runtime"]): row for row in runs[0].metrics["classes"]}
    assert len(content["classes"]) == len(told) - 1, "all but the class of all jobs"
    for row in content["classes"]:
        expected = told[row["size"], row["runtime"]]
        assert {name: row[name] for name in ("jobs", "size_max", "runtime_max")} == {
            name: expected[name] for name in ("jobs", "size_max", "runtime_max")
        }
        for name in ("wait_mean", "bounded_slowdown_mean"):
            assert row["metrics"][name]["pairs"][0]["baseline_mean"] == pytest.approx(expected[name])
            assert row["metrics"][name]["pairs"][0][OTHER_JOBS]["interval"] is None


def test_a_known_difference_is_told() -> None:
    content = compare(campaign(3, count=300, replicas=3, is_queue=False))
    found = pair(content)
    assert found["verdict"] == "lower" and found["percent_interval"][0] < -20 < found["percent_interval"][1]
    assert found["interval"][0] < found["difference"] < found["interval"][1] < 0
    assert found["p"] <= found["p_corrected"] < 0.05
    told = content["metrics"]["wait_mean"]["pairs"][0]["words"]
    assert told.startswith(f"{-found['percent']:.0f} % shorter mean wait for these jobs (") and found["cycles"] > 40
    assert told.endswith(f" %); for others like them {found['words']}")
    waits = content["metrics"]["wait_mean"]["configurations"]
    a, b = (waits[label]["replicas"] for label in "ab")
    assert found["difference"] == pytest.approx(np.mean(b) - np.mean(a))
    gaps = [abs(x - y) for some in (a, b) for k, x in enumerate(some) for y in some[:k]]
    assert found["noise_floor"]["largest"] == pytest.approx(max(gaps))
    assert found["noise_floor"]["rms"] == pytest.approx(math.sqrt(np.mean(np.square(gaps))))
    known = {name for name in metrics.METRICS if pair(content, name)["interval"] is not None}
    assert known == set(FOR_OTHER_JOBS) - {"immediate_fraction"}, "no job starts at once"
    for name in [name for group in quantiles() for name in group]:
        assert -35 < pair(content, name)["percent"] < -10


def test_the_same_runs_twice_do_not_differ() -> None:
    runs = campaign(4, labels=("a",), replicas=2)
    again = [Run("b", run.replica, f"b-{run.replica}", run.jobs, run.metrics) for run in runs]
    content = compare([*runs, *again])
    for name in metrics.METRICS:
        for question in QUESTIONS:
            found = pair(content, name, question)
            assert found["difference"] == 0 and found["verdict"] in ("equivalent", "undecided", "unknown"), name
            assert found["interval"] is None or found["interval"][0] <= 0 <= found["interval"][1]
    told = pair(content, "suspended_mean", THESE_JOBS)["words"]
    assert told == "undecided: the same mean time suspended, but nothing tells its chance"
    known = compare([with_errors(run, replicas=0.001) for run in (*runs, *again)])
    assert pair(known, "utilisation", THESE_JOBS)["verdict"] == "equivalent"
    one = compare([runs[0], again[0]])
    verdicts = {pair(one, name, THESE_JOBS)["verdict"] for name in metrics.METRICS}
    assert verdicts == {"undecided"}, "one run of each tells nothing of the noise"


def test_one_replica_of_each_claims_nothing() -> None:
    for seed in range(3):
        content = compare(campaign(seed, count=300, replicas=1, gain=0.9, is_queue=False))
        assert pair(content)["percent_interval"][1] < -50
        for question in QUESTIONS:
            assert (pair(content, question=question)["verdict"], pair(content, question=question)["p"]) == ("undecided", None)
        told = content["metrics"]["wait_mean"]["pairs"][0]["words"]
        assert told.endswith(" % shorter mean wait, but one replica tells nothing of the noise")


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 3), st.sampled_from([None, 0.0, 0.2]), st.sampled_from(list(QUESTIONS)))
def test_swapped_configurations_swap_the_sign(seed: int, replicas: int, reach: float | None, question: str) -> None:
    """reach: share of each metric by which replicas may differ"""
    runs = campaign(seed, replicas=replicas)
    if reach is not None:
        runs = [with_errors(run, replicas=reach) for run in runs]
    swapped = [run for label in "ba" for run in runs if run.label == label]
    one, other = (compare(some) for some in (runs, swapped))
    for name in metrics.METRICS:
        ahead, back = pair(one, name, question), pair(other, name, question)
        assert ahead["difference"] == pytest.approx(-back["difference"])
        assert (ahead["noise_floor"] is None) == (replicas == 1)
        if ahead["interval"] is not None:
            assert ahead["interval"] == pytest.approx([-back["interval"][1], -back["interval"][0]], abs=1e-9)
            # A share of jobs may be 0 in a resample: its percentages are then those of the difference, which are not symmetric.
            has_ratio = name != "immediate_fraction" and ahead["mean"] > 0
            if ahead["percent_interval"] is not None and back["percent_interval"] is not None and has_ratio:
                low, high = (1 + bound / 100 for bound in back["percent_interval"])
                assert [1 + bound / 100 for bound in ahead["percent_interval"]] == pytest.approx([1 / high, 1 / low])


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000))
def test_the_order_of_rows_and_runs_does_not_matter(seed: int) -> None:
    runs = campaign(seed)
    shuffled = [Run(run.label, run.replica, run.folder, run.jobs.sample(fraction=1, shuffle=True, seed=seed), run.metrics)
                for run in (runs[0], *reversed(runs[1:]))]  # fmt: skip
    assert json.dumps(compare(runs)) == json.dumps(compare(shuffled))


def test_a_metric_that_a_run_lacks_has_its_reason() -> None:
    runs = campaign(6)
    without = runs[2].metrics | {"metrics": runs[2].metrics["metrics"] | {"W3": None}, "null_reasons": {"W3": "nobody knows"}}
    runs[2] = Run("a", 2, "a-2", runs[2].jobs, without)
    found = compare(runs)["metrics"]["W3"]
    assert found["null_reasons"] == {"a-2": "nobody knows"}
    assert found["configurations"]["a"]["mean"] is None and found["configurations"]["b"]["mean"] is not None
    assert found["pairs"][0]["difference"] is None
    assert found["pairs"][0][THESE_JOBS]["verdict"] == found["pairs"][0][OTHER_JOBS]["verdict"] == "unknown"
    assert found["pairs"][0]["words"] == "not known: nobody knows (a-2)"
    never = [run_of(label, 1, np.ones(9), suspended=None) for label in "ab"]
    assert compare(never)["metrics"]["suspended_mean"]["pairs"][0]["words"] == (
        "not known: the schedule does not record suspensions (a-1)"
    )


def test_only_jobs_that_all_runs_have_are_compared() -> None:
    runs = campaign(7)
    runs[1] = run_of("b", 1, np.full(60, 5.0), start=[None, *(60.0 * np.arange(1, 60) + 5)], state=["CANCELLED"] * 60)
    assert compare(runs)["jobs"] == {"compared": 59, "left_out": 1}
    nobody = run_of("b", 1, np.ones(60), start=[None] * 60)
    with pytest.raises(WrongUse, match="no job in common"):
        compare([runs[0], nobody])


def test_other_machines_are_not_compared() -> None:
    runs = campaign(8, replicas=1)
    runs[1] = Run("b", 1, "b-1", runs[1].jobs, runs[1].metrics | {"settings": {**runs[1].metrics["settings"], "nodes": 5}})
    with pytest.raises(WrongUse, match="b-1 was measured on another machine"):
        compare(runs)


def test_few_jobs() -> None:
    for count in (1, 2, 4):
        found = pair(compare(campaign(9, count=count)))
        assert math.isfinite(found["difference"])


@pytest.mark.parametrize(("labels", "pairs"), [("ab", 1), ("abc", 3), ("abcd", 6), ("abcde", 4)])
def test_pairs(labels: str, pairs: int) -> None:
    content = compare(campaign(1, count=20, labels=tuple(labels)))
    found = content["metrics"]["wait_mean"]["pairs"]
    assert len(found) == pairs and [one["configuration"] for one in found[: len(labels) - 1]] == list(labels[1:])
    assert content["baseline"] == found[0]["baseline"] == "a"


def test_invalid_runs_are_told() -> None:
    runs = campaign(1)
    runs[3] = Run("b", 2, "b-2", runs[3].jobs, {**runs[3].metrics, "validity": verdict("invalid", "late")})
    assert compare(runs)["validity"] == {
        "valid": False, "invalid": {"b-2": ["late"]}, "inconclusive": {},
    }  # fmt: skip


def test_too_few_cycles_of_the_queue_tell_nothing_of_other_jobs() -> None:
    """Jobs that wait in one queue are one cycle of it."""
    content = compare(campaign(3, count=300, replicas=3))
    found = pair(content)
    assert (found["verdict"], found["interval"], found["p"], found["cycles"]) == ("unknown", None, None, 1)
    assert found["words"] == "not known: these jobs only: 1 independent cycle of the queue, 40 are needed for others"
    assert pair(content, "wait_median")["words"] == "not known: intervals of this metric for other jobs were not shown to hold"


SURE = Finding(-12, (-15, -9), -12, (-15, -9), (-14, -10), p=0.01)
NOTHING = "not known: nothing tells its chance"


@pytest.mark.parametrize(
    ("found", "code", "told", "of_others"),
    [
        (SURE, "lower", "12 % shorter mean wait for these jobs (9.0 to 15 %)", "9.0 to 15 %"),
        (
            Finding(1, (0.5, 2), 110, (50, 200), (60, 190), p=0.05),
            "higher",
            "110 % longer mean wait for these jobs (50 to 200 %)",
            "50 to 200 %",
        ),
        (
            Finding(1, (-4, 5), 0.4, (-1.6, 2.4), (-1.2, 2), p=0.7),
            "equivalent",
            "equivalent within 5 % for these jobs: 0.4 % longer (1.2 % shorter to 2.0 % longer)",
            "equivalent (1.2 % shorter to 2.0 % longer)",
        ),
        (
            Finding(0, (-1, 1), 0, (-1, 1), (-0.5, 0.5), margin=2.5, p=1.0),
            "equivalent",
            "equivalent within 2.5 % for these jobs: the same (0.5 % shorter to 0.5 % longer)",
            "equivalent (0.5 % shorter to 0.5 % longer)",
        ),
        (
            Finding(-5, (-12, 3), -5, (-12, 3), (-10, 1), p=1.0, remedy="more would"),
            "undecided",
            "undecided for these jobs: 5.0 % shorter mean wait (12 % shorter to 3.0 % longer); more would",
            "12 % shorter to 3.0 % longer, not certain: more would",
        ),
        (
            replace(SURE, p=0.0612),
            "undecided",
            "undecided for these jobs: 12 % shorter mean wait (9.0 to 15 %), p is 0.061",
            "9.0 to 15 %, not certain",
        ),
        (
            replace(SURE, hindrance="nobody knows", p=None),
            "undecided",
            "undecided: 12 % shorter mean wait, but nobody knows",
            "not known: nobody knows",
        ),
        (Finding(-5, None, -5), "undecided", "undecided: 5.0 % shorter mean wait, but nothing tells its chance", NOTHING),
        (Finding(20, (10, 30), p=0.001), "higher", "20 s longer mean wait for these jobs (10 to 30 s)", "10 to 30 s"),
        (Finding(unknown="no jobs"), "unknown", "not known: no jobs", "not known: no jobs"),
    ],
)
def test_words(found: Finding, code: str, told: str, of_others: str) -> None:
    assert (found.code, words("wait_mean", found), words_of_others("wait_mean", found)) == (code, told, of_others)


def test_both_answers_are_one_sentence() -> None:
    pair: dict[str, dict[str, Any]] = {
        THESE_JOBS: {"words": "83 % shorter mean wait for these jobs (82 to 84 %)"},
        OTHER_JOBS: {"words": "15 to 97 %", "p": 0.07},
    }
    assert sentence(pair) == "83 % shorter mean wait for these jobs (82 to 84 %); for others like them 15 to 97 %"
    pair[OTHER_JOBS] = {"words": "not known: nobody knows", "p": None}
    assert sentence(pair) == "83 % shorter mean wait for these jobs (82 to 84 %)"
    pair[OTHER_JOBS]["words"] = "not known: these jobs only: 1 independent cycle"
    pair[THESE_JOBS]["p"] = 0.01
    assert sentence(pair) == "83 % shorter mean wait for these jobs (82 to 84 %)"
    assert (
        sentence(pair, is_answer=True) == "83 % shorter mean wait for these jobs (82 to 84 %); these jobs only: 1 independent cycle"
    )


def test_every_metric_has_words() -> None:
    for name in metrics.METRICS:
        assert words(name, SURE).startswith("12 % ")


def test_changes_of_size_are_compared() -> None:
    """Half of the jobs of b shrink to one processor in the middle of their run: only metrics weighted by processors differ."""
    runs = [run_of("a", 1, 5000.0 + np.arange(60))]
    jobs, none = runs[0].jobs, pl.DataFrame(schema=metrics.SUSPENSIONS_SCHEMA)
    middle = (pl.col("start") + pl.col("end")) / 2
    shrunk = jobs.filter(pl.col("id") % 2 == 0).select(
        pl.col("id").alias("job"), middle.alias("from"), pl.lit(1, pl.Int64).alias("nodes"), pl.lit(1, pl.Int64).alias("processors")
    )
    found = in_run(metrics.compute(jobs, NODES, NODES, suspensions=none, allocations=shrunk))
    b = replace(runs[0], label="b", folder="b-1", metrics=found, suspensions=none, allocations=shrunk)
    content = compare([runs[0], b])
    different = {name for name in OVER_JOBS if pair(content, name)["difference"] != 0}
    assert different == {"weighted_slowdown", "weighted_slowdown_processors", "pp_bounded_slowdown_mean"}
    for name in different:
        assert pair(content, name)["mean"] == pytest.approx(found["metrics"][name], rel=1e-9)


@pytest.mark.parametrize(
    ("code", "better", "word"),
    [
        ("lower", "lower", "better"),
        ("lower", "higher", "worse"),
        ("higher", "higher", "better"),
        ("higher", "neither", "higher"),
        ("equivalent", "lower", "equivalent"),
        ("undecided", "lower", "undecided"),
        ("unknown", "lower", "unknown"),
    ],
)
def test_a_verdict_is_judged_by_the_direction_of_the_metric(code: str, better: str, word: str) -> None:
    assert judged(code, better) == word
