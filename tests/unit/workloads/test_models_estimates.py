"""What users ask for: exact, of an accuracy p, and by the model of Tsafrir, Etsion and Feitelson."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from mirage.workloads import models
from mirage.workloads.models import estimates, tsafrir
from slurm_mirage.base.errors import WrongUse

HOUR, DAY = 3600.0, 86400.0


def of_runs(runs: list[float], requested: float = -1.0) -> pl.DataFrame:
    """A frame of jobs with these run times."""
    frame = models.default_workload(100, 1)[[0] * len(runs)]
    return frame.with_columns(run_time=pl.Series(runs, dtype=pl.Float64), requested_time=pl.lit(requested))


@pytest.fixture(scope="module")
def lublin() -> pl.DataFrame:
    return models.generate("lublin", 20_000, 1, 256)


def test_keep_keeps(lublin: pl.DataFrame) -> None:
    assert estimates.replace(lublin, "keep", 1).equals(lublin)


def test_exact_is_the_run_time_but_never_0_which_means_unknown() -> None:
    asked = estimates.replace(of_runs([0.0, 7.0, -1.0, 90.5], requested=600.0), "exact", 1)["requested_time"]
    assert asked.to_list() == [1.0, 7.0, 600.0, 90.5]


@pytest.mark.parametrize("how", ["exact", "tsafrir", "0.4", "0", "1"])
def test_only_requested_times_change_and_none_is_below_its_run_time(lublin: pl.DataFrame, how: str) -> None:
    changed = estimates.replace(lublin, how, 1)
    assert changed.drop("requested_time").equals(lublin.drop("requested_time"))
    assert changed.schema == lublin.schema
    assert (changed["requested_time"] >= changed["run_time"]).all()
    assert changed.equals(estimates.replace(lublin, how, 1))


@pytest.mark.parametrize("how", ["tsafrir", "0.4"])
def test_another_seed_gives_other_requests(lublin: pl.DataFrame, how: str) -> None:
    assert not estimates.replace(lublin, how, 2).equals(estimates.replace(lublin, how, 1))


@pytest.mark.parametrize("how", ["exact", "tsafrir", "0.4"])
def test_jobs_of_unknown_run_time_keep_what_they_have(how: str) -> None:
    asked = estimates.replace(of_runs([-1.0, 60.0, -1.0], requested=1234.0), how, 1)["requested_time"]
    assert (asked[0], asked[2]) == (1234.0, 1234.0)
    assert estimates.replace(of_runs([-1.0], requested=1234.0), how, 1)["requested_time"].to_list() == [1234.0]


@pytest.mark.parametrize("p", ["0", "0.1", "0.3", "0.5", "0.9", "1"])
def test_accuracy_shares_of_a_b_and_c(p: str) -> None:
    count, value = 50_000, float(p)
    # 4 min: (b) rounds it up to 5, (c) to 10.
    asked = estimates.replace(of_runs([240.0] * count), p, 1)["requested_time"]
    for seconds, share in ((240.0, value), (300.0, value * (1 - value)), (600.0, (1 - value) ** 2)):
        assert (asked == seconds).mean() == pytest.approx(share, abs=4 * (share * (1 - share) / count) ** 0.5)


@pytest.mark.parametrize(
    ("run", "following"),
    [
        (1.0, (60, 120)),
        # A round value is the round value that is not below it.
        (60.0, (60, 120)),
        (61.0, (120, 300)),
        (1801.0, (HOUR, 2 * HOUR)),
        (13 * HOUR, (DAY, 1.5 * DAY)),
        (10 * DAY, (10 * DAY, 15 * DAY)),
        # Beyond the 20 values, in steps of 5 days.
        (10 * DAY + 1, (15 * DAY, 20 * DAY)),
        (15 * DAY, (15 * DAY, 20 * DAY)),
        (15 * DAY + 1, (20 * DAY, 25 * DAY)),
        (20 * DAY, (20 * DAY, 25 * DAY)),
        (23 * DAY, (25 * DAY, 30 * DAY)),
    ],
)
def test_accuracy_rounds_up_to_the_next_and_the_one_after(run: float, following: tuple[float, float]) -> None:
    asked = set(estimates.replace(of_runs([run] * 200), "0.5", 1)["requested_time"])
    assert asked == {run, *following}


def test_accuracy_has_the_20_round_values_of_its_paper() -> None:
    minutes = [1, 2, 5, 10, 20, 30, 60, 120, 180, 360, 480, 720, 1440, 2160, 2880, 4320, 7200, 10080, 14400, 21600]
    assert (estimates.ROUND_VALUES / 60).tolist() == minutes


@pytest.mark.parametrize("how", ["", "Exact", "tsafrir05", "1.1", "-0.1", "30%", "nan"])
def test_wrong_use(how: str) -> None:
    with pytest.raises(WrongUse, match=r"^estimates: '.*' may be keep, exact, tsafrir, or an accuracy from 0 to 1$"):
        estimates.replace(of_runs([60.0]), how, 1)


def popularity(frame: pl.DataFrame) -> pl.DataFrame:
    return frame["requested_time"].value_counts().sort("count", descending=True)


@pytest.mark.parametrize("seed", range(5))
def test_tsafrir_20_values_have_89_percent_and_the_longest_is_the_most_popular(lublin: pl.DataFrame, seed: int) -> None:
    values = popularity(estimates.replace(lublin, "tsafrir", seed))
    assert values["requested_time"][0] == 48 * HOUR  # Lublin's longest run time is 45 h
    assert values["count"][:20].sum() / lublin.height == pytest.approx(0.89, abs=0.001)
    # a exp(b rank) + c from the second on, the first has what is left.
    shares = [(14.0491 * np.exp(-0.177531 * rank) + 0.462513) / 100 for rank in range(2, 21)]
    found = (values["count"][:20] / lublin.height).to_list()
    assert found == pytest.approx([0.89 - sum(shares), *shares], abs=1 / lublin.height)
    # 10,000 more jobs than 10,000 have 250 / 6 more values than 90.
    assert values.height == pytest.approx(90 + 250 / 6, abs=3)


def test_tsafrir_the_rest_falls_with_a_power_of_the_rank() -> None:
    jobs = models.generate("raijin", 300_000, 1, 57472)
    values = popularity(estimates.replace(jobs, "tsafrir", 1))
    assert values.height == pytest.approx(565, abs=5)
    rank, count = np.arange(21, 101), values["count"][20:100].to_numpy()
    assert np.polyfit(np.log(rank), np.log(count), 1)[0] == pytest.approx(-2.267, abs=0.05)


def test_tsafrir_the_longest_allowed_is_round_and_not_below_any_run_time() -> None:
    allowed = [tsafrir.longest_allowed(run) for run in (5.0, HOUR, HOUR + 1, 45 * HOUR, 10 * DAY, 11 * DAY, 100.5 * DAY)]
    assert allowed == [HOUR, HOUR, 2 * HOUR, 2 * DAY, 10 * DAY, 15 * DAY, 105 * DAY]


def test_tsafrir_head_values() -> None:
    head = (tsafrir.head_values(36 * 3600) / 60).tolist()
    # The longest, the 15 that all logs have in common, and multiples of 10 and 5 hours from the longest downwards.
    common = [5, 10, 15, 20, 30, 60, 120, 180, 240, 300, 360, 480, 600, 720, 1080]
    assert head[0] == 36 * 60
    assert head[1:] == sorted([*common, 30 * 60, 20 * 60, 35 * 60, 25 * 60])
    assert len(tsafrir.head_values(3600)) < 20


@pytest.mark.parametrize("log", tsafrir.MEASURED_RANKS)
def test_tsafrir_each_log_ranks_all_twenty(log: tuple[int, ...]) -> None:
    assert sorted(log) == list(range(1, 21))


@given(count=st.integers(1, 20), seed=st.integers(0, 10**6))
@settings(deadline=None, max_examples=50)
def test_tsafrir_ranks_are_a_permutation_that_begins_with_the_most_popular(count: int, seed: int) -> None:
    ranks = tsafrir._ranks(np.random.Generator(np.random.PCG64(seed)), count)
    assert sorted(ranks) == list(range(count))
    assert ranks[0] == 0


@given(
    runs=st.lists(st.integers(0, 40 * 86400).map(float), min_size=1, max_size=60),
    seed=st.integers(0, 10**6),
)
@settings(deadline=None, max_examples=100)
def test_tsafrir_nobody_asks_for_less_than_the_run_time(runs: list[float], seed: int) -> None:
    asked = estimates.replace(of_runs(runs), "tsafrir", seed)["requested_time"].to_numpy()
    assert (asked >= runs).all()
    assert asked.max() <= tsafrir.longest_allowed(max(runs))


def test_tsafrir_values_are_raised_where_run_times_are_too_long_for_them() -> None:
    asked = estimates.replace(of_runs([12 * HOUR] * 1000), "tsafrir", 1)["requested_time"]
    assert set(asked) == {12 * HOUR}


def test_tsafrir_deals_uniformly_among_the_values_that_are_left() -> None:
    """Run times 3, 2, 1 and values 5, 2, 1: the longest run time gets 5, and each of the others a value that is not below it.

    Run times 1, 1 and values 5, 4: both orders are equally likely.
    """
    rng = np.random.Generator(np.random.PCG64(1))
    head = np.array([5])
    assert tsafrir.deal(rng, np.array([1.0, 3.0, 2.0]), np.array([1.0, 5.0, 2.0]), head).tolist() == [1, 5, 2]
    first = [tsafrir.deal(rng, np.array([1.0, 1.0]), np.array([5.0, 4.0]), head)[0] for _ in range(400)]
    assert chisquare([first.count(5.0), first.count(4.0)]).pvalue > 0.001
