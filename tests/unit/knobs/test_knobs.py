"""The table of knobs: values, defaults, and what is refused with which words."""

from __future__ import annotations

from dataclasses import is_dataclass
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from types import UnionType
from typing import get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from other_managers import OTHERS, config_of

from mirage.aspects import modules
from mirage.knobs import resolve as knobs
from mirage.knobs.knobs import Knobs
from mirage.knobs.machine import Machine
from mirage.knobs.parse import Value, shrink
from mirage.knobs.submission import SubmissionGroups
from mirage.knobs.table import BY_NAME, TABLE
from slurm_mirage.base.errors import WrongUse


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("NODES", "360", 360),
        ("NODES", "0100", 100),
        ("PORT", "", None),
        ("PORT", "17000", 17000),
        ("JOBS", "", None),
        ("JOBS", "1", 1),
        ("OFFSET", "0", 0),
        ("MIN_RUNTIME", "1.5", Decimal("1.5")),
        ("SHRINK", "0.2", (Decimal("0.2"),)),
        ("SHRINK", ".2", (Decimal("0.2"),)),
        ("SHRINK", "100:50:10", tuple(Decimal(n) for n in (100, 90, 80, 70, 60, 50))),
        ("SHRINK", "0.3:0.1:0.1", (Decimal("0.3"), Decimal("0.2"), Decimal("0.1"))),
        ("SHRINK", "50:100:50", (Decimal(50), Decimal(100))),
        ("SHRINK", "7:7:3", (Decimal(7),)),
        ("SPEED", "1.0", Decimal(1)),
        ("SPEED", "0.5", Decimal("0.5")),
        ("SPEED", "100000", Decimal(100_000)),
        ("SPEED", "33.333333333", Decimal("33.333333333")),
        ("SPEED", "auto", "auto"),
        ("SPEED", "event", "event"),
        ("CHARGE", "yes", "yes"),
        ("SAVES", "memory", "memory"),
        ("SUBMISSION", "", None),
        ("SUBMISSION", "period=900", SubmissionGroups(Decimal(900))),
        ("SUBMISSION", "size=2 drift=-0.5 warmup=4 period=.5", SubmissionGroups(Decimal("0.5"), 2, 4, Decimal("-0.5"))),
        ("OVERRUN", "kill", "kill"),
        ("TRACE", "a b'$c\"d.swf", "a b'$c\"d.swf"),
        ("CLUSTER", "a", "a"),
        ("CLUSTER", "a" * 21, "a" * 21),
        ("RUN", "kth-0.2_x", "kth-0.2_x"),
        ("EVENTS", " a.csv  none ", "a.csv none"),
        ("GROW", "gpu:+8 ;cpu:32  price=9", "gpu:+8; cpu:32 price=9"),
        ("FAILURES", "", None),
        ("FAILURES", "mtbf=30d  repair=4h", "mtbf=30d repair=4h"),
        ("MAINTENANCE", "weekly Tue 08:00 6h all", "weekly Tue 08:00 6h all"),
    ],
)
def test_values(name: str, text: str, value: Value) -> None:
    assert knobs.parse(name, text) == value


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("NODES", "0", "a whole number from 1"),
        ("NODES", "-1", "a whole number from 1"),
        ("NODES", "1.5", "a whole number from 1"),
        ("NODES", "1000001", "1000000"),
        ("JOBS", "999999999999", "10000000"),
        ("NODES", "\u0661", "a whole number from 1"),
        ("NODES", "9" * 5000, "a whole number from 1"),
        ("CPUS", "many", "a whole number from 1"),
        ("PORT", "80", "a port from 1024 to 65535"),
        ("JOBS", "0", "a whole number from 1"),
        ("MIN_RUNTIME", "-1", "a number of seconds from 0 on"),
        ("SHRINK", "abc", "a percentage above 0"),
        ("SHRINK", "0", "a percentage above 0"),
        ("SHRINK", "-5", "a percentage above 0"),
        ("SHRINK", "nan", "a percentage above 0"),
        ("SHRINK", "inf", "a percentage above 0"),
        ("SHRINK", "10001", "a percentage above 0 and up to 10000"),
        ("SHRINK", "1e3", "a percentage above 0"),
        ("SHRINK", "100:50", "FROM:TO:STEP"),
        ("SHRINK", "100:50:0", "FROM:TO:STEP"),
        ("SHRINK", "100:50:-10", "FROM:TO:STEP"),
        ("SHRINK", "100:0:10", "FROM:TO:STEP"),
        ("SHRINK", "100:55:10", "do not meet 55"),
        ("SHRINK", "100:1:0.001", "at most 1000 runs"),
        ("SPEED", "-1", "a number above 0"),
        ("SPEED", "0", "a number above 0"),
        ("SPEED", "fast", "a number above 0"),
        ("SPEED", "100000.1", "up to 100000"),
        ("SPEED", "0.0000000001", "a number above 0"),
        ("SPEED", "1e3", "a number above 0"),
        ("SPEED", "AUTO", "event or auto"),
        ("SPEED", "events", "event or auto"),
        ("GROW", "gpu", "it may be CLASS:+COUNT"),
        ("GROW", "gpu:+8 factor=2", "factor= after a class with type="),
        ("OVERRUN", "ignore", "extend or kill"),
        ("CLUSTER", "Mirage", "a lower-case letter"),
        ("CLUSTER", "1st", "a lower-case letter"),
        ("CLUSTER", "a" * 22, "a lower-case letter"),
        ("CLUSTER", "a\n", "a lower-case letter"),
        ("CONFIG", "../fifo", "without .yml"),
        ("RUN", "a/b/c", "letters, digits"),
        ("RUN", "a/", "letters, digits"),
        ("RUN", "../x", "letters, digits"),
        ("RUN", ".hidden", "letters, digits"),
        ("RUN", "a b", "letters, digits"),
        ("TRACE", "a\nb", "the path of an SWF log"),
    ],
)
def test_refusals(name: str, text: str, words: str) -> None:
    with pytest.raises(WrongUse) as refusal:
        knobs.parse(name, text)
    message = str(refusal.value)
    assert message.startswith(f"{name}: ")
    assert words in message
    assert "\n" not in message


def test_defaults_are_values_of_their_own_knobs() -> None:
    values = knobs.resolve({})
    assert list(values.given()) == [knob.name for knob in TABLE]
    assert (values.nodes.count, values.nodes.cpus, values.jobs.shrinks) == (360, 16, (Decimal(100),))


def test_each_row_names_a_member_that_has_the_type_of_its_values() -> None:
    parts = {part: cls for part, cls in get_type_hints(Knobs).items() if is_dataclass(cls)}
    parts |= {module.__name__.split(".")[1]: module.Part for module in modules("knobs")}
    members = {f"{part}.{name}": kind for part, cls in parts.items() for name, kind in get_type_hints(cls).items()}
    assert sorted(members) == sorted(knob.member for knob in TABLE)
    defaults = knobs.resolve({})
    for knob in TABLE:
        kind = members[knob.member]
        assert isinstance(defaults.value(knob.name), kind if isinstance(kind, UnionType) else get_origin(kind) or kind), knob.name


def test_other_values_are_set_by_name() -> None:
    first = knobs.resolve({})
    other = first.with_values({"NODES": 4, "SPEED": Decimal(2), "CHARGE": "yes"})
    assert (other.nodes.count, other.clock.speed, other.clock.charge) == (4, 2, "yes")
    assert other.with_values({"NODES": 360, "CHARGE": "no"}).at_speed("auto") == first
    assert [name for name in BY_NAME if not other.is_default(name)] == ["NODES", "SPEED", "CHARGE"]
    assert {name for name, text in other.given().items() if text != first.given()[name]} == {"NODES", "SPEED", "CHARGE"}


def test_an_empty_value_is_the_default() -> None:
    assert knobs.resolve({"NODES": "", "SHRINK": ""}) == knobs.resolve({})


@pytest.mark.parametrize(
    ("given", "target", "config"),
    [
        ({}, "experiment", "slurm-defaults"),
        ({"SHRINK": "50"}, "compare", "backfill"),
        ({"SHRINK": "100:60:20"}, "experiment", "backfill"),
        ({"SHRINK": "300"}, "experiment", "slurm-defaults"),
        ({"SHRINK": "50", "CONFIG": "easy"}, "experiment", "easy"),
        *(({"SHRINK": "50", "RM": name}, "experiment", config_of(name)) for name in OTHERS),
        ({}, "cluster", "slurm-defaults"),
    ],
)
def test_shrunk_jobs_have_a_scheduler_with_short_intervals(given: dict[str, str], target: str, config: str) -> None:
    values = knobs.resolve(given, target)
    assert (values.scheduler.config, values.clock.speed) == (config, "auto")


@pytest.mark.parametrize(
    ("given_names", "words"),
    [
        ("NODE", "did you mean NODES?"),
        ("nodes", "did you mean NODES?"),
        ("SHRINKS", "did you mean SHRINK?"),
        ("XYZZY", "`make` lists the knobs"),
    ],
)
def test_names_that_are_no_knobs(given_names: str, words: str) -> None:
    with pytest.raises(WrongUse, match=f"^{given_names}: ") as refusal:
        knobs.resolve({knobs.GIVEN: given_names, given_names: "1"})
    assert words in str(refusal.value)


def test_another_programs_variables_are_no_mistake() -> None:
    assert knobs.resolve({"SLURM_CONF": "/etc/slurm/slurm.conf", "NODE": "10"}) == knobs.resolve({})


def test_a_slurm_conf_says_the_machine(tmp_path: Path) -> None:
    """Only when it is given to make; Slurm's own commands have a variable of that name."""
    path = tmp_path / "slurm.conf"
    path.write_text("NodeName=a[1-4] CPUs=8\nNodeName=fat CPUs=64\nPartitionName=p Nodes=ALL\n")
    values = knobs.resolve({knobs.GIVEN: "SLURM_CONF", "SLURM_CONF": str(path)})
    machine = values.nodes.classes
    assert isinstance(machine, Machine)
    assert (values.nodes.count, machine.processors, values.scheduler.config) == (5, 96, "site")
    assert knobs.resolve({knobs.GIVEN: "SLURM_CONF", "SLURM_CONF": str(path), "CONFIG": "fifo"}).scheduler.config == "fifo"
    with pytest.raises(WrongUse, match=r"^NODES: SLURM_CONF says that too"):
        knobs.resolve({knobs.GIVEN: "SLURM_CONF NODES", "SLURM_CONF": str(path), "NODES": "4"})


def test_a_wrong_value_from_the_environment_is_said_to_come_from_there() -> None:
    with pytest.raises(WrongUse, match="from the environment"):
        knobs.resolve({"PORT": "http"})
    with pytest.raises(WrongUse) as refusal:
        knobs.resolve({"PORT": "http", knobs.GIVEN: "PORT"})
    assert "environment" not in str(refusal.value)


def test_a_run_of_a_comparison_can_be_read_and_not_made() -> None:
    assert knobs.resolve({"RUN": "cmp/fifo-1"}, "why").output.run == "cmp/fifo-1"
    for target in ("experiment", "compare", "gate", "search"):
        with pytest.raises(WrongUse, match="RUN: 'cmp/fifo-1' is not possible; it may be up to 81 letters"):
            knobs.resolve({"RUN": "cmp/fifo-1"}, target)


def test_knobs_that_a_target_does_not_look_at() -> None:
    environ = {knobs.GIVEN: "CLUSTER NODES PYTHON", "CLUSTER": "a", "NODES": "3"}
    assert knobs.unused("teardown", environ) == ["NODES"]
    assert knobs.unused("cluster", environ) == []


@given(st.integers(1, 200), st.integers(0, 50), st.integers(1, 40))
def test_a_sweep_has_both_ends_and_equal_steps(last: int, steps: int, step: int) -> None:
    first = last + steps * step
    values = shrink(f"{first}:{last}:{step}")
    assert (values[0], values[-1], len(values)) == (first, last, steps + 1)
    assert {a - b for a, b in pairwise(values)} <= {Decimal(step)}
    assert shrink(f"{last}:{first}:{step}") == values[::-1]


@given(st.text(max_size=30))
def test_any_text_is_a_value_or_one_line(text: str) -> None:
    for knob in TABLE:
        try:
            knobs.parse(knob.name, text)
        except WrongUse as refusal:
            assert str(refusal).startswith(f"{knob.name}: ")
            assert len(str(refusal).splitlines()) == 1


def test_settings_of_slurm_conf_are_checked_words() -> None:
    assert (
        knobs.resolve({"SETTINGS": " BF_interval=060  PriorityMaxAge=7-0"}).scheduler.settings
        == "bf_interval=60 PriorityMaxAge=7-0"
    )
    assert knobs.resolve({"TUNE": "bf_interval=30..33"}).campaign.tune == "bf_interval=30,31,32,33"
    for name, text, words in (
        ("SETTINGS", "bf_interval", "bf_interval may be a whole number"),
        ("SETTINGS", "bf_interval=1,2", "not '1,2'"),
        ("TUNE", "bf_interval={{x}}", "not '{{x}}'"),
        ("TUNE", "SlurmctldHost", "'SlurmctldHost' is not a setting that can be tuned"),
        ("GOAL", "wait", "it may be one of wait_mean, "),
    ):
        with pytest.raises(WrongUse) as refusal:
            knobs.resolve({name: text})
        assert words in refusal.value.message and "\n" not in refusal.value.message


def test_a_search_charges_the_scheduler_for_its_computing() -> None:
    assert knobs.resolve({}, "search").clock.charge == "yes" and knobs.resolve({}, "compare").clock.charge == "no"
    assert knobs.resolve({"CHARGE": "no"}, "search").clock.charge == "no"
