"""CLASSES: what a file of classes may hold, and what the machine is that it describes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mirage.knobs import resolve as knobs
from mirage.knobs.machine import Machine, read
from mirage.knobs.table import MAX_NODES
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.rm.slurm.node_classes import node_classes

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "machines/example.yml"


def written(folder: Path, content: Any) -> str:
    path = folder / "m.yml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return str(path)


def test_the_example_in_the_repository() -> None:
    machine = read(str(EXAMPLE))
    assert (machine.nodes, machine.processors) == (36, 32 * 16 + 4 * 32)
    assert machine.in_words() == "32 nodes of 16 CPUs, 4 of 32"
    assert machine.options()[1] == {
        "prefix": "gpu",
        "first": 1,
        "count": 4,
        "cpus": 32,
        "extra": {
            "RealMemory": "256000",
            "Sockets": "2",
            "CoresPerSocket": "16",
            "Feature": "volta,nvlink",
            "Gres": "gpu:v100:4",
        },
    }


def test_what_counts_is_what_the_file_says(tmp_path: Path) -> None:
    one = read(written(tmp_path, "- count: 2\n  cpus: 4\n- {count: 1, cpus: 8, extra: {Feature: [a, b]}}\n"))
    same = "# other words\n- {cpus: 4, count: 2, prefix: n, first: 1}\n- {count: 1, cpus: 8, first: 3, extra: {Feature: 'a,b'}}\n"
    assert str(read(written(tmp_path, same))) == str(one)
    assert str(read(written(tmp_path, same.replace("8", "9")))) != str(one)


def test_equal_nodes_are_one_class() -> None:
    machine = Machine.of_equal_nodes(360, 16)
    assert (machine.nodes, machine.processors, machine.in_words()) == (360, 5760, "360 nodes of 16 CPUs")
    assert machine.options() == [{"prefix": "n", "first": 1, "count": 360, "cpus": 16, "extra": {}}]


def test_classes_of_equal_size_are_told_as_one() -> None:
    classes = [{"count": 2, "cpus": 8}, {"count": 1, "cpus": 4, "prefix": "x"}, {"count": 3, "cpus": 8, "prefix": "y"}]
    assert Machine(tuple(node_classes(classes))).in_words() == "5 nodes of 8 CPUs, 1 of 4"


GOOD = {"count": 2, "cpus": 4}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is something else; it may be a YAML list of classes"),
        ("count: 3\n", "is something else; it may be a YAML list of classes"),
        ("- [\n", "line 2: is not YAML"),
        ("- {count: 1, cpus: \x07}\n", "is not YAML"),
        ([7], "class 1: 7: it may be a mapping of count, cpus, prefix, first, extra"),
        ([GOOD, {"cpus": 4}], "class 2: count is missing"),
        ([{"count": 4}], "class 1: cpus is missing"),
        ([GOOD, {**GOOD, "cpu": 4}], "class 2: there is no 'cpu'; it may have count, cpus, prefix, first, extra"),
        ([{**GOOD, "count": 0}], "class 1: count 0: a whole number from 1 on"),
        ([{**GOOD, "cpus": -1}], "class 1: cpus -1: a whole number from 1 on"),
        ([{**GOOD, "count": "2"}], "class 1: count '2': a whole number"),
        ([{**GOOD, "count": True}], "class 1: count True: a whole number"),
        ([{**GOOD, "count": 1.5}], "class 1: count 1.5: a whole number"),
        ([{**GOOD, "prefix": 5}], "class 1: prefix 5: a text"),
        ([{**GOOD, "prefix": "n1"}], "class 1: prefix 'n1'"),
        ([{**GOOD, "prefix": "a\nb"}], "class 1: prefix 'a\\nb'"),
        ([{**GOOD, "first": -1}], "class 1: first -1: a whole number from 0 on"),
        ([{**GOOD, "extra": ["x"]}], "class 1: extra ['x']: a mapping"),
        ([{**GOOD, "extra": {"Feature": "a\nNodeName=x"}}], "class 1: extra: 'Feature' is not a word"),
        ([{**GOOD, "extra": {"Feature": None}}], "class 1: extra: 'Feature' is not a word"),
        ([{**GOOD, "extra": {"Real Memory": 5}}], "class 1: extra: 'Real Memory' is not the name of a setting"),
        ([{**GOOD, "extra": {7: 5}}], "class 1: extra: 7 is not a word"),
        ([{**GOOD, "extra": {"Procs": 5}}], "class 1: extra: Procs may not be given"),
        ([{**GOOD, "extra": {"Sockets": 3}}], "class 1: cpus 4: 3 sockets of 1 cores of 1 threads make another number"),
        ([{**GOOD, "extra": {"Gres": "gpu:x"}}, GOOD, {**GOOD, "extra": {"Gres": "shard:2"}}], "class 3: extra: Gres shard"),
        ([{**GOOD, "first": 3}, {**GOOD, "first": 4}], "class 2: n4 would be there twice, see class 1"),
        ([{**GOOD, "count": MAX_NODES}, GOOD], f"nodes; it may be at most {MAX_NODES}"),
        ([{**GOOD, "cpus": 65536}], "at most 65535 processors"),
    ],
)
def test_what_cannot_be_is_told_in_one_line_with_file_and_class(tmp_path: Path, content: Any, words: str) -> None:
    path = written(tmp_path, content)
    with pytest.raises(WrongUse) as refusal:
        knobs.resolve({"CLASSES": path})
    line = str(refusal.value)
    assert line.startswith(f"CLASSES: {path}")
    assert words in line
    assert len(line.splitlines()) == 1


keys = st.sampled_from(["count", "cpus", "prefix", "first", "extra", "Gres", "x"])
contents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner) | st.dictionaries(keys, inner),
    max_leaves=12,
)


@given(contents)
def test_any_content_is_a_machine_or_one_line(tmp_path_factory: pytest.TempPathFactory, content: Any) -> None:
    path = tmp_path_factory.mktemp("m") / "m.yml"
    path.write_text(yaml.safe_dump(content))
    try:
        machine = read(str(path))
    except WrongUse as refusal:
        assert str(refusal).startswith(f"CLASSES: {path}")
        assert len(str(refusal).splitlines()) == 1
    else:
        assert machine.nodes >= 1 and machine.processors >= machine.nodes


@pytest.mark.parametrize("name", ["NODES", "CPUS"])
def test_nodes_and_cpus_beside_classes_are_wrong_use(name: str) -> None:
    with pytest.raises(WrongUse, match=f"^{name}: CLASSES says that too"):
        knobs.resolve({"CLASSES": str(EXAMPLE), name: "5"})


def test_nodes_follow_from_classes() -> None:
    values = knobs.resolve({"CLASSES": str(EXAMPLE)})
    assert (values.nodes.count, values.nodes.cpus) == (36, None)
    assert knobs.resolve({}).nodes.classes is None
