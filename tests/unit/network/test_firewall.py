"""The nftables table of an instance: its text, and its effect between network namespaces of this machine."""

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
def test_parse_ports(text: str, ports: Ports) -> None:
    assert firewall.parse_ports(text) == ports


@pytest.mark.parametrize(
    "text", ["", "111", "111/sctp", "0/tcp", "65536/tcp", "20-10/tcp", "10-/tcp", "111/udp\n", "ssh/tcp", "1,2/tcp"]
)
def test_parse_ports_refuses_other_text(text: str) -> None:
    with pytest.raises(WrongUse, match=r"^mirage_firewall_ports: .*: a port or a range of them, and tcp or udp, like 111/udp or "):
        firewall.parse_ports(text)


@pytest.mark.parametrize(
    "text", ["", "192.0.2.300", "192.0.2.0/33", "host", "192.0.2.1; drop", "fd00::/129", "fe80::1%a } flush ruleset"]
)
def test_parse_network_refuses_other_text(text: str) -> None:
    with pytest.raises(WrongUse, match=r"^mirage_firewall_from: .*: an address or a network like 192.0.2.0/24"):
        firewall.parse_network(text)


@pytest.mark.parametrize("name", ["", "a b", "a {", "a;b", "a\nb", "1a", "a'"])
def test_a_table_has_a_name_of_one_word(name: str) -> None:
    with pytest.raises(WrongUse, match=r"^the nftables table "):
        firewall.table(name, [], [])


def test_the_port_of_ssh_is_refused() -> None:
    with pytest.raises(WrongUse, match=r"^mirage_firewall_ports: 20-30/tcp: contains port 22, by which Ansible connects"):
        firewall.check_reachable([Ports(20, 30, "tcp")], [22])
    firewall.check_reachable([Ports(20, 30, "udp"), Ports(23, 23, "tcp")], [22])


def test_the_digest_depends_on_the_name_the_hosts_and_the_ports() -> None:
    table = firewall.table("t", ["192.0.2.1", "fd00::1"], ["111/udp"])
    assert re.fullmatch("[0-9a-f]{16}", firewall.table_digest(table))
    assert firewall.table_digest("table inet t {}") == ""
    for other in (
        firewall.table("u", ["192.0.2.1", "fd00::1"], ["111/udp"]),
        firewall.table("t", ["192.0.2.2", "fd00::1"], ["111/udp"]),
        firewall.table("t", ["192.0.2.1", "fd00::1"], ["111/tcp"]),
    ):
        assert firewall.table_digest(other) != firewall.table_digest(table)
    assert firewall.table("t", ["fd00::1", "192.0.2.1/32", "192.0.2.1"], ["111/udp", "111/udp"]) == table


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


def test_only_the_hosts_of_the_cluster_reach_its_ports(call: Caller, host: Host, nft: Path, tmp_path: Path) -> None:
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

    absent = {**wanted, "state": "absent"}
    assert call("nftables_table", check=True, **absent)["changed"] is True
    assert host.reached_by("friend", 17000) == set()
    assert call("nftables_table", **absent)["changed"] is True
    assert host.reached_by("friend", 17000, 17001, 22) == EVERYTHING
    assert call("nftables_table", **absent)["changed"] is False


def test_other_tables_and_outgoing_connections_are_not_affected(call: Caller, host: Host, nft: Path, tmp_path: Path) -> None:
    """Another table remains, and a connection from a port of the instance's block can be opened."""
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


def test_a_flushed_table_is_loaded_again(call: Caller, host: Host, nft: Path, tmp_path: Path) -> None:
    """By the module, and by `nft -f` from the file as when the host boots, with and without an earlier table in the kernel."""
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
        ({"ports": ["1-100/tcp"]}, "wrong use: mirage_firewall_ports: 1-100/tcp: contains port 22"),
        ({"file": "/nowhere/firewall.nft"}, "/nowhere/firewall.nft cannot be written (No such file or directory)"),
    ],
)
def test_a_refused_call_writes_no_file(call: Caller, tmp_path: Path, change: dict[str, Any], message: str) -> None:
    wanted = {"name": "t", "file": str(tmp_path / "f"), "nft": "/bin/false", "hosts": ["192.0.2.1"], "ports": ["111/udp"]}
    assert call("nftables_table", **{**wanted, **change})["msg"].startswith(message)
    assert not (tmp_path / "f").exists()


def test_check_mode_without_nft_reports_a_change(call: Caller, tmp_path: Path) -> None:
    wanted = {"name": "t", "file": str(tmp_path / "f"), "nft": str(tmp_path / "nft")}
    assert call("nftables_table", check=True, **wanted)["changed"] is True
    assert call("nftables_table", check=True, **wanted, state="absent")["changed"] is False
