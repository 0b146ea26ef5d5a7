"""Settings and daemons of a sandbox, its work, and clusters that cannot be one."""

from __future__ import annotations

import json
import os
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from mirage.experiment import aspects
from mirage.experiment.prepare import Prepared, source
from mirage.knobs import resolve
from mirage.knobs.knobs import Knobs
from mirage_extras.sandbox import command
from mirage_extras.sandbox.knobs import SandboxKnobs
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.extras.sandbox import addresses, configuration, daemons, users


def _knobs(**texts: str) -> Knobs:
    return resolve.resolve({"PACE": "60", **texts, resolve.GIVEN: " ".join(["PACE", *texts])}, "sandbox")


@pytest.mark.parametrize(("version", "has_metrics"), [("", False), ("22.05.8", False), ("25.11.7", True), ("26.05.0", True)])
def test_metrics_are_slurms_own_where_it_has_them(version: str, has_metrics: bool) -> None:
    settings, partitions = configuration.completed({"directory": "/i"}, {"SlurmdUser": "slurm", "X": 1}, [{"name": "a"}], version)
    assert settings["AuthAltTypes"] == "auth/jwt"
    assert settings["AuthAltParameters"] == "jwt_key=/i/etc/jwt_hs256.key"
    assert (settings["SlurmdUser"], settings["X"], partitions) == ("root", 1, [{"name": "a"}])
    assert ("MetricsType" in settings) is has_metrics


def test_a_release_without_the_api_is_refused() -> None:
    with pytest.raises(WrongUse, match=r"^slurm_source: a sandbox needs Slurm 21.08 or later, not 20.11.9"):
        configuration.completed({"directory": "/i"}, {}, [], "20.11.9")


def test_slurmrestd_takes_tokens_only_on_the_loopback_address_as_a_user_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "instance.json").write_text(json.dumps({"rest_port": 16998, "port": 17000}))
    options = {"controller": True, "sbin": "/usr/sbin", "controller_digest": "x"}
    [daemon] = daemons.of_slurm(tmp_path, options)
    assert daemon["command"] == ["/usr/sbin/slurmrestd", "-a", "rest_auth/jwt", "127.0.0.1:16998"]
    assert (daemon["inside"], daemon["ready_port"]) == (users.REST, 16998)
    assert daemons.of_slurm(tmp_path, {**options, "controller": False}) == []
    assert addresses.rest_url(tmp_path) == "http://127.0.0.1:16998"


def test_only_slurmd_is_root_of_the_user_namespace(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    slurmd: dict[str, Any] = {"kind": "slurmd", "environment": {"A": "1"}}
    assert daemons.changed(tmp_path, slurmd) == {
        "kind": "slurmd", "inside": 0, "environment": {"A": "1", daemons.INSIDE: str(os.getuid())},
    }  # fmt: skip
    assert daemons.changed(tmp_path, {"kind": "slurmctld"}) == {"kind": "slurmctld"}


def test_the_metrics_address_is_there_where_slurmctld_serves_them(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "instance.json").write_text(json.dumps({"port": 17000}))
    for text, url in (("MetricsType=metrics/openmetrics\n", "http://127.0.0.1:17000/metrics"), ("X=1\n", "")):
        (tmp_path / "etc/slurm.conf").write_text(text)
        assert addresses.metrics_url(tmp_path) == url
    assert addresses.rest_url(tmp_path) == ""


def test_a_sandbox_has_accounting_and_other_clusters_have_what_they_ask_for() -> None:
    assert aspects.needs(_knobs()).accounting
    assert aspects.cluster_settings(_knobs(), Decimal(100)) == {"sandbox": {}}
    other = resolve.resolve({}, "cluster")
    assert not aspects.needs(other).accounting
    assert aspects.cluster_settings(other, Decimal(100)) == {}


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        ({"ACCOUNTING": "no"}, "accounting: a sandbox has slurmdbd"),
        ({"FRONT_END": "2"}, "front_end: a sandbox has a slurmd"),
    ],
)
def test_clusters_that_cannot_be_one(texts: dict[str, str], reason: str) -> None:
    with pytest.raises(WrongUse, match=re.escape(reason)):
        aspects.check(_knobs(**texts))


@pytest.mark.parametrize("pace", ["0", "0.5", "event", "-1", "1e3", "100001"])
def test_paces_that_are_none(pace: str) -> None:
    with pytest.raises(WrongUse, match=r"^PACE: .* is not possible"):
        _knobs(PACE=pace)


def test_a_third_of_the_work_is_there_at_the_beginning() -> None:
    knobs = command.with_work(_knobs(NODES="20", JOBS="30").at_speed(Decimal(60)))
    assert (knobs.workload.model, knobs.workload.jobs, knobs.part(SandboxKnobs).pace) == (command.MODEL, 30, Decimal(60))
    prepared = Prepared.make(knobs, source(knobs.workload, knobs.nodes.machine).trace, Decimal(100))
    dues = command.at_once(prepared).dues
    assert sum(due == 0 for due in dues) == 30 // command.AT_ONCE + 1
    assert dues == sorted(dues)
    assert max(dues) == max(prepared.dues) - sorted(prepared.dues)[30 // command.AT_ONCE]


def test_a_log_is_submitted_at_its_own_times(tmp_path: Path) -> None:
    log = tmp_path / "log.swf"
    log.write_text("; MaxProcs: 16\n" + "".join(f"{n} {n * 60} 0 30 1 -1 -1 1 60 -1 1 1 1 -1 -1 -1 -1 -1\n" for n in range(1, 7)))
    knobs = command.with_work(_knobs(NODES="2", TRACE=str(log)).at_speed(Decimal(60)))
    prepared = Prepared.make(knobs, source(knobs.workload, knobs.nodes.machine).trace, Decimal(100))
    assert command.at_once(prepared) is prepared
