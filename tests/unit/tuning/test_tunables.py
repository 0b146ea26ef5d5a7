"""The texts of TUNE and SETTINGS: what is read, what is refused, and what they make of a configuration."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.tuning import tunables
from mirage.tuning.tunables import BY_NAME, LEVELS, TUNABLES, Tunable, levels, merged, parse_settings, parse_tune, value_in
from slurm_mirage.rm.slurm import conf

ROOT = Path(__file__).parents[3]


@given(st.integers(0, 10**6), st.integers(1, 10**6))
def test_levels_are_few_ordered_and_reach_both_ends(low: int, more: int) -> None:
    found = levels(low, low + more)
    assert found[0] == low and found[-1] == low + more
    assert found == sorted(set(found)) and 2 <= len(found) <= LEVELS


def test_levels_by_hand() -> None:
    assert levels(1, 4) == [1, 2, 3, 4]
    assert levels(100, 200) == [100, 110, 120, 140, 150, 160, 180, 190, 200]
    assert levels(5, 120) == [5, 7, 11, 16, 24, 36, 54, 81, 120]
    assert levels(0, 10_000)[:4] == [0, 10, 27, 72]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("bf_window=1440,720", "bf_window=720,1440"),
        ("BF_Window=0720,720", "bf_window=720"),
        ("prioritymaxage=7-0,1-0,300", "PriorityMaxAge=300,1-0,7-0"),
        ("PriorityMaxAge=7-0,168:00:00,10080,24:00:00,1-0,7:30,7", "PriorityMaxAge=7,7:30,24:00:00,7-0"),
        ("bf_continue", "bf_continue=yes,no"),
        (" bf_interval=5..8  SchedulerType ", "bf_interval=5,6,7,8 SchedulerType=sched/backfill,sched/builtin"),
    ],
)
def test_what_is_tuned(text: str, told: str) -> None:
    assert " ".join(map(str, parse_tune(text))) == told
    assert " ".join(map(str, parse_tune(told))) == told


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "NAME is one of bf_interval"),
        ("bf_windw", "did you mean bf_window?"),
        ("ClusterName=x", "'ClusterName' is not a setting that can be tuned"),
        ("SchedulerParameters=bf_window", "is not a setting that can be tuned"),
        ("bf_window=0", "bf_window may be a whole number from 1 to 43200, not '0'"),
        ("bf_window=5..3", "the first number of a range is the smaller one"),
        ("bf_window=1e3", "not '1e3'"),
        ("bf_window=", "not ''"),
        ("bf_window=1,,2", "not ''"),
        ("bf_window=\u0661", "not"),
        ("bf_window bf_window=3", "bf_window is there twice"),
        ("PriorityMaxAge={{1}}", "a time as slurm.conf has it"),
        ("PriorityDecayHalfLife=0-0", "above 0, like 7-0"),
        ("PriorityMaxAge=1-0..7-0", "a time as slurm.conf has it"),
        ("bf_continue=1", "yes or no, not '1'"),
        ("SchedulerType=sched/../x", "sched/backfill or sched/builtin"),
        ("bf_interval=" + ",".join(map(str, range(1, 40))), "more than 30 values"),
        (" ".join(one.name for one in TUNABLES[:9]), "9 settings are more than 8"),
        ("x" * 3000, "longer than 2000 characters"),
    ],
)
def test_what_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError) as error:
        parse_tune(text)
    assert why in str(error.value) and "\n" not in str(error.value)


@given(st.text(max_size=40), st.sampled_from(TUNABLES))
def test_any_text_is_refused_or_one_word_of_slurm_conf(text: str, tunable: Tunable) -> None:
    try:
        found = parse_settings(f"{tunable.name}={text}")
    except ValueError as error:
        assert "\n" not in str(error)
        return
    for name, value in found.items():
        assert conf.setting("slurm.conf", name, value) == f"{name}={value}"
        assert not set(value) & set("{}%\\\"' ,=#")


def every_value() -> list[tuple[Tunable, str]]:
    return [(one, value) for one in TUNABLES for value in one.values]


@pytest.mark.parametrize(("tunable", "value"), every_value())
def test_a_configuration_has_the_value_that_was_set(tunable: Tunable, value: str) -> None:
    before = {"schedulerparameters": "bf_yield_sleep=1,BF_Busy_Nodes,BF_WINDOW=77", "PriorityWeightage": 5, "X": 1}
    assert value_in(BY_NAME["bf_window"], before) == "77", "Slurm finds names in any case"
    changed = merged(before, {tunable.name: value})
    after = {**before, **changed}
    assert value_in(tunable, after) == value
    assert len({key.lower() for key in after}) == len(after), "a key has one spelling"
    written = conf.render_settings(conf.merge(after))
    assert "bf_yield_sleep=1" in written and "X=1" in written and written.lower().count("bf_window=") == 1


def test_words_of_scheduler_parameters_stay_in_their_order() -> None:
    changed = merged(
        {"SchedulerParameters": {"bf_continue": True, "bf_interval": 5}}, parse_settings("bf_continue=no bf_window=60")
    )
    assert conf.value_of(changed["SchedulerParameters"]) == "bf_interval=5,bf_window=60"
    assert merged({}, parse_settings("bf_interval=7")) == {"SchedulerParameters": {"bf_interval": "7"}}


def test_values_of_a_base() -> None:
    assert value_in(BY_NAME["bf_interval"], {}) == "30"
    assert value_in(BY_NAME["bf_interval"], {"SchedulerParameters": {"bf_interval": 5}}) == "5"
    assert value_in(BY_NAME["bf_interval"], {"SCHEDULERPARAMETERS": "bf_interval=x"}) == "30"
    assert value_in(BY_NAME["bf_continue"], {"SchedulerParameters": "a=1,bf_continue"}) == "yes"
    assert value_in(BY_NAME["PriorityMaxAge"], {"PriorityMaxAge": "1-0"}) == "1-0"


def test_each_default_is_a_value() -> None:
    for one in TUNABLES:
        assert one.read(one.default) == one.default
        assert [one.read(value) for value in one.values] == list(one.values)
        assert not one.is_ordered or list(one.values) == sorted(one.values, key=one.place)


@pytest.mark.parametrize(
    ("earlier", "later"), [("300", "1-0"), ("6", "7-0"), ("1-0", "1-1"), ("7:30", "8"), ("59", "1:00:00"), ("1-0", "1-0:30")]
)
def test_times_have_an_order(earlier: str, later: str) -> None:
    of_age = BY_NAME["PriorityMaxAge"]
    assert of_age.place(earlier) < of_age.place(later)


def test_the_page_has_the_table() -> None:
    assert tunables.as_markdown() in (ROOT / "docs/search.md").read_text()
