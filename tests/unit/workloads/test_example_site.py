"""The imaginary site's week: what a replay takes of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

from mirage.experiment.prepare import Prepared, source
from mirage.knobs import resolve
from mirage.site import now, site_conf
from mirage.site.archive import open_archive
from mirage.traces.trace import read_trace
from mirage.workloads import example_site
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.jobs.request import Request


def test_the_same_numbers_give_the_same_bytes(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        example_site.write(tmp_path / name, 24, 50, seed)
    first, same, other = ((tmp_path / name).read_bytes() for name in "abc")
    assert first == same and first != other
    assert open_archive(tmp_path / "a").parts["sacct/20261102T000000Z.txt"].rows == 50


def test_the_machine_and_its_users(tmp_path: Path) -> None:
    example_site.write(tmp_path / "week.tar", 48, 20, 1)
    site = site_conf.read(tmp_path / "week.tar")
    assert sum(one.count for one in site.nodes) == 48 and len(site.partitions) == 3
    assert [str(item) for item in site.left_out if item.group != "has no part in scheduling here"] == []
    gpus = {dict(one.extra)["Gres"]: one.count for one in site.nodes if "Gres" in dict(one.extra)}
    assert gpus == {"gpu:a100:4": 8, "gpu:v100:2": 8}
    assert len(site.topology.splitlines()) == 7
    assert site.accounts is not None and len({one["user"] for one in site.accounts.associations} - {""}) == example_site.USERS
    assert {one["name"] for one in site.accounts.qos} == {"urgent", "gpus"}


def test_all_kinds_of_jobs_are_played_in_full(tmp_path: Path) -> None:
    """Jobs that ask for more than the machine has would be left out, and requests that cannot be read would be counted."""
    path = tmp_path / "week.tar"
    example_site.write(path, 24, 300, 1)
    knobs = resolve.resolve({resolve.GIVEN: "SITE", "SITE": str(path)}, "experiment")
    prepared = Prepared.make(knobs, source(knobs.workload, knobs.nodes.machine).trace, knobs.jobs.shrinks[0])
    assert prepared.workload.excluded == {} and prepared.workload.presets() == 0
    rows = prepared.plan("run")
    assert len(rows) == 300 and {row.partition for row in rows} == {"batch", "gpu", "short"}
    asked = [Request.parse(row.request) for row in rows]
    kinds = Counter(
        word
        for one in asked
        for word in ("gres", "licences", "constraint", "begin", "hold", "exclusive", "switches", "nodes", "cpus_per_task")
        if getattr(one, word)
    )
    assert len(kinds) == 9 and any(row.dependency for row in rows) and {row.qos for row in rows} == {"normal", "urgent"}
    assert prepared.jobs["not_played"].to_list() == [""] * 300
    assert Counter(event.action for event in prepared.events) == {"set": 2, "reserve": 1, "down": 2, "drain": 2, "resume": 4}


def test_recorded_times_are_those_of_jobs_that_waited_for_nothing_but_themselves(tmp_path: Path) -> None:
    example_site.write(tmp_path / "week.tar", 24, 200, 3)
    jobs = read_trace(tmp_path / "week.tar").frame
    assert (jobs["wait"] >= 0).all() and (jobs["run_time"] <= jobs["requested_time"]).all()


def test_an_archive_that_ends_now_has_jobs_that_run_and_wait(tmp_path: Path) -> None:
    for name in "ab":
        assert example_site.write(tmp_path / name, 24, 300, 1, _late) == 300
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    taken = open_archive(tmp_path / "a")
    waiting = now.waiting(taken)
    frame = read_trace(tmp_path / "a").frame
    assert len(waiting) > 5
    assert set(frame["state"]) == {"COMPLETED", "RUNNING", "PENDING"}
    assert frame.filter(pl.col("state") == "PENDING").height == len(waiting)
    assert float(frame["submit"].max()) + example_site.BEGIN <= taken.end  # type: ignore[arg-type]


def _late(
    submits: Sequence[float], _sizes: Sequence[int], _runs: Sequence[float], _limits: Sequence[float], machine: int
) -> Sequence[float]:
    """Each job starts an hour after it could."""
    assert machine > 0 and list(submits) == sorted(submits)
    return [submit + 3600 for submit in submits]


@pytest.mark.parametrize("jobs", [1, 30])
def test_a_queue_in_which_no_job_waits_is_refused(tmp_path: Path, jobs: int) -> None:
    with pytest.raises(WrongUse, match=f"of {jobs} jobs none waits") as refused:
        example_site.write(tmp_path / "a", 24, jobs, 1, lambda submits, *_: list(submits))
    assert refused.value.parameter == "jobs" and not (tmp_path / "a").exists()


def test_a_machine_without_room_for_three_partitions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match="11 may be 12 or more"):
        example_site.write(tmp_path / "week.tar", 11, 20, 1)
