"""The ufw rules of an instance: parsing ufw's files, and a real ufw with its own files in a network namespace of this machine."""

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
    """Parse a file with these rules, each ("allow tcp 111 0.0.0.0/0 any 10.0.0.1 in", comment)."""
    tuples = [f"### tuple ### {line}" + (f" comment={comment.encode().hex()}" if comment else "") for line, comment in lines]
    return ufw.parse_rules("*filter\n### RULES ###\n\n" + "".join(f"{line}\n-A ufw-user-input -j ACCEPT\n\n" for line in tuples))


def commands(existing: dict[ufw.Rule, ufw.ExistingRule], instance: str, hosts: list[str], ports: list[str]) -> list[str]:
    return [" ".join(words) for words in ufw.changes(existing, instance, ufw.required_rules(hosts, ports))]


@pytest.mark.parametrize(
    ("comment", "added", "removed"),
    [
        ("Slurm Mirage, instance a", [], [f"delete allow {FROM_A} comment Slurm Mirage, instance a"]),
        ("Slurm Mirage, instances a, b", [], [f"allow {FROM_A} comment Slurm Mirage, instance b"]),
        ("Slurm Mirage, instances a, b, c", [], [f"allow {FROM_A} comment Slurm Mirage, instances b, c"]),
        ("Slurm Mirage, instance b", [f"allow {FROM_A} comment Slurm Mirage, instances a, b"], []),
        ("Slurm Mirage, instance aa", [f"allow {FROM_A} comment Slurm Mirage, instances a, aa"], []),
        # Rules of the administrator.
        ("", [], []),
        ("for instance a", [], []),
    ],
)
def test_a_rule_is_removed_with_the_last_instance_that_needs_it(comment: str, added: list[str], removed: list[str]) -> None:
    existing = rules(("allow tcp 111 0.0.0.0/0 any 10.0.0.1 in", comment))
    assert commands(existing, "a", ["10.0.0.1"], ["111/tcp"]) == added
    assert commands(existing, "a", [], []) == removed


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
def test_rules_that_ufw_treats_as_equal(line: str, host: str, ports: str) -> None:
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
def test_rules_that_ufw_treats_as_different(line: str) -> None:
    assert commands(rules((line, "")), "a", ["10.0.0.1"], ["111/tcp"]) == [f"allow {FROM_A} comment Slurm Mirage, instance a"]


@pytest.mark.parametrize("action", ["deny", "reject", "limit", "deny_log"])
def test_a_rule_that_blocks_a_host_of_the_cluster_is_an_error(action: str) -> None:
    existing = rules((f"{action} tcp 111 0.0.0.0/0 any 10.0.0.1 in", ""))
    with pytest.raises(WrongUse, match=rf"^mirage_firewall=ufw: the host's own rule `ufw {action} {FROM_A}` blocks a host"):
        ufw.changes(existing, "a", ufw.required_rules(["10.0.0.1"], ["111/tcp"]))
    assert commands(existing, "a", [], []) == []


def test_without_ufw_remaining_rules_are_counted(call: Caller, tmp_path: Path) -> None:
    absent = {"instance": "a", "ufw": str(tmp_path / "ufw"), "folder": str(tmp_path), "state": "absent"}
    comment = b"Slurm Mirage, instance a".hex()
    text = f"### tuple ### allow tcp 111 0.0.0.0/0 any 10.0.0.1 in comment={comment}\n"
    for content, left in (("", 0), (text, 1)):
        (tmp_path / "user.rules").write_text(content)
        for check in (True, False):
            result = call("ufw_rules", check=check, **absent)
            assert (result["changed"], result["commands"], result["left"]) == (False, [], left)
        assert (tmp_path / "user.rules").read_text() == content


# ---- ufw ----


@pytest.fixture
def host() -> Iterator[Host]:
    with linked(UFW) as one:
        yield one


@pytest.fixture
def own(host: Host, tmp_path: Path) -> Path:
    """Path of a ufw with its own files, enabled in the namespace `host`; it rejects incoming packets that no rule allows."""
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
    """Parameters of ufw_rules: `hosts` may reach three of four ports; without hosts, state=absent."""
    wanted = {"instance": instance, "ufw": str(own), "folder": str(own.parent / "etc/ufw")}
    return (
        {**wanted, "hosts": list(hosts), "ports": ["17000-17000/tcp", "17000-17001/udp"]}
        if hosts
        else {**wanted, "state": "absent"}
    )


def added(own: Path) -> str:
    """Return the rules that `ufw show added` prints."""
    return subprocess.run([own, "show", "added"], check=True, capture_output=True, text=True).stdout


OPEN = {"17000/tcp", "17000/udp", "17001/udp"}


def test_the_hosts_of_the_cluster_reach_its_ports(call: Caller, host: Host, own: Path) -> None:
    wanted = params(own, "a", "10.77.1.2", "fd00::/8")
    assert host.reached_by("friend", 17000, 17001) == set()
    assert call("ufw_rules", check=True, **wanted)["changed"] is True
    assert "Mirage" not in added(own)
    assert call("ufw_rules", **wanted)["changed"] is True
    assert host.reached_by("friend", 17000, 17001) == OPEN
    assert host.reached_by("stranger", 17000, 17001) == set()
    for check in (True, False):
        assert call("ufw_rules", check=check, **wanted)["changed"] is False

    other = params(own, "a", "10.77.2.0/24")
    assert call("ufw_rules", **other)["changed"] is True
    assert host.reached_by("friend", 17000, 17001) == set()
    assert host.reached_by("stranger", 17000, 17001) == OPEN

    absent = params(own, "a")
    assert call("ufw_rules", check=True, **absent)["changed"] is True
    assert "Mirage" in added(own)
    assert call("ufw_rules", **absent)["changed"] is True
    assert host.reached_by("stranger", 17000, 17001) == set()
    assert "Mirage" not in added(own)
    assert call("ufw_rules", **absent)["changed"] is False


def test_instances_share_rules_until_the_last_is_removed(call: Caller, host: Host, own: Path) -> None:
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
def test_a_rule_of_the_administrator_is_kept(call: Caller, host: Host, own: Path, comment: list[str], is_first: bool) -> None:
    """Whether the administrator added it before or after the instance added an equal one."""
    rule = ["allow", "from", "10.77.1.2", "to", "any", "port", "17000", "proto", "tcp", *comment]
    wanted = params(own, "a", "10.77.1.2")
    if not is_first:
        call("ufw_rules", **wanted)
    subprocess.run([own, *rule], check=True, capture_output=True)
    before = added(own)
    assert call("ufw_rules", **wanted)["changed"] is is_first
    assert call("ufw_rules", **wanted)["changed"] is False
    assert host.reached_by("friend", 17000, 17001) == OPEN
    assert call("ufw_rules", **params(own, "a"))["changed"] is True
    assert host.reached_by("friend", 17000, 17001) == {"17000/tcp"}
    assert set(added(own).splitlines()) <= set(before.splitlines())


def test_a_blocking_rule_of_the_administrator_is_kept(call: Caller, host: Host, own: Path) -> None:
    rule = ["deny", "from", "10.77.1.2", "to", "any", "port", "17000", "proto", "tcp"]
    subprocess.run([own, *rule], check=True, capture_output=True)
    before = added(own)
    for check in (True, False):
        message = call("ufw_rules", check=check, **params(own, "a", "10.77.1.2"))["msg"]
        assert message.startswith("wrong use: mirage_firewall=ufw: the host's own rule `ufw deny from 10.77.1.2 to any port 17000 ")
    assert added(own) == before


@pytest.mark.parametrize("instance", ["", "a, b", "a'b", "a\nb"])
def test_an_instance_is_one_name_in_a_comment(instance: str) -> None:
    with pytest.raises(WrongUse, match=r"^instance "):
        ufw.changes({}, instance, set())
