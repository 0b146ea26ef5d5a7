"""Configurations of OpenPBS: read and checked before a cluster is there, and told apart from Slurm's."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest

from mirage.experiment import clock_choice, configuration, preflight
from mirage.knobs.knobs import Knobs
from mirage.knobs.machine import Machine
from mirage.knobs.resolve import resolve
from mirage.terminal.screen import Screen
from mirage.workloads import requests
from mirage_extras.openpbs.configuration import OpenPbsConfiguration
from slurm_mirage.base.errors import WrongUse

QUEUES = """\
rm: openpbs
settings: {strict_ordering: true}
server: {backfill_depth: 1}
partitions:
  - {name: short, resources_max.walltime: "01:00:00"}
  - {name: long, Default: true, Priority: 10}
routing:
  - {partition: short, max_requested: 3600}
"""


@pytest.fixture
def configs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of configurations: backfill of Slurm, pbs-easy and pbs-fifo of OpenPBS."""
    monkeypatch.setattr(configuration, "ROOT", tmp_path)
    folder = tmp_path / "configs"
    folder.mkdir()
    (folder / "backfill.yml").write_text("settings: {SchedulerType: sched/backfill}\n")
    (folder / "pbs-easy.yml").write_text(QUEUES)
    (folder / "pbs-fifo.yml").write_text("---\nrm: openpbs\nserver: {backfill_depth: 0}\n")
    return folder


def knobs_of(config: str, rm: str) -> Knobs:
    return resolve({"CONFIG": config, "RM": rm, "ACCOUNTING": "yes"})


def test_it_has_queues_rules_and_attributes_of_the_server(configs: Path) -> None:
    found = configuration.of(knobs_of("pbs-easy", "openpbs").scheduler)
    assert isinstance(found, OpenPbsConfiguration)
    assert (found.rm, found.settings, found.server) == ("openpbs", {"strict_ordering": True}, {"backfill_depth": 1})
    assert [queue["name"] for queue in found.partitions] == ["short", "long"] and len(found.routing) == 1
    assert found.backfills and not configuration.of(knobs_of("pbs-fifo", "openpbs").scheduler).backfills
    assert not found.has_accounting(knobs_of("pbs-easy", "openpbs"))


@pytest.mark.parametrize(
    ("config", "rm", "words"),
    [
        ("pbs-easy", "slurm", r"config: pbs-easy is a configuration of openpbs; with RM=slurm it may be one of: backfill"),
        ("backfill", "openpbs", r"backfill is a configuration of slurm; with RM=openpbs it may be one of: pbs-easy, pbs-fifo"),
        ("fifo", "openpbs", r"there is no configs/fifo\.yml; it may be one of: pbs-easy, pbs-fifo"),
        ("fifo", "slurm", r"there is no configs/fifo\.yml; it may be one of: backfill$"),
    ],
)
def test_that_of_the_other_manager_is_refused_with_those_that_fit(configs: Path, config: str, rm: str, words: str) -> None:
    with pytest.raises(WrongUse, match=words):
        configuration.of(knobs_of(config, rm).scheduler)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rm: torque", "rm 'torque' is neither slurm nor openpbs"),
        ("rm: openpbs\nqos: [{name: a}]", "'qos' means nothing to OpenPBS; it may have rm, settings, server, partitions, routing"),
        ("rm: openpbs\nspeed: 1", "'speed' is none of its keys"),
        ("rm: openpbs\nserver: [1]", "server is not a mapping of attributes of the server"),
        ("rm: openpbs\npartitions: [{name: a, MaxTime: 60}]", "queue a: 'MaxTime' means nothing to OpenPBS; it may have Default"),
        ("rm: openpbs\npartitions: [{name: a b}]", "queue 'a b': a letter, then at most 14"),
        ("rm: openpbs\npartitions: [{name: a}, {name: a}]", "two queues have the same name"),
        ("rm: openpbs\npartitions: [{name: a, Default: true}, {name: b, Default: true}]", "several queues are the default one"),
        ("rm: openpbs\npartitions: [{name: a, resources_max.walltime: long}]", "queue a: resources_max.walltime may be seconds"),
        (
            "rm: openpbs\npartitions: [{name: a, 'resources_max.x = 1; set server managers': 1}]",
            "queue a: .* means nothing to OpenPBS",
        ),
        ('rm: openpbs\nserver: {"comment = x\\nset server managers": 1}', "server: .* is not the name of an attribute"),
        (
            'rm: openpbs\nserver: {comment: "a\\nset server managers = x"}',
            "server: comment: is not an attribute with a value of one",
        ),
        ("rm: openpbs\nserver: {5: 1}", "server: 5 is not the name of an attribute"),
        ('rm: openpbs\nsettings: {fair_share: "true\\nx: y"}', "sched_config: fair_share: has the control character U\\+000A"),
        ("rm: openpbs\nsettings: {fair_share: 'true \\\\'}", "sched_config: 'fair_share' is not a setting with a one-line value"),
        ("rm: openpbs\nrouting: [{qos: high}]", "routing rule 1: OpenPBS has no QOS"),
        ("rm: openpbs\nrouting: [{partition: b}]", "routing rule 1: partition 'b' is none of batch"),
    ],
)
def test_wrong_files(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "x.yml").write_text(text + "\n")
    with pytest.raises(WrongUse, match=rf"^config: .*/x\.yml: {words}"):
        configuration.read(tmp_path / "x.yml")


def test_jobs_can_ask_for_one_queue_with_its_limit_and_for_no_memory(configs: Path) -> None:
    knobs = knobs_of("pbs-easy", "openpbs")
    offered = configuration.of(knobs.scheduler).offer(knobs, Machine.of_equal_nodes(4, 8))
    assert offered.default == "long" and not offered.memory and offered.qos is None
    assert offered.partitions["short"].most_minutes == 60 and offered.partitions["long"].holds(32, 10**6)
    jobs = pl.DataFrame(
        {
            "processors": [1, 1, 33],
            "limit_minutes": [10, 120, 10],
            "requested": [600.0, 7200.0, 600.0],
            "limit_extended": [False] * 3,
            "memory": [2048.0 * 1024, None, None],
            "partition_name": ["short,long", "short,long", ""],
            "qos_name": ["high", "", ""],
        }
    )
    none = pl.Series([""] * 3)
    asked = requests.requests_of(jobs, none, none, offered)
    assert asked.partitions == ["short", "long", ""] and asked.memory == [None] * 3 and asked.qos == [""] * 3
    assert asked.counts == {"memory_not_played": 1, "partitions_played": 2, "qos_not_played": 1}


def test_the_event_clock_needs_bpf_and_is_the_default_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    knobs = resolve({"RM": "slurm openpbs", "SPEED": "event"})
    monkeypatch.setattr(preflight, "why_threads_are_not_counted", lambda: None)
    assert clock_choice.chosen(knobs, Screen()) == "event"
    assert clock_choice.chosen(knobs.at_speed("auto"), Screen()) == "event"
    assert clock_choice.chosen(knobs.at_speed(Decimal(20)), Screen()) == 20
    charges = resolve({"RM": "openpbs", "SPEED": "event", "CHARGE": "yes"})
    with pytest.raises(WrongUse, match="charge=yes: is for Slurm; the clock does not charge the time of the daemons of OpenPBS"):
        clock_choice.chosen(charges, Screen())
    monkeypatch.setattr(preflight, "why_threads_are_not_counted", lambda: "a reason")
    with pytest.raises(WrongUse, match=r"speed=event: a reason, and the event clock sees the daemons of OpenPBS.* by BPF only"):
        clock_choice.chosen(knobs, Screen())
    assert clock_choice.chosen(knobs.at_speed("auto"), Screen()) == "auto"
