"""The runs of a campaign that are left, handed out to several instances side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

Run = TypeVar("Run")


class RunQueue(Generic[Run]):
    """Hands out runs, each once. All methods may be called by several threads."""

    def __init__(
        self, runs: Iterable[Run], home_of: Callable[[Run], str | None], instances: Sequence[str], first_alone: bool = False
    ) -> None:
        """Runs that have begun come first, the others in the given order.

        home_of: the instance on which a run has begun and has to go on, None for any. instances: names of the instances for the
        other runs, as many as runs go on at once, the preferred ones first. first_alone: no other run begins until `open`.
        """
        self._changed = threading.Condition()
        self._left = sorted(((run, home_of(run)) for run in runs), key=lambda one: one[1] is None)
        self._instances = instances
        self._busy: dict[str, Run] = {}
        self._first_alone = first_alone
        self._is_open, self._is_closed = True, False

    def take(self) -> tuple[Run, str] | None:
        """The next run and its instance, which is busy until `give_back`; None if nothing is left for the caller to do.

        A run whose instance is busy is left to the thread that works with that instance.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._is_open or self._is_closed)
            free = next((name for name in self._instances if name not in self._busy), None)
            for place, (run, home) in enumerate([] if self._is_closed else self._left):
                name = home or free
                if name is not None and name not in self._busy:
                    del self._left[place]
                    self._busy[name] = run
                    self._is_open, self._first_alone = not self._first_alone, False
                    return run, name
            return None

    def give_back(self, instance: str) -> None:
        """The instance is free for another run, and the first run does not go on alone any longer."""
        with self._changed:
            self._busy.pop(instance, None)
            self._is_open = True
            self._changed.notify_all()

    def open(self) -> None:
        """Let the other runs begin."""
        with self._changed:
            self._is_open = True
            self._changed.notify_all()

    def close(self) -> None:
        """Hand out no further run."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    @property
    def waits(self) -> bool:
        """Whether the other runs wait for `open`."""
        with self._changed:
            return not (self._is_open or self._is_closed)

    @property
    def is_closed(self) -> bool:
        """Whether no further run is handed out, even if some are left."""
        with self._changed:
            return self._is_closed

    @property
    def going(self) -> dict[str, Run]:
        """The runs that go on, by instance."""
        with self._changed:
            return dict(self._busy)
