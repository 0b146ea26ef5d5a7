"""The estimate of a run's length: the quick simulation of its queue, and the range in real seconds."""

from __future__ import annotations

import itertools
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.experiment import run_length
from mirage.experiment.expected_queue import Queue, expected_queue
from mirage.experiment.run_length import Length, in_words, length_of, total
from mirage.experiment.standing import Work

JOBS = st.lists(st.tuples(st.floats(0, 1e4), st.floats(0, 1e4), st.integers(1, 8)), min_size=1, max_size=30)


def test_a_queue_in_order_and_with_backfilling() -> None:
    jobs = ([0.0, 1.0, 2.0], [100.0, 50.0, 10.0], [3, 4, 1])
    assert expected_queue(*jobs, 4, None, 100) == Queue(end=160.0, most_waiting=2, backfills=False)
    backfilled = expected_queue(*jobs, 4, 10.0, 100)
    assert backfilled.end == 150.0
    # sched/builtin only computes when waiting jobs may start: the second waits from 1 s to 100 s, the third until 150 s.
    in_order = expected_queue(*jobs, 4, 10.0, 100, backfills=False)
    assert in_order.end == 160.0 and in_order.examined == pytest.approx((99 + 148) / 10) and not in_order.backfills
    # The second job waits from 1 s to 100 s, and the third starts when it is due.
    assert backfilled.cycles == pytest.approx(9.9) and backfilled.examined == pytest.approx(9.9)


@given(JOBS, st.booleans())
def test_a_run_ends_between_its_two_bounds(jobs: list[tuple[float, float, int]], backfills: bool) -> None:
    """Not before the work could be done, nor later than with one job at a time."""
    dues, runs, widths = map(list, zip(*jobs, strict=True))
    queue = expected_queue(dues, runs, widths, 8, 30.0 if backfills else None, 10)
    work = sum(run * width for run, width in zip(runs, widths, strict=True)) / 8
    last = max(due + run for due, run in zip(dues, runs, strict=True))
    assert max(min(dues) + work, last) - 1e-6 <= queue.end <= max(dues) + sum(runs) + 1e-6
    assert queue.examined <= 10 * queue.cycles + 1e-9
    assert queue.most_waiting <= len(jobs)


@pytest.mark.parametrize("slow", [1.0, 2.0, 5.5])
def test_a_range_is_at_most_four_wide_and_grows_on_a_busy_host(slow: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_length, "slowness", lambda: slow)
    least, most = Length(20.0, 10.0).range()
    assert most / least == pytest.approx(4)
    assert least == pytest.approx((20 * slow**0.5 + 10 * slow) / 2)
    least, most = Length(100.0, 10.0, run_length.CONSTANT_RANGE).range()
    assert least == pytest.approx(80 + 5 * slow) and most == pytest.approx(125 + 20 * slow)


@given(st.floats(0, 1))
def test_the_share_of_a_processor_that_a_program_gets(share: float) -> None:
    """Each look at the clock takes 10 ms, in which the program has computed for its share of them."""
    now = itertools.count(7.0, 0.01)
    computed = [0.0]

    def monotonic() -> float:
        computed[0] += 0.01 * share
        return next(now)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_length.time, "monotonic", monotonic)
        patch.setattr(run_length.time, "process_time", lambda: computed[0])
        run_length.slowness.cache_clear()
        expected = 1 / share if share > 0.005 else 200
        assert run_length.slowness() == pytest.approx(expected, rel=0.05)
        run_length.slowness.cache_clear()


def test_more_of_anything_takes_longer() -> None:
    def seconds(jobs: int = 100, nodes: int = 100, processors: int = 100, examined: float = 1000.0, end: float = 1e5) -> float:
        length = length_of("event", Queue(end, examined), 0.0, jobs, nodes, processors, left=Work.NONE)
        assert length is not None
        return length.replay

    for more in ({"jobs": 200}, {"nodes": 1000}, {"processors": 800}, {"examined": 1e5}, {"end": 1e6}):
        assert seconds(**more) > seconds()  # type: ignore[arg-type]
    constant = length_of(Decimal(50), Queue(1000.0), 500.0, 100, 100, 100, left=Work.BUILD)
    assert constant is not None and constant.replay == 10.0 and constant.around > run_length.STANDING
    assert length_of("auto", Queue(1.0), 0.0, 1, 1, 1, left=Work.NONE) is None


# Runs on 2 processors at rest (docs/accuracy.md): jobs, nodes, processors, virtual seconds, waiting jobs that
# backfilling looked at by the quick simulation, and the replay's real seconds.
MEASURED = [
    (150, 360, 5760, 2334, 9806, 103),
    (200, 100, 100, 57_368, 10_483, 20),
    (2000, 3600, 14_400, 169_573, 0, 348),
    (300, 5544, 88_704, 44_545, 14_376, 3342),
    (100, 3600, 14_400, 167_695, 0, 26),
    (9496, 100, 100, 11_205_922, 13_011_510, 3020),
]


@pytest.mark.parametrize(("jobs", "nodes", "processors", "virtual", "examined", "real"), MEASURED)
def test_measured_runs_are_within_a_factor_of_two(
    jobs: int, nodes: int, processors: int, virtual: float, examined: float, real: float
) -> None:
    length = length_of("event", Queue(virtual, examined), 0.0, jobs, nodes, processors, left=Work.NONE)
    assert length is not None and real / run_length.RANGE <= length.replay <= real * run_length.RANGE


@given(st.floats(1, 1e6), st.floats(10, 1e3))
def test_words_give_a_range_that_is_at_most_four_wide_and_within_the_numbers(replay: float, around: float) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_length, "slowness", lambda: 1.0)
        length = Length(replay, around)
        words = length.in_words().split()
        unit = {name: size for size, name in run_length.UNITS}[words[3]]
        least, most = float(words[0]) * unit, float(words[2]) * unit
        assert most <= 4 * least * (1 + 1e-9)
        assert length.range()[0] <= least * (1 + 1e-9) and most <= length.range()[1] * (1 + 1e-9)
        assert least <= 1.11 * length.range()[0] and most >= length.range()[1] / 1.11


def test_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_length, "slowness", lambda: 1.0)
    assert in_words("event", 7200.0, Length(50.0, 10.0)) == "2 h of the cluster's time: 30 to 120 s"
    assert in_words(Decimal(20), 7200.0, Length(360.0, 10.0, 1.25)) == "2 h of the cluster's time: 4.9 to 7.8 min at SPEED=20"
    assert in_words("auto", 7200.0, None) == "2 h of the cluster's time, at a speed to be picked"
    assert total([Length(50.0, 10.0), Length(30.0, 10.0)], 2) == Length(40.0, 10.0)
