"""The raijin model against every figure of the thesis's workload section (4.1): Table 4.1, and what its text says."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import polars as pl
import pytest
from scipy.stats import chisquare

from mirage.workloads import models
from mirage.workloads.models import raijin, thesis
from mirage.workloads.models.draft import Draft

# A twentieth as a frame; all jobs as bare arrays (0.3 GB).
JOBS = 220_000


@pytest.fixture(scope="module")
def draft() -> Draft:
    return raijin.draw(np.random.Generator(np.random.PCG64(1)), raijin.JOBS, raijin.CORES)


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    return models.generate("raijin", JOBS, 1, raijin.CORES)


def test_machine_and_dates() -> None:
    header = models.header("raijin", 1, raijin.CORES, raijin.NODES)
    assert (header["MaxNodes"], header["MaxProcs"]) == ("3592", "57472")
    start = datetime.fromtimestamp(int(header["UnixStartTime"]), UTC)
    assert start == datetime(2016, 4, 1, tzinfo=UTC)
    assert (datetime(2016, 11, 1, tzinfo=UTC) - start).days == raijin.DAYS


def test_all_jobs_are_submitted_in_the_seven_months(draft: Draft) -> None:
    assert len(draft.submit) == 4_417_018
    assert draft.submit.min() >= 0
    assert draft.submit.max() / 86400 == pytest.approx(214, abs=0.001)


def test_fewer_jobs_come_at_the_same_rate(frame: pl.DataFrame) -> None:
    assert frame["submit"].max() / 86400 == pytest.approx(214 * JOBS / 4_417_018, abs=0.01)  # type: ignore[operator]


def test_there_are_193_sizes(draft: Draft, frame: pl.DataFrame) -> None:
    assert len(np.unique(draft.sizes)) == 193
    sizes, shares = raijin.sizes_and_shares(raijin.CORES)
    assert len(sizes) == 193
    # The probability that with another seed one of them has no job at all.
    assert float(np.exp(-raijin.JOBS * shares).sum()) < 1e-9
    assert set(frame["allocated_processors"]) <= set(sizes.tolist())


def test_shares_of_sizes(draft: Draft) -> None:
    assert thesis.SIZES == {1: 49, 2: 11, 4: 5, 8: 7, 16: 8, 48: 4, 64: 6}
    found = {size: (draft.sizes == size).mean() for size in thesis.SIZES}
    for size, percent in thesis.SIZES.items():
        share = percent / 100
        assert found[size] == pytest.approx(share, abs=4 * (share * (1 - share) / raijin.JOBS) ** 0.5)
    assert 1 - sum(found.values()) == pytest.approx(0.1, abs=4 * (0.09 / raijin.JOBS) ** 0.5)


def test_the_table_names_the_most_common_sizes(draft: Draft) -> None:
    assert set(np.argsort(-np.bincount(draft.sizes))[:7].tolist()) == set(thesis.SIZES)


def test_the_other_sizes_fall_along_a_line_on_logarithmic_axes(draft: Draft) -> None:
    size, count = np.unique(draft.sizes[~np.isin(draft.sizes, list(thesis.SIZES))], return_counts=True)
    slope = np.polyfit(np.log(size), np.log(count), 1, w=np.sqrt(count))[0]
    assert slope == pytest.approx(-raijin.DECLINE, abs=0.01)
    assert np.corrcoef(np.log(size), np.log(count))[0, 1] < -0.99


def test_one_core_jobs_have_1_6_percent_of_the_service_units(draft: Draft) -> None:
    sizes, shares = raijin.sizes_and_shares(raijin.CORES)
    assert shares[0] / (sizes @ shares) == pytest.approx(0.016, abs=5e-6)
    units = draft.sizes * draft.runs
    # Large jobs make the share vary by 2 % of itself from seed to seed.
    assert units[draft.sizes == 1].sum() / units.sum() == pytest.approx(0.016, abs=0.001)


def test_most_of_the_work_is_that_of_jobs_with_many_cores(draft: Draft) -> None:
    units, large = draft.sizes * draft.runs, draft.sizes >= 64
    assert 0.75 < units[large].sum() / units.sum() < 0.95
    assert large.mean() < 0.12


def test_submissions_are_uniform_over_the_day_and_over_the_months(draft: Draft) -> None:
    for length, parts in ((86400, 24), (214 * 86400, 214)):
        counts = np.histogram(draft.submit % length, parts, (0, length))[0]
        assert chisquare(counts).pvalue > 0.001


def test_run_times_have_the_distribution_that_is_documented(draft: Draft) -> None:
    bounds = raijin.RUN_BOUNDS[1:-1]
    below = np.array([(draft.runs <= bound).mean() for bound in bounds])
    # Run times are rounded to whole seconds.
    expected = np.interp(np.log(bounds + 0.5), np.log(raijin.RUN_BOUNDS), raijin.RUN_SHARES)
    assert below == pytest.approx(expected, abs=0.001)
    assert expected == pytest.approx(raijin.RUN_SHARES[1:-1], abs=0.005)
    assert draft.runs.mean() == pytest.approx(raijin.mean_run(), rel=0.005)
    assert draft.runs.min() == 1
    assert draft.runs.max() <= 172800
    assert raijin.offered_load() == pytest.approx(0.8, abs=0.005)


def test_requested_times_are_round_and_up_to_five_times_the_run_time(frame: pl.DataFrame) -> None:
    asked, runs = frame["requested_time"].to_numpy(), frame["run_time"].to_numpy()
    values = 60 * np.array(thesis.ROUND_MINUTES)
    assert set(asked) <= set(values)
    assert (asked >= runs).all()
    lower = np.concatenate([[0], values])[np.searchsorted(values, asked)]
    assert (lower < 5 * runs).all()


@pytest.mark.parametrize("processors", [1, 48, 1000])
def test_on_a_smaller_machine_the_shares_of_what_fits_grow(processors: int) -> None:
    sizes, shares = raijin.sizes_and_shares(processors)
    whole_sizes, whole_shares = raijin.sizes_and_shares(raijin.CORES)
    assert sizes.tolist() == [size for size in whole_sizes.tolist() if size <= processors]
    assert shares.sum() == pytest.approx(1)
    grown = shares / whole_shares[whole_sizes <= processors]
    assert grown == pytest.approx(np.full(len(sizes), 1 / whole_shares[whole_sizes <= processors].sum()))
