"""Whose rules ufw has: its files as text, and ufw itself, with files of its own, in a network namespace of this machine."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from modules import Caller
from namespaces import Host, linked

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.network import ufw

UFW = "/usr/sbin/ufw"

# ---- text ----

FROM_A = "from 10.0.0.1 to any port 111 proto tcp"


def rules(*lines: tuple[str, str]) -> dict[ufw.Rule, ufw.Made]:
    """What is read from rules like ("allow tcp 111 0.0.0.0/0 any 10.0.0.1 in", "its comment")."""
    tuples = [f"### tuple ### {line}" + (f" comment={comment.encode().hex()}" if comment else "") for line, comment in lines]
    return ufw.rules_in("*filter\n### RULES ###\n\n" + "".join(f"{line}\n-A ufw-user-input -j ACCEPT\n\n" for line in tuples))


def commands(there: dict[ufw.Rule, ufw.Made], instance: str, hosts: list[str], ports: list[str]) -> list[str]:
    return [" ".join(words) for words in ufw.changes(there, instance, ufw.wanted(hosts, ports))]


@pytest.mark.parametrize(
    ("comment", "added", "removed"),
    [
        ("Slurm Mirage, instance a", [], [f"delete allow {FROM_A} comment Slurm Mirage, instance a"]),
        ("Slurm Mirage, instances a, b", [], [f"allow {FROM_A} comment Slurm Mirage, instance b"]),
        ("Slurm Mirage, instances a, b, c", [], [f"allow {FROM_A} comment Slurm Mirage, instances b, c"]),
        ("Slurm Mirage, instance b", [f"allow {FROM_A} comment Slurm Mirage, instances a, b"], []),
        ("Slurm Mirage, instance aa", [f"allow {FROM_A} comment Slurm Mirage, instances a, aa"], []),
        # The administrator's.
        ("", [], []),
        ("for instance a", [], []),
    ],
)
def test_a_rule_goes_with_the_last_who_needs_it(comment: str, added: list[str], removed: list[str]) -> None:
    there = rules(("allow tcp 111 0.0.0.0/0 any 10.0.0.1 in", comment))
    assert commands(there, "a", ["10.0.0.1"], ["111/tcp"]) == added
    assert commands(there, "a", [], []) == removed


@pytest.mark.parametrize(
    ("line", "host", "ports"),
    [
        ("allow udp 17000:17010 0.0.0.0/0 any 10.0.0.0/24 in", "10.0.0.7/24", "17000-17010/udp"),
        ("allow tcp 17000 0.0.0.0/0 any 10.0.0.1 in", "10.0.0.1/32", "17000-17000/tcp"),
        ("allow tcp 17000 ::/0 any fd00::1 in", "fd00:0:0::1", "17000/tcp"),
        ("allow tcp 17000 0.0.0.0/0 any 0.0.0.0/0 in", "0.0.0.0/0", "17000/tcp"),
        ("allow_log tcp 17000 0.0.0.0/0 any 10.0.0.1 in", "10.0.0.1", "17000/tcp"),
    ],
)
def test_what_is_the_same_rule(line: str, host: str, ports: str) -> None:
    assert commands(rules((line, "")), "a", [host], [ports]) == []
    assert len(commands({}, "a", [host], [ports])) == 1


@pytest.mark.parametrize(
    "line",
    [
        "allow udp 111 0.0.0.0/0 any 10.0.0.1 in",
        "allow tcp 111 0.0.0.0/0 any 10.0.0.1 in_eth0",
        "allow tcp 111 10.0.0.9 any 10.0.0.1 in",
        "allow tcp 111 0.0.0.0/0 99 10.0.0.1 in",
        "allow tcp 111,112 0.0.0.0/0 any 10.0.0.1 in",
        "allow tcp 111 0.0.0.0/0 any 10.0.0.1 out",
        "allow any 111 0.0.0.0/0 any 10.0.0.1 in",
        "allow tcp 111 0.0.0.0/0 any 10.0.0.1 Portmap - in",
        "route:allow tcp 111 0.0.0.0/0 any 10.0.0.1 in",
        "route:deny tcp 111 0.0.0.0/0 any 10.0.0.1 in",
    ],
)
def test_what_is_another_rule(line: str) -> None:
    assert commands(rules((line, "")), "a", ["10.0.0.1"], ["111/tcp"]) == [f"allow {FROM_A} comment Slurm Mirage, instance a"]


@pytest.mark.parametrize("action", ["deny", "reject", "limit", "deny_log"])
def test_a_rule_that_keeps_a_host_out_is_not_turned_round(action: str) -> None:
    there = rules((f"{action} tcp 111 0.0.0.0/0 any 10.0.0.1 in", ""))
    with pytest.raises(WrongUse, match=rf"^mirage_firewall=ufw: the host's own rule `ufw {action} {FROM_A}` keeps out"):
        ufw.changes(there, "a", ufw.wanted(["10.0.0.1"], ["111/tcp"]))
    assert commands(there, "a", [], []) == []


def test_without_ufw_nothing_is_removed_and_it_is_told(call: Caller, tmp_path: Path) -> None:
    gone = {"instance": "a", "ufw": str(tmp_path / "ufw"), "folder": str(tmp_path), "state": "absent"}
    comment = b"Slurm Mirage, instance a".hex()
    text = f"### tuple ### allow tcp 111 0.0.0.0/0 any 10.0.0.1 in comment={comment}\n"
    for content, left in (("", 0), (text, 1)):
        (tmp_path / "user.rules").write_text(content)
        for check in (True, False):
            result = call("ufw_rules", check=check, **gone)
            assert (result["changed"], result["commands"], result["left"]) == (False, [], left)
        assert (tmp_path / "user.rules").read_text() == content


# ---- ufw ----


@pytest.fixture
def host() -> Iterator[Host]:
    with linked(UFW) as one:
        yield one


@pytest.fixture
def own(host: Host, tmp_path: Path) -> Path:
    """ufw with files of its own, switched on in the host, where it refuses what no rule lets through."""
    shutil.copytree("/etc/ufw", tmp_path / "etc/ufw")
    for path in Path("/usr/share/ufw/iptables").glob("*.rules"):
        shutil.copy(path, tmp_path / "etc/ufw")
    (tmp_path / "etc/ufw/ufw.conf").write_text("ENABLED=no\nLOGLEVEL=off\n")
    (tmp_path / "etc/default").mkdir()
    shutil.copy("/etc/default/ufw", tmp_path / "etc/default")
    (tmp_path / "lib/ufw").mkdir(parents=True)
    program = host.program(tmp_path / "ufw", UFW, "--rootdir=/", f"--datadir={tmp_path}")
    for words in ("default reject incoming", "--force enable"):
        subprocess.run([program, *words.split()], check=True, capture_output=True)
    return program


def params(own: Path, instance: str, *hosts: str) -> dict[str, Any]:
    """With the addresses of friends, and two ports of three."""
    wanted = {"instance": instance, "ufw": str(own), "folder": str(own.parent / "etc/ufw")}
    return (
        {**wanted, "hosts": list(hosts), "ports": ["17000-17000/tcp", "17000-17001/udp"]}
        if hosts
        else {**wanted, "state": "absent"}
    )


def added(own: Path) -> str:
    """The rules, as ufw itself tells them."""
    return subprocess.run([own, "show", "added"], check=True, capture_output=True, text=True).stdout


OPEN = {"17000/tcp", "17000/udp", "17001/udp"}


def test_the_clusters_hosts_are_let_through(call: Caller, host: Host, own: Path) -> None:
    mine = params(own, "a", "10.77.1.2", "fd00::/8")
    assert host.reached_by("friend", 17000, 17001) == set()
    assert call("ufw_rules", check=True, **mine)["changed"] is True
    assert "Mirage" not in added(own)
    assert call("ufw_rules", **mine)["changed"] is True
    assert host.reached_by("friend", 17000, 17001) == OPEN
    assert host.reached_by("stranger", 17000, 17001) == set()
    for check in (True, False):
        assert call("ufw_rules", check=check, **mine)["changed"] is False

    other = params(own, "a", "10.77.2.0/24")
    assert call("ufw_rules", **other)["changed"] is True
    assert host.reached_by("friend", 17000, 17001) == set()
    assert host.reached_by("stranger", 17000, 17001) == OPEN

    gone = params(own, "a")
    assert call("ufw_rules", check=True, **gone)["changed"] is True
    assert "Mirage" in added(own)
    assert call("ufw_rules", **gone)["changed"] is True
    assert host.reached_by("stranger", 17000, 17001) == set()
    assert "Mirage" not in added(own)
    assert call("ufw_rules", **gone)["changed"] is False


def test_instances_share_rules(call: Caller, host: Host, own: Path) -> None:
    """Until the last one goes."""
    a, b = params(own, "a", "10.77.1.2"), params(own, "b", "10.77.1.2", "10.77.2.2")
    for one in (a, b):
        assert call("ufw_rules", **one)["changed"] is True
    for one in (a, b):
        assert call("ufw_rules", **one)["changed"] is False
    assert call("ufw_rules", **params(own, "a"))["changed"] is True
    assert call("ufw_rules", **params(own, "a"))["changed"] is False
    assert call("ufw_rules", **b)["changed"] is False
    assert (host.reached_by("friend", 17000, 17001), host.reached_by("stranger", 17000, 17001)) == (OPEN, OPEN)
    assert call("ufw_rules", **params(own, "b"))["changed"] is True
    assert (host.reached_by("friend", 17000, 17001), host.reached_by("stranger", 17000, 17001)) == (set(), set())


@pytest.mark.parametrize("comment", [[], ["comment", "mine"]])
@pytest.mark.parametrize("is_first", [True, False])
def test_the_administrators_rule_stays(call: Caller, host: Host, own: Path, comment: list[str], is_first: bool) -> None:
    """Whether it was there first, or was given to ufw when the instance had made it."""
    rule = ["allow", "from", "10.77.1.2", "to", "any", "port", "17000", "proto", "tcp", *comment]
    mine = params(own, "a", "10.77.1.2")
    if not is_first:
        call("ufw_rules", **mine)
    subprocess.run([own, *rule], check=True, capture_output=True)
    before = added(own)
    assert call("ufw_rules", **mine)["changed"] is is_first
    assert call("ufw_rules", **mine)["changed"] is False
    assert host.reached_by("friend", 17000, 17001) == OPEN
    assert call("ufw_rules", **params(own, "a"))["changed"] is True
    assert host.reached_by("friend", 17000, 17001) == {"17000/tcp"}
    assert set(added(own).splitlines()) <= set(before.splitlines())


def test_the_administrators_refusal_is_not_turned_round(call: Caller, host: Host, own: Path) -> None:
    rule = ["deny", "from", "10.77.1.2", "to", "any", "port", "17000", "proto", "tcp"]
    subprocess.run([own, *rule], check=True, capture_output=True)
    before = added(own)
    for check in (True, False):
        message = call("ufw_rules", check=check, **params(own, "a", "10.77.1.2"))["msg"]
        assert message.startswith("wrong use: mirage_firewall=ufw: the host's own rule `ufw deny from 10.77.1.2 to any port 17000 ")
    assert added(own) == before
