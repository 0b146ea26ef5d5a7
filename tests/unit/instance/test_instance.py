"""An instance's name, block of ports, active run and installed package."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_mirage.base import processes
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.instance import instance
from slurm_mirage.instance.instance import (
    FIRST_PORT,
    LAST_PORT,
    MOST_PORTS,
    Ports,
    active_run,
    check_name,
    claimed_blocks,
    is_free,
    nodes_in,
    refuse_during_run,
)
from slurm_mirage.instance.placement import Block

LOOPBACK = "127.0.0.1"


@pytest.mark.parametrize("name", ["mirage", "a", "b2", "my-cluster"])
def test_check_name_accepts(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", "A", "2b", "a b", "a/b", "..", "a\n", "x" * 22, "é"])
def test_check_name_refuses(name: str) -> None:
    with pytest.raises(WrongUse, match="cluster="):
        check_name(name)


@pytest.fixture
def listener() -> socket.socket:
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))
        taken.listen()
        yield taken


def free_ports(count: int) -> int:
    """Return the first of `count` free ports, away from the ephemeral ports and the first blocks.

    Each worker of pytest-xdist looks at ports of its own: the tests take ports beside these, too.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    candidates = range(29000 + 50 * worker, LAST_PORT, 50 * workers)
    return next(port for port in candidates if all(is_free(LOOPBACK, port + i) for i in range(count)))


def choose(nodes: int, kept: dict[str, int] | None = None, claimed: Sequence[tuple[int, int]] = (), **more: Any) -> Block:
    return Ports(LOOPBACK, nodes, kept, claimed, more.get("in_use", False)).choose(more.get("wanted"))


def test_a_requested_port_in_use_is_refused(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    with pytest.raises(WrongUse, match=rf"port={port}: port {port} of 127\.0\.0\.1 is taken"):
        choose(2, wanted=port)


def test_a_running_instance_may_use_its_own_ports(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    kept = {"port": port - 1, "ports": 3}
    assert choose(2, kept, in_use=True) == Block(LOOPBACK, port - 1, 3)
    assert choose(2, kept, in_use=True, wanted=port - 1) == Block(LOOPBACK, port - 1, 3)
    assert choose(2, kept).port != port - 1


def test_the_earlier_block_is_kept() -> None:
    free = free_ports(5)
    assert choose(4, {"port": free, "ports": 5}) == Block(LOOPBACK, free, 5)
    assert choose(3, {"port": free, "ports": 5}) == Block(LOOPBACK, free, 4), "surplus ports are released"


def test_the_block_of_a_running_instance_is_extended_by_the_free_ports_that_follow() -> None:
    free = free_ports(20)
    kept = {"port": free, "ports": 5, "addresses": 1}
    assert choose(9, kept, in_use=True) == Block(LOOPBACK, free, 10)
    assert choose(9, kept, [(free + 8, 5)], in_use=True) == Block(LOOPBACK, free, 8)
    assert choose(9, kept, [(free + 5, 5)], in_use=True) == Block(LOOPBACK, free, 5), "9 nodes on three addresses"
    assert choose(1, kept, in_use=True) == Block(LOOPBACK, free, 5), "running nodes may use its last ports"
    with socket.socket() as taken:
        taken.bind((LOOPBACK, free + 6))
        taken.listen()
        assert choose(9, kept, in_use=True) == Block(LOOPBACK, free, 6)


def test_ports_are_checked_on_every_address() -> None:
    free = free_ports(5)
    kept = {"port": free, "ports": 5, "addresses": 1}
    with socket.socket() as taken:
        taken.bind(("127.0.0.2", free + 3))
        taken.listen()
        with pytest.raises(WrongUse, match=rf"nodes=8: port {free + 3} of 127\.0\.0\.2 is taken by another program, and a running"):
            choose(8, kept, [(free + 5, 5)], in_use=True)
        assert choose(8, {**kept, "addresses": 2}, [(free + 5, 5)], in_use=True).ports == 5, "the port in use is the instance's own"


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(FIRST_PORT, 32000), st.integers(1, 400)), max_size=5), st.integers(1, 300))
def test_blocks_never_overlap(claimed: list[tuple[int, int]], nodes: int) -> None:
    block = choose(nodes, claimed=claimed)
    assert block.ports == nodes + 1
    for other, length in claimed:
        assert block.port + block.ports <= other or other + length <= block.port


@pytest.mark.parametrize("port", [0, 80, 1023, 65535, 70000])
def test_a_block_outside_the_range_of_ports_is_refused(port: int) -> None:
    with pytest.raises(WrongUse, match=r"port=\d+: needs 10 ports"):
        choose(9, wanted=port)


def test_more_nodes_than_free_ports_use_more_addresses() -> None:
    # A claim in the middle of the range leaves no block of 8000 ports. Other programs may use further ports there.
    block = choose(8000, claimed=[(24000, 1000)])
    assert block.addresses(8000) > 1
    with pytest.raises(WrongUse, match=f"port=60000: needs {MOST_PORTS} ports"):
        choose(200_000, wanted=60000)


def test_no_free_block_is_an_error() -> None:
    with pytest.raises(WrongUse, match="nodes: no block of 5 free ports"):
        choose(4, claimed=[(FIRST_PORT, LAST_PORT - FIRST_PORT)])


def test_the_number_of_nodes_without_and_with_the_key_nodes() -> None:
    assert nodes_in({"port": 17000, "ports": 361}) == 360
    assert nodes_in({"port": 17000, "ports": 15000, "nodes": 60000}) == 60000


def test_claimed_blocks_leave_out_the_own_instance(tmp_path: Path) -> None:
    for name, port in (("a", 17000), ("b", 18000)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "instance.json").write_text(json.dumps({"port": port, "ports": 10}))
    assert claimed_blocks(tmp_path, "a") == [(18000, 10)]


def write_lock(directory: Path, run: str, pid: int, start_time: int) -> None:
    folder = directory / "runs" / run
    folder.mkdir(parents=True)
    (folder / "replay.lock").write_text(f"{pid} {start_time}\n")


def test_changes_are_refused_while_a_replay_runs(tmp_path: Path, replaying: Callable[[Path, str], None]) -> None:
    replaying(tmp_path, "kth")
    assert active_run(tmp_path) == "kth"
    with pytest.raises(WrongUse, match="run kth goes on"):
        refuse_during_run(tmp_path)


def test_changes_are_permitted_after_a_replay_has_ended_or_was_killed(tmp_path: Path) -> None:
    write_lock(tmp_path, "kth", os.getpid(), (processes.start_time(os.getpid()) or 0) + 1)
    write_lock(tmp_path, "ended", 0, 0)
    assert active_run(tmp_path) is None
    refuse_during_run(tmp_path)


def test_install_package_copies_the_loaded_sources_and_removes_others(tmp_path: Path) -> None:
    import slurm_mirage

    source = Path(slurm_mirage.__file__).parent
    for path in ("gone.py", "gone/__init__.py", "gone/more.py"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("")
    before = sorted(tmp_path.rglob("*"))
    assert instance.install_package(slurm_mirage, tmp_path, write=False)
    assert sorted(tmp_path.rglob("*")) == before
    assert instance.install_package(slurm_mirage, tmp_path, write=True)
    assert {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == {
        path.relative_to(source): path.read_bytes() for path in [*source.rglob("*.py"), *source.glob("extras/*/**/*.py")]
    }
    assert not (tmp_path / "gone").exists()
    assert not instance.install_package(slurm_mirage, tmp_path, write=True)


def test_commands_of_returns_the_folder_of_the_release_that_runs(tmp_path: Path) -> None:
    assert instance.commands_of(tmp_path) == Path("/usr/bin")
    (tmp_path / "etc").mkdir()
    daemons = [
        {"kind": "munged", "command": ["/usr/sbin/munged", "--foreground"]},
        {"kind": "slurmd", "command": ["/opt/slurm-mirage/slurm-25.11.7-0123abcd/sbin/slurmd", "-D"]},
    ]
    (tmp_path / "etc/farm.json").write_text(json.dumps({"daemons": daemons}))
    assert instance.commands_of(tmp_path) == Path("/opt/slurm-mirage/slurm-25.11.7-0123abcd/bin")
