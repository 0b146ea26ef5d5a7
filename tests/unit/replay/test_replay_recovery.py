"""The comparison of the journal with the resource manager's jobs, and the record of the jobs that were played."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_mirage.jobs.kinds import Sigsleep
from slurm_mirage.jobs.sigsleep_log import Record, pack
from slurm_mirage.replay.recovery import Comparison, PlayedJobs, compare
from slurm_mirage.rm.api import CompletedJob, JobState, QueuedJob
from slurm_mirage.rm.slurm.records import ENDED_FOR_GOOD

NAMES = {f"r.{index}": index for index in range(6)}


def queued(index: int, job_id: int, state: JobState = JobState.PENDING, start: int | None = None) -> QueuedJob:
    return QueuedJob(job_id, state, start, f"r.{index}")


def ended(index: int, job_id: int, state: str = "COMPLETED") -> CompletedJob:
    return CompletedJob(job_id, f"r.{index}", state, state in ENDED_FOR_GOOD)


NOTHING = Comparison([], {}, [], [], [])


def test_agreement() -> None:
    queue = [
        queued(0, 10, JobState.RUNNING, 5),
        queued(1, 11),
        queued(2, 12, JobState.ENDED, 5),
        QueuedJob(99, JobState.RUNNING, 1, "other.1"),
    ]
    assert compare({0: 10, 1: 11, 2: 12, 3: 13}, NAMES, [ended(2, 12)], queue, [ended(2, 12), ended(3, 13)], {}) == NOTHING


def test_what_nobody_knows_is_missing_unless_it_was_played() -> None:
    found = compare({0: 10, 1: 11, 2: 12}, NAMES, [], [queued(0, 10)], [], {2: 50.0})
    assert found == Comparison([1], {}, [], [], [2])
    assert not found.clean


def test_what_the_queue_has_as_ended_needs_no_line_in_the_completion_log() -> None:
    over = queued(1, 11, JobState.ENDED, 5)
    found = compare({0: 10, 1: 11}, NAMES, [], [queued(0, 10), over], [], {})
    assert found == Comparison([], {}, [], [], [1]) and found.clean
    # Another run of the job goes on, or the ended one was no job of the journal.
    assert compare({1: 11}, NAMES, [], [over, queued(1, 11)], [], {}).unrecorded == []
    assert compare({1: 12}, NAMES, [], [over], [], {}).unrecorded == []


def test_what_was_not_journalled_is_found() -> None:
    assert compare({0: 10}, NAMES, [], [queued(0, 10), queued(1, 11)], [], {}).unjournalled == {1: 11}
    assert compare({0: 10}, NAMES, [], [queued(0, 10)], [ended(1, 11)], {}).unjournalled == {1: 11}


def test_a_job_that_ended_between_the_looks_is_known() -> None:
    assert compare({0: 10}, NAMES, [], [], [ended(0, 10)], {}) == NOTHING


def test_second_copies() -> None:
    assert compare({0: 10}, NAMES, [], [queued(0, 10), queued(0, 14)], [], {}).surplus == [(0, 14)]
    # The journalled one is not there: the older copy becomes the job.
    found = compare({0: 10}, NAMES, [], [queued(0, 15), queued(0, 14)], [], {})
    assert (found.surplus, found.unjournalled) == ([(0, 15)], {0: 14})


@pytest.mark.parametrize(
    ("before", "queue", "played", "stale"),
    [
        ([ended(0, 10)], [queued(0, 10)], {}, [(0, 10)]),
        ([ended(0, 10, "TIMEOUT")], [queued(0, 10, JobState.RUNNING, 60)], {}, [(0, 10)]),
        ([ended(0, 10)], [queued(0, 10, JobState.COMPLETING, 5)], {}, []),
        # Slurm puts these back in the queue itself, or writes PENDING when it does.
        ([ended(0, 10, "PENDING")], [queued(0, 10)], {}, []),
        ([ended(0, 10, "NODE_FAIL")], [queued(0, 10)], {}, []),
        ([ended(0, 10, "PREEMPTED")], [queued(0, 10, JobState.RUNNING, 60)], {}, []),
        ([], [queued(0, 10)], {0: 50.0}, [(0, 10)]),
        ([], [queued(0, 10, JobState.RUNNING, 51)], {0: 50.0}, [(0, 10)]),
        # In the very instant in which its program ended it cannot have started again.
        ([], [queued(0, 10, JobState.RUNNING, 50)], {0: 50.0}, []),
        # The job that has just ended, and whose end is on its way to the controller.
        ([], [queued(0, 10, JobState.RUNNING, 40)], {0: 50.0}, []),
    ],
)
def test_new_runs_of_jobs_that_had_ended(
    before: list[CompletedJob], queue: list[QueuedJob], played: dict[int, float], stale: list[tuple[int, int]]
) -> None:
    found = compare({0: 10}, NAMES, before, queue, before, played)
    assert found.stale == stale
    assert (found.missing, found.unjournalled, found.surplus) == ([], {}, [])


@pytest.mark.parametrize("state", [JobState.PENDING, JobState.RUNNING])
def test_a_forgotten_cancellation(state: JobState) -> None:
    """A killed controller has the job as before. One that is being cancelled, or has ended, is left alone."""
    found = compare({0: 10, 1: 11}, NAMES, [], [queued(0, 10, state, 5), queued(1, 11, state, 5)], [], {}, {0})
    assert (found.revived, found.surplus, found.stale) == ([(0, 10)], [], []) and not found.clean
    assert found.without_waiting().revived == ([] if state is JobState.PENDING else [(0, 10)])
    assert compare({0: 10}, NAMES, [], [queued(0, 10, JobState.COMPLETING, 5)], [], {}, {0}) == NOTHING
    assert compare({0: 10}, NAMES, [], [], [ended(0, 10, "CANCELLED")], {}, {0}) == NOTHING
    # A copy of another id is the job now: the cancellation was of its name.
    assert compare({0: 10}, NAMES, [], [queued(0, 14, state, 5)], [], {}, {0}).revived == [(0, 14)]


@given(
    st.sets(st.integers(0, 5)),
    st.sets(st.integers(0, 5)),
    st.sets(st.integers(0, 5)),
    st.sets(st.integers(0, 5)),
)
def test_every_journalled_job_is_accounted_for_once(journal: set[int], queue: set[int], done: set[int], played: set[int]) -> None:
    found = compare(
        {index: 10 + index for index in journal},
        NAMES,
        [],
        [queued(index, 10 + index, JobState.RUNNING, 5) for index in queue],
        [ended(index, 10 + index) for index in done],
        dict.fromkeys(played, 50.0),
    )
    known = queue | done
    assert set(found.missing) == journal - known - played
    assert set(found.unrecorded) == journal - known & journal - set(found.missing)
    assert set(found.unjournalled) == known - journal
    assert not set(found.missing) & set(found.unjournalled)


def kind(path: Path) -> Sigsleep:
    return Sigsleep("sigsleep", str(path), None)


def record(number: int, completed: bool = True) -> bytes:
    return pack(Record(number, 1, "p", 10**9, 2 * 10**9, 5 * 10**9, 3 * 10**9, 3 * 10**9, completed))


@given(st.lists(st.integers(0, 4 * len(record(1))), max_size=5))
def test_played_jobs_are_read_as_they_come(tmp_path_factory: pytest.TempPathFactory, cuts: list[int]) -> None:
    whole = record(100) + record(101, completed=False) + record(999) + record(102)
    path = tmp_path_factory.mktemp("run") / "sigsleep.log"
    log = PlayedJobs(kind(path), {100: 0, 101: 1, 102: 2})
    assert log.read() == {}
    for cut in [*sorted(cuts), len(whole)]:
        path.write_bytes(whole[:cut])
        read = log.read()
        assert (0 in read) == (cut >= len(record(100)))
    assert log.read() == {0: 5.0, 2: 5.0}
    assert log.twice == set()


def test_jobs_that_were_played_twice(tmp_path: Path) -> None:
    path = tmp_path / "sigsleep.log"
    path.write_bytes(record(100) + record(101, completed=False) + record(101) + record(100))
    log = PlayedJobs(kind(path), {100: 0, 101: 1})
    assert log.read() == {0: 5.0, 1: 5.0}
    assert log.twice == {0}


def test_played_jobs_behind_foreign_bytes(tmp_path: Path) -> None:
    path = tmp_path / "sigsleep.log"
    path.write_bytes(b"disk full" + record(100))
    log = PlayedJobs(kind(path), {100: 0})
    assert log.read() == {0: 5.0}
