"""`make watch`: shows a live screen of an instance on this machine, until q or Ctrl-C."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group, OverflowMethod, RenderableType
from rich.live import Live
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from mirage import ROOT
from mirage.experiment import preflight
from mirage.experiment.endings import Ending
from mirage.experiment.playbook import interruptible
from mirage.knobs.knobs import Knobs
from mirage.knobs.table import BY_NAME
from mirage.terminal.console import PlainConsole, text_of
from mirage.terminal.figures import Row, rows
from mirage.terminal.live_state import LiveState, Point
from mirage.terminal.screen import Screen
from mirage.terminal.status import line
from mirage.text.words import about
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.printing import say

EVERY = 2.0
"""Seconds between two updates."""
PLAIN_EVERY = 10.0
"""Seconds between two updates without a terminal, where every screen is printed below the last one."""
SILENT = 10.0
"""Seconds without progress of a replay after which this is shown. A replay reports its progress every second."""
WIDEST = 120
"""Largest width of the screen in columns."""
FOOT = "q closes this screen; the run continues"
MINUTES = (1, 2, 5, 10)
"""Lengths of the histories in minutes. The shortest one that holds all known values is used."""
LABEL = 9
BLOCKS = " ▁▂▃▄▅▆▇█"
PLAIN_BLOCKS = " ._-=+*%#"
"""Blocks for terminals without Unicode."""
LEAVE = {b"q", b"Q", b"\x03"}


def watch(knobs: Knobs, screen: Screen) -> Ending:
    """Show the instance CLUSTER until the user ends the screen. Raises WrongUse if it does not exist on this machine."""
    cluster, directory = knobs.cluster.name, preflight.instance_directory(knobs.cluster)
    if preflight.inventory(knobs.cluster) != ROOT / BY_NAME["INVENTORY"].default:
        raise WrongUse(
            "make watch reads the files of an instance on this machine; make status asks another one", parameter="inventory"
        )
    state = LiveState(directory)
    if not state.is_there():
        raise WrongUse(
            f"there is no cluster {cluster} on this machine; make cluster CLUSTER={cluster} builds it", parameter="cluster"
        )
    with interruptible() as asked:
        if screen.is_terminal:
            _on_terminal(screen, state, cluster, asked.is_set)
        else:
            _plain(state, cluster, asked.is_set)
    if not state.is_there():
        return Ending("ok", f"cluster {cluster} is gone")
    return Ending("ok", f"cluster {cluster} was watched; nothing in it has changed")


# ---- the loops ----


def _on_terminal(screen: Screen, state: LiveState, cluster: str, asked: Callable[[], bool]) -> None:
    console = PlainConsole(screen.stream)
    with keys() as pressed, Live(console=console, screen=True, auto_refresh=False) as live:
        reading, due = state.read(), time.monotonic() + EVERY
        while reading is not None and state.is_there():
            info, progress = reading
            title = heading(cluster, state.run_is_active, progress)
            live.update(page(title, all_rows(info, progress), state.past, console), refresh=True)
            # None: the size of the terminal has changed, and the screen is drawn again.
            key = pressed(max(0.0, due - time.monotonic()))
            if key in LEAVE or asked():
                return
            if time.monotonic() >= due:
                reading, due = state.read(), time.monotonic() + EVERY


def _plain(state: LiveState, cluster: str, asked: Callable[[], bool]) -> None:
    """Print a screen every PLAIN_EVERY seconds, until an interruption or until the reader closes the pipe."""
    state.read()  # the load is measured between two calls
    try:
        while not asked() and state.is_there():
            time.sleep(1.0)
            if (reading := state.read()) is None:
                return
            title = heading(cluster, state.run_is_active, reading[1])
            say(title, *(line(row) for row in all_rows(*reading)), "")
            until = time.monotonic() + PLAIN_EVERY
            while not asked() and time.monotonic() < until:
                time.sleep(0.2)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def keys() -> Iterator[Callable[[float], bytes | None]]:
    """Read single keys without echo. Yields a function that waits up to the given seconds for a key, and returns None at a signal.

    Ctrl-C is read as a key, so that it does not reach make, which would report the interruption as an error.
    """
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    before_wakeup = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    before_resize = signal.signal(signal.SIGWINCH, lambda *_: None)
    stdin = sys.stdin.fileno() if sys.stdin is not None and sys.stdin.isatty() else None
    before = termios.tcgetattr(stdin) if stdin is not None else None

    def wait(seconds: float) -> bytes | None:
        ready, _, _ = select.select([reader] if stdin is None else [reader, stdin], [], [], seconds)
        if reader in ready:
            os.read(reader, 4096)
        if stdin is not None and stdin in ready:
            # No byte: the terminal was closed.
            return os.read(stdin, 1) or b"q"
        return None

    try:
        if stdin is not None and before is not None:
            ours = termios.tcgetattr(stdin)
            ours[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG)
            termios.tcsetattr(stdin, termios.TCSADRAIN, ours)
        yield wait
    finally:
        if stdin is not None and before is not None:
            termios.tcsetattr(stdin, termios.TCSADRAIN, before)
        signal.signal(signal.SIGWINCH, before_resize)
        signal.set_wakeup_fd(before_wakeup)
        os.close(reader)
        os.close(writer)


# ---- the screen ----


def heading(cluster: str, goes_on: bool, progress: Mapping[str, Any] | None) -> str:
    """Title of the screen: the cluster, and the state of its run."""
    if progress is None:
        return f"cluster {cluster}: no run goes on"
    run, phase = progress.get("run", ""), progress.get("phase", "")
    if goes_on:
        silent = time.time() - (progress.get("real") or 0.0)
        return f"cluster {cluster}: run {run} goes on" + (f", silent for {about(silent)}" if silent > SILENT else "")
    if phase in ("finished", "failed", "stopped"):
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(progress.get("real") or 0))
        return f"cluster {cluster}: run {run} {'was ' if phase == 'stopped' else 'has '}{phase}, at {at}"
    return f"cluster {cluster}: the replay of run {run} does not run; the same make experiment goes on with it"


def all_rows(info: Mapping[str, Any], progress: Mapping[str, Any] | None) -> list[Row]:
    """Rows of make status, the verdict of a finished run, and the load of the host."""
    verdict = info.get("verdict")
    judged = [Row("verdict", verdict, urgent=verdict != "valid")] if verdict else []
    return [
        *rows(info, progress),
        *judged,
        Row("host", f"{100 * info['cpu_busy']:.0f} % of {os.cpu_count()} processors", info["cpu_busy"]),
    ]


def page(title: str, shown: Sequence[Row], past: Sequence[Point], console: Console) -> RenderableType:
    """The whole screen, as wide as the terminal. Rows that exceed its height are left out, the histories first; the foot stays."""
    width = min(console.size.width, WIDEST) - LABEL - 1
    is_rich = (console.encoding or "").startswith("utf")
    blocks = BLOCKS if is_rich else PLAIN_BLOCKS
    overflow: OverflowMethod = "ellipsis" if is_rich else "crop"
    table = Table.grid(padding=(0, 1))
    table.add_column(width=LABEL, style="dim", no_wrap=True)
    table.add_column(width=width, no_wrap=True, overflow=overflow)
    lines = [(row.label, _drawn(row, width, blocks)) for row in shown]
    lines.append(("queue", _history([(point.real, point.pending) for point in past], width, blocks)))
    lines.append(("busy", _history([(point.real, point.busy) for point in past if point.busy is not None], width, blocks)))
    for label, text in lines[: max(1, console.size.height - 4)]:
        table.add_row(label, text)
    top = text_of(title, style="bold", no_wrap=True, overflow=overflow)
    rule = Rule(style="dim", characters="─" if is_rich else "-")
    return Group(top, rule, table, text_of(FOOT, style="dim", no_wrap=True, overflow="crop"))


def _drawn(row: Row, width: int, blocks: str) -> Text:
    text = text_of(row.text, style="bold red" if row.urgent else "")
    if row.part is None:
        return text
    cells = min(30, width // 3)
    full = round(cells * min(1.0, row.part))
    bar = text_of(blocks[-1] * full, style="cyan") + text_of(("·" if blocks is BLOCKS else ".") * (cells - full), style="dim")
    return bar + text_of(" ") + text


def _history(values: Sequence[tuple[float, float]], width: int, blocks: str) -> Text:
    """The last minutes as a line of blocks, with the value of the highest block."""
    highest, now = max((value for _, value in values), default=0.0), time.time()
    age = now - values[0][0] if values else 0.0
    span = next((minutes for minutes in MINUTES if age <= 60 * minutes), MINUTES[-1])
    scale = f" 0 to {highest:.0f} in {span} min"
    line = sparkline(values, now, 60.0 * span, max(10, width - len(scale)), blocks)
    return text_of(line, style="cyan") + text_of(scale)


def sparkline(values: Sequence[tuple[float, float]], now: float, span: float, width: int, blocks: str = BLOCKS) -> str:
    """A line of `width` characters for the `span` seconds before `now`.

    Each character shows the largest of the values (instant, value) in its part of the time, or else the last one before it. It is
    blank before the first value. The lowest block is 0, the highest one is the largest of all values.
    """
    top = max((value for _, value in values), default=0.0) or 1.0
    cells: list[float | None] = [None] * width
    for instant, value in values:
        place = min(width - 1, int(width * (instant - now + span) / span))
        if place >= 0:
            cells[place] = max(value, cells[place] or 0.0)
    line, last = "", None
    for cell in cells:
        last = cell if cell is not None else last
        line += " " if last is None else blocks[1 + round((len(blocks) - 2) * last / top)]
    return line
