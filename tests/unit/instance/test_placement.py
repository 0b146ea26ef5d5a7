"""Assigning addresses and ports of a block to nodes, on one host and on several."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.instance.placement import Block, nodes_of_hosts, place, place_on_hosts, placed_in
from slurm_mirage.rm.slurm.conf import Nodes, render
from slurm_mirage.rm.slurm.node_classes import NodeClass, node_classes

BLOCK = Block("127.0.0.1", 17000, 5)
HOSTS = ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
WIDE = Block("10.0.0.1", 17000, 101)
counts = st.lists(st.integers(1, 40), min_size=1, max_size=4)
blocks = st.integers(2, 30).map(lambda ports: Block("127.0.0.1", 17000, ports))


def places(nodes: list[Nodes]) -> dict[str, tuple[str, int]]:
    """Return address and port of each node, by the node's name."""
    return {f"{item.prefix}{item.first + i}": (item.address, item.port + i) for item in nodes for i in range(item.count)}


def classes(sizes: list[int]) -> list[NodeClass]:
    """Return one class of each size, with the prefixes a, b, c and so on."""
    return node_classes([{"prefix": prefix, "count": size, "cpus": 1} for prefix, size in zip("abcdefgh", sizes, strict=False)])


def written(nodes: list[Nodes]) -> list[Nodes]:
    """Return the nodes as they are read from a slurm.conf that was written with them."""
    return placed_in(render({"SlurmctldPort": 17000}, nodes, [{"name": "batch"}]))


def test_nodes_do_not_use_the_first_port_of_any_address() -> None:
    assert on_hosts(place(node_classes([{"count": 10, "cpus": 1}]), BLOCK)) == [
        ("n[1-4]", "127.0.0.1", 17001),
        ("n[5-8]", "127.0.0.2", 17001),
        ("n[9-10]", "127.0.0.3", 17001),
    ]
    assert [BLOCK.addresses(nodes) for nodes in (1, 4, 5, 8, 9)] == [1, 1, 2, 2, 3]


@given(blocks, st.integers(0, 2000))
def test_index_inverts_place(block: Block, index: int) -> None:
    assert block.index(*block.place(index)) == index


@pytest.mark.parametrize(
    ("address", "port"), [("127.0.0.1", 17000), ("127.0.0.1", 17005), ("126.0.0.1", 17001), ("127.0.0.2", 16999)]
)
def test_index_of_a_place_outside_the_block(address: str, port: int) -> None:
    assert BLOCK.index(address, port) is None


@given(blocks, counts)
def test_every_node_has_its_own_place_on_no_more_addresses_than_needed(block: Block, sizes: list[int]) -> None:
    placed = places(place(classes(sizes), block))
    assert len(placed) == len(set(placed.values())) == sum(sizes)
    assert len({address for address, _ in placed.values()}) == block.addresses(sum(sizes))
    assert all(block.port < port < block.port + block.ports for _, port in placed.values())


@given(blocks, counts, counts, st.integers(0, 20))
def test_existing_nodes_keep_their_places(block: Block, before: list[int], after: list[int], more_ports: int) -> None:
    earlier = place(classes(before), block)
    grown = Block(block.address, block.port, block.ports + more_ports)
    later = place(classes(after), grown, written(earlier))
    old, new = places(earlier), places(later)
    assert {name: new[name] for name in old.keys() & new.keys()} == {name: old[name] for name in old.keys() & new.keys()}
    assert len(set(new.values())) == sum(after)
    needed = {f"127.0.0.{i + 1}" for i in range(grown.addresses(sum(after)))}
    assert {new[name][0] for name in new.keys() - old.keys()} <= needed, "only these addresses have been checked"
    assert place(classes(after), grown, written(later)) == later


def test_nodes_of_another_block_get_new_places() -> None:
    earlier = [Nodes("n", 1, 3, 1, "127.0.0.1", 18001)]
    assert place([NodeClass("n", 1, 3, 1)], BLOCK, earlier) == place([NodeClass("n", 1, 3, 1)], BLOCK)


def on_hosts(nodes: list[Nodes]) -> list[tuple[str, str, int]]:
    return [(item.names, item.address, item.port) for item in nodes]


def test_nodes_are_distributed_to_several_hosts_in_order() -> None:
    assert on_hosts(place_on_hosts(node_classes([{"count": 8, "cpus": 1}]), HOSTS, WIDE)) == [
        ("n[1-3]", "10.0.0.1", 17001),
        ("n[4-6]", "10.0.0.2", 17001),
        ("n[7-8]", "10.0.0.3", 17001),
    ]
    assert on_hosts(place_on_hosts(node_classes([{"count": 2, "cpus": 1}]), HOSTS, WIDE)) == [
        ("n1", "10.0.0.1", 17001),
        ("n2", "10.0.0.2", 17001),
    ], "a host may have no nodes"
    classes = node_classes([{"count": 2, "cpus": 1}, {"count": 4, "cpus": 8, "prefix": "fat"}])
    assert on_hosts(place_on_hosts(classes, HOSTS[:2], WIDE)) == [
        ("n[1-2]", "10.0.0.1", 17001),
        ("fat1", "10.0.0.1", 17003),
        ("fat[2-4]", "10.0.0.2", 17001),
    ]


def test_an_added_host_gets_the_new_nodes_and_the_nodes_of_a_removed_host_move() -> None:
    two = place_on_hosts(node_classes([{"count": 4, "cpus": 1}]), HOSTS[:2], WIDE)
    three = place_on_hosts(node_classes([{"count": 6, "cpus": 1}]), HOSTS, WIDE, written(two))
    assert on_hosts(three) == [
        ("n[1-2]", "10.0.0.1", 17001),
        ("n[3-4]", "10.0.0.2", 17001),
        ("n[5-6]", "10.0.0.3", 17001),
    ]
    assert on_hosts(place_on_hosts(node_classes([{"count": 6, "cpus": 1}]), [HOSTS[0], HOSTS[2]], WIDE, written(three))) == [
        ("n[1-3]", "10.0.0.1", 17001),
        ("n4", "10.0.0.3", 17003),
        ("n[5-6]", "10.0.0.3", 17001),
    ]
    moved = Block("10.0.0.1", 18000, 101)
    assert on_hosts(place_on_hosts(node_classes([{"count": 4, "cpus": 1}]), HOSTS, moved, written(three))) == [
        ("n[1-2]", "10.0.0.1", 18001),
        ("n[3-4]", "10.0.0.2", 18001),
    ], "other ports, but the same hosts"


@given(counts, counts, st.integers(1, 5), st.integers(1, 5))
def test_nodes_are_distributed_equally_and_existing_ones_stay(before: list[int], after: list[int], first: int, second: int) -> None:
    all_hosts = [f"10.0.0.{i}" for i in range(1, 6)]
    block = Block("10.0.0.1", 17000, sum(before) + sum(after) + 1)
    fresh = place_on_hosts(classes(before), all_hosts[:first], block)
    loads = nodes_of_hosts(classes(before), all_hosts[:first]).values()
    assert max(loads) - min(loads) <= 1 and list(loads) == sorted(loads, reverse=True)
    earlier = written(fresh)
    later = place_on_hosts(classes(after), all_hosts[:second], block, earlier)
    old, new = places(fresh), places(later)
    assert len(new) == len(set(new.values())) == sum(after)
    assert {name: new[name] for name in old.keys() & new.keys() if old[name][0] in all_hosts[:second]} == {
        name: old[name] for name in old.keys() & new.keys() if old[name][0] in all_hosts[:second]
    }
    counts_by_host = nodes_of_hosts(classes(after), all_hosts[:second], earlier)
    assert counts_by_host == {host: sum(place[0] == host for place in new.values()) for host in all_hosts[:second]}
    got_new = {new[name][0] for name in new.keys() - old.keys()}
    assert all(counts_by_host[host] <= min(counts_by_host.values()) + 1 for host in got_new), "hosts with the fewest nodes get more"
    assert place_on_hosts(classes(after), all_hosts[:second], block, written(later)) == later


def test_more_nodes_than_ports_on_a_host_are_refused() -> None:
    with pytest.raises(WrongUse, match=re.escape("NODES: more than 100 on 10.0.0.1, whose block has no more ports for them")):
        place_on_hosts(node_classes([{"count": 301, "cpus": 1}]), HOSTS, WIDE)


@given(st.from_regex(r"\A[A-Za-z]([A-Za-z0-9._-]{0,5}[A-Za-z._-])?\Z"), st.integers(0, 3000), counts)
def test_placed_in_reads_the_places_from_slurm_conf(prefix: str, first: int, sizes: list[int]) -> None:
    nodes = [Nodes(prefix, first + 100 * i, size, 1, f"127.0.0.{i + 1}", 17001) for i, size in enumerate(sizes)]
    assert written(nodes) == nodes


def test_numbers_continue_within_a_prefix() -> None:
    options: list[dict[str, Any]] = [
        {"count": 3, "cpus": 1},
        {"count": 2, "cpus": 4, "prefix": "fat"},
        {"count": 2, "cpus": 2, "extra": {"RealMemory": 1000}},
        {"count": 1, "cpus": 1, "first": 100},
        {"count": 1, "cpus": 1, "first": None, "prefix": None},
    ]
    assert [(c.prefix, c.first, c.count) for c in node_classes(options)] == [
        ("n", 1, 3),
        ("fat", 1, 2),
        ("n", 4, 2),
        ("n", 100, 1),
        ("n", 101, 1),
    ]
    assert node_classes(options)[2].extra == (("RealMemory", "1000"),)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([{"count": 5}, {"count": 3, "first": 4}], "nodes: class 2: n[4-5] would be there twice, see class 1"),
        (
            [{"count": 5}, {"count": 1, "prefix": "m"}, {"count": 9, "first": 5}],
            "nodes: class 3: n5 would be there twice, see class 1",
        ),
        ([{"count": 0}], "nodes: class 1: count 0: a whole number from 1 on"),
        ([{"count": 1, "cpus": 0}], "nodes: class 1: cpus 0: a whole number from 1 on"),
        ([{"count": 1, "first": -1}], "nodes: class 1: first -1: a whole number from 0 on"),
        ([{"count": 1}, {"count": 1, "prefix": "n1"}], "nodes: class 2: prefix 'n1': a letter, then letters"),
        ([{"count": 1, "prefix": "a b"}], "nodes: class 1: prefix 'a b': a letter, then letters"),
        ([{"count": 1, "prefix": "../"}], "nodes: class 1: prefix '../': a letter, then letters"),
    ],
)
def test_invalid_node_classes_are_refused(options: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(WrongUse, match=re.escape(message)):
        node_classes([{"cpus": 1, **option} for option in options])
