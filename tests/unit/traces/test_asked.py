"""What jobs of sacct ask for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st

from mirage.traces.asked import Asked, given, kinds_of, request_of
from mirage.traces.submit_line import options
from mirage.traces.trace import read_trace
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.jobs.request import Request


def words(line: str = "", **columns: object) -> str:
    return request_of(Asked(given(options(f"sbatch {line} job.sh")), **columns)).words  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("line", "request_"),
    [
        ("-N2", "nodes=2"),
        ("-N2-4 -n8 -c2", "nodes=2 most_nodes=4 tasks=8 cpus_per_task=2"),
        ("-N 1k", "nodes=1024"),
        ("-N -4", "nodes=1 most_nodes=4"),
        ("--ntasks-per-node=4 --mem=4G", "tasks_per_node=4 memory_per_node=4096"),
        ("--mem-per-cpu=4G --mem=0", ""),
        ("--mem-per-gpu=500K", "memory_per_gpu=1"),
        ("--exclusive --contiguous --switches=1@60:00", "exclusive=1 contiguous=1 switches=1@60:00"),
        ("--nice", "nice=100"),
        ("--nice=-5", ""),
        ("--gres=gpu:a100:2,nvme", "gres=gpu:a100:2,nvme:1"),
        ("--gres=gpu", "gres=gpu:1"),
        ("--gres=none", ""),
        ("--gpus-per-node=a100:2", "gres=gpu:a100:2"),
        ("--tres-per-node=gres/gpu:2", "gres=gpu:2"),
        ("-G 8", "gpus=8"),
        ("--gpus=a100:4,v100:2", "gpus=a100:4,v100:2"),
        ("--gpus-per-task=1 -n4", "tasks=4 gpus_per_task=1"),
        ("-C skl&(ib|opa)", "constraint=skl&(ib|opa)"),
        ("-C [a*2&b*4]", "constraint=[a*2&b*4]"),
        ("-L matlab:2;ansys", "licences=matlab:2,ansys"),
        ("-L a:1|b:1", ""),
        ("--reservation=maint", "reservation=maint"),
    ],
)
def test_options(line: str, request_: str) -> None:
    assert words(line) == request_


def test_columns() -> None:
    assert words(resources="gres/gpu=8,gres/gpu:a100=8", nodes=2) == "gpus=a100:8"
    assert words(resources="gres/gpu=8,license/matlab=2") == "licences=matlab:2 gpus=8"
    assert words(resources="gres/nvme=400,gres/gpu=0", nodes=2) == "gres=nvme:200"
    assert words(resources="gres/nvme=401", nodes=2) == ""
    assert words("-G 2", resources="gres/gpu=9") == "gpus=2"
    assert words(req_gres="gpu:2(S:0-1)") == "gres=gpu:2"
    assert words(req_gres="gpu:0") == ""
    assert words(asked_nodes=2, nodes=3) == "nodes=2 most_nodes=3"
    assert words(asked_nodes=2, nodes=2) == "nodes=2"
    assert words(asked_nodes=1, nodes=3) == ""
    assert words("-C b", constraints="a|b") == "constraint=a|b"
    assert words(exclusive="YES") == "exclusive=1"
    assert words(mebibytes_of_node=300) == "memory_per_node=300"


def test_kinds_of_command_lines() -> None:
    assert kinds_of(given(options("sbatch -c4 --contiguous --nice=3 --tmp=4 x"))) == ["tasks", "placement", "nice", "other_option"]
    assert kinds_of(given(options("sbatch -c 1 --nice=0 x --tmp=4"))) == []


@hypothesis.given(
    st.text("sbatch -NGCL=gres:pu,0129abc*&|()[].K\n", max_size=80),
    st.builds(
        Asked,
        constraints=st.text(max_size=9),
        licences=st.text(max_size=9),
        resources=st.text("gres/pu:=,019", max_size=30),
        asked_nodes=st.integers(0, 10**9 - 1),
        nodes=st.integers(0, 10**9 - 1),
    ),
)
def test_any_request_survives_its_words(line: str, asked: Asked) -> None:
    for one in (asked, replace(asked, given=given(options(line)))):
        request = request_of(one)
        assert Request.parse(request.words) == request


def test_words_that_are_no_request() -> None:
    for text in ("nodes=0", "nodes=1.5", "exclusive=yes", "gres=gpu", "begin=inf", "begin=1e", "constraint=a;b", "x", "nice=--1"):
        with pytest.raises(WrongUse, match=r"^request: "):
            Request.parse(text)


def test_records_of_slurm_22_05() -> None:
    """Jobs that were submitted to a real cluster, as its sacct has them; those with --begin and --hold became eligible later."""
    frame = read_trace(Path(__file__).with_name("requests.sacct")).frame
    rows = frame.select("job_number", "request", "begin", "hold").iter_rows()
    assert {number: (request, begin, hold) for number, request, begin, hold in rows} == {
        1: ("tasks=8 gpus=8", None, None),
        2: ("nodes=2 tasks=8 gpus=a100:8", None, None),
        3: ("nodes=2 tasks=4 gres=gpu:a100:3", None, None),
        4: ("nodes=1 tasks=4 gpus_per_task=1", None, None),
        5: ("tasks=4 gres=gpu:v100:2", None, None),
        121: ("nodes=3 most_nodes=4 tasks=64", None, None),
        122: ("nodes=2 tasks=4 cpus_per_task=2 tasks_per_node=2", None, None),
        124: ("nodes=2 memory_per_node=1000 exclusive=1 contiguous=1", None, None),
        126: ("nodes=2 tasks=4 constraint=[rome*1&skylake*1]", None, None),
        128: ("tasks=4 licences=matlab:2", None, None),
        130: ("tasks=4 nice=7", None, None),
        131: ("tasks=4", 10.0, None),
        132: ("tasks=4", None, 3.0),
    }
