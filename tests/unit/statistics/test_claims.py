"""What a comparison must not claim, and what its claims are corrected for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from campaigns import APART, campaign, correlated, run_of, with_errors
from simulated_runs import verdict

from mirage.metrics import metrics
from mirage.metrics.registry import METRICS
from mirage.statistics.comparison import Run, compare
from mirage.statistics.comparison_text import DIFFERENT, OTHER_JOBS, QUESTIONS, THESE_JOBS
from mirage.statistics.inference import MANY_REPLICAS
from mirage.statistics.sums_over_jobs import FOR_OTHER_JOBS


def pairs(content: dict[str, Any], question: str = OTHER_JOBS) -> list[tuple[str, dict[str, Any]]]:
    """All pairs of the table, of metrics and of metrics of classes of jobs, with the answer to one question."""
    tables = [content["metrics"], *(row["metrics"] for row in content["classes"])]
    found = [(name, pair) for table in tables for name, metric in table.items() for pair in metric["pairs"]]
    return [(name, {**pair, **pair[question]}) for name, pair in found]


def of(content: dict[str, Any], name: str, question: str = OTHER_JOBS) -> dict[str, Any]:
    """The pair of a metric, with the answer to one question."""
    pair: dict[str, Any] = content["metrics"][name]["pairs"][0]
    return {**pair, **pair[question]}


def changed(runs: Sequence[Run], folder: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> list[Run]:
    """The runs, with other members in the metrics.json of one of them."""
    return [replace(run, metrics={**run.metrics, **change(dict(run.metrics))}) if run.folder == folder else run for run in runs]


def test_false_claims_in_whole_tables() -> None:
    """Two configurations under which each job waits for longer or for less by chance: no metric differs for other jobs. 5 % of 40
    campaigns, by chance up to 15 %."""
    wrong = 0
    for seed in range(40):
        random = np.random.default_rng(seed)
        base = random.lognormal(5, 0.5, 300)
        factors = {label: np.exp(0.4 * correlated(random, 300, 0.6)) for label in "ab"}
        runs = [
            run_of(label, k, base * factors[label] * random.uniform(0.9, 1.1, 300), gap=APART) for k in (1, 2, 3) for label in "ab"
        ]
        content = compare(runs)
        assert content["method"]["compared"][OTHER_JOBS] == len(FOR_OTHER_JOBS) - 2, "W is wait_mean, and no job starts at once"
        wrong += any(pair["verdict"] in DIFFERENT for _, pair in pairs(content))
    assert wrong <= 6


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_family_of_a_question_counts_each_hypothesis_once(question: str) -> None:
    content = compare(campaign(3, count=300, replicas=3, is_queue=False))
    tested = [(name, pair) for name, pair in pairs(content, question) if pair["p"] is not None]
    twice = [name for name, _ in tested if METRICS[name].same_as]
    # A class that is all jobs of its size, or of its run time, is the same as that row; so is a row of all jobs as the whole.
    jobs = {(row["size"], row["runtime"]): row["jobs"] for row in content["classes"]}
    cells = {key: count for key, count in jobs.items() if "all" not in key}
    alone = [key for key in jobs if "all" in key and (len(within(key, cells)) == 1 or jobs[key] == 300)]
    assert content["method"]["compared"][question] == len(tested) - len(twice) - 2 * len(alone)
    for member in ("p_corrected", "verdict"):
        assert of(content, "W", question)[member] == of(content, "wait_mean", question)[member]
    for _, pair in tested:
        assert pair["p"] <= pair["p_corrected"] <= 1
    # Half of the 5 % is for the answer.
    assert of(content, "wait_mean", question)["p_corrected"] <= 2.0001 * of(content, "wait_mean", question)["p"]
    assert of(content, "bounded_slowdown_mean", question)["p_corrected"] > 2.5 * of(content, "bounded_slowdown_mean", question)["p"]


def within(row: tuple[str, str], cells: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The classes that a row of all jobs of a size or of a run time consists of."""
    return [cell for cell in cells if all(one in ("all", other) for one, other in zip(row, cell, strict=True))]


def test_a_metric_that_one_run_could_not_resolve_is_undecided() -> None:
    runs = campaign(3, count=300, replicas=3, is_queue=False)
    assert of(compare(runs), "wait_mean")["verdict"] == "lower"
    coarse = {"inconclusive_metrics": {"wait_mean": "Slurm's second is 12 % of it"}}
    content = compare(changed(runs, "b-2", lambda found: {"validity": {**found["validity"], **coarse}}))
    pair = of(content, "wait_mean")
    assert (pair["verdict"], pair["p"], pair["p_corrected"]) == ("undecided", None, None)
    told = content["metrics"]["wait_mean"]["pairs"][0]["words"]
    assert told.endswith(" % shorter mean wait, but Slurm's second is 12 % of it (b-2)")
    assert {pair["verdict"] for name, pair in pairs(content, THESE_JOBS) if name == "wait_mean"} == {"undecided"}, "of classes, too"
    assert of(content, "response_mean")["p"] is not None


def test_waits_that_no_run_resolves_do_not_differ() -> None:
    """No job waited: differences of waits are those of start latencies."""
    random = np.random.default_rng(1)
    runs = [run_of(label, k, random.uniform(0, 0.4, 200) * (1 if label == "a" else 2)) for k in (1, 2, 3) for label in "ab"]
    content = compare([with_errors(run, replicas=0.001) for run in runs])
    for name, pair in pairs(content, THESE_JOBS):
        if METRICS[name].of_only_waits and pair["verdict"] != "unknown":
            assert pair["verdict"] == "undecided" and pair["p"] is None, name
            assert pair["words"].endswith(", but waits below 1 s are not resolved by these runs")
    assert not [name for question in QUESTIONS for name, pair in pairs(content, question) if pair["verdict"] in DIFFERENT]
    assert of(content, "response_mean")["verdict"] == "equivalent"


def test_waits_below_the_threshold_of_immediate_are_compared_where_runs_resolve_them() -> None:
    random = np.random.default_rng(1)
    runs = [run_of(label, k, random.uniform(10, 40, 200) / (1 if label == "a" else 2)) for k in (1, 2, 3) for label in "ab"]

    def verdict_of(floor: float) -> tuple[str, str]:
        settings = {**runs[0].metrics["settings"], "immediate_below": 60.0}
        changes = {"validity": verdict(resolution={"record": 1.0, "floor": floor}), "settings": settings}
        measured = [replace(run, metrics={**run.metrics, **changes}) for run in runs]
        found = of(compare(measured), "wait_mean", THESE_JOBS)
        return found["verdict"], found["words"]

    assert verdict_of(0.8)[0] == "lower"
    code, words = verdict_of(80.0)
    assert code == "undecided" and words.endswith(", but waits below 80 s are not resolved by these runs")


def test_nothing_is_claimed_of_a_run_that_is_not_valid() -> None:
    runs = campaign(3, count=300, replicas=3, is_queue=False)
    bad = verdict("invalid", "the replay halted for 12 s")
    content = compare(changed(runs, "b-2", lambda found: {"validity": bad}))
    assert {pair["verdict"] for question in QUESTIONS for _, pair in pairs(content, question)} <= {"undecided", "unknown"}
    assert content["metrics"]["wait_mean"]["pairs"][0]["words"].endswith(" % shorter mean wait, but b-2 is not valid")
    assert content["method"]["compared"] == {THESE_JOBS: 0, OTHER_JOBS: 0} and content["validity"]["invalid"] == {
        "b-2": bad["reasons"]
    }
    unsure = verdict("inconclusive", "no sample of the nodes")
    content = compare(changed(runs, "b-2", lambda found: {"validity": unsure}))
    assert of(content, "wait_mean")["verdict"] == "lower" and list(content["validity"]["inconclusive"]) == ["b-2"]


def test_a_metric_whose_error_by_the_emulation_is_not_known_is_not_claimed() -> None:
    runs = campaign(3, count=300, replicas=3, gain=0.6)
    claimed = of(compare(runs), "wait_p90", THESE_JOBS)
    assert claimed["verdict"] == "lower" and claimed["emulation"] == 0
    errors = {"errors": {"wait_mean": {"emulation": 0.01, "jobs": None}, "wait_p90": {"emulation": None, "jobs": None}}}
    content = compare([replace(run, metrics={**run.metrics, **errors}) for run in runs])
    assert of(content, "wait_mean", THESE_JOBS)["verdict"] == "lower"
    for name in ("wait_p90", "W3"):
        pair = of(content, name, THESE_JOBS)
        assert (pair["verdict"], pair["p"], pair["emulation"]) == ("undecided", None, None)
        assert pair["words"].endswith("but what the emulation adds to it is not known (a-1)")


def test_a_class_of_jobs_has_its_own_error_by_the_emulation() -> None:
    runs = campaign(3, count=300, replicas=3, gain=0.6)
    errors = {name: {"emulation": 0.01, "jobs": None} for name in METRICS}
    of_classes = {"all": 0.01, "up to 1 min": None, "1 to 10 min": 1e4}

    def told(run: Run) -> Run:
        rows = [
            {**row, "errors": {"wait_mean": {"emulation": of_classes.get(row["runtime"], 0.02)}}} for row in run.metrics["classes"]
        ]
        return replace(run, metrics={**run.metrics, "errors": errors, "classes": rows})

    content = compare([told(run) for run in runs])
    assert of(content, "wait_mean")["emulation"] == pytest.approx(0.02)
    for row in content["classes"]:
        pair = row["metrics"]["wait_mean"]["pairs"][0]
        pair |= pair[THESE_JOBS]
        error = of_classes.get(row["runtime"], 0.02)
        assert pair["emulation"] == (None if error is None else pytest.approx(2 * error))
        if error is None or error > 1:
            assert pair["verdict"] == "undecided"
    verdicts = {row["metrics"]["wait_mean"]["pairs"][0][THESE_JOBS]["verdict"] for row in content["classes"]}
    assert verdicts == {"lower", "undecided"}


def test_metrics_of_waits_are_those_that_other_waits_change() -> None:
    """Other submissions, and starts and ends that remain."""
    runs = [run_of("a", 1, waits) for waits in (np.linspace(2, 5000, 90), np.linspace(900, 20_000, 90))]
    one, other = (run.metrics["metrics"] for run in runs)
    changes = {name for name in metrics.METRICS if one[name] != other[name]}
    of_schedule = {"utilisation", "makespan", "goodput", "wasted_fraction", "useful_utilisation", "total_load"}
    of_schedule.add("utilisation_available")
    of_only_waits = {name for name, metric in METRICS.items() if metric.of_only_waits}
    assert changes >= of_only_waits
    assert changes - of_only_waits - of_schedule <= {"response_mean", "immediate_fraction"}


def test_jobs_that_give_up_do_not_make_a_configuration_better() -> None:
    """A fifth of the jobs of b are cancelled after 50 s: those that would have waited longest."""
    random = np.random.default_rng(1)
    base = random.lognormal(5, 1.3, 200)
    longest = np.argsort(base)[-40:]
    runs = []
    for k in (1, 2, 3):
        waits = base * np.exp(random.normal(0, 0.01, 200))
        gone = np.isin(np.arange(200), longest)
        submit = 60.0 * np.arange(200)
        start = [None if out else value for out, value in zip(gone, submit + waits, strict=True)]
        end = np.where(gone, submit + 50, submit + waits + 100)
        state = ["CANCELLED" if out else "COMPLETED" for out in gone]
        runs += [run_of("a", k, waits, end=submit + waits + 100), run_of("b", k, waits, start=start, end=end, state=state)]
    content = compare(runs)
    assert content["answer"] == "wait_restricted_mean"
    assert runs[1].metrics["metrics"]["wait_mean"] < 0.5 * runs[0].metrics["metrics"]["wait_mean"]
    for name, pair in pairs(content, THESE_JOBS):
        if METRICS[name].of_waits and pair["verdict"] != "unknown":
            assert pair["verdict"] == "undecided" and "never started" in pair["words"], name
    # One horizon for all runs: the longest wait, of which all of them tell what share of the jobs waits for longer.
    a, b = (content["metrics"]["wait_restricted_mean"]["configurations"][label]["mean"] for label in "ab")
    assert a == pytest.approx(np.mean([run.metrics["metrics"]["wait_mean"] for run in runs[::2]]))
    assert runs[1].metrics["metrics"]["wait_mean"] < b < a


def test_a_difference_that_the_emulation_may_have_made_is_not_claimed() -> None:
    runs = campaign(3, count=300, replicas=3, is_queue=False)
    before = compare(runs)
    by = abs(of(before, "wait_mean")["difference"])

    def compared(of_each: float) -> dict[str, Any]:
        errors = {"errors": {"wait_mean": {"emulation": of_each, "jobs": 1.0}, "W1": {"emulation": None, "jobs": None}}}
        return compare([replace(run, metrics={**run.metrics, **errors}) for run in runs])

    few, many = compared(0.01 * by), compared(0.55 * by)
    for question in QUESTIONS:
        small, large, without = (of(content, "wait_mean", question) for content in (few, many, before))
        assert small["verdict"] == "lower" and small["emulation"] == pytest.approx(0.02 * by)
        assert small["interval"][0] < without["interval"][0] and small["interval"][1] > without["interval"][1]
        assert (large["verdict"], large["p"]) == ("undecided", 1)
        assert "replicas cannot decide it: the emulation may have added" in large["words"]


def alike(share: float, *, emulation: float = 0.0, replicas: int = 3) -> list[Run]:
    """Two equal configurations whose replicas agree to 0.05 %. share: by which they may differ"""
    random = np.random.default_rng(2)
    base = random.lognormal(5, 0.5, 300) + 60
    runs = [run_of(label, k + 1, base * (1 + random.normal(0, 5e-4)), gap=APART) for k in range(replicas) for label in "ab"]
    return [with_errors(run, emulation=emulation, replicas=share) for run in runs]


@pytest.mark.parametrize("share", [0.018, 0.025])
def test_equal_configurations_are_equivalent_with_three_replicas(share: float) -> None:
    """What two runs of a configuration may differ by, by the phase of Slurm's timers, does not stand against it twice."""
    content = compare(alike(share))
    for question in QUESTIONS:
        assert of(content, "wait_mean", question)["verdict"] == "equivalent"
    assert content["metrics"]["wait_mean"]["pairs"][0]["words"].startswith("equivalent within 5 % for these jobs: ")


@pytest.mark.parametrize(
    ("share", "emulation", "remedy"),
    [
        (0.061, 0.0, "about 6 replicas of each would decide it"),
        (0.0, 0.03, "replicas cannot decide it: the emulation may have added "),
    ],
)
def test_what_would_decide_is_told(share: float, emulation: float, remedy: str) -> None:
    found = of(compare(alike(share, emulation=emulation)), "wait_mean", THESE_JOBS)
    assert found["verdict"] == "undecided" and f"; {remedy}" in found["words"]


def test_a_longer_log_decides_where_the_jobs_vary() -> None:
    """Each job waits for longer or for less by chance, in all replicas alike."""
    random = np.random.default_rng(1)
    base = random.lognormal(5, 0.5, 300)
    both = (("a", base), ("b", base * random.lognormal(-0.15, 0.6, 300)))
    runs = [run_of(label, k, waits * random.normal(1, 0.001), gap=APART) for k in (1, 2, 3) for label, waits in both]
    pair = compare([with_errors(run, replicas=0.005) for run in runs])["metrics"]["wait_mean"]["pairs"][0]
    assert pair[THESE_JOBS]["verdict"] in DIFFERENT and pair[OTHER_JOBS]["verdict"] == "undecided"
    assert pair["words"].endswith(", not certain: replicas cannot decide it, a longer log can")
    assert "er mean wait for these jobs (" in pair["words"] and " %); for others like them " in pair["words"]


@pytest.mark.parametrize("known", [{}, {"replicas": 0.0}])
def test_few_replicas_of_which_nothing_says_how_far_they_may_differ_are_not_equivalent(known: dict[str, float]) -> None:
    """0 says only that none of some simulated runs differed."""
    found = [of(compare([replace(run, metrics={**run.metrics, "errors": {name: {"emulation": 0.0, **known} for name in METRICS}})
                         for run in alike(0.0, replicas=number)]), "wait_mean", THESE_JOBS)
             for number in (3, MANY_REPLICAS)]  # fmt: skip
    assert [one["verdict"] for one in found] == ["undecided", "equivalent"]
    assert found[0]["equivalence_interval"] is None and found[0]["words"].endswith("; about 12 replicas of each would decide it")


def test_a_small_error_of_the_emulation_does_not_hide_that_there_is_no_difference() -> None:
    for share, expected in ((0.01, "equivalent"), (0.03, "undecided")):
        found = of(compare(alike(0.005, emulation=share)), "wait_mean")
        assert abs(found["difference"]) < share * found["mean"] and found["verdict"] == expected


def test_equivalence_needs_the_margin() -> None:
    wide, narrow = (of(compare(alike(0.005), margin=margin), "wait_mean") for margin in (5.0, 0.1))
    assert wide["verdict"] == "equivalent" and wide["words"].startswith("equivalent (")
    assert narrow["verdict"] == "undecided"
    assert -5 < wide["equivalence_interval"][0] < wide["equivalence_interval"][1] < 5
    assert wide["percent_interval"][0] < wide["equivalence_interval"][0]
