"""The screens of a campaign's runs: of one run at a time, and one for runs that go on side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table

from mirage.terminal.console import PlainConsole, text_of
from mirage.terminal.screen import Screen


class RunScreen(Screen):
    """A screen whose lines begin with the run of the campaign."""

    def __init__(self, screen: Screen, which: str) -> None:
        super().__init__(screen.stream, screen.between_lines)
        self.which = which

    def _titled(self, text: str) -> str:
        return f"{self.which}: {text.strip()}"

    def say_in_log(self, text: str) -> None:
        """Nothing: lines about each play of each run would hide those about the runs' ends."""


class SharedScreen:
    """One screen for runs side by side: a live line for each instance with a run, below the permanent lines of all runs.

    Without a terminal, one line has the state of all runs from time to time, as `Screen.live` writes it.
    """

    def __init__(self, screen: Screen, foot: Callable[[], str]) -> None:
        """foot: the last live line, about the campaign as a whole."""
        self._screen, self._foot = screen, foot
        self._lock = threading.RLock()
        self._lines: dict[str, tuple[str, str]] = {}  # by instance: its run, and what it does
        self._live: Live | None = None

    def __enter__(self) -> SharedScreen:
        if self._screen.is_terminal:
            console = PlainConsole(self._screen.stream)
            self._live = Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False)
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with self._lock:
            if self._live is not None:
                with suppress(OSError):  # the terminal was closed
                    self._live.stop()
            self._live = None

    def of_run(self, instance: str, which: str) -> Screen:
        """The screen of a run on an instance, which has one run at a time."""
        return _PartOfScreen(self, self._screen, instance, which)

    def say(self, *lines: str) -> None:
        """Write permanent lines."""
        with self._lock:
            if self._live is None:
                self._screen.say(*lines)
                return
            with suppress(OSError):
                for line in lines:
                    self._live.console.print(line, soft_wrap=True)
            self._refresh()

    def show(self, instance: str, which: str, text: str) -> None:
        """Show what a run does; an empty text removes its line."""
        with self._lock:
            self._lines[instance] = (which, text)
            if not text:
                del self._lines[instance]
            self._refresh()

    def _refresh(self) -> None:
        if self._live is not None:
            with suppress(OSError):
                self._live.update(self._table(), refresh=True)
        elif self._lines:
            parts = [f"{which}: {text}" for _, (which, text) in sorted(self._lines.items())]
            self._screen.live("; ".join([self._foot(), *parts]))

    def _table(self) -> RenderableType:
        table = Table.grid(padding=(0, 2))
        for _ in range(2):
            table.add_column(no_wrap=True)
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        for instance, (which, text) in sorted(self._lines.items(), key=lambda one: (len(one[0]), one[0])):
            table.add_row(instance, which, text)
        return Group(table, text_of(self._foot(), no_wrap=True, overflow="ellipsis"))


class _PartOfScreen(RunScreen):
    """The part of a shared screen that belongs to one run."""

    def __init__(self, shared: SharedScreen, screen: Screen, instance: str, which: str) -> None:
        super().__init__(screen, which)
        self._shared, self._instance = shared, instance

    def tell(self, text: str) -> None:
        self.say(text)

    def say(self, *lines: str) -> None:
        """Write permanent lines, of which the first one names the run."""
        self._shared.say(*([f"{self.which}: {lines[0]}"] if len(lines) == 1 else [f"{self.which}:", *lines]))

    def live(self, text: str, in_log: str | None = None) -> None:
        self._shared.show(self._instance, self.which, text.strip())

    def clear(self) -> None:
        self._shared.show(self._instance, self.which, "")
