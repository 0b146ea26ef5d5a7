"""Generated workloads of all models: their form, the same bytes everywhere, the load asked for, their headers."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from mirage.simulation.simulation import schedule
from mirage.traces import swf, swf_header
from mirage.traces.trace import Trace
from mirage.workloads import models, workload
from mirage.workloads.models.registry import as_markdown
from mirage.workloads.selection import Selection
from slurm_mirage.base.errors import WrongUse

MACHINES = [1, 2, 4, 16, 48, 64, 100, 1000, 5760, 57472]

# Fixed here, so that another release of numpy, another platform, or a change made by mistake shows. They hold
# for numpy 2.4 and glibc, whose logarithms and exponentials are correctly rounded in all but rare cases.
DIGESTS = {
    "raijin": "ef547aba211087d0cde898f335f1a673a6f832984d21dd94469457765dd4d7d0",
    "lublin": "3c684c5cebe261c5225803437012d44a0d9cb36dadc53afa4950179768d0018a",
    "lublin-batch": "ebbc4edafed363694e5cad00d841bce2db43caeada818ede6226e3fc02827615",
    "lublin-interactive": "be4a8a7ce95d7897a22d0205e5cff718399e9b68a6ffbe35c3f028b58c39ba0d",
    "feitelson96": "422c0962d862c13bc2725d1d3d64336387fe31ba3d00da585e58230ee9372c42",
    "lomonosov": "5d32b67299e8e293efcbffecaade68734c5c789bc335256a5b5ba42a83a1cdfe",
    "susu": "eed8d47d405e44e942fe0c59dfb2a0dde57a28703c401244bbdd55bcbddf2515",
    "dmr": "842d2195ee2bb397294ad8916b09e9b3e3f9ff28a8864bcdd673620eb7a9442a",
}


def offered_load(jobs: pl.DataFrame, processors: int) -> float:
    area = (jobs["allocated_processors"] * jobs["run_time"]).sum()
    return float(area / (processors * (jobs["submit"][-1] - jobs["submit"][0])))


DEFAULT_CASES = [(4, None), (16, None), (64, None), (240, None), (5760, None), (57600, None), (16, 40), (240, 40), (5760, 40)]
"""Machines, and numbers of jobs (JOBS), of the default workload."""


def simulated(jobs: pl.DataFrame, processors: int, policy: str, factor: float, delays: int | None = None) -> pl.DataFrame:
    """Waits and ends, in seconds of the trace, of the jobs in a simulated run with SHRINK=100 * factor.

    delays: seed of random delays of up to 2 s of Slurm's time of each submission and end; None: no delays
    """
    rng = np.random.default_rng(delays)
    late = rng.uniform(0, 0 if delays is None else 2, (2, jobs.height))
    shown = jobs.with_columns(
        submit=pl.col("submit") * factor + pl.Series(late[0]),
        run_time=pl.col("run_time") * factor + pl.Series(late[1]),
        limit=(pl.col("requested_time") * factor / 60).ceil() * 60,
    ).sort("submit", maintain_order=True)
    submit, sizes, run_times, limits = (shown[name].to_numpy() for name in ("submit", "allocated_processors", "run_time", "limit"))
    starts = pl.Series(schedule(submit, sizes, run_times, limits, processors, policy))
    return shown.select(wait=(starts - pl.col("submit")) / factor, end=(starts + pl.col("run_time")) / factor)


def mean_wait(jobs: pl.DataFrame, processors: int, policy: str, factor: float, delays: int | None = None) -> float:
    return float(simulated(jobs, processors, policy, factor, delays)["wait"].mean())  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(("processors", "count"), DEFAULT_CASES)
def test_waits_and_run_times_of_the_default_workload_are_long(processors: int, count: int | None, seed: int) -> None:
    # The resolution of a run with SHRINK=50 is 2 s: at most 5 % of the mean wait and of the median run time, with a margin.
    jobs = models.default_workload(processors, seed, count)
    played = simulated(jobs, processors, "easy", 1.0)
    assert played["wait"].mean() >= 120  # type: ignore[operator]
    assert jobs["run_time"].median() >= 250  # type: ignore[operator]
    assert jobs["run_time"].is_between(60, 900).all()
    assert played["end"].max() <= 3000  # type: ignore[operator]
    if count is None:
        assert played["end"].max() >= 2250  # type: ignore[operator]
        assert jobs.height == 150 if processors >= 64 else 15 <= jobs.height < 150
    else:
        assert jobs.height == count


@pytest.mark.parametrize("factor", [1.0, 0.5])
@pytest.mark.parametrize("policy", ["easy", "conservative"])
@pytest.mark.parametrize(("processors", "count"), DEFAULT_CASES)
def test_small_delays_do_not_change_the_mean_wait_of_the_default_workload(
    processors: int, count: int | None, policy: str, factor: float
) -> None:
    jobs = models.default_workload(processors, 1, count)
    exact = mean_wait(jobs, processors, policy, factor)
    changes = [abs(mean_wait(jobs, processors, policy, factor, seed) / exact - 1) for seed in range(1, 21)]
    # 2 s of Slurm's time are 4 s of the trace with SHRINK=50.
    assert max(changes) < 0.05 / factor
    assert sorted(changes)[10] < 0.05


@pytest.mark.parametrize("processors", [240, 5760])
def test_other_seeds_of_the_default_workload_are_as_steady(processors: int) -> None:
    changes = []
    for seed in range(1, 21):
        jobs = models.default_workload(processors, seed)
        changes.append(
            abs(mean_wait(jobs, processors, "conservative", 1.0, seed) / mean_wait(jobs, processors, "conservative", 1.0) - 1)
        )
    assert max(changes) < 0.05


def test_the_default_workload_has_wide_and_narrow_jobs_with_limits_above_their_run_times() -> None:
    jobs = models.default_workload(5760, 1)
    assert (jobs["allocated_processors"].min(), jobs["allocated_processors"].max()) == (1, 576)
    assert jobs["allocated_processors"].n_unique() >= 7
    assert (jobs["requested_time"] > jobs["run_time"]).mean() > 0.95  # type: ignore[operator]
    assert jobs["submit"].max() <= 600  # type: ignore[operator]


def test_few_jobs_of_the_default_workload_are_wider() -> None:
    few, many = (models.default_workload(5760, 1, count) for count in (40, 640))
    assert (few.height, many.height) == (40, 640)
    widest = [float(jobs["allocated_processors"].max()) for jobs in (few, many)]  # type: ignore[arg-type]
    assert widest[0] == pytest.approx(4 * widest[1], rel=0.02)
    assert models.default_workload(4, 1, 2)["allocated_processors"].max() <= 4  # type: ignore[operator]


def test_the_default_workload_can_be_submitted() -> None:
    for processors, cpus in ((5760, 16), (100, 1), (4, 2)):
        jobs = models.default_workload(processors, 1)
        trace = Trace(jobs, {}, {}, "generated", "")
        ready = workload.prepare(trace, Selection(), classes=[(processors // cpus, cpus)], slack=5)
        assert ready.excluded == {}
        assert ready.jobs.height == jobs.height
        assert "renumbered" not in ready.notes


def check_form(jobs: pl.DataFrame, processors: int) -> None:
    assert jobs.schema == swf.SCHEMA
    assert jobs["job_number"].to_list() == list(range(1, jobs.height + 1))
    assert jobs["submit"][0] >= 0
    assert all(a <= b for a, b in pairwise(jobs["submit"]))
    for column in ("submit", "run_time", "requested_time"):
        assert (jobs[column] == jobs[column].floor()).all(), column
    assert (jobs["run_time"] >= 1).all()
    assert ((jobs["requested_time"] >= jobs["run_time"]) | (jobs["requested_time"] == -1)).all()
    assert jobs["allocated_processors"].is_between(1, processors).all()
    assert jobs["allocated_processors"].equals(jobs["requested_processors"], check_names=False)
    assert set(jobs["status"]) == {1}
    assert set(jobs["wait"]) == {-1}
    assert (jobs["user"] >= 1).all()


@pytest.mark.parametrize("processors", MACHINES)
@pytest.mark.parametrize("model", models.MODELS)
def test_form_of_a_generated_workload(model: str, processors: int) -> None:
    jobs = models.generate(model, 2000, 7, processors)
    assert jobs.height == 2000
    check_form(jobs, processors)


def test_form_of_the_default_workload() -> None:
    check_form(models.default_workload(100, 7), 100)


@pytest.mark.parametrize("model", models.MODELS)
def test_a_generated_workload_is_read_back_as_it_was_written(model: str, tmp_path: Path) -> None:
    jobs = models.generate(model, 200, 1, 256)
    swf.write_swf(jobs, models.header(model, 1, 256, 32), tmp_path / "w.swf")
    log = swf.read_swf(tmp_path / "w.swf")
    assert log[0].equals(jobs)


def digest(jobs: pl.DataFrame) -> str:
    return hashlib.sha256(jobs.write_csv().encode()).hexdigest()


@pytest.mark.parametrize("model", models.MODELS)
def test_the_same_seed_gives_the_same_bytes_and_another_does_not(model: str) -> None:
    first = digest(models.generate(model, 500, 1, 512))
    assert first == DIGESTS.get(model, digest(models.generate(model, 500, 1, 512)))
    assert digest(models.generate(model, 500, 2, 512)) != first


def test_the_default_workload_has_the_same_bytes_everywhere() -> None:
    assert digest(models.default_workload(5760, 1)) == "21499eefd6d79db728716d705e668aa079e541f6002c1a4766b4fea7abb95e86"
    assert digest(models.default_workload(5760, 2)) != digest(models.default_workload(5760, 1))


def test_the_documentation_has_the_table_and_a_section_of_each_model() -> None:
    docs = Path(__file__).parents[3] / "docs"
    page = (docs / "models.md").read_text("utf-8")
    table = page.partition("<!-- models: ")[2].partition("-->")[2].partition("<!-- end of models -->")[0]
    assert table.strip() == as_markdown().strip()
    lines = page.splitlines()
    sections = {name for line in lines if line.startswith("## ") for name in line[3:].split(", ")}
    assert set(models.MODELS) <= sections
    assert all(entry.name == name and entry.load().computer for name, entry in models.MODELS.items())


def test_the_names_are_known_without_polars() -> None:
    program = "import sys; from mirage.workloads.models import MODELS; sys.exit(not MODELS or 'polars' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize("load", [0.3, 0.9, 1.5])
@pytest.mark.parametrize("model", models.MODELS)
def test_the_load_asked_for_is_offered_by_the_same_jobs(model: str, load: float) -> None:
    jobs, own = models.generate(model, 5000, 1, 512, load=load), models.generate(model, 5000, 1, 512)
    span = jobs["submit"][-1] - jobs["submit"][0]
    # Submissions are rounded down to their step.
    assert offered_load(jobs, 512) == pytest.approx(load, rel=1.01 * models.MODELS[model].load().step / span)
    for column in ("allocated_processors", "run_time"):
        assert sorted(jobs[column]) == sorted(own[column])


@pytest.mark.parametrize("model", ["raijin", "lomonosov", "susu"])
@pytest.mark.parametrize("processors", [8, 100, 1328, 57472])
def test_models_with_a_load_of_their_own_offer_it_to_any_machine(model: str, processors: int) -> None:
    own = {"raijin": 0.799, "lomonosov": 0.9, "susu": 0.807}[model]
    jobs = models.generate(model, 100_000, 1, processors)
    areas = jobs["allocated_processors"] * jobs["run_time"]
    deviation: float = areas.std()  # type: ignore[assignment]
    # Most of the load is that of few jobs, so that it varies by some per cent between seeds: four standard errors.
    assert offered_load(jobs, processors) == pytest.approx(own, rel=4 * deviation / areas.mean() / 100_000**0.5)  # type: ignore[operator]


def test_a_few_users_have_most_of_the_jobs() -> None:
    counts = models.generate("raijin", 100_000, 1, 57472)["user"].value_counts().sort("user")["count"]
    assert 400 <= len(counts) <= 411
    harmonic = sum(1 / k for k in range(1, 412))
    assert counts[0] / 100_000 == pytest.approx(1 / harmonic, rel=0.03)
    assert counts[9] / 100_000 == pytest.approx(0.1 / harmonic, rel=0.1)


def test_one_processor_and_one_job() -> None:
    for model in models.MODELS:
        assert models.generate(model, 1, 1, 1)["allocated_processors"].to_list() == [1]


@pytest.mark.parametrize("model", models.MODELS)
def test_the_header_names_model_parameters_and_seed(model: str) -> None:
    header = models.header(model, 7, 512, 32, load=0.9)
    assert header["MaxProcs"] == "512"
    assert header["MaxNodes"] == "32"
    assert int(header["UnixStartTime"]) % 86400 == 0
    assert header["Note"].startswith(f"generated by Slurm Mirage: model {model}, seed 7, offered load 0.9\nparameters: ")
    assert set(header) <= set(swf_header.LABELS)


@pytest.mark.parametrize(
    ("arguments", "load", "message"),
    [
        (("lublin99", 10, 1, 100), None, "model: 'lublin99' may be .*raijin, lublin, .* or [a-z0-9-]+$"),
        (("raijin", 0, 1, 100), None, "jobs: 0 may be 1 or more"),
        (("raijin", 10, -1, 100), None, "seed: -1 may be 0 or more"),
        (("raijin", 10, 1, 0), None, "cpus: 0 processors in all"),
        (("raijin", 10, 1, 100), 0.0, "load: 0 may be a number above 0"),
        (("raijin", 10, 1, 100), float("inf"), "load: inf may be a number above 0"),
        (("raijin", 1, 1, 100), 0.5, "load: jobs that are all submitted at once offer no load"),
    ],
)
def test_wrong_use(arguments: tuple[str, int, int, int], load: float | None, message: str) -> None:
    with pytest.raises(WrongUse, match=f"^{message}"):
        models.generate(*arguments, load=load)
