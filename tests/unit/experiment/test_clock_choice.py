"""Which clock a run is played on."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest
from other_managers import OTHERS

from mirage import ROOT
from mirage.experiment import clock_choice, hosts, preflight
from mirage.experiment.prepare import Prepared, source
from mirage.experiment.remarks import remarks
from mirage.experiment.variables import replay_variables
from mirage.knobs.resolve import GIVEN, resolve, user_message
from mirage.terminal.screen import Screen
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.replay.real_left import Costs


def chosen(**given: str) -> tuple[object, str]:
    """The clock, and what the screen says."""
    values = resolve({GIVEN: " ".join(given), **given}, "experiment")
    stream = io.StringIO()
    return clock_choice.chosen(hosts.with_inventory(values, given), Screen(stream)), stream.getvalue()


def refused(**given: str) -> str:
    with pytest.raises(WrongUse) as error:
        chosen(**given)
    return user_message(error.value)


counts_threads = pytest.mark.skipif(preflight.why_threads_are_not_counted() is not None, reason="needs to count threads by BPF")


@counts_threads
def test_auto_is_the_event_clock_on_one_host(tmp_path: Path) -> None:
    said = "clock: event-driven (SPEED=event), as the cluster is on one host; SPEED=1 is real time\n"
    assert chosen() == chosen(SPEED="auto") == ("event", said)
    assert chosen(SPEED="auto", CHARGE="yes")[0] == "event"
    (tmp_path / "hosts").write_text("[head]\nh1\n[compute]\nh1\n")
    assert chosen(SPEED="auto", INVENTORY=str(tmp_path))[0] == "event", "another machine that is both head and compute host"


KEPT_FROM_ROOT = "this machine keeps CAP_BPF or CAP_PERFMON from root"


@counts_threads
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize(
    ("within", "why"),
    [
        (["setpriv", "--bounding-set=-all,+cap_38", "--inh-caps=-all"], KEPT_FROM_ROOT),
        (["setpriv", "--bounding-set=-all,+cap_39", "--inh-caps=-all"], KEPT_FROM_ROOT),
        (["setpriv", "--bounding-set=-all", "--inh-caps=-all"], KEPT_FROM_ROOT),
        (["unshare", "--pid", "--fork", "--mount-proc"], "this container has process ids of its own"),
    ],
)
def test_auto_is_a_constant_speed_where_threads_cannot_be_counted(within: list[str], why: str) -> None:
    """Containers with one of CAP_PERFMON and CAP_BPF, or with a process id namespace. CHARGE is for the event clock in any case."""
    program = (
        "import sys; sys.path[:0] = ['tests/unit/experiment', 'tests/unit']; from test_clock_choice import chosen\n"
        "print(*chosen(SPEED='auto'), *chosen(SPEED='event'), *chosen(SPEED='auto', CHARGE='yes'), sep='|')"
    )
    answer = subprocess.run([*within, sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    clock, said, event, *warned = answer.stdout.rstrip().split("|")
    assert (clock, event, warned[1]) == ("auto", "event", "event")
    assert said == f"clock: a constant speed, because {why}: the event clock is slow there, and inconclusive\n"
    for line in (warned[0], warned[2]):
        assert line.startswith(f"clock: event-driven, slow and inconclusive, because {why}; ")


def test_auto_is_a_constant_speed_on_several_hosts() -> None:
    clock, said = chosen(SPEED="auto", INVENTORY="inventories/hosts.example")
    assert clock == "auto"
    assert said.startswith("clock: a constant speed, because the cluster is on ")


def test_a_cluster_without_a_run_is_in_real_time_where_it_cannot_have_the_event_clock() -> None:
    stream = io.StringIO()
    values = resolve({"INVENTORY": "inventories/hosts.example"})
    assert clock_choice.of_a_cluster(values, Screen(stream)) == 1
    assert stream.getvalue().splitlines()[-1] == "clock: real time (SPEED=1) until a run has chosen one"
    assert clock_choice.of_a_cluster(values.at_speed(Decimal(20)), Screen(stream)) == 20


def test_the_event_clock_is_refused_on_several_hosts() -> None:
    words = refused(SPEED="event", INVENTORY="inventories/hosts.example")
    assert words.startswith("SPEED=event: the event clock is for one host, and the cluster has several; ")
    assert words.endswith("; give a constant SPEED, such as SPEED=20")
    assert "constant SPEED" in refused(SPEED="auto", CHARGE="yes", INVENTORY="inventories/hosts.example")


def test_charging_is_for_the_event_clock() -> None:
    assert chosen(SPEED="event", CHARGE="yes") == ("event", "")
    assert refused(SPEED="20", CHARGE="yes").startswith("CHARGE=yes: is for SPEED=event; SPEED=20 ")
    assert chosen(SPEED="20")[0] == 20


def test_saves_to_memory_need_a_virtual_clock_and_slurm() -> None:
    assert chosen(SPEED="event", SAVES="memory") == ("event", "")
    assert chosen(SPEED="20", SAVES="memory") == (20, "")
    assert refused(SPEED="1", SAVES="memory").startswith("SAVES=memory: is for a virtual clock; ")
    for name in OTHERS:
        assert refused(SPEED="20", RM=name, SAVES="memory").startswith("SAVES=memory: is for Slurm; ")


def prepared(**given: str) -> Prepared:
    values = resolve({GIVEN: " ".join(given), "NODES": "4", "CPUS": "4", "JOBS": "30", **given}, "experiment")
    return Prepared.make(values, source(values.workload, values.nodes.machine).trace, values.jobs.shrinks[0])


def test_a_run_on_the_event_clock_has_a_range() -> None:
    run = prepared(SPEED="event")
    assert " of the cluster's time: " in run.announcement() and " to " in run.announcement()
    assert run.sample_interval() == 1.0


def test_the_roles_are_told_of_the_event_clock() -> None:
    run = prepared(SPEED="event", CHARGE="yes")
    found = replay_variables(run, "event", "first", Path("results/first"))
    assert (found["mirage_clock"], found["mirage_speed"], found["mirage_charge"]) == ("event", 1, "yes")
    assert found["experiment_second_of_week"] == run.second_of_week
    assert Costs.of(found["experiment_costs"]) == run.costs
    found = replay_variables(run, Decimal("0.5"), "first", Path("results/first"))
    assert (found["mirage_clock"], found["mirage_speed"], found["experiment_costs"]) == ("constant", 0.5, {})


def test_a_run_that_is_found_to_need_real_time_saves_to_the_disk() -> None:
    run = prepared(SPEED="auto", SAVES="memory")
    saves = [
        replay_variables(run, speed, "first", Path("results/first"))["mirage_saves"] for speed in (Decimal(1), Decimal(2), "event")
    ]
    assert saves == ["disk", "memory", "memory"]


@pytest.mark.parametrize(
    ("period", "given", "words"),
    [
        ("WEEKLY", {"SPEED": "event"}, ""),
        ("NONE", {"SPEED": "20"}, ""),
        ("Weekly", {"SPEED": "20"}, "WEEKLY: a clock of constant speed"),
        ("MONTHLY", {"SPEED": "event"}, "MONTHLY: the cluster's calendar has the log's weekday and hour, not its date"),
        ("MONTHLY", {"SPEED": "event", "ACCOUNTING": "no"}, ""),
        ("MONTHLY", {"SPEED": "event", "CONFIG": "easy"}, ""),
    ],
)
def test_resets_of_usage_that_do_not_follow_the_log(period: str, given: dict[str, str], words: str, tmp_path: Path) -> None:
    conf = f"PriorityType=priority/multifactor\nPriorityUsageResetPeriod={period}\nNodeName=n[1-4] CPUs=4\n"
    (tmp_path / "slurm.conf").write_text(f"{conf}PartitionName=a Nodes=ALL Default=YES\n")
    given = {"SLURM_CONF": str(tmp_path / "slurm.conf"), "ACCOUNTING": "yes", "JOBS": "30", **given}
    values = resolve({GIVEN: " ".join(given), **given}, "experiment")
    run = Prepared.make(values, source(values.workload, values.nodes.machine).trace, values.jobs.shrinks[0])
    said = [line for line in remarks(run) if "PriorityUsageResetPeriod" in line]
    assert len(said) == bool(words) and all(words in line for line in said)


def test_shrinking_is_no_gain_on_the_event_clock() -> None:
    said = remarks(prepared(SPEED="event", SHRINK="0.2"))
    assert [line for line in said if "SPEED=event with SHRINK=100 is hardly longer, and keeps them" in line]
