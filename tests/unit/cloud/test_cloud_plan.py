"""What a cluster's servers in a cloud cost, and what a project has too little of."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from slurm_mirage.cloud import plan as cloud_plan
from slurm_mirage.cloud.plan import Flavor, Room

MEDIUM, LARGE = Flavor("m2.medium", 2, 6144), Flavor("m2.large", 4, 12288)


def test_server_names_are_in_the_order_of_their_numbers() -> None:
    names = cloud_plan.server_names("mirage", 120)
    assert names[:2] == ["mirage-head", "mirage-compute-001"]
    assert names[-1] == "mirage-compute-120"
    assert sorted(names[1:]) == names[1:]


def test_few_servers_have_room_to_become_ninety_nine() -> None:
    assert cloud_plan.server_names("mirage", 2) == ["mirage-head", "mirage-compute-01", "mirage-compute-02"]


def test_everything_is_named_after_the_cluster() -> None:
    assert set(cloud_plan.names("mirage").values()) == {
        "mirage-security",
        "mirage-network",
        "mirage-subnet",
        "mirage-router",
        "mirage-key",
        "mirage-servers",
    }


@pytest.mark.parametrize(
    ("missing", "rooms", "lines"),
    [
        (
            [LARGE, MEDIUM, MEDIUM],
            {"servers": Room(10, 1), "cores": Room(20, 2), "memory": Room(51200, 6144), "networks": Room(100)},
            [
                "cluster mirage: 3 servers, 8 cores, 24 GB of memory",
                "  to be made: 3 servers, 8 cores, 24 GB of memory",
                "  left in the project: 9 servers, 18 cores, 44 GB of memory",
            ],
        ),
        (
            [MEDIUM],
            {"servers": Room(-1), "cores": Room(20, 18), "memory": Room(-1)},
            [
                "cluster mirage: 3 servers, 8 cores, 24 GB of memory",
                "  to be made: 1 server, 2 cores, 6 GB of memory",
                "  left in the project: 2 cores",
            ],
        ),
        (
            [],
            {},
            [
                "cluster mirage: 3 servers, 8 cores, 24 GB of memory",
                "  all of them are there",
                "  left in the project: as much as the cloud has",
            ],
        ),
    ],
)
def test_preview(missing: list[Flavor], rooms: dict[str, Room], lines: list[str]) -> None:
    assert cloud_plan.preview("mirage", [LARGE, MEDIUM, MEDIUM], missing, rooms) == lines


@pytest.mark.parametrize(
    ("need", "rooms", "words"),
    [
        ({"cores": 8, "memory": 24576}, {"cores": Room(8), "memory": Room(24576)}, ""),
        ({"cores": 8}, {}, ""),
        ({"cores": 8}, {"cores": Room(-1, 100)}, ""),
        ({"cores": 8}, {"cores": Room(None, 100)}, ""),
        ({"cores": 8}, {"cores": Room(20, 14)}, "cores: 8 to be made, 6 left"),
        # More is in use than is admitted since somebody lowered the quota.
        ({"servers": 1}, {"servers": Room(2, 5)}, "servers: 1 to be made, 0 left"),
        (
            {"servers": 3, "memory": 18432, "networks": 1},
            {"servers": Room(10), "memory": Room(16000, 1000), "networks": Room(1, 1)},
            "GB of memory: 18 to be made, 14.6 left; networks: 1 to be made, 0 left",
        ),
    ],
)
def test_shortage(need: dict[str, int], rooms: dict[str, Room], words: str) -> None:
    assert cloud_plan.shortage(need, rooms) == words


KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIGfhskMi5ahso6FV+rRzB75WsolndRbU+sZJ7j6W81TG"


@pytest.mark.parametrize(
    ("line", "is_one"),
    [
        (f"ssh-ed25519 {KEY} student@laptop", True),
        (f"ssh-ed25519 {KEY}", True),
        (f"ssh-rsa {KEY}", False),
        (f"ssh-ed25519 {KEY[:40]}", False),
        ("ssh-ed25519 AAAA", False),
        ("ssh-ed25519 no*base64", False),
        ("ssh-ed25519", False),
        ("-----BEGIN OPENSSH", False),
        ("", False),
    ],
)
def test_public_keys(line: str, is_one: bool) -> None:
    assert cloud_plan.is_public_key(line) is is_one


@pytest.mark.parametrize("kind", ["rsa", "ecdsa", "ed25519"])
def test_a_key_that_ssh_keygen_makes(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", str(file)], check=True)
    assert cloud_plan.is_public_key(file.with_suffix(".pub").read_text())
    assert not cloud_plan.is_public_key(file.read_text())
