"""An instance's name and ports."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_mirage import instance, processes
from slurm_mirage.errors import WrongUse
from slurm_mirage.instance import FIRST_PORT, active_run, check_name, choose_ports, claimed_blocks, is_free, refuse_during_run

LOOPBACK = "127.0.0.1"


@pytest.mark.parametrize("name", ["mirage", "a", "b2", "my-cluster"])
def test_names(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", "A", "2b", "a b", "a/b", "..", "a\n", "x" * 22, "é"])
def test_names_that_would_be_another_folder_or_user(name: str) -> None:
    with pytest.raises(WrongUse, match="CLUSTER="):
        check_name(name)


@pytest.fixture
def listener() -> socket.socket:
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))
        taken.listen()
        yield taken


def test_a_taken_port_is_refused_when_asked_for(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    with pytest.raises(WrongUse, match=f"port {port} is taken"):
        choose_ports(port, None, 3, [], LOOPBACK, in_use=False)


def test_the_instance_itself_may_hold_its_ports(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    kept = {"port": port - 1, "ports": 3}
    assert choose_ports(None, kept, 3, [], LOOPBACK, in_use=True) == port - 1
    assert choose_ports(None, kept, 3, [], LOOPBACK, in_use=False) != port - 1


def test_the_earlier_block_is_kept() -> None:
    free = next(port for port in range(29000, 32000) if all(is_free(LOOPBACK, port + i) for i in range(5)))
    assert choose_ports(None, {"port": free, "ports": 5}, 5, [], LOOPBACK, in_use=False) == free


@given(st.lists(st.tuples(st.integers(FIRST_PORT, 32000), st.integers(1, 400)), max_size=5), st.integers(1, 300))
def test_blocks_never_overlap(claimed: list[tuple[int, int]], ports: int) -> None:
    first = choose_ports(None, None, ports, claimed, LOOPBACK, in_use=False)
    for other, length in claimed:
        assert first + ports <= other or other + length <= first


@pytest.mark.parametrize("port", [0, 80, 1023, 65535, 70000])
def test_ports_that_do_not_exist(port: int) -> None:
    with pytest.raises(WrongUse, match=r"PORT=\d+: needs 10 ports"):
        choose_ports(port, None, 10, [], LOOPBACK, in_use=False)


def test_more_nodes_than_ports() -> None:
    with pytest.raises(WrongUse, match="NODES: no block of 20000 free ports"):
        choose_ports(None, None, 20000, [], LOOPBACK, in_use=False)


def test_claims_of_the_others(tmp_path: Path) -> None:
    for name, port in (("a", 17000), ("b", 18000)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "instance.json").write_text(json.dumps({"port": port, "ports": 10}))
    assert claimed_blocks(tmp_path, "a") == [(18000, 10)]


def lock_of(directory: Path, run: str, pid: int, start_time: int) -> None:
    folder = directory / "runs" / run
    folder.mkdir(parents=True)
    (folder / "replay.lock").write_text(f"{pid} {start_time}\n")


def test_a_run_at_work_forbids_changes(tmp_path: Path) -> None:
    lock_of(tmp_path, "kth", os.getpid(), processes.start_time(os.getpid()) or 0)
    assert active_run(tmp_path) == "kth"
    with pytest.raises(WrongUse, match="run kth goes on"):
        refuse_during_run(tmp_path)


def test_one_whose_replay_has_ended_or_was_killed_does_not(tmp_path: Path) -> None:
    lock_of(tmp_path, "kth", os.getpid(), (processes.start_time(os.getpid()) or 0) + 1)
    lock_of(tmp_path, "ended", 0, 0)
    assert active_run(tmp_path) is None
    refuse_during_run(tmp_path)


def test_the_package_is_installed_as_it_was_loaded(tmp_path: Path) -> None:
    import slurm_mirage

    source = Path(slurm_mirage.__file__).parent
    (tmp_path / "gone.py").write_text("")
    assert instance.install_package(slurm_mirage, tmp_path, write=False)
    assert [path.name for path in tmp_path.iterdir()] == ["gone.py"]
    assert instance.install_package(slurm_mirage, tmp_path, write=True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        path.name: path.read_bytes() for path in source.glob("*.py")
    }
    assert not instance.install_package(slurm_mirage, tmp_path, write=True)
