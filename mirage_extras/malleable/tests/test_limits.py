"""Time limits of jobs that change their size."""

from hypothesis import given
from hypothesis import strategies as st

from slurm_mirage.extras.malleable.broker.limits import AllowedWork


def test_half_the_nodes_need_twice_the_time_that_is_left() -> None:
    allowed = AllowedWork(start=0, limit=600, nodes=8, size=8)
    assert allowed.new_limit(used=300, size=4, limit=600) == 15
    allowed.resize(300, 4)
    assert allowed.new_limit(used=300, size=4, limit=900) is None
    # Back at 8 nodes after 300 s more: 150 s of the first limit are left, and the limit is not lowered.
    assert allowed.new_limit(used=600, size=8, limit=900) is None
    allowed.resize(600, 8)
    assert allowed.new_limit(used=600, size=2, limit=900) == 20


def test_more_nodes_than_at_the_start_do_not_use_up_the_limit_faster() -> None:
    allowed = AllowedWork(start=0, limit=600, nodes=2, size=2)
    allowed.resize(100, 16)
    assert allowed.new_limit(used=200, size=2, limit=600) is None


@given(st.integers(60, 10_000), st.lists(st.tuples(st.integers(0, 50), st.sampled_from([1, 2, 4, 8, 16, 32])), max_size=8))
def test_the_limit_is_enough_for_the_work_and_is_never_lowered(limit: int, changes: list[tuple[int, int]]) -> None:
    allowed, used, work, present, size = AllowedWork(0, limit, 8, 8), 0, 0.0, limit, 8
    for seconds, to in changes:
        used, work = used + seconds, work + min(size, 8) * seconds
        if used > present:
            return
        new = allowed.new_limit(used, to, present)
        assert new is None or new * 60 > present
        present = present if new is None else new * 60
        allowed.resize(used, to)
        size = to
        assert (present - used) * min(size, 8) >= limit * 8 - work
