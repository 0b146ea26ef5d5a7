"""Tests of the rules of MALLEABLE_JOBS."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage_extras.malleable.rules import AT_MAXIMUM, AT_MINIMUM, AT_PREFERRED, efficiency, fraction_of, words_of
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.extras.malleable.words import Malleable


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        # From the generator's own functions, with its thresholds and fractions and node_range 1 to 64.
        (1, "1:16:2:1 speedup=amdahl:0.95"),
        (2, "2:16:2:2 speedup=amdahl:0.95"),
        (4, "2:16:2:4 speedup=amdahl:0.95"),
        (8, "2:16:2:8 speedup=amdahl:0.965"),
        (16, "4:64:2:16 speedup=amdahl:0.985"),
        (64, "32:64:2:64 speedup=amdahl:0.999"),
    ],
)
def test_powers_of_two_have_the_ranges_of_wagomus_generator(nodes: int, words: str) -> None:
    assert words_of("recorded", nodes, 128) == words


def test_other_sizes_are_multiplied_and_divided_by_two() -> None:
    assert words_of("recorded", 6, 128) == "3:12:2:6 speedup=amdahl:0.955"


def test_the_maximum_is_half_of_the_machine_but_at_least_the_size() -> None:
    assert words_of("recorded", 8, 20).startswith("2:8:2:8")
    assert words_of("recorded", 4, 20).startswith("2:8:2:4")


def test_a_job_that_the_factor_cannot_change_has_no_words() -> None:
    assert words_of("recorded", 63, 64) == ""


@given(nodes=st.integers(1, 5000), most=st.integers(1, 5000))
def test_every_range_holds_the_recorded_size_and_fits_the_machine(nodes: int, most: int) -> None:
    if not (words := words_of("recorded", min(nodes, most), most)):
        nodes = min(nodes, most)
        assert 2 * nodes > most // 2
        assert nodes % 2 or efficiency(fraction_of(nodes), nodes) > AT_MINIMUM
        return
    job = Malleable.parse(words)
    recorded = min(nodes, most)
    assert job.minimum <= recorded == job.preferred <= job.maximum <= most
    assert job.text() == words
    sizes = job.sizes(recorded)
    assert sizes[0] == job.minimum
    assert sizes[-1] == job.maximum
    assert all(efficiency(job.speedup.parallel, size) > AT_MAXIMUM for size in sizes if size > recorded)


@given(st.integers(2, 2000))
def test_the_fraction_is_the_smallest_with_enough_efficiency(nodes: int) -> None:
    assert efficiency(fraction_of(nodes), nodes) > AT_PREFERRED


def test_preferences() -> None:
    assert words_of("recorded preferred=none", 8, 128).startswith("2:16:2:- ")
    assert words_of("recorded preferred=mean", 8, 128).startswith("2:16:2:8 ")
    assert words_of("recorded preferred=mean", 16, 128).startswith("4:64:2:32 ")


def test_options_are_kept_and_replace_those_of_the_rule() -> None:
    assert words_of("recorded check=60 inhibitor=120 async", 2, 64) == ("2:16:2:2 check=60 inhibitor=120 speedup=amdahl:0.95 async")
    assert "check=5 " in words_of("dmr check=5", 16, 64)


def test_the_applications_of_table_1() -> None:
    gradient, bodies = (Malleable.parse(words_of("dmr", nodes, 64)) for nodes in (32, 16))
    assert (gradient.minimum, gradient.maximum, gradient.factor, gradient.preferred, gradient.check) == (2, 32, 2, 8, 15)
    assert (bodies.minimum, bodies.maximum, bodies.factor, bodies.preferred) == (1, 16, 2, 1)


def test_flexible_sleep_has_no_preferred_size_and_no_words_for_sizes_that_no_factor_changes() -> None:
    assert words_of("sleep async", 12, 20) == "1:20:2:- check=5 cost=0.42:0 async"
    assert words_of("sleep", 19, 20) == ""
    assert words_of("sleep", 32, 64) == "1:20:2:- check=5 cost=0.42:0"


@pytest.mark.parametrize(
    ("rule", "nodes", "message"),
    [
        ("", 4, "rule recorded, dmr or sleep"),
        ("recordd", 4, "'recordd' may be"),
        ("recorded preferred=8", 4, "preferred=mean"),
        ("recorded speedup=linear", 4, "speed-ups of its own"),
        ("recorded start", 4, "'start' may be"),
        ("recorded check=0", 4, "check=0"),
        ("dmr", 8, "knows jobs of 16 or 32 nodes, and one has 8"),
    ],
)
def test_wrong_rules_are_refused(rule: str, nodes: int, message: str) -> None:
    with pytest.raises(WrongUse, match=message):
        words_of(rule, nodes, 64)
