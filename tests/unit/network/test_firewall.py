"""Who may reach an instance's ports: the table as text, and nftables itself between network namespaces of this machine."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from modules import Caller
from namespaces import LISTENER, PATIENCE, Host, linked

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.network import firewall
from slurm_mirage.network.firewall import Ports

NFT = "/usr/sbin/nft"

# ---- text ----


@pytest.mark.parametrize(
    ("text", "ports"),
    [
        ("111/udp", Ports(111, 111, "udp")),
        ("17000-17360/tcp", Ports(17000, 17360, "tcp")),
        ("1-65535/tcp", Ports(1, 65535, "tcp")),
    ],
)
def test_ports(text: str, ports: Ports) -> None:
    assert firewall.ports_of(text) == ports


@pytest.mark.parametrize(
    "text", ["", "111", "111/sctp", "0/tcp", "65536/tcp", "20-10/tcp", "10-/tcp", "111/udp\n", "ssh/tcp", "1,2/tcp"]
)
def test_what_is_no_port(text: str) -> None:
    with pytest.raises(WrongUse, match=r"^mirage_firewall_ports: .*: a port or a range of them, and tcp or udp, like 111/udp or "):
        firewall.ports_of(text)


@pytest.mark.parametrize("text", ["", "192.0.2.300", "192.0.2.0/33", "host", "192.0.2.1; drop", "fd00::/129"])
def test_what_is_no_network(text: str) -> None:
    with pytest.raises(WrongUse, match=r"^mirage_firewall_from: .*: an address or a network like 192.0.2.0/24"):
        firewall.network_of(text)


def test_the_port_of_ssh_is_not_closed() -> None:
    with pytest.raises(WrongUse, match=r"^mirage_firewall_ports: 20-30/tcp: Ansible comes by port 22, which would be closed to it"):
        firewall.check_reachable([Ports(20, 30, "tcp")], [22])
    firewall.check_reachable([Ports(20, 30, "udp"), Ports(23, 23, "tcp")], [22])


def test_the_mark_stands_for_all_that_the_table_is_made_of() -> None:
    made = firewall.table("t", ["192.0.2.1", "fd00::1"], ["111/udp"])
    assert re.fullmatch("[0-9a-f]{16}", firewall.mark_of(made))
    assert firewall.mark_of("table inet t {}") == ""
    for other in (
        firewall.table("u", ["192.0.2.1", "fd00::1"], ["111/udp"]),
        firewall.table("t", ["192.0.2.2", "fd00::1"], ["111/udp"]),
        firewall.table("t", ["192.0.2.1", "fd00::1"], ["111/tcp"]),
    ):
        assert firewall.mark_of(other) != firewall.mark_of(made)
    assert firewall.table("t", ["fd00::1", "192.0.2.1/32", "192.0.2.1"], ["111/udp", "111/udp"]) == made


# ---- nftables ----


@pytest.fixture
def host() -> Iterator[Host]:
    with linked(NFT) as one:
        yield one


@pytest.fixture
def nft(host: Host, tmp_path: Path) -> Path:
    return host.program(tmp_path / "nft", NFT)


def params(nft: Path, tmp_path: Path) -> dict[str, Any]:
    hosts = ["10.77.1.1", "10.77.1.2", "fd00::/8"]
    ports = ["17000-17010/tcp", "17000/udp"]
    return {
        "name": "slurm_mirage_a-b",
        "file": str(tmp_path / "firewall.nft"),
        "nft": str(nft),
        "hosts": hosts,
        "ports": ports,
    }


EVERYTHING = {"17000/tcp", "17000/udp", "17001/tcp", "17001/udp", "22/tcp", "22/udp"}


def test_only_the_clusters_hosts_reach_its_ports(call: Caller, host: Host, nft: Path, tmp_path: Path) -> None:
    wanted = params(nft, tmp_path)
    assert host.reached_by("stranger", 17000, 17001, 22) == EVERYTHING
    assert call("nftables_table", check=True, **wanted)["changed"] is True
    assert not Path(wanted["file"]).exists()
    assert host.reached_by("stranger", 17000) == {"17000/tcp", "17000/udp"}
    assert call("nftables_table", **wanted)["changed"] is True
    assert host.reached_by("stranger", 17000, 17001, 22) == {"17001/udp", "22/tcp", "22/udp"}
    assert host.reached_by("friend", 17000, 17001, 22) == EVERYTHING
    assert call("nftables_table", **wanted)["changed"] is False

    wanted["hosts"] = ["10.77.2.0/24"]
    assert call("nftables_table", check=True, **wanted)["changed"] is True
    assert call("nftables_table", **wanted)["changed"] is True
    assert host.reached_by("stranger", 17000, 17001, 22) == EVERYTHING
    assert host.reached_by("friend", 17000) == set()

    gone = {**wanted, "state": "absent"}
    assert call("nftables_table", check=True, **gone)["changed"] is True
    assert host.reached_by("friend", 17000) == set()
    assert call("nftables_table", **gone)["changed"] is True
    assert host.reached_by("friend", 17000, 17001, 22) == EVERYTHING
    assert call("nftables_table", **gone)["changed"] is False


def test_the_hosts_own_rules_and_connections_stay(call: Caller, host: Host, nft: Path, tmp_path: Path) -> None:
    """The table of somebody else is left alone, and a connection from one of the ports of the block can be made."""
    subprocess.run([nft, "add table inet others; add chain inet others c { type filter hook input priority 0; }"], check=True)
    call("nftables_table", **params(nft, tmp_path))
    outside = subprocess.Popen(
        ["ip", "netns", "exec", f"{host.name}-stranger", sys.executable, "-c", LISTENER, "4000"], stdout=subprocess.PIPE
    )
    with outside:
        assert outside.stdout is not None
        outside.stdout.readline()
        code = "import socket; socket.create_connection(('10.77.2.2', 4000), 30, ('10.77.2.1', 17005)).close()"
        subprocess.run(["ip", "netns", "exec", host.name, sys.executable, "-c", code], check=True, timeout=PATIENCE)
        outside.kill()
    call("nftables_table", **params(nft, tmp_path), state="absent")
    listed = subprocess.run([nft, "list", "ruleset"], check=True, capture_output=True, text=True).stdout
    assert "table inet others" in listed and "slurm_mirage" not in listed


def test_a_table_that_the_host_has_lost_is_loaded_again(call: Caller, host: Host, nft: Path, tmp_path: Path) -> None:
    """By the module, and by nft alone from the file, as at the host's start: onto an empty kernel, and onto itself."""
    wanted = params(nft, tmp_path)
    call("nftables_table", **wanted)
    subprocess.run([nft, "flush", "ruleset"], check=True)
    assert host.reached_by("stranger", 17000) == {"17000/tcp", "17000/udp"}
    assert call("nftables_table", **wanted)["changed"] is True
    assert host.reached_by("stranger", 17000) == set()
    subprocess.run([nft, "flush", "ruleset"], check=True)
    for _ in range(2):
        subprocess.run([nft, "-f", wanted["file"]], check=True)
        assert host.reached_by("stranger", 17000) == set()
    assert call("nftables_table", **wanted)["changed"] is False


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hosts": ["everybody"]}, "wrong use: mirage_firewall_from: 'everybody': an address"),
        ({"ports": ["everything"]}, "wrong use: mirage_firewall_ports: 'everything': a port"),
        ({"ports": ["1-100/tcp"]}, "wrong use: mirage_firewall_ports: 1-100/tcp: Ansible comes by port 22"),
        ({"file": "/nowhere/firewall.nft"}, "/nowhere/firewall.nft cannot be written (No such file or directory)"),
    ],
)
def test_wrong_use_changes_nothing(call: Caller, tmp_path: Path, change: dict[str, Any], message: str) -> None:
    wanted = {"name": "t", "file": str(tmp_path / "f"), "nft": "/bin/false", "hosts": ["192.0.2.1"], "ports": ["111/udp"]}
    assert call("nftables_table", **{**wanted, **change})["msg"].startswith(message)
    assert not (tmp_path / "f").exists()


def test_without_nft_check_mode_says_that_it_would_be_made(call: Caller, tmp_path: Path) -> None:
    wanted = {"name": "t", "file": str(tmp_path / "f"), "nft": str(tmp_path / "nft")}
    assert call("nftables_table", check=True, **wanted)["changed"] is True
    assert call("nftables_table", check=True, **wanted, state="absent")["changed"] is False
