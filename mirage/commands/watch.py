"""`make watch`: a live screen about an instance on this machine, until q or Ctrl-C."""

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
from mirage.knobs.parse import Value
from mirage.knobs.table import BY_NAME
from mirage.terminal.figures import Row, rows
from mirage.terminal.live_state import LiveLook, Point
from mirage.terminal.screen import Screen, about
from mirage.terminal.status import line
from slurm_mirage.base.errors import WrongUse

EVERY = 2.0
"""Seconds between two looks."""
PLAIN_EVERY = 10.0
"""The same without a terminal, where each screen stays."""
SILENT = 10.0
"""Seconds without a sign of life of a replay, which gives one every second, that are told."""
WIDEST = 120
"""Columns that the screen takes at most: longer lines are not read."""
FOOT = "q ends this screen; what it shows goes on"
MINUTES = (1, 2, 5, 10)
"""Lengths that the histories may have: the shortest that holds what is known."""
LABEL = 9
BLOCKS = " ▁▂▃▄▅▆▇█"
PLAIN_BLOCKS = " ._-=+*%#"
"""For terminals that cannot show the others."""
LEAVE = {b"q", b"Q", b"\x03"}


def watch(knobs: dict[str, Value], screen: Screen) -> Ending:
    """Show the instance CLUSTER until the user has seen enough. Raises WrongUse when there is none on this machine."""
    cluster, directory = str(knobs["CLUSTER"]), preflight.instance_directory(knobs)
    if preflight.inventory(knobs) != ROOT / BY_NAME["INVENTORY"].default:
        raise WrongUse(
            "make watch reads the files of an instance on this machine; make status asks another one", parameter="inventory"
        )
    look = LiveLook(directory)
    if not look.is_there():
        raise WrongUse(
            f"there is no cluster {cluster} on this machine; make cluster CLUSTER={cluster} builds it", parameter="cluster"
        )
    with interruptible() as asked:
        if screen.is_terminal:
            _on_terminal(look, cluster, asked.is_set)
        else:
            _plain(look, cluster, asked.is_set)
    if not look.is_there():
        return Ending("ok", f"cluster {cluster} is gone")
    return Ending("ok", f"cluster {cluster} was watched; nothing in it has changed")


# ---- the loops ----


def _on_terminal(look: LiveLook, cluster: str, asked: Callable[[], bool]) -> None:
    console = Console(highlight=False)
    with keys() as pressed, Live(console=console, screen=True, auto_refresh=False) as live:
        seen, due = look.look(), time.monotonic() + EVERY
        while seen is not None and look.is_there():
            info, progress = seen
            title = heading(cluster, look.goes_on, progress)
            live.update(page(title, all_rows(info, progress), look.past, console), refresh=True)
            # None: another size of the terminal, so the same is drawn again.
            key = pressed(max(0.0, due - time.monotonic()))
            if key in LEAVE or asked():
                return
            if time.monotonic() >= due:
                seen, due = look.look(), time.monotonic() + EVERY


def _plain(look: LiveLook, cluster: str, asked: Callable[[], bool]) -> None:
    """A screen now and then, until someone asks for the end or nobody reads any more."""
    look.look()  # the processors' load is that between two looks
    try:
        while not asked() and look.is_there():
            time.sleep(1.0)
            if (seen := look.look()) is None:
                return
            title = heading(cluster, look.goes_on, seen[1])
            print("\n".join([title, *(line(row) for row in all_rows(*seen))]), end="\n\n", flush=True)
            until = time.monotonic() + PLAIN_EVERY
            while not asked() and time.monotonic() < until:
                time.sleep(0.2)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def keys() -> Iterator[Callable[[float], bytes | None]]:
    """While it lasts, keys are read one by one, Ctrl-C too, and not shown. Yields a function that waits for one, so many seconds at
    most; it ends early, without a key, at a signal.

    Ctrl-C as a key reaches nobody else: make, which waits for this program, would call an interruption an error.
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
            # No byte: the terminal is gone.
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
    """What the cluster is at."""
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
    """The rows of make status, the verdict on a run that is over, and the host's load."""
    verdict = info.get("verdict")
    judged = [Row("verdict", verdict, urgent=verdict != "valid")] if verdict else []
    return [
        *rows(info, progress),
        *judged,
        Row("host", f"{100 * info['cpu_busy']:.0f} % of {os.cpu_count()} processors", info["cpu_busy"]),
    ]


def page(title: str, shown: Sequence[Row], past: Sequence[Point], console: Console) -> RenderableType:
    """The whole screen, as wide as the terminal. What does not fit in its height is cut off, the histories before the foot."""
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
    top = Text(title, style="bold", no_wrap=True, overflow=overflow)
    rule = Rule(style="dim", characters="─" if is_rich else "-")
    return Group(top, rule, table, Text(FOOT, style="dim", no_wrap=True, overflow="crop"))


def _drawn(row: Row, width: int, blocks: str) -> Text:
    text = Text(row.text, style="bold red" if row.urgent else "")
    if row.part is None:
        return text
    cells = min(30, width // 3)
    full = round(cells * min(1.0, row.part))
    bar = Text(blocks[-1] * full, style="cyan") + Text(("·" if blocks is BLOCKS else ".") * (cells - full), style="dim")
    return bar + Text(" ") + text


def _history(values: Sequence[tuple[float, float]], width: int, blocks: str) -> Text:
    """The last minutes as a line of blocks, and what the highest one stands for."""
    highest, now = max((value for _, value in values), default=0.0), time.time()
    age = now - values[0][0] if values else 0.0
    span = next((minutes for minutes in MINUTES if age <= 60 * minutes), MINUTES[-1])
    told = f" 0 to {highest:.0f} in {span} min"
    return Text(sparkline(values, now, 60.0 * span, max(10, width - len(told)), blocks), style="cyan") + Text(told)


def sparkline(values: Sequence[tuple[float, float]], now: float, span: float, width: int, blocks: str = BLOCKS) -> str:
    """A character for each of `width` equal parts of the `span` seconds before `now`: the highest of the values (instant, value)
    in it, or the last one before it; blank before the first. 0 is the lowest block, the highest value of all the highest."""
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
