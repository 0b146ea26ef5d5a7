"""The actions of a replay in the order of their instants.

Instants are real seconds since the epoch. What counts from the start of the run, or from the end of a job, moves by the length of
each interruption of the replay, so that the gaps between the jobs stay; what counts from a submission does not. An action whose
instant counts from an event waits until the journal has that.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterable, Iterator, Set

from ..clock.clock import Clock
from ..clock.time_source import TimeSource
from .actions import ENDED, RESUBMITTED, START, SUBMITTED, Action, Event, Submit
from .journal import Journal

_ANCHORS = {SUBMITTED: SUBMITTED, RESUBMITTED: SUBMITTED, ENDED: ENDED}
"""The events from which instants of actions count, by the kinds of events in the journal."""


class Timeline:
    """The actions that are not done according to the journal, and appending to it what is done."""

    def __init__(self, actions: Iterable[Action], clock: Clock, journal: Journal, time: TimeSource) -> None:
        self._clock, self._journal, self._history, self._time = clock, journal, journal.history, time
        self._fixed: deque[Action] = deque()
        """Actions whose instants count from the start, in order."""
        self._after: dict[str, dict[int, list[Action]]] = {SUBMITTED: {}, ENDED: {}}
        """Actions whose instants count from an event, by that and by the index of its job; without those of ends that are known."""
        self._later: list[tuple[float, int, Action]] = []
        """Those whose event the journal has: (instant, order of their coming, action), as a heap."""
        self._count = 0
        self._shift = self._history.shift
        for action in actions:
            if action.when.after == START:
                self._fixed.append(action)
            else:
                self._after[action.when.after].setdefault(action.when.index, []).append(action)
        for index in self._history.ended:
            self._add_those_after(ENDED, index)
        for index in self._history.submitted_at:
            self._add_those_after(SUBMITTED, index)

    # ---- instants ----

    def began(self) -> float | None:
        """Real instant of the run's start; None before it."""
        return float(self._history.start["real"]) if self._history.start else None

    def position(self, now: float) -> float:
        """Real seconds of the schedule that have passed at a real instant: since the start, without the interruptions."""
        return now - (self.began() or now) - self._history.shift

    def instant(self, action: Action) -> float:
        """When an action is due, whatever those before it took; infinite while the event from which that counts is not known."""
        when, history = action.when, self._history
        seconds = self._clock.virtual_to_real(when.seconds)
        if when.after == SUBMITTED:
            return history.submitted_at.get(when.index, math.inf) + seconds
        since = (self.began() or 0.0) if when.after == START else history.ended.get(when.index, math.inf)
        return since + seconds + history.shift

    # ---- what is next ----

    def next(self) -> tuple[float, Action | None]:
        """The action that is due next, with its instant; (infinite, None) if the instant of none is known."""
        candidates = [(self.instant(action), place, action) for place, action in enumerate(self._heads())]
        return min(candidates)[::2] if candidates else (math.inf, None)

    def take(self, action: Action) -> None:
        """Remove the action that is next, which is carried out now."""
        if self._fixed and self._fixed[0] is action:
            self._fixed.popleft()
        else:
            heapq.heappop(self._later)

    def submissions(self) -> Iterator[Submit]:
        """The submissions that count from the start and are not done, in order."""
        return (action for action in self._fixed if isinstance(action, Submit) and not self._is_done(action))

    def next_submission(self) -> Submit | None:
        """The job to submit next; None for none now."""
        later = [action for _, _, action in self._later if isinstance(action, Submit) and not self._is_done(action)]
        first = next(self.submissions(), None)
        return min([*([first] if first else []), *later], key=self.instant, default=None)

    @property
    def awaited_ends(self) -> Set[int]:
        """Indices of the jobs from whose ends, which the journal does not have, instants of actions count."""
        return self._after[ENDED].keys()

    def awaits_ends(self) -> bool:
        """Whether one of these jobs has been submitted."""
        return any(index in self._history.job_ids for index in self.awaited_ends)

    # ---- what is done ----

    def note(self, events: Iterable[Event]) -> None:
        """Journal events, those without an instant with the present one, and add the actions whose instants follow from them.

        Raises OSError with nothing added.
        """
        dated = [event if "real" in event else {**event, "real": self._time.now()} for event in events]
        if not dated:
            return
        self._journal.append_all(dated)
        for event in dated:
            if event["event"] in _ANCHORS:
                self._add_those_after(_ANCHORS[event["event"]], event["index"])

    def _heads(self) -> Iterator[Action]:
        """The first of the actions of either list that are not done."""
        if self._shift != self._history.shift:
            self._later = [(self.instant(action), place, action) for _, place, action in self._later]
            heapq.heapify(self._later)
            self._shift = self._history.shift
        while self._fixed and self._is_done(self._fixed[0]):
            self._fixed.popleft()
        # After another submission of its job an action is in the list a second time, with a later instant.
        while self._later and (self._is_done(self._later[0][2]) or self.instant(self._later[0][2]) > self._later[0][0]):
            heapq.heappop(self._later)
        yield from [*([self._fixed[0]] if self._fixed else []), *([self._later[0][2]] if self._later else [])]

    def _is_done(self, action: Action) -> bool:
        return self._history.is_done(action.event, action.index)

    def _add_those_after(self, anchor: str, index: int) -> None:
        """Add the actions whose instants count from this event of a job. A job ends once, but may be submitted again."""
        waiting = self._after[anchor]
        for action in waiting.pop(index, ()) if anchor == ENDED else waiting.get(index, ()):
            self._count += 1
            heapq.heappush(self._later, (self.instant(action), self._count, action))
