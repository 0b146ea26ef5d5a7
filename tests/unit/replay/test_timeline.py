"""The timeline: which action is next, what an interruption and a second submission change, and what the journal keeps of it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from journals import start_event

from slurm_mirage.clock.clock import Clock
from slurm_mirage.clock.time_source import TimeSource
from slurm_mirage.jobs.plan import PlanRow
from slurm_mirage.replay.actions import Action, Cancel, Event, Submit, actions_of
from slurm_mirage.replay.journal import Journal
from slurm_mirage.replay.timeline import Timeline

SPEED, BEGAN = 10.0, 1000.0
START: Event = start_event(real=BEGAN)


def row(index: int, due: float, cancel_after: float | None = None, follows: int | None = None, think: float = 0.0) -> PlanRow:
    number = 100 + index
    return PlanRow(index, number, due, 1, None, 5.0, 1, cancel_after, "", f"r.{number}", follows=follows, think=think)


def submitted(index: int, real: float, event: str = "submitted") -> Event:
    return {"event": event, "due": BEGAN, "began": real, "real": real, "index": index, "slurm_id": 11 + index, "retries": 0}


class Opened:
    """A timeline over a journal."""

    def __init__(self, path: Path, plan: Sequence[PlanRow]) -> None:
        self._path, self._plan = path, plan
        self._open()

    def _open(self) -> None:
        self.journal = Journal(self._path)
        if self.journal.history.start is None:
            self.journal.append_all([START])
        self.timeline = Timeline(actions_of(self._plan), Clock(speed=SPEED), self.journal, TimeSource())

    def reopen(self) -> None:
        """Let another replay go on with the journal."""
        self.journal.close()
        self._open()

    def following(self) -> tuple[float, type[Action] | None, int]:
        instant, action = self.timeline.next()
        return (instant, None, -1) if action is None else (instant, type(action), action.index)


PLAN = [row(0, 0, cancel_after=50), row(1, 40), row(2, 60, follows=100, think=20), row(3, 400)]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    opened = Opened(tmp_path / "journal.jsonl", PLAN)
    yield opened
    opened.journal.close()


def test_actions_come_in_the_order_of_their_instants(opened: Opened) -> None:
    timeline = opened.timeline
    assert opened.following() == (BEGAN, Submit, 0)
    timeline.note([submitted(0, BEGAN + 0.5)])
    assert opened.following() == (BEGAN + 4, Submit, 1)
    timeline.note([submitted(1, BEGAN + 4)])
    assert opened.following() == (BEGAN + 5.5, Cancel, 0), "after the submission, not after the instant at which it was due"
    timeline.note([{"event": "cancelled", "index": 0, "real": BEGAN + 5.5}])
    assert opened.following() == (BEGAN + 40, Submit, 3)
    timeline.note([{"event": "ended", "index": 0, "real": BEGAN + 6}])
    assert opened.following() == (BEGAN + 8, Submit, 2)
    timeline.note([submitted(2, BEGAN + 8), submitted(3, BEGAN + 40)])
    assert opened.following() == (math.inf, None, -1)


def test_the_next_job_may_be_one_that_follows_another_ones_end(opened: Opened) -> None:
    """The cluster's broker asks for it: submissions that count from the start are not the only ones."""

    def following() -> int | None:
        action = opened.timeline.next_submission()
        return None if action is None else action.index

    opened.timeline.note([submitted(0, BEGAN), submitted(1, BEGAN + 4)])
    assert following() == 3, "nothing tells yet when job 2 is due"
    opened.timeline.note([{"event": "ended", "index": 0, "real": BEGAN + 6}])
    assert following() == 2, "at 8 s, and job 3 at 40 s"
    opened.timeline.note([submitted(2, BEGAN + 8)])
    assert following() == 3
    opened.timeline.note([submitted(3, BEGAN + 40)])
    assert following() is None


def test_an_action_without_effect_is_taken_and_not_journalled(opened: Opened) -> None:
    """As the cancellation of a job that has ended: another replay finds it once more."""
    opened.timeline.note([submitted(0, BEGAN), submitted(1, BEGAN + 4)])
    _, cancel = opened.timeline.next()
    assert isinstance(cancel, Cancel)
    opened.timeline.take(cancel)
    opened.timeline.note([])
    assert opened.following() == (BEGAN + 40, Submit, 3)
    opened.reopen()
    assert opened.following() == (BEGAN + 5, Cancel, 0)


def test_an_interruption_moves_what_counts_from_the_start_and_from_ends(opened: Opened) -> None:
    opened.timeline.note([submitted(0, BEGAN), submitted(1, BEGAN + 4), {"event": "ended", "index": 0, "real": BEGAN + 4}])
    assert opened.following() == (BEGAN + 5, Cancel, 0)
    opened.journal.append("resumed", real=BEGAN + 12, gap=7.0)
    assert opened.following() == (BEGAN + 5, Cancel, 0), "the job's own time went on"
    opened.timeline.note([{"event": "cancelled", "index": 0, "real": BEGAN + 12}])
    assert opened.following() == (BEGAN + 4 + 2 + 7, Submit, 2)
    opened.timeline.note([submitted(2, BEGAN + 13)])
    assert opened.following() == (BEGAN + 40 + 7, Submit, 3)


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_job_that_is_submitted_again_is_cancelled_that_much_later(opened: Opened, is_cancelled: bool) -> None:
    opened.timeline.note([submitted(0, BEGAN), submitted(1, BEGAN + 4)])
    if is_cancelled:
        opened.timeline.note([{"event": "cancelled", "index": 0, "real": BEGAN + 5}])
    opened.timeline.note([submitted(0, BEGAN + 6, "resubmitted")])
    assert opened.following() == (BEGAN + 11, Cancel, 0)
    _, cancel = opened.timeline.next()
    assert cancel is not None
    opened.timeline.take(cancel)
    opened.timeline.note([{"event": "cancelled", "index": 0, "real": BEGAN + 11}])
    assert opened.following() == (BEGAN + 40, Submit, 3), "once"


def test_the_journal_gets_an_instant_after_the_other_members(opened: Opened, tmp_path: Path) -> None:
    opened.timeline.note([{"event": "cancelled", "index": 0}])
    last = json.loads((tmp_path / "journal.jsonl").read_text().splitlines()[-1])
    assert list(last) == ["event", "index", "real"]
