"""What inventories of other hosts say, by Ansible's own reading of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from other_managers import OTHERS, config_of

from mirage.experiment import hosts, managers
from mirage.experiment.configuration import names_for
from mirage.knobs.knobs import Knobs
from mirage.knobs.resolve import GIVEN, resolve
from slurm_mirage.base.errors import WrongUse


def knobs_of(**given: str) -> Knobs:
    hosts.listing.cache_clear()
    values = resolve({GIVEN: " ".join(given), **given}, "experiment")
    return hosts.with_inventory(values, given)


def test_a_layout_of_hosts_brings_its_nodes() -> None:
    found = knobs_of(INVENTORY="inventories/raijin")
    assert (found.nodes.count, found.nodes.cpus) == (3600, 16)
    found = knobs_of(INVENTORY="inventories/raijin", NODES="40")
    assert (found.nodes.count, found.nodes.cpus) == (40, 16)
    found = knobs_of(INVENTORY="inventories/hosts.example")
    assert (found.nodes.count, found.nodes.cpus) == (360, 16)


def test_an_inventory_may_have_the_knobs_of_its_cluster(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("[head]\nh1\n[compute]\nc1\n")
    (tmp_path / "group_vars").mkdir()
    variables = tmp_path / "group_vars/all.yml"
    variables.write_text("mirage_speed: 20\nmirage_steps: yes\nmirage_config: fifo\nmirage_accounting: no\n")
    found = knobs_of(INVENTORY=str(tmp_path), CONFIG="backfill")
    assert (found.clock.speed, found.nodes.steps) == (20, "yes")
    assert (found.scheduler.config, found.scheduler.accounting) == ("backfill", "no")
    variables.write_text(variables.read_text() + "mirage_clock: event\n")
    assert knobs_of(INVENTORY=str(tmp_path)).clock.speed == "event"
    assert knobs_of(INVENTORY=str(tmp_path), SPEED="50").clock.speed == 50

    variables.write_text("mirage_nodes: 8\n")
    found = knobs_of(INVENTORY=str(tmp_path))
    assert (found.nodes.count, found.clock.speed) == (8, "auto"), "the inventory has no speed"

    variables.write_text("slurm_controller_nodes: [{count: 4, cpus: 2}]\n")
    with pytest.raises(WrongUse, match=r"^slurm_controller_nodes of .*: give nodes that differ to make by CLASSES"):
        knobs_of(INVENTORY=str(tmp_path))


@pytest.mark.parametrize("manager", OTHERS)
def test_an_inventory_may_name_the_resource_manager(tmp_path: Path, manager: str) -> None:
    """CONFIG is then one of this resource manager, and the archive may be the inventory's too."""
    (tmp_path / "hosts").write_text("[head]\nh1\n[compute]\nh1\n")
    (tmp_path / "group_vars").mkdir()
    variables = tmp_path / "group_vars/all.yml"
    variables.write_text(f"mirage_rm: {manager}\n")
    found = knobs_of(INVENTORY=str(tmp_path))
    assert (found.scheduler.rm, found.scheduler.config) == (manager, config_of(manager))
    managers.check(found)
    other = next(name for name in names_for([manager]) if name != config_of(manager))
    assert knobs_of(INVENTORY=str(tmp_path), CONFIG=other).scheduler.config == other
    found = knobs_of(INVENTORY=str(tmp_path), RM="slurm")
    assert (found.scheduler.rm, found.scheduler.config) == ("slurm", "slurm-defaults")
    variables.write_text(f"mirage_rm: {manager}\nmirage_config: {other}\n")
    assert knobs_of(INVENTORY=str(tmp_path)).scheduler.config == other


def test_what_an_inventory_brings_is_checked(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("[head]\nh1\n[compute]\nc1\n")
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars/all.yml").write_text("mirage_nodes: many\n")
    with pytest.raises(WrongUse, match=r"^NODES: 'many' \(mirage_nodes of .*\) is not possible; it may be a whole number"):
        knobs_of(INVENTORY=str(tmp_path))


def test_an_inventory_without_a_head_is_wrong_use(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("[compute]\nc1\n")
    with pytest.raises(WrongUse, match=r"^inventory: .* has no host in its group head"):
        knobs_of(INVENTORY=str(tmp_path))


RUN_HOSTS = "[run_hosts]\nh1\nh2\nh3 mirage_speed=20\n"


def test_hosts_for_runs_each_have_whole_clusters(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text(RUN_HOSTS)
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars/run_hosts.yml").write_text("mirage_nodes: 8\nmirage_speed: 20\n")
    found = knobs_of(INVENTORY=str(tmp_path))
    assert hosts.run_hosts(found.cluster) == ("h1", "h2", "h3")
    assert hosts.host_count(found.cluster) == 1
    assert (found.nodes.count, found.clock.speed) == (8, 20)
    assert hosts.run_hosts(knobs_of().cluster) == ()
    assert hosts.run_hosts(knobs_of(INVENTORY="inventories/raijin").cluster) == ()
    hosts.of_one_cluster(knobs_of(INVENTORY="inventories/raijin").cluster, "make status")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (RUN_HOSTS + "[head]\nh4\n[compute]\nh4\n", "has hosts in run_hosts and in head or compute"),
        (RUN_HOSTS + "[compute]\nh1\n", "has hosts in run_hosts and in head or compute"),
        (RUN_HOSTS, "mirage_speed is None for h1 and 20 for h3; the hosts of run_hosts need the same one"),
    ],
)
def test_hosts_for_runs_are_beside_no_cluster_and_alike(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "hosts").write_text(content)
    with pytest.raises(WrongUse, match=message):
        knobs_of(INVENTORY=str(tmp_path))


def test_a_command_for_one_cluster_refuses_hosts_for_runs(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("[run_hosts]\nh1\nh2\n")
    found = knobs_of(INVENTORY=str(tmp_path))
    with pytest.raises(WrongUse, match=r"has 2 hosts in run_hosts, for comparisons.*; make status needs one with a head$"):
        hosts.of_one_cluster(found.cluster, "make status")
