"""The runs of a campaign that are left, handed out to several instances side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

Run = TypeVar("Run")


class RunQueue(Generic[Run]):
    """Hands out runs, each once. All methods may be called by several threads."""

    def __init__(
        self,
        runs: Iterable[Run],
        home_of: Callable[[Run], str | None],
        instances: Sequence[str],
        first_alone: bool = False,
        arm_of: Callable[[Run], str] | None = None,
    ) -> None:
        """Runs that have begun come first, the others in the given order.

        arm_of: the arm of a comparison that a run belongs to. An instance then goes on with the arm of its run before, whose
        cluster it has, as long as runs of it are left.

        home_of: the instance on which a run has begun and has to go on, None for any. instances: names of the instances for the
        other runs, as many as runs go on at once, the preferred ones first. first_alone: no other run begins until `open`.
        """
        self._changed = threading.Condition()
        self._left = sorted(((run, home_of(run)) for run in runs), key=lambda one: one[1] is None)
        self._instances = instances
        self._busy: dict[str, Run] = {}
        self._arm_of = arm_of
        self._arms: dict[str, str] = {}
        self._first_alone = first_alone
        self._is_open, self._is_closed = True, False

    def take(self) -> tuple[Run, str] | None:
        """The next run and its instance, which is busy until `give_back`; None if nothing is left for the caller to do.

        A run whose instance is busy is left to the thread that works with that instance.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._is_open or self._is_closed)
            free = next((name for name in self._instances if name not in self._busy), None)
            for run, home in [] if self._is_closed else self._in_order(free):
                name = home or free
                if name is not None and name not in self._busy:
                    self._left.remove((run, home))
                    self._busy[name] = run
                    if self._arm_of is not None:
                        self._arms[name] = self._arm_of(run)
                    self._is_open, self._first_alone = not self._first_alone, False
                    return run, name
            return None

    def _in_order(self, instance: str | None) -> list[tuple[Run, str | None]]:
        """The runs that are left, in the order in which this instance prefers them."""
        arm_of = self._arm_of
        if arm_of is None or instance is None:
            return self._left
        own, others = self._arms.get(instance), {arm for name, arm in self._arms.items() if name != instance}

        def rank(one: tuple[Run, str | None]) -> int:
            run, home = one
            if home is not None:
                return 0
            arm = arm_of(run)
            return 1 if arm == own else 3 if arm in others else 2

        return sorted(self._left, key=rank)

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
