"""Claims on synthetic replicates whose truth is known: how many are false, and how many are made."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from benchmarks import claims
from mirage.statistics.inference import EQUIVALENCE_LEVEL, MANY_REPLICAS, Chance, Estimate, Part, holm, of_jobs, of_replicas
from mirage.statistics.intervals import Floats

METRICS = 40
LEVEL = 1000.0  # mean of each metric; its replicas have a standard deviation of 1
WEIGHTS = [0.5, *(0.25 / 7,) * 7, *(0.25 / (METRICS - 8),) * (METRICS - 8)]


def replicas(
    random: np.random.Generator, number: int, correlation: float, means: float | Floats = LEVEL, spread: float = 1.0
) -> Floats:
    """(replicas, metrics): what is common to all metrics of a run makes them correlated."""
    own, common = random.normal(size=(number, METRICS)), random.normal(size=(number, 1))
    return means + spread * (math.sqrt(correlation) * common + math.sqrt(1 - correlation) * own)


def corrected(one: Floats, other: Floats) -> list[float]:
    """Corrected p values of a table of metrics."""
    found = [Chance([one[:, k], other[:, k]], None).relative() for k in range(METRICS)]
    return holm([1.0 if estimate is None else estimate.p for estimate in found], WEIGHTS)


@pytest.mark.parametrize("correlation", [0.0, 0.9])
@pytest.mark.parametrize(("number", "spread"), [(2, 1.0), (3, 1.0), (3, 0.1), (5, 0.3), (10, 1.0)])
def test_false_claims_are_at_most_one_table_in_twenty(number: int, spread: float, correlation: float) -> None:
    """200 tables in which no metric differs: 5 %, and 2.6 standard deviations of that share.

    spread: of the second configuration's replicas
    """
    random = np.random.default_rng([number, int(10 * spread), int(10 * correlation)])
    tables = [(replicas(random, number, correlation), replicas(random, number, correlation, spread=spread)) for _ in range(200)]
    assert sum(min(corrected(*table)) <= 0.05 for table in tables) <= 18


def test_more_replicas_tell_more() -> None:
    """Eight metrics of 40 differ by three standard deviations of a replica, the answer's among them."""
    truth = np.array([LEVEL + 3.0 * (k % 5 == 0) for k in range(METRICS)])
    answer, told = [], []
    for number in (3, 5, 10, 20):
        random = np.random.default_rng(number)
        found = [corrected(replicas(random, number, 0.5), replicas(random, number, 0.5, truth)) for _ in range(40)]
        answer.append(np.mean([p[0] <= 0.05 for p in found]))
        told.append(np.mean([[p[k] <= 0.05 for k in range(0, METRICS, 5)] for p in found]))
    assert answer == sorted(answer) and answer[1] > 0.5 and answer[2] > 0.95 and answer[3] == 1
    assert told == sorted(told) and told[2] > 0.8 and told[3] == 1


@pytest.mark.parametrize("number", [2, 3, 5, 10])
@pytest.mark.parametrize("truth", [0.95, 1.05])
def test_equivalence_is_claimed_in_one_of_twenty_cases_where_the_difference_is_the_margin(number: int, truth: float) -> None:
    """1,000 pairs: 5 %, and 3 standard deviations of that share."""
    random = np.random.default_rng(number)
    one, other = random.normal(1.0, 0.02, (1000, number)), random.normal(truth, 0.02 * truth, (1000, number))
    assert sum(is_equivalent(*pair) for pair in zip(one, other, strict=True)) <= 71


def test_more_replicas_show_that_there_is_no_difference() -> None:
    random = np.random.default_rng(1)
    shares = []
    for number in (2, 3, 5, 10):
        pairs = zip(random.normal(1.0, 0.02, (200, number)), random.normal(1.0, 0.02, (200, number)), strict=True)
        shares.append(np.mean([is_equivalent(*pair) for pair in pairs]))
    assert shares == sorted(shares) and shares[1] > 0.3 and shares[3] > 0.95


def is_equivalent(one: Floats, other: Floats) -> bool:
    found = Chance([one, other], None).relative()
    assert found is not None
    ends = found.percent(EQUIVALENCE_LEVEL)
    return ends is not None and ends[0] > -5 and ends[1] < 5


@pytest.mark.parametrize("number", claims.REPLICAS)
@pytest.mark.parametrize("name", claims.pairs())
def test_replicas_in_groups_are_not_equivalent_by_chance(name: str, number: int) -> None:
    """The difference is the margin; all replicas of a few may be in one group of two or three. The exact probability."""
    assert claims.exact_share(claims.pairs()[name], number) <= 0.05


@pytest.mark.parametrize("name", [name for name in claims.pairs() if "both" not in name and "0.1" not in name])
def test_groups_that_nothing_is_known_of_are_seen_by_many_replicas(name: str) -> None:
    """Those that a quarter of the runs fall into; of fewer replicas nothing is claimed."""
    assert claims.exact_share(claims.pairs()[name], MANY_REPLICAS - 1, is_known=False) == 0
    assert claims.exact_share(claims.pairs()[name], MANY_REPLICAS, is_known=False) <= 0.05 or "0.2 far" in name


@pytest.mark.parametrize("number", claims.REPLICAS)
@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_replicas_in_groups_do_not_differ_by_chance(share: float, number: int) -> None:
    """Where all replicas of one configuration are in one group and all of the other one in the other. The exact probability."""
    assert claims.exact_share_of_differences(claims.Modes((1.0, 1.05), (1 - share, share)), number) <= 0.05


def test_three_replicas_tell_that_groups_near_each_other_are_equivalent() -> None:
    for apart, least in ((0.01, 0.99), (0.025, 0.95)):
        modes = claims.Modes((1.0, 1 + apart), (0.5, 0.5))
        assert claims.exact_share((modes, modes), 3) >= least


@pytest.mark.parametrize("jobs", [0.1, 1.0, 10.0])
def test_jobs_and_replicas_together_do_not_claim_too_much(jobs: float) -> None:
    """A corrected threshold of 0.001: at most 0.2 % of 4,000 differences whose truth is 0. jobs: share of the variance by jobs."""
    random = np.random.default_rng(1)
    false = 0
    for _ in range(4000):
        values = random.normal(0, 1, (2, 2))
        by_jobs = Part(math.sqrt(jobs * random.chisquare(12) / 12), 12)
        by_replicas = of_replicas(list(values))
        assert by_replicas is not None
        value = float(values[1].mean() - values[0].mean() + random.normal(0, math.sqrt(jobs)))
        false += Estimate(value, (by_replicas, by_jobs), 0.0, 1.0).p <= 0.001
    assert false <= 8


@given(st.lists(st.tuples(st.floats(0.01, 100), st.floats(0.5, 50)), min_size=1, max_size=3), st.floats(0.1, 50), st.floats(0, 20))
def test_p_is_below_the_level_exactly_if_the_interval_excludes_zero(
    parts: list[tuple[float, float]], value: float, bias: float
) -> None:
    found = Estimate(value, tuple(Part(*part) for part in parts), bias, 1.0)
    assert 0 < found.p <= 1
    for level in (0.5, 0.9, 0.95, 0.9999):
        if abs(found.p - (1 - level)) > 1e-9:
            assert (found.interval(level)[0] > 0) == (found.p < 1 - level)


def test_one_part_is_students_t() -> None:
    found = Estimate(2.1, (Part(0.7, 9.0),), 0.0, 10.0)
    assert found.p == pytest.approx(2 * stats.t.sf(3, 9))
    assert found.interval() == pytest.approx((2.1 - 2.262 * 0.7, 2.1 + 2.262 * 0.7), rel=1e-3)
    assert found.percent() == pytest.approx([10 * end for end in found.interval()])
    assert Estimate(1e9, (Part(1.0, 30.0),), 0.0, 1.0).p == pytest.approx(2e-12)


def test_chance_of_the_replicas() -> None:
    both = [np.array([1.0, 3.0]), np.array([5.0, 7.0])]
    equal, one_alone = of_replicas(both), of_replicas([both[0], np.array([5.0, 5.0])])
    assert equal is not None and one_alone is not None
    # Welch's degrees of freedom are 2 and 1; the smaller number of replicas less 1 is 1.
    assert (equal.error, equal.freedom) == pytest.approx((math.sqrt(2), 3 / (1 / 2 + 2)))
    assert (one_alone.error, one_alone.freedom) == pytest.approx((1, 1))
    assert of_replicas([both[0], np.array([5.0])]) is None
    # The jackknife over 5 blocks: sqrt(4 / 5 * the sum of squares), a tenth wider.
    by_jobs = of_jobs(np.array([1.0, 3.0, 2.0, 2.0, 2.0]))
    assert by_jobs is not None and (by_jobs.error, by_jobs.freedom) == pytest.approx((1.1 * math.sqrt(4 / 5 * 2), 4))
    assert of_jobs(np.array([1.0, np.nan])) is None


def test_replicas_that_are_all_equal_tell_no_chance() -> None:
    """The mean of three times 0.1 is not 0.1, in binary fractions."""
    assert np.var([0.1, 0.1, 0.1]) > 0
    for values in ([np.full(3, 0.1), np.full(3, 0.7)], [np.full(3, 3140.1), np.full(3, 3803.7)]):
        assert Chance(values, None).relative() is None and Chance(values, None).difference() is None


def test_the_emulations_error_is_in_the_interval_and_in_p() -> None:
    values = [np.array([99.0, 101.0, 100.0]), np.array([109.0, 111.0, 110.0])]
    without, some, all_of_it = (Chance(values, None, errors) for errors in ((0.0, 0.0), (2.0, 2.5), (5.0, 5.5)))
    ends = [chance.difference().interval() for chance in (without, some)]  # type: ignore[union-attr]
    assert ends[1] == pytest.approx((ends[0][0] - 4.5, ends[0][1] + 4.5))
    ps = [chance.relative().p for chance in (without, some, all_of_it)]  # type: ignore[union-attr]
    assert ps[0] < ps[1] < 1 and ps[2] == 1
    # The ratio may be as large as 112.5 / 98, or as small as 107.5 / 102.
    found = some.relative()
    assert found is not None and found.bias == pytest.approx(max(math.log(112.5 / 98 / 1.1), math.log(1.1 / (107.5 / 102))))
    assert not Chance(values, None, (100.0, 0.0)).relative().is_log, "the baseline may be 0"  # type: ignore[union-attr]


def stepwise(p_values: list[float]) -> list[float]:
    """Holm's procedure for equal weights as it is in textbooks."""
    found, largest = {}, 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda k: p_values[k])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        found[place] = largest
    return [found[k] for k in range(len(p_values))]


@given(st.lists(st.floats(0, 1), max_size=12))
def test_equal_weights_are_holms_own_procedure(p_values: list[float]) -> None:
    assert holm(p_values, [0.3] * len(p_values)) == pytest.approx(stepwise(p_values))


def test_weights_share_the_five_per_cent() -> None:
    # By hand: 0.02 / 0.5 = 0.04; then the other half is left with all of the 5 %: 0.03 x 0.5 / 0.25 = 0.06; 0.04 x 1.
    assert holm([0.03, 0.02, 0.04], [0.25, 0.5, 0.25]) == pytest.approx([0.06, 0.04, 0.06])
    assert holm([], []) == []
