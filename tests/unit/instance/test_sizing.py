"""What nodes and jobs need of a host, how many nodes fit, and the kernel settings for them."""

from __future__ import annotations

import re
from dataclasses import astuple, replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.instance import capacity, sizing
from slurm_mirage.instance.sizing import Capacity, Load, check, kernel_settings, lacking, largest, needs
from slurm_mirage.rm.managers import MANAGERS, traits_of
from slurm_mirage.rm.traits import Footprint

NOTHING = Load(0, jobs=0)
FOOTPRINTS = [traits.footprint for traits in map(traits_of, MANAGERS)]
ROOT = Path(__file__).parents[3]
PLENTY = Capacity(memory=2**40, tasks=2**60, files=2**60, inodes=2**60, disk=2**40, merges=True)
SMALL = replace(PLENTY, memory=20 * 1024.0)

counts = st.integers(1, 1_000_000)
jobs = st.none() | st.integers(0, 20_000)
hosts = st.builds(
    Capacity,
    memory=st.floats(0, 2**20),
    tasks=st.integers(0, 2**22),
    files=st.integers(0, 2**22),
    inodes=st.integers(0, 2**22),
    disk=st.floats(0, 2**20),
    merges=st.booleans(),
)


@given(counts, counts, st.booleans(), st.booleans(), jobs, st.sampled_from(FOOTPRINTS))
def test_more_nodes_do_not_need_less_of_anything(
    one: int, other: int, wide: bool, merges: bool, at_once: int | None, footprint: Footprint | None
) -> None:
    less, more = (Load(nodes, wide, at_once, footprint=footprint) for nodes in sorted((one, other)))
    for small, large in zip(astuple(needs(less, merges)), astuple(needs(more, merges)), strict=True):
        assert small <= large


def test_a_database_needs_memory_in_addition_to_the_nodes() -> None:
    without, with_database = Load(100, jobs=100), Load(100, jobs=100, database=True)
    for merges in (True, False):
        assert needs(with_database, merges).memory - needs(without, merges).memory == pytest.approx(130)
    host = replace(PLENTY, memory=needs(without, merges=True).memory + 100)
    check(without, NOTHING, host)
    with pytest.raises(WrongUse, match=r"^nodes=100: needs about .* of memory"):
        check(with_database, NOTHING, host)
    # A running database needs no further memory; a running instance that gets accounting needs the memory of the database.
    full = replace(PLENTY, memory=100.0)
    check(with_database, with_database, full)
    assert lacking(with_database, without, full) is not None
    assert lacking(with_database, without, replace(full, memory=135.0 + sizing.UNMERGED_AT_ONCE)) is None


@given(counts, jobs)
def test_wide_steps_and_unmerged_pages_need_more_memory(nodes: int, at_once: int | None) -> None:
    assert needs(Load(nodes, False, at_once), True).memory < needs(Load(nodes, True, at_once), True).memory
    for wide in (False, True):
        assert needs(Load(nodes, wide, at_once), True).memory <= needs(Load(nodes, wide, at_once), False).memory


@given(counts, st.booleans(), jobs, st.integers(0, 20_000), hosts)
def test_the_largest_number_in_the_message_fits_and_one_more_does_not(
    nodes: int, wide: bool, at_once: int | None, running: int, host: Capacity
) -> None:
    load, running_load = Load(nodes, wide, at_once), Load(running, jobs=0)
    try:
        check(load, running_load, host)
    except WrongUse as refusal:
        match = re.search(r"the largest that fits is (\d+)", str(refusal))
        assert match is not None
        most = int(match[1])
        assert most == largest(load, running_load, host) < nodes
        assert most == 0 or lacking(replace(load, nodes=most), running_load, host) is None
        assert lacking(replace(load, nodes=most + 1), running_load, host) is not None
    else:
        assert largest(load, running_load, host) == nodes


def test_the_message_for_too_many_nodes() -> None:
    with pytest.raises(WrongUse) as refusal:
        check(Load(60_000), NOTHING, SMALL)
    assert re.fullmatch(
        r"nodes=60000: needs about \d+\.\d GiB of memory, 20\.0 GiB are available; the largest that fits is \d+", str(refusal.value)
    )


def test_the_message_for_a_host_of_several_names_its_share() -> None:
    with pytest.raises(WrongUse) as refusal:
        check(Load(60_000, cluster=120_000), NOTHING, SMALL)
    assert str(refusal.value).startswith("nodes=120000: to have 60000 of them this host needs about ")
    assert "; it has room for " in str(refusal.value)
    with pytest.raises(WrongUse, match=r"nodes=900000: to have 0 of them this host needs about 26\.4 GiB"):
        check(Load(0, cluster=900_000), NOTHING, SMALL)
    check(Load(0, cluster=1000), NOTHING, SMALL)


def test_the_message_says_how_many_nodes_fit_without_wide_steps() -> None:
    with pytest.raises(WrongUse, match=r"the largest that fits is \d+ \(STEPS=no allows it\)$"):
        check(Load(20_000, wide_steps=True), NOTHING, SMALL)
    with pytest.raises(WrongUse, match=r"the largest that fits is \d+ \(STEPS=no allows \d+\)$"):
        check(Load(200_000, wide_steps=True), NOTHING, SMALL)


def test_fewer_nodes_fit_on_a_host_that_does_not_merge_pages() -> None:
    unmerging = replace(SMALL, merges=False)
    assert largest(Load(100_000), NOTHING, unmerging) < largest(Load(100_000), NOTHING, SMALL) / 2
    with pytest.raises(WrongUse, match="this host merges no pages"):
        check(Load(100_000), NOTHING, unmerging)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tasks": 30_000}, "processes and threads, 30000 are left"),
        ({"files": 30_000}, "open files, 30000 are left"),
        ({"inodes": 30_000}, "files on the disk, 30000 are left"),
        ({"disk": 300.0}, "MiB on the disk, 300 are left"),
        ({"tasks": -5}, "processes and threads, 0 are left"),
    ],
)
def test_the_message_names_the_resource_that_is_too_small(change: dict[str, float], message: str) -> None:
    with pytest.raises(WrongUse, match=message):
        check(Load(16_384), NOTHING, replace(PLENTY, **change))


def test_a_running_load_fits_and_only_additional_nodes_are_checked() -> None:
    full = replace(PLENTY, memory=100.0, tasks=0, files=0)
    running = Load(3600, jobs=0)
    check(Load(3600), running, full)
    check(Load(100), running, full)
    with pytest.raises(WrongUse, match=r"^nodes=3601: needs about \d\.\d GiB more of memory, 0\.1 GiB are .* fits is 3600$"):
        check(Load(3601), running, full)
    with pytest.raises(WrongUse, match=r"\(STEPS=no allows it\)$"):
        check(Load(3600, wide_steps=True), running, full)


@given(counts, jobs)
def test_kernel_settings_are_at_least_those_of_one_node_and_within_the_limits(nodes: int, at_once: int | None) -> None:
    settings = kernel_settings(Load(nodes, False, at_once))
    least = kernel_settings(Load(1))
    assert settings.keys() == least.keys()
    assert all(settings[name] >= value for name, value in least.items())
    assert settings["kernel.pid_max"] <= sizing.PID_MAX
    assert 100 <= settings["/sys/kernel/mm/ksm/pages_to_scan"] <= 1500


@pytest.mark.parametrize(("nodes", "pages"), [(20, 100), (360, 360), (3_600, 1000), (9_000, 1500)])
def test_ksmd_scans_a_page_at_a_time_for_each_slurmd(nodes: int, pages: int) -> None:
    assert kernel_settings(Load(nodes))["/sys/kernel/mm/ksm/pages_to_scan"] == pages


def test_ksmd_scans_9000_nodes_in_30_seconds() -> None:
    scanned = kernel_settings(Load(9_000))["/sys/kernel/mm/ksm/pages_to_scan"]
    seconds = 9_000 * sizing.ANONYMOUS_PAGES / scanned * sizing.KSM_SLEEP
    assert seconds == pytest.approx(sizing.PASS, rel=0.01)


def test_the_defaults_of_the_role_kernel_tuning_are_the_settings_for_360_nodes() -> None:
    defaults = yaml.safe_load((ROOT / "roles/kernel_tuning/defaults/main.yml").read_text())
    assert defaults["kernel_tuning_settings"] == kernel_settings(Load(360))


def test_look_reads_the_capacity_of_this_host(tmp_path: Path) -> None:
    host = capacity.look(tmp_path / "not/there/yet")
    assert host.disk > 0 and host.tasks > 0 and host.files > 0 and host.inodes > 0
    total = int(re.search(r"MemTotal: +(\d+)", Path("/proc/meminfo").read_text())[1]) / 1024  # type: ignore[index]
    assert host.memory < total


def test_an_instance_without_a_farm_runs_no_nodes(tmp_path: Path) -> None:
    assert capacity.running_load(tmp_path / "none").nodes == 0
    (tmp_path / "run").mkdir()
    assert capacity.running_load(tmp_path).nodes == 0


@given(st.integers(1, 20_000), hosts, st.integers(1, 64))
def test_as_many_instances_fit_as_their_sum(nodes: int, host: Capacity, most: int) -> None:
    load = Load(nodes)
    count = sizing.instances(load, [], host, most)
    one, has = astuple(needs(load, host.merges)), (host.memory, host.tasks, host.files, host.inodes, host.disk)
    assert all(count * need <= have * (1 + 1e-9) + 1e-6 for need, have in zip(one, has, strict=True)) or count == 0
    if count < most:
        assert any((count + 1) * need > have * (1 - 1e-9) - 1e-6 for need, have in zip(one, has, strict=True))


def test_instances_that_run_already_need_only_what_is_added() -> None:
    load, small = Load(100), replace(PLENTY, memory=needs(Load(100), merges=True).memory * 1.5)
    running = Load(100, jobs=0)
    assert [sizing.instances(load, [running] * count, small, 8) for count in range(4)] == [1, 2, 3, 4]
    assert sizing.instances(load, [Load(50, jobs=0)], small, 8) == 1
    assert sizing.instances(load, [NOTHING, running], small, 8) == 2
