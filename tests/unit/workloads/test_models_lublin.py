"""Lublin and Feitelson's model against its authors' own output, and against the algorithm as it is told, step by step."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from real_logs import real_log
from scipy.stats import gamma, ks_2samp

from mirage.traces import swf
from mirage.workloads import models
from mirage.workloads.models import lublin

REFERENCE = "lublin_256.swf.gz"
SEEDS = range(8)


def samples(jobs: pl.DataFrame) -> dict[str, NDArray[np.float64]]:
    return {
        "size": jobs["allocated_processors"].to_numpy().astype(float),
        "run time": jobs["run_time"].to_numpy(),
        "interval": np.diff(jobs["submit"].to_numpy()),
    }


@pytest.fixture(scope="module")
def reference() -> dict[str, NDArray[np.float64]]:
    return samples(swf.read_swf(real_log(REFERENCE))[0])


def p_values(reference: dict[str, NDArray[np.float64]], model: str, name: str) -> list[float]:
    """Of two-sample Kolmogorov-Smirnov tests of 10,000 jobs of each seed against the 10,000 of the reference."""
    return [float(ks_2samp(reference[name], samples(models.generate(model, 10_000, seed, 256))[name]).pvalue) for seed in SEEDS]


@pytest.mark.parametrize("name", ["size", "run time", "interval"])
def test_the_untyped_set_has_the_distributions_of_the_reference(reference: dict[str, NDArray[np.float64]], name: str) -> None:
    # A right model's p-values are spread over 0 to 1: eight of them hardly ever have a median below 0.15 or one
    # below 0.002. (The tests share the reference, and discrete sizes only make p-values larger.)
    found = p_values(reference, "lublin", name)
    assert np.median(found) > 0.15
    assert min(found) > 0.002


@pytest.mark.parametrize("model", ["lublin-batch", "lublin-interactive"])
@pytest.mark.parametrize("name", ["size", "run time", "interval"])
def test_the_other_sets_have_not(reference: dict[str, NDArray[np.float64]], model: str, name: str) -> None:
    # So the reference is output of the untyped set, and the test above can tell a wrong parameter.
    assert max(p_values(reference, model, name)) < 1e-4


def test_moments_and_shares_of_the_reference(reference: dict[str, NDArray[np.float64]]) -> None:
    jobs = samples(models.generate("lublin", 100_000, 1, 256))
    for name in ("size", "run time", "interval"):
        # Both means vary; four standard errors of their difference.
        error = (reference[name].var() / 10_000 + jobs[name].var() / 100_000) ** 0.5
        assert jobs[name].mean() == pytest.approx(reference[name].mean(), abs=4 * error)
    for share in (lambda size: size == 1, lambda size: size.astype(int) & (size.astype(int) - 1) == 0, lambda size: size > 32):
        expected = share(reference["size"]).mean()
        assert share(jobs["size"]).mean() == pytest.approx(expected, abs=4 * (expected * (1 - expected) / 10_000) ** 0.5)


def test_no_job_runs_longer_than_exp_12_seconds() -> None:
    longest = int(swf.read_swf(real_log(REFERENCE))[1]["MaxRuntime"])
    assert longest == int(np.exp(12))
    assert 0.95 * longest < models.generate("lublin", 300_000, 1, 256)["run_time"].max() <= longest  # type: ignore[operator]


def walked(gaps: NDArray[np.float64], weights: list[float]) -> list[float]:
    """The arrivals as the model's authors tell them: from half-hour to half-hour, using up their weights."""
    bucket, points, before, now, found = 0, 0.0, 0.0, 0.0, []
    for gap in gaps:
        points += np.exp(gap) / 1800
        while points > weights[bucket]:
            points -= weights[bucket]
            bucket = (bucket + 1) % 48
            now += 1800
        part = points / weights[bucket]
        now += 1800 * (part - before)
        before = part
        found.append(now)
    return found


@pytest.mark.parametrize("some", [lublin.UNTYPED, lublin.BATCH, lublin.INTERACTIVE], ids=["untyped", "batch", "interactive"])
def test_submissions_are_those_of_the_walk_through_the_half_hours(some: lublin.Parameters) -> None:
    weights = [0.0] * 48
    for i in range(11, 59):
        law = gamma(some.anum, scale=some.bnum)
        weights[(i - 1) % 48] = law.cdf(i + 0.5) - law.cdf(i - 0.5)
    mean = sum(weights) / 48
    rng, same = (np.random.Generator(np.random.PCG64(3)) for _ in range(2))
    gaps = rng.gamma(some.aarr * some.arar, some.barr, 3000)
    again = gaps > 12
    while again.any():
        gaps[again] = rng.gamma(some.aarr * some.arar, some.barr, again.sum())
        again = gaps > 12
    expected = walked(gaps, [weight / mean for weight in weights])
    assert lublin.submissions(same, 3000, some) == pytest.approx(expected, rel=1e-9, abs=1e-3)


def test_parameters_that_the_paper_gives_for_its_own_machines() -> None:
    assert lublin.BATCH.medium_and_high(128) == (1.2, 5, 7)
    assert lublin.UNTYPED.medium_and_high(128) == (0.8, 4.5, 7)
    assert lublin.INTERACTIVE.medium_and_high(45) == (1, 3, 5.5)
    assert lublin.BATCH.medium_and_high(256) == (1.2, 5.5, 8)


@pytest.mark.parametrize("some", [lublin.UNTYPED, lublin.BATCH, lublin.INTERACTIVE], ids=["untyped", "batch", "interactive"])
@pytest.mark.parametrize("processors", [128, 256, 1000, 57472])
def test_shares_of_serial_small_and_power_of_two_jobs(some: lublin.Parameters, processors: int) -> None:
    count = 100_000
    sizes = lublin.sizes(np.random.Generator(np.random.PCG64(1)), count, some, processors)
    ulow, umed, uhi = some.medium_and_high(processors)
    serial = (sizes == 1).mean()
    # Beyond the serial ones, a drawn size of 1 is possible where ulow allows it: 2^0.58 rounds down to it.
    assert serial >= some.serial - 0.006
    assert serial <= some.serial + (1 - some.serial) * some.uprob * max(0, 0.6 - ulow) / (umed - ulow) + 0.006
    small = (sizes <= 2**umed).mean()
    # Rounding to a power of two moves jobs over the border by half a unit of the logarithm at most.
    low = some.serial + (1 - some.serial) * some.uprob * (1 - 0.5 / (umed - ulow))
    high = some.serial + (1 - some.serial) * (some.uprob + (1 - some.uprob) * 0.5 / (uhi - umed))
    assert low - 0.006 <= small <= high + 0.006
    # What is rounded up beyond the machine has all of it.
    powers = ((sizes & (sizes - 1)) == 0) | (sizes == processors)
    assert powers.mean() >= some.serial + some.pow2 - 0.006
    assert sizes.max() <= processors
    assert (sizes == processors).any() or processors > 1000


def test_larger_jobs_run_longer() -> None:
    jobs = models.generate("lublin", 50_000, 1, 256)
    medians = [
        jobs.filter(pl.col("allocated_processors").is_between(*bounds))["run_time"].median() for bounds in ((1, 8), (64, 256))
    ]
    assert medians[1] > 3 * medians[0]  # type: ignore[operator]


def test_the_model_knows_no_requested_times() -> None:
    assert set(models.generate("lublin", 100, 1, 256)["requested_time"]) == {-1}
