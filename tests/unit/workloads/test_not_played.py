"""What the jobs of a log ask for and do not get in a run, and its share of the processor time."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from real_logs import real_log

from mirage.experiment.prepare import Prepared
from mirage.experiment.remarks import remarks
from mirage.knobs import resolve as knobs
from mirage.traces import sacct_requests
from mirage.traces.trace import read_trace
from mirage.workloads import not_played
from mirage.workloads.requests import Requests

DAY = "2026-03-01T"
JOB = {
    "JobID": "", "JobIDRaw": "", "User": "a", "Partition": "batch", "QOS": "normal", "Submit": f"{DAY}10:00:00",
    "Eligible": f"{DAY}10:00:00", "Start": f"{DAY}10:00:10", "End": f"{DAY}11:00:10", "ElapsedRaw": "3600", "Suspended": "00:00:00",
    "State": "COMPLETED", "TimelimitRaw": "120", "ReqCPUS": "8", "AllocCPUS": "8", "ReqNodes": "1", "AllocNodes": "1", "ReqMem": "",
    "ReqTRES": "cpu=8,node=1", "AllocTRES": "cpu=8,node=1", "SubmitLine": "sbatch a.sh", "Constraints": "", "Reservation": "",
    "Licenses": "", "ReqGRES": "",
}  # fmt: skip
"""A job of sacct that asks for processors and time only."""


def run(folder: Path, *jobs: dict[str, str], **given: str) -> Prepared:
    """A run of the jobs of a log of sacct, each like JOB but for the values given."""
    lines = ["|".join(JOB)]
    for number, values in enumerate(jobs, 1):
        lines.append("|".join((JOB | {"JobID": str(number), "JobIDRaw": str(number)} | values).values()))
    path = folder / "log.sacct"
    path.write_text("\n".join(lines) + "\n")
    return run_of(path, **given)


def run_of(path: Path, **given: str) -> Prepared:
    values = knobs.resolve({"TRACE": str(path), "NODES": "20", "CPUS": "16", **given}, "experiment")
    trace = read_trace(path)
    shrinks = values.jobs.shrinks
    assert isinstance(shrinks, tuple)
    return Prepared.make(values, trace, shrinks[0])


def swf(folder: Path, *fields: dict[int, int], **given: str) -> Prepared:
    """A run of jobs of SWF, with the given fields (numbered from 1)."""
    lines = []
    for number, more in enumerate(fields, 1):
        values = {1: number, 2: 10 * number, 3: 5, 4: 100, 5: 4, 8: 4, 9: 200, 11: 1} | more
        lines.append(" ".join(str(values.get(field, -1)) for field in range(1, 19)))
    path = folder / "log.swf"
    path.write_text("\n".join(lines) + "\n")
    return run_of(path, **given)


def kinds(prepared: Prepared) -> list[str]:
    """The kinds of each job."""
    return prepared.jobs["not_played"].to_list()


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"ReqTRES": "cpu=8,gres/gpu=2"}, "gres"),
        ({"AllocTRES": "cpu=8,gres/gpu:a100=2"}, "gres"),
        ({"ReqGRES": "gpu:2"}, "gres"),
        ({"ReqGRES": "0"}, ""),
        ({"SubmitLine": "sbatch --gpus-per-node=1 j.sh"}, "gres"),
        ({"Constraints": "skylake"}, "constraint"),
        ({"Constraints": "(null)"}, ""),
        ({"SubmitLine": "sbatch -C skl j.sh"}, "constraint"),
        ({"SubmitLine": "sbatch --prefer=skl j.sh"}, "features"),
        ({"Licenses": "matlab:1"}, "licence"),
        ({"ReqTRES": "cpu=8,license/matlab=2"}, "licence"),
        ({"Reservation": "maint"}, "reservation"),
        ({"ReqTRES": "cpu=8,bb/datawarp=4G"}, "burst_buffer"),
        ({"ReqNodes": "2"}, ""),
        ({"ReqNodes": "30", "ReqCPUS": "30", "AllocCPUS": "30"}, "node_count"),
        ({"SubmitLine": "sbatch -N2 j.sh"}, ""),
        ({"SubmitLine": "sbatch -N9 j.sh"}, "node_count"),
        ({"SubmitLine": "sbatch -n 2 -c 4 j.sh"}, ""),
        ({"SubmitLine": "sbatch -n 3 -c 4 j.sh"}, "tasks"),
        ({"SubmitLine": "sbatch --contiguous --switches=1@60 --nice=10 j.sh"}, ""),
        ({"SubmitLine": "sbatch --deadline=18:00 j.sh"}, "other_option"),
        ({"SubmitLine": "sbatch --ntasks-per-node=4 j.sh"}, "node_count"),
        ({"SubmitLine": "sbatch --exclude=n7 j.sh"}, "node_list"),
        ({"SubmitLine": "sbatch --exclusive j.sh"}, ""),
        ({"SubmitLine": "sbatch --exclusive=user j.sh"}, "exclusive"),
        ({"SubmitLine": "sbatch --begin=18:00 j.sh"}, "begin"),
        ({"Eligible": f"{DAY}10:00:09"}, ""),
        ({"SubmitLine": "sbatch -H j.sh", "Eligible": f"{DAY}10:00:09"}, ""),
        ({"Eligible": f"{DAY}10:00:01"}, ""),
        ({"SubmitLine": "sbatch --array=0-9%2 j.sh", "JobID": "7_2"}, "array_limit"),
        ({"SubmitLine": "sbatch -a0-9%2 j.sh", "JobID": "7_2"}, "array_limit"),
        ({"SubmitLine": "sbatch --array=0-9 j.sh --array=0-9%2 -a 0-9%2", "JobID": "7_2"}, ""),
        ({"JobID": "7_[3-9%4]"}, "array_limit"),
        ({"SubmitLine": "sbatch --array=0-9 j.sh", "JobID": "7_2"}, ""),
        ({"JobID": "7+1"}, "heterogeneous"),
        ({"SubmitLine": "sbatch -d singleton j.sh", "Eligible": f"{DAY}10:00:09"}, "dependency"),
        ({"ReqMem": "32G"}, "memory"),
        ({"SubmitLine": "sbatch j.sh --nodesize"}, ""),
    ],
)
def test_each_request_of_sacct_is_counted(values: dict[str, str], kind: str, tmp_path: Path) -> None:
    prepared = run(tmp_path, {}, values | {"Submit": f"{DAY}10:00:00"})
    assert kinds(prepared) == ["", kind]
    assert set(not_played.counts(prepared.jobs)) == ({kind, "any"} if kind else set())


def test_each_kind_has_words() -> None:
    assert set(sacct_requests.KINDS) < set(not_played.WORDS)


def test_the_share_is_that_of_the_processor_time(tmp_path: Path) -> None:
    prepared = run(
        tmp_path,
        {"AllocCPUS": "24", "ReqCPUS": "24"},
        {"ReqTRES": "gres/gpu=1", "Constraints": "skl"},
        {"Constraints": "skl"},
        {"AllocCPUS": "0", "ReqTRES": "gres/gpu=1", "State": "CANCELLED", "Start": "Unknown", "ElapsedRaw": "0"},
    )
    assert not_played.counts(prepared.jobs) == {
        "constraint": {"jobs": 2, "share": 16 / 40},
        "gres": {"jobs": 2, "share": 8 / 40},
        "any": {"jobs": 3, "share": 16 / 40},
    }
    told = remarks(prepared)
    assert any(
        line == "requests that are not emulated: a constraint: 2 jobs, 40 % of the processor time; "
        "GPUs or other GRES: 2 jobs, 20 % of the processor time; any of them: 3 jobs, 40 % of the processor time"
        for line in told
    )
    assert any(
        "a comparison with the real machine will be inconclusive: jobs with 40 % of the processor time" in line for line in told
    )


def test_a_dependency_is_played_unless_the_knob_says_no(tmp_path: Path) -> None:
    later = {"SubmitLine": "sbatch -d afterok:1 j.sh", "Start": f"{DAY}11:00:20", "Eligible": f"{DAY}11:00:10"}
    assert kinds(run(tmp_path, {}, later)) == ["", ""]
    assert kinds(run(tmp_path, {}, later, DEPENDENCIES="none")) == ["", "dependency"]
    outside = later | {"SubmitLine": "sbatch -d afterok:77 j.sh"}
    assert kinds(run(tmp_path, {}, outside)) == ["", "dependency"]
    # Started before the other ended: somebody removed the dependency.
    assert kinds(run(tmp_path, {}, {"SubmitLine": "sbatch -d afterok:1 j.sh"})) == ["", ""]


def test_a_partition_or_qos_that_only_some_jobs_name_is_a_request(tmp_path: Path) -> None:
    assert kinds(run(tmp_path, {"Partition": "gpu"}, {"Partition": "gpu"})) == ["", ""]
    assert kinds(run(tmp_path, {"Partition": "gpu"}, {"Partition": "batch"})) == ["partition", ""]
    assert kinds(run(tmp_path, {"QOS": "high"}, {})) == ["qos", ""]
    assert kinds(run(tmp_path, {"QOS": "high"}, {"QOS": "high"})) == ["", ""]


def test_fields_of_swf(tmp_path: Path) -> None:
    assert kinds(swf(tmp_path, {15: 1, 16: 1}, {15: 1, 16: 1})) == ["", ""]
    assert kinds(swf(tmp_path, {15: 1}, {15: 2})) == ["queue", "queue"]
    assert kinds(swf(tmp_path, {16: 1}, {16: 2}, {})) == ["partition", "partition", ""]
    assert kinds(swf(tmp_path, {10: 2_000_000}, {})) == ["memory", ""]
    assert kinds(swf(tmp_path, {}, {17: 1, 18: 5})) == ["", "preceding_job"]
    assert kinds(swf(tmp_path, {}, {17: 1, 18: 5}, DEPENDENCIES="think")) == ["", ""]
    # The program and the user ask for nothing.
    assert kinds(swf(tmp_path, {12: 1, 14: 1}, {12: 2, 14: 2})) == ["", ""]


def test_jobs_that_routing_rules_assign_are_not_counted() -> None:
    jobs = pl.DataFrame(
        {"id": [1, 2, 3], "queue": [1, 2, 2], "partition": [-1, -1, -1], "memory": [None, 4.0e6, 4.0e6]}
    ).with_columns(
        pl.col("memory").cast(pl.Float64), partition_name=pl.lit(""), qos_name=pl.lit(""), not_played=pl.Series(["", "", "begin"])
    )
    asked = Requests(partitions=["", "short", ""], qos=["", "", ""], memory=[None, 3906, 2000], limits=[1, 1, 1])
    found = not_played.with_requests(jobs, asked, pl.Series(["", "short", ""]), pl.Series(["", "", ""]))
    assert found.to_list() == ["queue", "", "begin memory queue"]


def test_the_folder_of_a_run_has_the_kinds(tmp_path: Path) -> None:
    prepared = run(tmp_path, {"ReqTRES": "gres/gpu=1", "ReqMem": "4G"}, {})
    prepared.write(tmp_path / "run", {})
    read = pl.read_csv(tmp_path / "run/workload.csv", infer_schema_length=None)
    assert read["not_played"].fill_null("").to_list() == ["gres memory", ""]
    assert not_played.counts(read) == not_played.counts(prepared.jobs)
    assert not_played.counts(read)["any"] == {"jobs": 1, "share": 0.5}


def test_a_workload_that_asks_for_nothing_else(tmp_path: Path) -> None:
    prepared = run(tmp_path, {}, {})
    assert not_played.counts(prepared.jobs) == {}
    assert not_played.inconclusive({}) == ""
    assert not any("not emulated" in line for line in remarks(prepared))


def test_a_real_sample_of_sacct() -> None:
    prepared = run_of(real_log("ubhpc-sacct_dump2110.log"))
    found = not_played.counts(prepared.jobs)
    assert {"constraint", "memory"} <= set(found)
    assert "node_count" not in found and any("nodes=" in row.request for row in prepared.plan("run")), "numbers of nodes are played"


def test_three_jobs_that_ask_for_everything(tmp_path: Path) -> None:
    everything = {
        "Partition": "gpu", "Eligible": f"{DAY}18:00:00", "Start": f"{DAY}18:00:05", "End": f"{DAY}19:00:05", "ReqNodes": "2",
        "ReqMem": "32G", "ReqTRES": "cpu=8,mem=32G,node=2,gres/gpu=8,license/matlab=2", "Constraints": "skl",
        "Reservation": "maint",
        "SubmitLine": "sbatch --begin=18:00 --gres=gpu:4 -N2 -C skl -L matlab:2 --reservation=maint a.sh",
    }  # fmt: skip
    component = {"ReqMem": "32G"}
    found = not_played.counts(run(tmp_path, everything, component | {"JobID": "11+0"}, component | {"JobID": "11+1"}).jobs)
    once = ("constraint", "gres", "licence", "partition", "reservation")
    assert {kind: count["jobs"] for kind, count in found.items()} == {
        "memory": 3, "heterogeneous": 2, **dict.fromkeys(once, 1), "any": 3,
    }  # fmt: skip
    assert found["any"]["share"] == 1
    assert found["heterogeneous"]["share"] == pytest.approx(2 / 3)


def test_jobs_whose_requests_were_refused() -> None:
    jobs = pl.DataFrame({"id": [1, 2, 3], "not_played": ["", "gres", None]})
    assert not_played.with_refused(jobs, {2, 3})["not_played"].to_list() == ["", "gres refused", "refused"]
    assert not_played.with_refused(jobs, set())["not_played"].to_list() == ["", "gres", ""]
