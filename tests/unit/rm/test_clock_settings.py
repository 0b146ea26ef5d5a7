"""Settings that follow the speed of the clock."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.rm.slurm.clock_settings import FOLLOWERS, follow, on_event_clock
from slurm_mirage.rm.slurm.conf import OMIT, merge, render_settings, value_of

PLAIN = {one.setting: one for one in FOLLOWERS if not one.word}
WORDS = {one.word: one for one in FOLLOWERS if one.word and one.setting == "SchedulerParameters"}
POLICY = ["KillWait", "SchedulerTimeSlice", "PriorityCalcPeriod", "ResumeTimeout", "SuspendTime", "CompleteWait"]
POLICY_WORDS = [
    "bf_interval",
    "bf_window",
    "bf_resolution",
    "sched_interval",
    "sched_min_interval",
    "batch_sched_delay",
    "max_rpc_cnt",
]

speeds = st.floats(1, 100_000)
faster = st.floats(1, 100_000, exclude_min=True)
numbers = st.integers(0, 100_000)
plain = st.dictionaries(st.sampled_from([*PLAIN, *POLICY]), numbers | numbers.map(str))
words = st.dictionaries(st.sampled_from([*WORDS, *POLICY_WORDS]), numbers)


def words_of(settings: dict[str, Any], setting: str = "SchedulerParameters") -> dict[str, int]:
    """Numbers in a list of words, as Slurm finds them."""
    pairs = (word.partition("=") for word in settings[setting].split(",") if "=" in word)
    return {key: int(number) for key, _, number in pairs if number.isdigit()}


def test_defaults_and_own_values_are_multiplied() -> None:
    slow = {"MessageTimeout": 60, "KillWait": 30, "AuthInfo": "socket=/run/munge", "SchedulerParameters": {"bf_interval": 5}}
    assert follow(slow, 20) == {
        "MessageTimeout": 1200,
        "TCPTimeout": 40,
        "SlurmdTimeout": 6000,
        "SlurmctldTimeout": 2400,
        "BatchStartTimeout": 200,
        "UnkillableStepTimeout": 1200,
        "EioTimeout": 1200,
        "MinJobAge": 2000,
        "KillWait": 30,
        "AuthInfo": "socket=/run/munge,cred_expire=120",
        "SchedulerParameters": "bf_interval=5,max_sched_time=40,build_queue_timeout=40000000,bf_max_time=100,"
        "bf_yield_interval=10000000,bf_yield_sleep=2500000",
    }


@given(st.dictionaries(st.text(min_size=1), st.text() | st.integers() | st.booleans() | st.none()), st.floats(-5, 1))
def test_real_time_and_slower_clocks_change_nothing(settings: dict[str, Any], speed: float) -> None:
    assert follow(settings, speed) == settings


@given(plain, words, faster)
def test_nothing_shrinks_and_nothing_grows_beyond_what_slurm_takes(
    settings: dict[str, Any], parameters: dict[str, int], speed: float
) -> None:
    followed = follow({**settings, "SchedulerParameters": parameters}, speed)
    for key, value in settings.items():
        if key in POLICY:
            assert followed[key] == value
        else:
            assert followed[key] >= int(value)
            assert followed[key] <= max(int(value), PLAIN[key].largest)
            # As decimals: 190 x 1.1 is 209, which as floats is a little more.
            times = Decimal(int(value) if PLAIN[key].real is None else PLAIN[key].real) * Decimal(str(speed))
            assert followed[key] == math.ceil(times) or followed[key] in (int(value), PLAIN[key].largest)
    got = words_of(followed)
    assert all(got[word] >= number for word, number in parameters.items())
    assert all(got[word] == number for word, number in parameters.items() if word in POLICY_WORDS)
    assert all(got[word] <= max(one.largest, parameters.get(word, 0)) for word, one in WORDS.items() if word in got)


@given(plain, words, speeds, speeds)
def test_a_faster_clock_never_has_shorter_time_outs(
    settings: dict[str, Any], parameters: dict[str, int], a: float, b: float
) -> None:
    given_settings = {**settings, "SchedulerParameters": value_of(parameters)}
    slower, faster = (follow(given_settings, speed) for speed in sorted((a, b)))
    assert all(int(faster[key]) >= int(value) for key, value in slower.items() if key in PLAIN)
    assert all(words_of(faster)[word] >= number for word, number in words_of(slower).items())


@given(words, st.booleans(), faster, st.randoms(use_true_random=False))
def test_a_list_of_words_means_the_same_in_every_form_and_case(
    parameters: dict[str, int], flag: bool, speed: float, random: Any
) -> None:
    mapping = {**parameters, "bf_continue": flag, "defer": OMIT}
    text = value_of(mapping)
    cased = "".join(random.choice([letter, letter.upper()]) for letter in text)
    forms = [mapping, text, text.split(","), f'"{text}"', text.replace(",", ", "), cased]
    results = [follow({random.choice(["SchedulerParameters", "SCHEDULERPARAMETERS"]): form}, speed) for form in forms]
    rendered = [{word for line in render_settings(result).lower().splitlines() for word in line.split(",")} for result in results]
    assert all(some == rendered[0] for some in rendered)
    assert any("bf_continue" in word for word in rendered[0]) == flag


@given(st.integers(1, 65533), faster)
def test_slurm_takes_max_sched_time(message_timeout: int, speed: float) -> None:
    """At most half of MessageTimeout (job_scheduler.c), else it logs an error and takes 2 s."""
    followed = follow({"messagetimeout": message_timeout}, speed)
    longest = words_of(followed).get("max_sched_time", 0)
    assert longest == min(math.ceil(2 * speed), followed["messagetimeout"] // 2)


@pytest.mark.parametrize("speed", [2, 20, 100, 1000, 100_000])
def test_the_backfill_scheduler_lets_others_in_for_the_same_part_of_its_time(speed: int) -> None:
    got = words_of(follow({}, speed))
    assert got["bf_yield_interval"] == 4 * got["bf_yield_sleep"] <= 10_000_000


@pytest.mark.parametrize(
    ("interval", "speed", "longest"), [(None, 10, 300), (5, 500, 2500), (5, 1000, 3600), (30, 1000, 3600), (-1, 10, None)]
)
def test_the_backfill_scheduler_may_compute_for_bf_interval(interval: int | None, speed: int, longest: int | None) -> None:
    parameters = {} if interval is None else {"bf_interval": interval}
    assert words_of(follow({"SchedulerParameters": parameters}, speed)).get("bf_max_time") == longest


def test_own_words_count_instead_of_the_default() -> None:
    own = "bf_max_time=60,defer,max_sched_time=1.5,bf_max_time=7,bf_interval=30"
    assert words_of(follow({"SchedulerParameters": own}, 10)) == {
        "bf_interval": 30,
        "bf_max_time": 600,  # Slurm takes the first
        "max_sched_time": 15,
        "build_queue_timeout": 20_000_000,
        "bf_yield_interval": 10_000_000,
        "bf_yield_sleep": 2_500_000,
    }


def test_the_builtin_scheduler_gets_no_word_that_it_takes_for_its_interval() -> None:
    """It looks for `interval=` anywhere (sched/builtin, builtin.c), and would wait for bf_yield_interval seconds."""
    got = follow({"SchedulerType": "sched/builtin", "SchedulerParameters": "batch_sched_delay=0"}, 20)["SchedulerParameters"]
    assert got == "batch_sched_delay=0,max_sched_time=40,build_queue_timeout=40000000"


def test_what_was_omitted_is_the_default_which_follows_too() -> None:
    left_out = {
        "MessageTimeout": OMIT,
        "PrologEpilogTimeout": OMIT,
        "AuthInfo": OMIT,
        "SchedulerParameters": {"max_sched_time": OMIT},
    }
    followed = follow(left_out, 20)
    assert merge(followed) == merge(follow({}, 20))
    assert (followed["MessageTimeout"], followed["PrologEpilogTimeout"]) == (200, OMIT)
    assert followed["AuthInfo"] == "cred_expire=120"


def test_zero_and_fractions_are_the_ways_out() -> None:
    """0 switches a time-out off, and a fraction is what has the value at this speed."""
    followed = follow({"SlurmdTimeout": 0, "EioTimeout": 0.6, "BatchStartTimeout": "0.02", "MinJobAge": 0}, 500)
    assert [followed[key] for key in ("SlurmdTimeout", "EioTimeout", "BatchStartTimeout", "MinJobAge")] == [0, 300, 10, 0]


@pytest.mark.parametrize(
    ("given_value", "speed", "minutes"),
    [(OMIT, 20, OMIT), (OMIT, 100, 1), (OMIT, 500, 4), (3, 500, 7), ("2", 1000, 10), (5, 20, 5)],
)
def test_a_launch_does_not_count_against_a_time_limit(given_value: Any, speed: float, minutes: Any) -> None:
    settings = {} if given_value == OMIT else {"OverTimeLimit": given_value}
    assert follow(settings, speed).get("OverTimeLimit", OMIT) == minutes


def test_what_only_needs_some_real_time_gets_no_more() -> None:
    fast = follow({"MinJobAge": 30, "AuthInfo": "cred_expire=600"}, 500)
    assert (fast["MinJobAge"], fast["AuthInfo"]) == (50_000, "cred_expire=1000")
    slow = follow({"MinJobAge": 900, "AuthInfo": "cred_expire=600"}, 5)
    assert (slow["MinJobAge"], slow["AuthInfo"]) == (900, "cred_expire=600")


@pytest.mark.parametrize("value", ["soon", "", True, None, [5], "NaN", "inf", "UNLIMITED", "1:30"])
@pytest.mark.parametrize("key", ["MessageTimeout", "prologepilogtimeout"])
def test_what_is_not_a_number_is_wrong_use(key: str, value: Any) -> None:
    with pytest.raises(WrongUse, match=rf"^slurm\.conf: {key}=.*: must be a number"):
        follow({key: value}, 2)


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"AuthInfo": "socket=/run/munge,cred_expire=long"}, "AuthInfo: cred_expire=long"),
        ({"SchedulerParameters": "bf_continue,bf_yield_sleep"}, "SchedulerParameters: bf_yield_sleep="),
        ({"schedulerparameters": {"bf_interval": "often"}}, "SchedulerParameters: bf_interval=often"),
    ],
)
def test_words_that_are_not_numbers_are_wrong_use(settings: dict[str, Any], name: str) -> None:
    with pytest.raises(WrongUse, match=f"^slurm.conf: {name}: must be a number"):
        follow(settings, 2)


def test_a_setting_without_a_value_is_still_refused() -> None:
    with pytest.raises(WrongUse, match="'AuthInfo' has no value"):
        render_settings(follow({"AuthInfo": None}, 2))


def test_silent_nodes_are_noticed_as_in_real_time_in_runs_that_need_it() -> None:
    settings = {"SlurmdTimeout": 300, "MinJobAge": 300}
    assert on_event_clock(settings) == {"SlurmdTimeout": 60_000, "MinJobAge": 36_000}
    assert on_event_clock(settings, silent_nodes=True) == {"SlurmdTimeout": 300, "MinJobAge": 36_000}
