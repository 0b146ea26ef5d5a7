"""GROW: what its text means, and the machine that it makes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.site import conf_lines, growth, site_conf, topology
from mirage.workloads import example_site
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.hostlist import expand
from slurm_mirage.rm.slurm.node_classes import NodeClass, check_partitions, node_classes

GPU_NODES = {"Gres": "gpu:a100:4,nvme:1", "Feature": "a100,ib"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> site_conf.SiteConf:
    path = tmp_path_factory.mktemp("site") / "site.tar"
    example_site.write(path, 48, 20, 1)
    return site_conf.read(path)


# ---- the text ----


@pytest.mark.parametrize(
    ("text", "arms", "labels"),
    [
        ("+10", "+10", ["plus-10"]),
        (" gpu:+8;cpu:32 ;", "gpu:+8; cpu:32", ["plus-8-gpu", "plus-32-cpu"]),
        ("gpu:type=h100:8  factor=0.5", "gpu:type=h100:8 factor=0.5", ["plus-8-gpu-h100"]),
        ("gpu:+8 price=250000/5y demand=25% cpu:+4", "gpu:+8 price=250000/5y demand=25% cpu:+4", ["plus-8-gpu-demand-25-4-cpu"]),
        ("", "", []),
    ],
)
def test_values(text: str, arms: str, labels: list[str]) -> None:
    assert growth.canonical(text) == arms
    assert growth.canonical(arms) == arms
    assert [growth.label_of(arm) for arm in (growth.arms(arms) if arms else [])] == labels


def test_options() -> None:
    [[gpu, cpu]] = growth.arms("gpu:type=h100:8 factor=0.5 demand=+12.5% price=250000/5y cpu:+32 price=800")
    assert (gpu.name, gpu.type, gpu.count, gpu.factor, gpu.demand, gpu.price) == ("gpu", "h100", 8, 0.5, 12.5, 250_000)
    assert gpu.lifetime == 5 * 365.25 * 86400
    assert (cpu.price, cpu.lifetime, cpu.factor, cpu.demand) == (800, None, 1, 0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("10", "CLASS:+COUNT"),
        ("gpu", "CLASS:+COUNT"),
        ("gpu:+0", "CLASS:+COUNT"),
        ("gpu:-8", "CLASS:+COUNT"),
        (";gpu:+1", "CLASS:+COUNT"),
        ("gpu:+8 nodes", "factor=, demand=, price="),
        ("factor=2", "CLASS:+COUNT"),
        ("gpu:+8 factor=0.5", "after a class with type="),
        ("gpu:type=h100:8 factor=0", "from 0.01 to 100"),
        ("type=h100:8", "gpu:type=h100:8"),
        ("gpu:type=h100:4 a100:type=h100:4 factor=0.5", "h100 is there twice"),
        ("+2 demand=10% gpu:type=h100:4", "a class for each step beside one with type="),
        ("+1 demand=0", "up to 400 %"),
        ("+1 demand=401%", "up to 400 %"),
        ("+1 price=-1", "price="),
        ("+1 price=10/ever", "price="),
        ("+1 price=10/0s", "price="),
        (";".join(["+1"] * 21), "at most 20 machines"),
        (" ".join(["a:+1"] * 11), "at most 10 classes"),
    ],
)
def test_refused_texts(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=r".") as refusal:
        growth.canonical(text)
    assert words in str(refusal.value) and "\n" not in str(refusal.value)


@given(st.text(alphabet="+;: =./%0123456789aghtypefcordmniu-", max_size=60))
def test_any_text_is_refused_or_has_one_form(text: str) -> None:
    try:
        form = growth.canonical(text)
    except ValueError:
        return
    assert growth.canonical(form) == form


# ---- the machine ----


@given(nodes=st.integers(1, 500), more=st.integers(1, 500), again=st.integers(1, 50))
def test_equal_nodes_are_a_larger_machine_of_equal_nodes(nodes: int, more: int, again: int) -> None:
    """Nothing tells that they are new, so that each schedule is that of the larger machine."""
    grown = growth.grown(node_classes([{"count": nodes, "cpus": 16}]), growth.arms(f"+{more} n:+{again}")[0])
    assert grown.classes == tuple(node_classes([{"count": nodes + more + again, "cpus": 16}]))


CLASSES = st.lists(
    st.fixed_dictionaries(
        {
            "prefix": st.sampled_from(["n", "g", "fat"]),
            "count": st.integers(1, 9),
            "cpus": st.sampled_from([8, 16]),
            "extra": st.sampled_from([{}, GPU_NODES, {"Feature": "old"}, {"Gres": "gpu:2"}]),
        }
    ),
    min_size=1,
    max_size=5,
).map(node_classes)


def _attributes(classes: list[NodeClass]) -> dict[str, tuple[int, object]]:
    return {name: (one.cpus, one.extra) for one in classes for name in one.each}


@given(st.data())
def test_new_nodes_are_copies_in_the_partitions_of_those_they_copy(data: st.DataObject) -> None:
    classes = data.draw(CLASSES)
    names = [name for one in classes for name in one.each]
    lists = data.draw(st.lists(st.sets(st.sampled_from(names), min_size=1), max_size=3))
    partitions = [{"name": "all", "Nodes": "ALL"}, *({"name": f"p{k}", "Nodes": ",".join(one)} for k, one in enumerate(lists))]
    count = data.draw(st.integers(1, 30))
    name = data.draw(st.sampled_from([one.prefix for one in classes]))
    grown = growth.grown(classes, growth.arms(f"{name}:+{count}")[0], partitions)
    before, after = _attributes(classes), _attributes([*grown.classes])
    assert before.items() <= after.items(), "nodes that are there stay as they are"
    new = after.keys() - before.keys()
    assert len(new) == count == sum(one.count for one in grown.added)
    listed = {one["name"]: set(expand(one["Nodes"])) for one in grown.partitions if one["Nodes"] != "ALL"}
    was = {one["name"]: set(expand(one["Nodes"])) for one in partitions if one["Nodes"] != "ALL"}
    for added in grown.added:
        for node in expand(added.names):
            assert after[node] == before[added.like.names[0]]
            assert {p for p in listed if node in listed[p]} == {p for p in was if added.like.names[0] in was[p]}
    assert all(listed[p] - new == was[p] for p in was)
    # Several kinds keep their proportions.
    kinds = [kind for kind in growth.kinds_of(classes, partitions) if kind.prefix == name]
    total = sum(len(kind.names) for kind in kinds)
    for kind in kinds:
        assert abs(sum(one.count for one in grown.added if one.like == kind) - count * len(kind.names) / total) < 1


def test_alike_nodes_with_several_names_need_no_class() -> None:
    classes = node_classes([{"prefix": "a", "count": 3, "cpus": 8}, {"prefix": "b", "count": 1, "cpus": 8}])
    assert [one.names for one in growth.grown(classes, growth.arms("+4")[0]).added] == ["a[4-6]", "b2"]


@pytest.mark.parametrize(
    ("text", "copied"),
    [
        ("gpu:+4", {"node[33-40]": 2, "node[41-48]": 2}),
        ("cpu:+3", {"node[1-16]": 2, "node[17-32]": 1}),
        ("a100:+3", {"node[33-40]": 3}),
        ("old:+1", {"node[1-16]": 1}),
        ("batch:+2", {"node[1-16]": 1, "node[17-32]": 1}),
        ("node:+6", {"node[1-16]": 2, "node[17-32]": 2, "node[33-40]": 1, "node[41-48]": 1}),
        ("v100:+2 cpu:+2", {"node[41-48]": 2, "node[1-16]": 1, "node[17-32]": 1}),
    ],
)
def test_names_of_classes(site: site_conf.SiteConf, text: str, copied: dict[str, int]) -> None:
    grown = growth.of_site(site, text)
    made = growth.grown(site.nodes, growth.arms(text)[0], site.partitions, site.topology)
    found: Counter[str] = Counter()
    for one in made.added:
        found[one.like.in_words.partition(" ")[0]] += one.count
    assert found == copied
    assert grown.nodes == [*made.classes] and grown.partitions == made.partitions
    check_partitions(grown.partitions, grown.nodes)


def test_another_type_of_gpus_copies_the_node_with_the_most(site: site_conf.SiteConf) -> None:
    [added] = growth.grown(site.nodes, growth.arms("gpu:type=h100:8 factor=0.5")[0], site.partitions).added
    assert (added.names, dict(added.extra)["Gres"], added.like.partitions) == ("node[49-56]", "gpu:h100:4", ("gpu",))


def test_features_that_are_called_like_the_type_and_other_gres_go_along() -> None:
    [added] = growth.grown(node_classes([{"count": 2, "cpus": 8, "extra": GPU_NODES}]), growth.arms("ib:type=h100:1")[0]).added
    assert dict(added.extra) == {"Gres": "gpu:h100:4,nvme:1", "Feature": "h100,ib"}


def test_new_nodes_have_switches(site: site_conf.SiteConf) -> None:
    text = growth.of_site(site, "cpu:+20 gpu:+3").topology
    switches = {one.names: one for one in topology.of_lines(conf_lines.parsed(text, "t"))}
    leaves = Counter(node for one in switches.values() for node in expand(one.nodes))
    assert leaves == Counter(f"node{k}" for k in range(1, 72))
    assert set(expand(switches["top"].switches)) == switches.keys() - {"top"}
    assert max(len(expand(one.nodes)) for one in switches.values()) == 8
    assert text.startswith(site.topology.split("SwitchName=top")[0]), "switches that are there stay as they are"


def test_a_switch_above_which_is_none_takes_them() -> None:
    assert topology.with_nodes("SwitchName=s Nodes=n[1-4]\n", [(["n4"], ["n5", "n6"])]) == "SwitchName=s Nodes=n[1-6]\n"
    assert topology.with_nodes("SwitchName=s Nodes=n[1-4]\n", [(["m1"], ["m2"])]) == "SwitchName=s Nodes=n[1-4]\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("+8", "nodes are not all alike; it may name a class: gpu, cpu, a100"),
        ("fpga:+8", "there is no class fpga; it may be one of: cpu, gpu"),
        ("cpu:type=h100:8", "cpu has no GPUs"),
        ("gpu:type=v100:8", "GPUs of type v100 are there already; it may be v100:+8"),
        ("gpu:+1000000", "1000048 nodes; it may be at most 1000000 in all"),
    ],
)
def test_refused_machines(site: site_conf.SiteConf, text: str, words: str) -> None:
    with pytest.raises(WrongUse) as refusal:
        growth.of_site(site, text)
    assert refusal.value.parameter == "grow" and "\n" not in str(refusal.value)
    assert words.split("; it may name")[0] in str(refusal.value)


def test_limits_that_do_not_grow_are_named(site: site_conf.SiteConf) -> None:
    [line] = growth.caps_in_short(site)
    assert "GrpTRES=cpu=256 of 8 associations" in line and "MaxTRESPerUser=gres/gpu=16 of QOS gpus" in line
    assert growth.caps_in_short(None) == []
    made = growth.grown(site.nodes, growth.arms("gpu:+2")[0], site.partitions)
    assert growth.in_short(made)[0] == "node49 like node[33-40] of 16 CPUs, gpu:a100:4, new in gpu, Weight=10"


def test_partitions_that_list_nodes() -> None:
    assert growth.explicit([{"name": "a"}, {"name": "b", "nodes": "ALL"}]) is None
    assert growth.explicit([{"name": "a"}, {"name": "b", "Nodes": "n[1-3]"}]) == "b"


def test_the_file_is_not_changed(site: site_conf.SiteConf, tmp_path: Path) -> None:
    del tmp_path
    before = [*site.nodes], [dict(one) for one in site.partitions], site.topology
    growth.of_site(site, "cpu:+8")
    assert (site.nodes, site.partitions, site.topology) == before
    assert growth.of_site(site, "") is site
