"""slurm.conf as data: merging, rendering, slim files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.rm.slurm.conf import OMIT, Nodes, line_of, merge, render, render_settings, slim_files, value_of

NODES = Nodes(prefix="n", first=1, count=3, cpus=16, address="127.0.0.1", port=17001)

keys = st.sampled_from(["SlurmUser", "slurmuser", "TreeWidth", "MailProg", "treewidth"])
settings = st.dictionaries(keys, st.integers() | st.just(OMIT))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "YES"),
        (False, "NO"),
        (0, "0"),
        (["SUSPEND", "GANG"], "SUSPEND,GANG"),
        ({"bf_interval": 5, "bf_continue": True}, "bf_interval=5,bf_continue"),
        ("select/cons_tres", "select/cons_tres"),
    ],
)
def test_value(value: object, text: str) -> None:
    assert value_of(value) == text


@given(settings, settings, settings)
def test_merge_is_associative_but_for_omit_and_ignores_case(a: dict, b: dict, c: dict) -> None:
    merged = merge(a, b, c)
    assert len({key.lower() for key in merged}) == len(merged)
    assert OMIT not in merged.values()
    last = {key.lower(): value for mapping in (a, b, c) for key, value in mapping.items()}
    assert {key.lower(): value for key, value in merged.items()} == {k: v for k, v in last.items() if v != OMIT}


def test_settings_are_sorted_whatever_their_case() -> None:
    assert render_settings({"b": 1, "A": 2, "c": [1, 2]}) == "A=2\nb=1\nc=1,2\n"


@pytest.mark.parametrize("bad", [{"Two words": 1}, {"Key": "one\ntwo"}, {"": 1}])
def test_a_setting_that_would_be_another_line_is_refused(bad: dict) -> None:
    with pytest.raises(WrongUse, match=r"slurm\.conf: "):
        render_settings(bad)


def test_whole_file() -> None:
    text = render({"ClusterName": "mirage"}, [NODES], [{"name": "batch", "Default": True, "MaxTime": "omit"}])
    assert text.splitlines()[1:] == [
        "ClusterName=mirage",
        "NodeName=n[1-3] NodeAddr=127.0.0.1 Port=[17001-17003] CPUs=16",
        "PartitionName=batch Nodes=ALL Default=YES",
    ]


def test_slim_files_hold_one_node_each() -> None:
    files = dict(slim_files([NODES], "/etc/common.conf"))
    assert sorted(files) == ["n1.conf", "n2.conf", "n3.conf"]
    assert files["n2.conf"].splitlines()[1:] == [
        "Include /etc/common.conf",
        "NodeName=n2 NodeAddr=127.0.0.1 Port=17002 CPUs=16",
    ]


@given(st.integers(1, 50), st.integers(1, 40), st.integers(1024, 60000))
def test_slim_files_agree_with_the_whole_file(first: int, count: int, port: int) -> None:
    nodes = Nodes("n", first, count, 4, "127.0.0.1", port, (("RealMemory", "1000"),))
    lines = [text.splitlines()[-1] for _name, text in slim_files([nodes], "/c")]
    assert [line.split()[0] for line in lines] == [f"NodeName=n{i}" for i in range(first, first + count)]
    assert [line.split()[2] for line in lines] == [f"Port={port + i}" for i in range(count)]
    assert all(line.endswith("CPUs=4 RealMemory=1000") for line in lines)
    expected = f"Port={port}" if count == 1 else f"Port=[{port}-{port + count - 1}]"
    assert expected in nodes.line().split()


def test_a_line_leaves_out_omitted_words() -> None:
    assert line_of("PartitionName", "p", {"State": "UP", "MaxTime": OMIT}) == "PartitionName=p State=UP"
