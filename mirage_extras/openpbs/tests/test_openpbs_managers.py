"""RM: the default configuration of each resource manager, and knobs that OpenPBS cannot have."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirage import ROOT
from mirage.experiment import managers
from mirage.knobs import resolve
from mirage.knobs.knobs import Knobs
from mirage.knobs.resolve import user_message
from mirage.knobs.slurm_source import SlurmSource
from mirage_extras.openpbs.source import OpenPbsSource
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.extras.openpbs.addresses import MOST_NODES

OPENPBS = OpenPbsSource("/archives/openpbs.tar.gz", "23.06.06", "0" * 64)
SLURM = SlurmSource("/archives/slurm.tar.bz2", "25.11.7", "0" * 64)


def values(manager: str = "openpbs", **more: str) -> Knobs:
    given = {"RM": manager, **more}
    knobs = resolve.resolve({**given, resolve.GIVEN: " ".join(given)})
    return knobs.with_values({"OPENPBS_SOURCE": OPENPBS if "openpbs" in manager else None})


def refusal(knobs: Knobs, *, several: bool = False) -> str:
    with pytest.raises(WrongUse) as error:
        managers.check(knobs, several=several)
    message = user_message(error.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("given", "config"),
    [
        ({}, "slurm-defaults"),
        ({"RM": "slurm"}, "slurm-defaults"),
        ({"RM": "openpbs"}, "pbs-easy"),
        ({"RM": "openpbs", "CONFIG": "pbs-fifo"}, "pbs-fifo"),
        ({"RM": "slurm openpbs"}, "slurm-defaults"),
    ],
)
def test_the_default_configuration_is_one_of_the_resource_manager(given: dict[str, str], config: str) -> None:
    assert resolve.resolve(given).scheduler.config == config


@pytest.mark.parametrize("text", ["torque", "slurm slurm", ","])
def test_other_resource_managers_are_refused(text: str) -> None:
    with pytest.raises(WrongUse, match=r"^RM: .* is not possible; it may be slurm or openpbs"):
        resolve.resolve({"RM": text})


def test_knobs_that_both_have_are_accepted() -> None:
    managers.check(values("slurm"))
    managers.check(values("slurm", FRONT_END="2", ACCOUNTING="yes", MALLEABLE="0.5"))
    managers.check(values())
    managers.check(values(ACCOUNTING="no", STEPS="no", SPEED="20", NODES=str(MOST_NODES)))
    managers.check(values("slurm, openpbs").with_values({"SLURM_SOURCE": SLURM}), several=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GROW", "+8"),
        ("SETTINGS", "bf_interval=5"),
        ("FRONT_END", "2"),
        ("STEPS", "yes"),
        ("MALLEABLE", "0.5"),
        ("FILLER", "slots"),
        ("ACCOUNTING", "yes"),
        ("EVENTS", "events.csv"),
        ("FAILURES", "mtbf=30d repair=4h"),
        ("MAINTENANCE", "once 1d 2h all"),
    ],
)
@pytest.mark.parametrize("manager", ["openpbs", "slurm openpbs"])
def test_what_only_slurm_has_is_refused(manager: str, name: str, value: str) -> None:
    message = refusal(values(manager, **{name: value}), several=True)
    assert message.startswith(f"{name}: ")
    assert message.endswith(f"OpenPBS has none of that; leave out {name}, or RM=openpbs")


def test_a_slurm_conf_is_refused(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text("NodeName=n[0-3] CPUs=4\nPartitionName=p Nodes=ALL\n")
    assert refusal(values(SLURM_CONF=str(tmp_path / "slurm.conf"))).startswith("SLURM_CONF: it is a configuration of Slurm")


def test_archives_belong_to_their_resource_managers() -> None:
    assert refusal(values().with_values({"OPENPBS_SOURCE": None})).startswith("OPENPBS_SOURCE: nothing is given")
    given = values("slurm").with_values({"OPENPBS_SOURCE": OPENPBS})
    assert refusal(given).startswith("OPENPBS_SOURCE: a cluster of Slurm does not use it")
    assert refusal(values().with_values({"SLURM_SOURCE": SLURM})).startswith("SLURM_SOURCE: a cluster of OpenPBS has no Slurm")


def test_only_a_comparison_takes_several() -> None:
    assert refusal(values("slurm openpbs")).startswith("RM=slurm openpbs: only make compare takes several")


def test_clusters_that_one_network_cannot_hold_are_refused(tmp_path: Path) -> None:
    assert refusal(values(NODES=str(MOST_NODES + 1))).startswith(f"NODES={MOST_NODES + 1}: with RM=openpbs it may be at most")
    inventory = tmp_path / "hosts"
    inventory.write_text("[head]\na ansible_host=192.0.2.1\n[compute]\nb ansible_host=192.0.2.2\n")
    message = refusal(values(INVENTORY=str(inventory)))
    assert message.startswith("INVENTORY: a cluster of OpenPBS has its own network on one host, and this inventory has 2")
    managers.check(values(INVENTORY=str(ROOT / "inventories/local")))
