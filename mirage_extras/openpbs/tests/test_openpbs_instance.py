"""An instance of OpenPBS: its commands, its daemons, and what they need of a host."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from modules import Caller

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.extras.openpbs.commands import OpenPbs
from slurm_mirage.extras.openpbs.daemons import KINDS, farm_content
from slurm_mirage.extras.openpbs.records import OpenPbsRecords
from slurm_mirage.instance import capacity, sizing
from slurm_mirage.instance.manager import manager_at
from slurm_mirage.instance.sizing import Capacity, Load, check, needs
from slurm_mirage.rm import registry
from slurm_mirage.rm.evidence import WaitWord
from slurm_mirage.rm.managers import MANAGERS, traits_of

OPENPBS = traits_of("openpbs").footprint
NOTHING = Load(0, jobs=0)
PLENTY = Capacity(memory=2**40, tasks=2**60, files=2**60, inodes=2**60, disk=2**40, merges=True)


def test_it_has_its_commands(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "instance.json").write_text(json.dumps({"name": "a", "rm": "openpbs"}))
    (tmp_path / "etc/farm.json").write_text(json.dumps({"daemons": []}))
    assert isinstance(manager_at(tmp_path, query_timeout=3.0), OpenPbs)


@pytest.mark.parametrize("kinds", [["postgres", "pbs_server"], ["pbs_mom"]])
def test_it_is_known_by_its_daemons(kinds: list[str]) -> None:
    assert registry.records_of_daemons(kinds).names.manager == "OpenPBS"
    assert registry.names_of("OpenPBS").controller == "pbs_server"


def test_its_commands_and_runs_find_its_configuration(tmp_path: Path) -> None:
    manager = MANAGERS["openpbs"]
    assert manager.run_settings(tmp_path) == {"pbs_conf": f"{tmp_path}/etc/pbs.conf"}
    assert manager.environment(tmp_path) == {"PBS_CONF_FILE": f"{tmp_path}/etc/pbs.conf"}


def test_it_gives_no_reasons_of_waiting_jobs() -> None:
    assert OpenPbsRecords().wait_word("Priority") is WaitWord.UNKNOWN


def test_nodes_of_openpbs_need_the_memory_that_was_measured() -> None:
    """A thousand idle pbs_mom: 3.3 MiB each, 1.9 after ksmd; server, PostgreSQL and communication daemon together 100 MiB."""
    load = Load(1000, jobs=0, footprint=OPENPBS)
    assert 3300 + 100 <= needs(load, merges=False).memory <= 4000
    assert 1900 + 100 <= sizing.at_rest(load, merges=True) <= 2400
    with pytest.raises(WrongUse, match=r"^nodes=3000: needs about .* GiB of memory, 5.0 GiB are available; the largest"):
        check(Load(3000, footprint=OPENPBS), NOTHING, replace(PLENTY, memory=5120.0))
    check(Load(3000), NOTHING, replace(PLENTY, memory=5120.0))


def test_an_instance_with_nodes_of_openpbs_is_known_by_its_description(tmp_path: Path) -> None:
    assert capacity.running_load(tmp_path).footprint is None
    (tmp_path / "instance.json").write_text('{"rm": "openpbs"}')
    assert capacity.running_load(tmp_path) == Load(0, jobs=0, footprint=OPENPBS)


@pytest.fixture
def params(tmp_path: Path) -> dict[str, Any]:
    """Parameters of slurm_farm for an instance's directory as slurm_instance creates it."""
    for name in ("etc", "run", "log", "lib"):
        (tmp_path / name).mkdir()
    return {"directory": str(tmp_path), "user": "nobody", "sbin": "/opt/sbin", "munge_sbin": "/opt/sbin", "wait": 30}


def test_its_daemons_are_those_that_it_describes(call: Caller, params: dict[str, Any]) -> None:
    daemons = {"sbin": "/opt/sbin", "postgres": "/opt/postgres", "server_digest": "1", "scheduler_digest": "2"}
    answer = call(
        "slurm_farm", check=True, **{**params, "nodes": [{"count": 2, "digest": "1"}], "rm": "openpbs", "daemons": daemons}
    )
    assert answer["changed"] is True
    wrong = {**daemons, "speed": 1}
    del wrong["sbin"]
    answer = call("slurm_farm", check=True, **{**params, "nodes": [{"count": 2, "digest": "1"}], "rm": "openpbs", "daemons": wrong})
    assert answer["msg"] == "wrong use: daemons: sbin, speed: missing, or not known to OpenPBS"


@pytest.mark.parametrize("event_clock", [False, True])
def test_an_event_clock_has_a_coordinator_before_all_others(tmp_path: Path, event_clock: bool) -> None:
    """Only then database server and communication daemon have the clock, too."""
    daemons = {"sbin": "/opt/sbin", "postgres": "/opt/postgres", "server_digest": "1", "scheduler_digest": "2"}
    nodes = [{"prefix": "n", "first": 1, "count": 2, "digest": "3"}]
    content = farm_content(tmp_path, {"daemons": daemons, "nodes": nodes, "event_clock": event_clock})
    kinds = [daemon["kind"] for daemon in content["daemons"]]
    assert kinds == ["clock"] * event_clock + ["postgres", "pbs_comm", "pbs_server", "pbs_sched", "pbs_mom"]
    speed = "event" if event_clock else 20
    with_clock = {kind.name for kind in KINDS if kind.has_clock(speed)}
    assert with_clock == {kind.name for kind in KINDS} - ({"postgres", "pbs_comm"} if not event_clock else set())
