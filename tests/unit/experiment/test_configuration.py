"""Scheduler configurations: those that are there can be used, and what is wrong in one is said in a line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mirage.experiment import configuration
from mirage.experiment.cluster_variables import cluster_variables
from mirage.knobs.resolve import resolve
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.rm.slurm.conf import value_of

CONFIGS = sorted(path for path in (Path(__file__).parents[3] / "configs").glob("*.yml") if path.is_file())


OVER_A_SITE = ("site", "site-now", "cirrus-qos")  # they need SLURM_CONF or SITE
OF_SLURM = [path for path in CONFIGS if configuration.manager_in(path) == "slurm"]


@pytest.mark.parametrize("path", [path for path in OF_SLURM if path.stem not in OVER_A_SITE], ids=lambda path: path.stem)
def test_those_that_are_there(path: Path) -> None:
    content = configuration.read(path)
    assert content.settings["SchedulerType"] in ("sched/backfill", "sched/builtin")
    assert [partition for partition in content.partitions if partition.get("Default") is True]


@pytest.mark.parametrize(
    ("settings", "enforced"),
    [
        ({}, False),
        ({"AccountingStorageEnforce": "associations,qos"}, False),
        ({"accountingstorageenforce": "Associations, Limits"}, True),
        ({"AccountingStorageEnforce": ["associations", "safe"]}, True),
        ({"AccountingStorageEnforce": "all"}, True),
    ],
)
def test_limits_are_enforced_where_slurm_does(settings: dict[str, Any], enforced: bool) -> None:
    assert configuration.enforces_limits(settings) is enforced


def test_over_a_site(tmp_path: Path) -> None:
    """Its partitions stay, rules are for them, and slurmdbd is wanted where the site has it."""
    (tmp_path / "slurm.conf").write_text(
        "NodeName=a[1-4] CPUs=8\nPartitionName=day Nodes=ALL\nAccountingStorageType=accounting_storage/slurmdbd\n"
    )
    knobs = resolve({}).with_values({"SLURM_CONF": str(tmp_path / "slurm.conf"), "CONFIG": "site"})
    content = configuration.of(knobs.scheduler)
    assert [partition["name"] for partition in content.partitions] == ["day"]
    assert content.has_accounting(knobs)
    with pytest.raises(WrongUse, match="'urgent' is none of day"):
        configuration.of(replace(knobs.scheduler, config="suspend"))
    assert not configuration.of(replace(knobs.scheduler, slurm_conf="")).has_accounting(knobs)


def test_they_are_all_described() -> None:
    text = (Path(__file__).parents[3] / "docs/configurations.md").read_text()
    assert [path.stem for path in CONFIGS if f"| `{path.stem}` |" not in text] == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [", "line 2: is not YAML"),
        ("[]", "is not a mapping"),
        ("setting: {}", "there is no 'setting'"),
        ("settings: [1]", "settings is not a mapping"),
        ('settings: {MailProg: "a\\nSlurmUser=root"}', r"MailProg: has the control character U\+000A"),
        ('settings: {MailProg: "a \\"b\\""}', "MailProg: has double quotes"),
        ("settings: {'Prolog=x y': 1}", "'Prolog=x y' is not the name of a setting"),
        ("settings: {5: 1}", "5 is not the name of a setting"),
        ("settings: {MailProg: }", "'MailProg' has no value"),
        ("partitions: [{name: a b}]", "partition 'a b': the name is not one word"),
        ('partitions: [{name: a, State: "UP\\u2028NodeName=x"}]', r"PartitionName=a: State: has the line separator U\+2028"),
        ("partitions: {}\n", None),
        ("partitions: [a]", "partitions is not a list of mappings with a name"),
        ("qos: [{}]", "qos 1: name ''"),
        ("accounting: auto", "accounting is neither true nor false"),
        ("shares: {u1: 2}", "shares: u1: 2"),
        ("routing: [{qos: b}]", "routing rule 1: qos 'b' is none of normal"),
        ("routing: [{partition: b}]", "routing rule 1: partition 'b' is none of batch"),
    ],
)
def test_wrong_files(tmp_path: Path, text: str, words: str | None) -> None:
    (tmp_path / "x.yml").write_text(text + "\n")
    if words is None:
        assert configuration.read(tmp_path / "x.yml").partitions == configuration.PARTITIONS
        return
    with pytest.raises(WrongUse, match=rf"^config: .*/x\.yml.*{words}"):
        configuration.read(tmp_path / "x.yml")


def test_settings_are_over_the_configuration_and_the_site(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text(
        "NodeName=a[1-4] CPUs=8\nPartitionName=day Nodes=ALL\nschedulerparameters=bf_continue,bf_interval=60\nPriorityWeightAge=5\n"
    )
    tuned = {"SETTINGS": "bf_interval=10 bf_continue=no PriorityWeightAge=7"}
    knobs = resolve({}).with_values({"SLURM_CONF": str(tmp_path / "slurm.conf"), "CONFIG": "site", **tuned})
    changed = configuration.tuned(knobs.scheduler)
    assert changed == {"schedulerparameters": {"bf_continue": False, "bf_interval": "10"}, "PriorityWeightAge": "7"}
    content = configuration.of(knobs.scheduler)
    assert content.settings["PriorityWeightAge"] == "7"
    own = resolve({"CONFIG": "backfill", **tuned})
    content = configuration.of(own.scheduler)
    assert content.backfill_interval == 10 and content.backfill_depth == 1000
    assert "bf_continue" not in value_of(content.settings["SchedulerParameters"])
    variables = cluster_variables(own)
    assert variables["slurm_controller_tuned_settings"]["PriorityWeightAge"] == "7"
    assert "slurm_controller_tuned_settings" not in cluster_variables(resolve({"CONFIG": "backfill"}))
