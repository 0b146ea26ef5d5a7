"""Models of which few figures are known: Feitelson-96 style, Lomonosov-1 and South Ural State University."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.special import zeta
from scipy.stats import chisquare, kstest

from mirage.workloads import models
from mirage.workloads.models import feitelson96, lomonosov, susu
from mirage.workloads.models.lognormal import Ceiled


def share_of_powers_of_two(shares: np.ndarray) -> float:
    size = np.arange(1, len(shares) + 1)
    return float(shares[(size & (size - 1)) == 0].sum())


@pytest.mark.parametrize("processors", [20, 100, 128, 512, 4392, 57472])
def test_feitelson_73_to_84_percent_have_a_power_of_two(processors: int) -> None:
    assert 0.73 <= share_of_powers_of_two(feitelson96.shares(processors)) <= 0.84
    # It is the boost that does it.
    assert share_of_powers_of_two(feitelson96.shares(processors, boost=1.0)) < 0.73


def first_jobs(jobs: pl.DataFrame) -> pl.DataFrame:
    return jobs.filter(pl.col("preceding_job") == -1)


@pytest.fixture(scope="module")
def feitelson() -> pl.DataFrame:
    return models.generate("feitelson96", 100_000, 1, 128)


def test_feitelson_sizes_fall_with_the_power_1_5(feitelson: pl.DataFrame) -> None:
    sizes = first_jobs(feitelson)["allocated_processors"].to_numpy()
    shares = np.array([size**-1.5 * (2 if size & (size - 1) == 0 else 1) for size in range(1, 129)])
    expected = shares / shares.sum() * len(sizes)
    found = np.bincount(sizes, minlength=129)[1:]
    # Sizes that few jobs have are taken together, as the chi-square test wants.
    common = expected >= 10
    together = chisquare([*found[common], found[~common].sum()], [*expected[common], expected[~common].sum()])
    assert together.pvalue > 0.001


def test_feitelson_run_times_are_hyperexponential_and_longer_for_larger_jobs() -> None:
    rng = np.random.Generator(np.random.PCG64(1))
    means = []
    for size in (1, 64, 128):
        runs = feitelson96.run_times(rng, np.full(200_000, size), 128) - 0.5
        short = 0.95 - 0.2 * size / 128
        mean = 60 * (short + 7 * (1 - short))
        square = 2 * 60**2 * (short + 49 * (1 - short))
        assert runs.mean() == pytest.approx(mean, rel=4 * (square / mean**2 - 1) ** 0.5 / 200_000**0.5 + 0.001)
        assert runs.std() / runs.mean() == pytest.approx((square / mean**2 - 1) ** 0.5, rel=0.03)
        assert runs.std() > runs.mean()
        means.append(runs.mean())
    assert means == sorted(means)


def test_feitelson_repetitions(feitelson: pl.DataFrame) -> None:
    before = feitelson.select("user", "allocated_processors", "run_time", "submit", preceding_job="job_number")
    pairs = feitelson.join(before, on="preceding_job", suffix="_before")
    assert pairs.height == feitelson.height - first_jobs(feitelson).height
    for column in ("user", "allocated_processors", "run_time"):
        assert pairs[column].equals(pairs[f"{column}_before"], check_names=False), column
    assert (pairs["submit"] == pairs["submit_before"] + pairs["run_time"]).all()

    # Series by their first job: each job has the series of the one that it repeats.
    series: dict[int, int] = {}
    for number, preceding in feitelson.select("job_number", "preceding_job").iter_rows():
        series[number] = number if preceding == -1 else series[preceding]
    lengths = np.bincount(list(series.values()))
    lengths = lengths[lengths > 0]
    shares = np.array([r**-2.5 / zeta(2.5) for r in range(1, 11)])
    expected = len(lengths) * np.array([*shares, 1 - shares.sum()])
    found = [*((lengths == r).sum() for r in range(1, 11)), (lengths > 10).sum()]
    assert chisquare(found, expected).pvalue > 0.001


def test_feitelson_arrivals_are_poisson_with_a_job_every_10_seconds(feitelson: pl.DataFrame) -> None:
    rng = np.random.Generator(np.random.PCG64(1))
    draft = feitelson96.draw(rng, 50_000, 128)
    assert draft.repeats is not None
    gaps = np.diff(draft.submit[draft.repeats < 0])
    mean = 10 * zeta(1.5) / zeta(2.5)
    assert kstest(gaps, "expon", args=(0, mean)).pvalue > 0.01
    assert feitelson["submit"].max() / 100_000 == pytest.approx(10, rel=0.05)  # type: ignore[operator]


def test_lomonosov_has_the_six_figures_of_its_paper() -> None:
    assert lomonosov.SIZES.moments() == pytest.approx((7.5, 16.7), rel=1e-6)
    assert lomonosov.MINUTES.moments() == pytest.approx((255, 1204), rel=1e-6)
    jobs = models.generate("lomonosov", 400_000, 1, 512)
    slots, minutes = jobs["allocated_processors"].to_numpy(), jobs["run_time"].to_numpy() / 60
    assert slots.mean() == pytest.approx(7.5, rel=0.02)
    assert slots.std() == pytest.approx(16.7, rel=0.04)
    assert slots.max() == 512
    assert minutes.mean() == pytest.approx(255, rel=0.03)
    assert minutes.std() == pytest.approx(1204, rel=0.04)
    assert minutes.max() == 15 * 24 * 60


@pytest.mark.parametrize("load", [None, 0.7])
def test_lomonosov_lives_in_whole_minutes(load: float | None) -> None:
    jobs = models.generate("lomonosov", 5000, 1, 512, load=load)
    for column in ("submit", "run_time", "requested_time"):
        assert (jobs[column] % 60 == 0).all(), column
    assert jobs["requested_time"].equals(jobs["run_time"], check_names=False)


def test_susu_has_the_figures_of_its_table() -> None:
    jobs = models.generate("susu", susu.JOBS, 1, 166 * 8)
    assert jobs.height == 32_567
    assert (jobs["allocated_processors"] % 8 == 0).all()
    nodes = jobs["allocated_processors"] // 8
    assert (nodes.min(), nodes.max()) == (1, 100)
    assert jobs["run_time"].min() > 20  # type: ignore[operator]
    assert susu.SECONDS.moments()[0] == pytest.approx(12 * 3600, rel=1e-6)
    # Four standard errors: 32,567 jobs with a deviation of 24 h.
    assert jobs["run_time"].mean() == pytest.approx(12 * 3600, abs=4 * 24 * 3600 / 32_567**0.5)
    assert jobs["submit"].max() / 86400 == pytest.approx(304, abs=0.2)  # type: ignore[operator]


def test_susu_can_be_run_by_its_cluster() -> None:
    assert susu.SIZES.moments()[0] == pytest.approx(2.5, rel=1e-6)
    assert susu.offered_load() == pytest.approx(32_567 * 2.5 * 43_200 / (166 * 304 * 86_400), rel=1e-6)
    assert susu.offered_load() < 1


@pytest.mark.parametrize("law", [lomonosov.SIZES, susu.SIZES, Ceiled(2.0, 1.0, 5, 40)], ids=["lomonosov", "susu", "another"])
@pytest.mark.parametrize("at_most", [None, 6, 30])
def test_what_is_drawn_has_the_moments_that_are_computed(law: Ceiled, at_most: int | None) -> None:
    values = law.draw(np.random.Generator(np.random.PCG64(1)), 400_000, at_most)
    mean, deviation = law.moments(at_most)
    assert values.mean() == pytest.approx(mean, abs=4 * deviation / 400_000**0.5)
    assert values.std() == pytest.approx(deviation, rel=0.05)
    assert values.min() == law.above + 1
    assert values.max() == min(law.most, at_most or law.most)
