"""What settings are called in which release of Slurm."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.rm.slurm.setting_names import files_beside, release_of, translated


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("slurm 16.05.6", (16, 5)),
        ("slurm-wlm 22.05.8\n", (22, 5)),
        ("25.11.0-0rc1", (25, 11)),
        ("24.11", (24, 11)),
    ],
)
def test_the_release_of_what_slurmctld_answers(text: str, release: tuple[int, int]) -> None:
    assert release_of(text) == release


@pytest.mark.parametrize("text", ["", "slurm", "15.08.1", "2.6.0", "22.5", "latest", "slurm 22.05.8 or so"])
def test_what_is_no_release_that_can_be_configured_is_refused(text: str) -> None:
    with pytest.raises(WrongUse, match=r"^slurm_version=.*: it may be "):
        release_of(text)


# What a cluster has, as roles/slurm_controller writes it, and what it becomes.
OURS = {
    "ClusterName": "mirage",
    "SlurmctldHost": "localhost(127.0.0.1)",
    "CommunicationParameters": ["NoInAddrAny", "NoCtldInAddrAny"],
    "SlurmdParameters": "config_overrides",
    "SelectType": "select/cons_tres",
    "AuthType": "auth/munge",
}
OLD_NAMES = {
    "ClusterName": "mirage",
    "ControlMachine": "localhost",
    "ControlAddr": "127.0.0.1",
    "TopologyParam": "NoInAddrAny,NoCtldInAddrAny",
    "FastSchedule": "2",
    "SelectType": "select/cons_res",
    "AuthType": "auth/munge",
}


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("16.05.6", OLD_NAMES),
        ("17.11.13", OLD_NAMES),
        (
            "18.08.9",
            {key: OURS[key] for key in ("ClusterName", "SlurmctldHost", "CommunicationParameters", "AuthType")}
            | {"SelectType": "select/cons_res", "FastSchedule": "2"},
        ),
        ("19.05.8", {key: value for key, value in OURS.items() if key != "SlurmdParameters"} | {"FastSchedule": "2"}),
        *((version, OURS) for version in ("20.02.1", "22.05.8", "24.11.7", "25.11.7", "")),
    ],
)
def test_the_clusters_settings_in_each_release(version: str, expected: dict[str, Any]) -> None:
    assert translated(OURS, version) == expected


@pytest.mark.parametrize(
    ("settings", "version", "expected"),
    [
        # A site's own, older words on a newer release.
        ({"SelectType": "select/cons_res"}, "25.05.1", {"SelectType": "select/cons_tres"}),
        ({"SelectType": "select/cons_res"}, "22.05.8", {"SelectType": "select/cons_res"}),
        ({"selecttype": "select/linear"}, "25.05.1", {"selecttype": "select/linear"}),
        ({"SlurmctldHost": "head"}, "16.05.6", {"ControlMachine": "head"}),
        ({"CredType": "cred/munge"}, "16.05.6", {"CryptoType": "crypto/munge"}),
        # Both of two words that become one.
        (
            {"topologyparam": "Dragonfly", "CommunicationParameters": "NoInAddrAny"},
            "17.02.1",
            {"topologyparam": "Dragonfly,NoInAddrAny"},
        ),
        # The other words of a list stay.
        (
            {"SlurmdParameters": ["config_overrides", "shutdown_on_reboot"]},
            "19.05.1",
            {"SlurmdParameters": "shutdown_on_reboot", "FastSchedule": "2"},
        ),
        ({"SlurmdParameters": "shutdown_on_reboot"}, "19.05.1", {"SlurmdParameters": "shutdown_on_reboot"}),
        # Nothing is invented for what is left out.
        ({"SlurmdParameters": "omit"}, "16.05.6", {"SlurmdParameters": "omit"}),
        ({}, "16.05.6", {}),
    ],
)  # fmt: skip
def test_translated(settings: dict[str, Any], version: str, expected: dict[str, Any]) -> None:
    before = dict(settings)
    assert translated(settings, version) == expected
    assert settings == before


def test_cgroups_are_turned_off_where_slurmd_would_start_with_them() -> None:
    assert files_beside("24.05.8") == files_beside("16.05.6") == files_beside("") == {}
    assert files_beside("24.11.0") == files_beside("25.11.7") == {"cgroup.conf": "CgroupPlugin=disabled\n"}


@pytest.mark.parametrize(
    ("version", "there"),
    [
        ("16.05.6", {"Licenses"}),
        ("20.02.1", {"Licenses", "DependencyParameters", "PreemptExemptTime"}),
        ("23.02.0", {"Licenses", "DependencyParameters", "PreemptExemptTime", "preemptparameters"}),
        ("", {"Licenses", "DependencyParameters", "PreemptExemptTime", "preemptparameters"}),
    ],
)
def test_settings_that_a_release_does_not_have_yet_are_left_out(version: str, there: set[str]) -> None:
    given = dict.fromkeys(("Licenses", "DependencyParameters", "PreemptExemptTime", "preemptparameters"), "x")
    assert set(translated(given, version)) == there
