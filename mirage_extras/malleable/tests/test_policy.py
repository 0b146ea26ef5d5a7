"""The broker's policy: the three modes, and what holds for every decision."""

from hypothesis import given
from hypothesis import strategies as st

from slurm_mirage.extras.malleable.broker.policy import (
    EXPAND,
    NONE,
    SHRINK,
    Decision,
    Situation,
    Waiting,
    decide,
    sizes,
    start_waiting,
)
from slurm_mirage.extras.malleable.broker.protocol import Check


def check(present: int, minimum: int, maximum: int, preferred: int = 0, factor: int = 2) -> Check:
    return Check(1, present, minimum, maximum, factor, preferred)


def situation(idle: int, *waiting: int) -> Situation:
    return Situation(idle, [Waiting(100 + i, nodes) for i, nodes in enumerate(waiting)])


@st.composite
def checks(draw: st.DrawFn) -> Check:
    minimum = draw(st.integers(1, 64))
    maximum = draw(st.integers(minimum, 128))
    preferred = draw(st.sampled_from([0, minimum, maximum, (minimum + maximum) // 2]))
    return check(draw(st.integers(1, 128)), minimum, maximum, preferred, draw(st.integers(2, 4)))


situations = st.builds(
    lambda idle, waiting: situation(idle, *waiting), st.integers(0, 64), st.lists(st.integers(0, 64), max_size=6)
)


def test_sizes_are_reached_by_the_factor() -> None:
    assert sizes(8, 1, 32, 2) == [1, 2, 4, 8, 16, 32]
    assert sizes(12, 1, 40, 2) == [3, 6, 12, 24]
    assert sizes(9, 2, 30, 3) == [3, 9, 27]
    assert sizes(2, 4, 8, 2) == [4, 8]
    assert sizes(3, 4, 5, 2) == []


def test_requested_action_takes_the_next_size_within_the_range() -> None:
    assert decide(check(2, 3, 16), situation(2)) == Decision(EXPAND, 4)
    assert decide(check(2, 3, 16), situation(2, 1)) == Decision(EXPAND, 4)
    assert decide(check(2, 3, 16), situation(1)).kind == NONE
    assert decide(check(16, 1, 5), situation(0)) == Decision(SHRINK, 4)
    assert "by the factor" in decide(check(3, 4, 5), situation(9)).reason
    assert "by the factor" in decide(check(9, 4, 5), situation(9)).reason


def test_preferred_size() -> None:
    assert decide(check(8, 2, 32, 8), situation(64, 4)).kind == NONE
    # Nobody waits: up to the maximum, also from the preferred size, as far as idle nodes go, and never smaller.
    assert decide(check(8, 2, 32, 8), situation(64)) == Decision(EXPAND, 32)
    assert decide(check(4, 2, 32, 8), situation(64)) == Decision(EXPAND, 32)
    assert decide(check(4, 2, 32, 8), situation(5)) == Decision(EXPAND, 8)
    assert decide(check(32, 2, 32, 8), situation(0)).kind == NONE
    # Somebody waits: towards the preferred size, and not beyond.
    assert decide(check(2, 2, 32, 8), situation(64, 64)) == Decision(EXPAND, 8)
    assert decide(check(2, 2, 32, 8), situation(3, 64)) == Decision(EXPAND, 4)
    assert decide(check(32, 2, 32, 8), situation(0, 64)) == Decision(SHRINK, 8)
    assert decide(check(12, 2, 32, 8), situation(0, 64)).kind == NONE


def test_wide_optimisation_grows_if_nobody_can_start() -> None:
    assert decide(check(4, 1, 32), situation(12)) == Decision(EXPAND, 16)
    assert decide(check(4, 4, 32), situation(12, 20)) == Decision(EXPAND, 16)
    assert decide(check(4, 4, 32), situation(12, 12)).kind == NONE
    assert decide(check(4, 4, 32), situation(3)).kind == NONE


def test_wide_optimisation_shrinks_by_as_little_as_lets_a_job_start() -> None:
    assert decide(check(16, 1, 16), situation(0, 8)) == Decision(SHRINK, 8, beneficiary=100)
    assert decide(check(16, 1, 16), situation(0, 9)) == Decision(SHRINK, 4, beneficiary=100)
    assert decide(check(16, 1, 16), situation(6, 14)) == Decision(SHRINK, 8, beneficiary=100)
    # The second one needs less: the smallest shrink counts. Of equal ones it is the first in the queue.
    assert decide(check(16, 1, 16), situation(0, 14, 8, 7)) == Decision(SHRINK, 8, beneficiary=101)
    # Who starts by itself needs no shrink, but its nodes.
    assert decide(check(16, 1, 16), situation(4, 4)).kind == NONE
    assert decide(check(16, 1, 16), situation(4, 4, 10)) == Decision(SHRINK, 4, beneficiary=101)


@given(checks(), situations)
def test_no_decision_leaves_the_range_or_takes_more_than_is_idle(request: Check, now: Situation) -> None:
    decision = decide(request, now)
    if decision.kind == NONE:
        assert decision.to == request.present
        return
    assert request.minimum <= decision.to <= request.maximum
    larger, smaller = max(decision.to, request.present), min(decision.to, request.present)
    while smaller < larger:
        smaller *= request.factor
    assert smaller == larger
    if decision.kind == EXPAND:
        assert 0 < decision.to - request.present <= now.idle
    else:
        assert decision.to < request.present


@given(checks(), situations)
def test_a_shrink_for_a_job_lets_it_start_and_no_smaller_one_does(request: Check, now: Situation) -> None:
    decision = decide(request, now)
    if decision.beneficiary is None:
        return
    idle, left = start_waiting(now)
    needs = {job.job: job.nodes for job in left}
    assert idle < needs[decision.beneficiary] <= idle + request.present - decision.to
    for size in sizes(request.present, request.minimum, request.maximum, request.factor):
        if decision.to < size < request.present:
            assert all(nodes > idle + request.present - size for nodes in needs.values())


@given(checks(), situations)
def test_a_job_does_not_grow_while_another_one_can_start(request: Check, now: Situation) -> None:
    is_wide = not request.preferred and request.minimum <= request.present <= request.maximum
    if is_wide and any(job.nodes <= now.idle for job in now.waiting):
        assert decide(request, now).kind != EXPAND
