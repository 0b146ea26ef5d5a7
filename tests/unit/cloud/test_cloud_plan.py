"""Names of a cluster's resources in a cloud, the preview, and quota shortages."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from slurm_mirage.cloud import plan as cloud_plan
from slurm_mirage.cloud.plan import Flavor, Quota

MEDIUM, LARGE = Flavor("m2.medium", 2, 6144), Flavor("m2.large", 4, 12288)


def test_server_names_sort_by_number() -> None:
    names = cloud_plan.server_names("mirage", 120)
    assert names[:2] == ["mirage-head", "mirage-compute-001"]
    assert names[-1] == "mirage-compute-120"
    assert sorted(names[1:]) == names[1:]


def test_server_numbers_have_at_least_two_digits() -> None:
    assert cloud_plan.server_names("mirage", 2) == ["mirage-head", "mirage-compute-01", "mirage-compute-02"]


def test_resource_names_start_with_the_cluster_name() -> None:
    assert set(cloud_plan.names("mirage").values()) == {
        "mirage-security",
        "mirage-network",
        "mirage-subnet",
        "mirage-router",
        "mirage-key",
        "mirage-servers",
    }


@pytest.mark.parametrize(
    ("missing", "quotas", "lines"),
    [
        (
            [LARGE, MEDIUM, MEDIUM],
            {"servers": Quota(10, 1), "cores": Quota(20, 2), "memory": Quota(51200, 6144), "networks": Quota(100)},
            [
                "cluster mirage: 3 servers, 8 cores, 24 GB of memory",
                "  to be made: 3 servers, 8 cores, 24 GB of memory",
                "  left in the project: 9 servers, 18 cores, 44 GB of memory",
            ],
        ),
        (
            [MEDIUM],
            {"servers": Quota(-1), "cores": Quota(20, 18), "memory": Quota(-1)},
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
def test_preview(missing: list[Flavor], quotas: dict[str, Quota], lines: list[str]) -> None:
    assert cloud_plan.preview("mirage", [LARGE, MEDIUM, MEDIUM], missing, quotas) == lines


@pytest.mark.parametrize(
    ("need", "quotas", "text"),
    [
        ({"cores": 8, "memory": 24576}, {"cores": Quota(8), "memory": Quota(24576)}, ""),
        ({"cores": 8}, {}, ""),
        ({"cores": 8}, {"cores": Quota(-1, 100)}, ""),
        ({"cores": 8}, {"cores": Quota(None, 100)}, ""),
        ({"cores": 8}, {"cores": Quota(20, 14)}, "cores: 8 to be made, 6 left"),
        # The quota was lowered below the current usage.
        ({"servers": 1}, {"servers": Quota(2, 5)}, "servers: 1 to be made, 0 left"),
        (
            {"servers": 3, "memory": 18432, "networks": 1},
            {"servers": Quota(10), "memory": Quota(16000, 1000), "networks": Quota(1, 1)},
            "GB of memory: 18 to be made, 14.6 left; networks: 1 to be made, 0 left",
        ),
    ],
)
def test_shortage(need: dict[str, int], quotas: dict[str, Quota], text: str) -> None:
    assert cloud_plan.shortage(need, quotas) == text


KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIGfhskMi5ahso6FV+rRzB75WsolndRbU+sZJ7j6W81TG"


@pytest.mark.parametrize(
    ("line", "is_valid"),
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
def test_is_public_key(line: str, is_valid: bool) -> None:
    assert cloud_plan.is_public_key(line) is is_valid


@pytest.mark.parametrize("kind", ["rsa", "ecdsa", "ed25519"])
def test_is_public_key_accepts_what_ssh_keygen_writes(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", str(file)], check=True)
    assert cloud_plan.is_public_key(file.with_suffix(".pub").read_text())
    assert not cloud_plan.is_public_key(file.read_text())
