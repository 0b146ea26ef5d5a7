"""`make figure-load`: the load of a machine whose queue is never empty, calculated by hand and in limiting cases; its files."""

from __future__ import annotations

import io
import math
import threading
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from mirage.commands.figure_load import figure_load, make
from mirage.knobs import resolve as knobs
from mirage.simulation import saturation
from mirage.simulation.saturation import Study, load, measure, summary
from mirage.simulation.simulation import schedule
from mirage.terminal.screen import Screen
from slurm_mirage.base.errors import WrongUse

SMALL = Study(days=2, warmup_days=0.5, repetitions=2, accuracies=(0.0, 0.5, 1.0), waiting=(5, 20))


def frame(jobs: list[tuple[int, int, int]]) -> pl.DataFrame:
    """Processors, run time and estimate in minutes."""
    columns = {"allocated_processors": pl.Int64, "run_time": pl.Float64, "requested_time": pl.Float64}
    return pl.DataFrame([(width, 60.0 * run, 60.0 * expected) for width, run, expected in jobs], columns, orient="row")


def quiet(*_: int) -> None:
    """A report of progress that does nothing."""


def minutes(processors: int, begin: int, end: int) -> Study:
    return Study(processors=processors, warmup_days=begin / 1440, days=(end - begin) / 1440)


def test_by_hand() -> None:
    """Two processors, jobs of an hour that take two and one of them by turns.

    With one job in the queue each waits for the one before it: both processors for an hour, one for an hour. With two in the queue
    the second narrow job is seen before the wide one between them, and nothing is left idle.
    """
    jobs = frame([(2, 60, 60), (1, 60, 60)] * 10)
    assert load(jobs, minutes(2, 0, 480), 1, True) == pytest.approx(0.75)
    assert load(jobs, minutes(2, 30, 90), 1, True) == pytest.approx(0.75)
    assert load(jobs, minutes(2, 60, 120), 1, True) == pytest.approx(0.5)
    assert load(jobs, minutes(2, 0, 480), 2, True) == pytest.approx(1.0)


def test_what_ends_early_leaves_a_gap_without_rescheduling() -> None:
    """A job is expected to take two hours and takes one, another one of its width is promised the end of the second."""
    jobs = frame([(2, 60, 120)] * 10)
    assert load(jobs, minutes(2, 0, 480), 1, True) == pytest.approx(1.0)
    assert load(jobs, minutes(2, 0, 480), 1, False) == pytest.approx(0.5)


def test_the_queue_does_not_run_empty() -> None:
    jobs = saturation.generated(SMALL, 3)
    width, run = jobs["allocated_processors"].to_numpy(), jobs["run_time"].to_numpy()
    for depth in SMALL.waiting:
        start = schedule(np.zeros(jobs.height), width, run, run, SMALL.processors, "conservative", depth=depth)
        assert (start >= SMALL.end).sum() >= depth


def test_jobs_last_in_spite_of_a_wrong_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = saturation.generated(SMALL, 3)
    monkeypatch.setattr(saturation, "_MEAN_WORK", 20 * saturation._MEAN_WORK)
    few = saturation.generated(SMALL, 3)
    work = SMALL.processors * (SMALL.end + 15 * 86400)
    for jobs in (usual, few):
        assert (jobs["allocated_processors"] * jobs["run_time"]).sum() > work


def test_accuracy_helps_and_does_so_more_without_rescheduling() -> None:
    loads = measure(SMALL, 2, quiet)
    assert loads.height == 2 * 3 * 2 * 2
    assert loads["load"].is_between(0, 1).all()
    mean = {key: value for *key, value, _, _, _ in summary(loads).iter_rows() for key in [tuple(key)]}
    for waiting in SMALL.waiting:
        assert mean[False, waiting, 0.0] < mean[True, waiting, 0.0]
        assert mean[False, waiting, 0.0] < mean[False, waiting, 1.0]
    # Exact estimates leave nothing to reschedule.
    exact = loads.filter(pl.col("accuracy") == 1)
    assert exact.filter("rescheduling")["load"].to_list() == exact.filter(~pl.col("rescheduling"))["load"].to_list()


def test_the_seed_decides_and_threads_do_not() -> None:
    tiny = Study(days=0.5, warmup_days=0, repetitions=1, accuracies=(0.3,), waiting=(5,))
    assert measure(tiny, 1, quiet).equals(measure(tiny, 3, quiet))
    assert not measure(tiny, 1, quiet).equals(measure(Study(**{**vars(tiny), "seed": 2}), 1, quiet))


def test_summary_by_hand() -> None:
    """Loads 0.7, 0.8, 0.9: mean 0.8, deviation 0.1; Student's t for two degrees of freedom is 4.3027."""
    rows = [(repetition, 0.5, 10, True, value) for repetition, value in enumerate([0.7, 0.8, 0.9])]
    table = summary(pl.DataFrame(rows, ["repetition", "accuracy", "waiting", "rescheduling", "load"], orient="row"))
    [(rescheduling, waiting, accuracy, mean, low, high, repetitions)] = table.rows()
    assert (rescheduling, waiting, accuracy, repetitions) == (True, 10, 0.5, 3)
    assert (mean, low, high) == pytest.approx((0.8, 0.8 - 4.3027 * 0.1 / math.sqrt(3), 0.8 + 4.3027 * 0.1 / math.sqrt(3)), abs=1e-4)


@pytest.mark.parametrize("repetitions", [1, 2])
def test_what_is_written(tmp_path: Path, repetitions: int) -> None:
    study = Study(days=0.5, warmup_days=0, repetitions=repetitions, accuracies=(0.0, 1.0), waiting=(5, 20))
    stream = io.StringIO()
    ending = make(study, tmp_path / "new", Screen(stream))
    assert ending.word == "ok"
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["figure.csv", "figure.png", "figure.svg", "report.json"]
    table = pl.read_csv(tmp_path / "new/figure.csv")
    assert table.columns == ["rescheduling", "waiting", "accuracy", "mean", "low", "high", "repetitions"]
    assert table.height == 8 and table["repetitions"].unique().to_list() == [repetitions]
    assert (tmp_path / "new/figure.png").read_bytes().startswith(b"\x89PNG")
    svg = (tmp_path / "new/figure.svg").read_text()
    for words in ("5 jobs waiting", "20 jobs waiting", "without rescheduling", "accuracy of estimates p", "average load"):
        assert words in svg
    for mean in table["mean"]:
        assert f"{100 * mean:.1f} %" in stream.getvalue()


def test_what_is_no_folder_of_a_report_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for out, words in (
        (tmp_path / "file", "is a file"),
        (tmp_path, "has files that do not belong to a report"),
        (tmp_path / "no/such", "cannot be made"),
    ):
        with pytest.raises(WrongUse, match=words):
            figure_load(knobs.resolve({"OUT": str(out)}), Screen(io.StringIO()))


def test_after_an_interrupt_no_other_schedule_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise Ctrl-C would wait for all of them."""
    began: list[object] = []
    interrupted = threading.Event()

    def loads(*arguments: object) -> list[object]:
        if began:
            interrupted.wait()
        began.append(arguments)
        return []

    def interrupt(*_: int) -> None:
        interrupted.set()
        raise KeyboardInterrupt

    monkeypatch.setattr(saturation, "_loads", loads)
    with pytest.raises(KeyboardInterrupt):
        measure(Study(repetitions=20_000, accuracies=(0.5,)), 1, interrupt)
    assert len(began) < 20_000
