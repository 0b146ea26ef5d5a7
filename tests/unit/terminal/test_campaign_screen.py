"""One screen for runs side by side: in a pipe, and on a real terminal."""

from __future__ import annotations

import io
import os
import pty
import re
from contextlib import suppress

from mirage.terminal.campaign_screen import SharedScreen
from mirage.terminal.screen import Screen


def test_in_a_pipe_one_line_tells_of_all_runs() -> None:
    stream = io.StringIO()
    with SharedScreen(Screen(stream, between_lines=0), lambda: "1 of 4 runs finished") as shared:
        first, second = shared.of_run("c", "run 2 of 4, fifo-1"), shared.of_run("c-2", "run 3 of 4, fifo-2")
        first.live("replay: 3/9 submitted")
        second.live("  slurm: Install")
        first.say_in_log("  Build: 70 tasks")
        first.tell("ok: 9 jobs")
        second.say("a table", "of two lines")
        first.clear()
        second.live("replay: 1/9 submitted")
    assert stream.getvalue().splitlines() == [
        "1 of 4 runs finished; run 2 of 4, fifo-1: replay: 3/9 submitted",
        "1 of 4 runs finished; run 2 of 4, fifo-1: replay: 3/9 submitted; run 3 of 4, fifo-2: slurm: Install",
        "run 2 of 4, fifo-1: ok: 9 jobs",
        "run 3 of 4, fifo-2:",
        "a table",
        "of two lines",
        "1 of 4 runs finished; run 3 of 4, fifo-2: slurm: Install",
        "1 of 4 runs finished; run 3 of 4, fifo-2: replay: 1/9 submitted",
    ]


def test_a_pipe_gets_few_lines() -> None:
    stream = io.StringIO()
    with SharedScreen(Screen(stream, between_lines=60), lambda: "0 of 2 runs finished") as shared:
        for number in range(100):
            shared.of_run("c", "run 1 of 2").live(f"replay: {number}/100 submitted")
    assert stream.getvalue() == ""


def test_a_terminal_has_a_line_for_each_instance_below_what_was_said() -> None:
    reader, writer = pty.openpty()
    with os.fdopen(writer, "w") as stream:
        screen = Screen(stream)
        assert screen.is_terminal
        with SharedScreen(screen, lambda: "1 of 4 runs finished") as shared:
            shared.of_run("c-10", "run 3 of 4").live("ten")
            shared.of_run("c-2", "run 2 of 4").live("two [bold] of 9")
            shared.of_run("c-2", "run 2 of 4").tell("ok: 9 jobs [markup]")
            shared.of_run("c-2", "run 2 of 4").clear()
        screen.say("the end")
    data = b""
    while not data.endswith(b"the end\r\n"):  # a busy kernel hands over parts
        data += os.read(reader, 1 << 20)
    os.close(reader)
    shown = data.decode()
    # Each picture ends by going back to its first line.
    pictures = re.split(r"(?:\r\x1b\[2K|\x1b\[1A\x1b\[2K)+", re.sub(r"\x1b\[\?25[lh]", "", shown))
    told = [[line.strip() for line in picture.splitlines()] for picture in pictures]
    assert told[0] == ["c-10  run 3 of 4  ten", "1 of 4 runs finished"]
    assert told[1] == ["c-2   run 2 of 4  two [bold] of 9", "c-10  run 3 of 4  ten", "1 of 4 runs finished"]
    assert told[2] == ["run 2 of 4: ok: 9 jobs [markup]", *told[1]]
    assert told[0] in told[3:], "the line of the other instance is gone"
    assert told[-1] == ["the end"]


def test_only_the_screen_itself_moves_the_cursor() -> None:
    strange = "\x1b[2J\r\n::error::a\x9b\u202e"
    reader, writer = pty.openpty()
    with os.fdopen(writer, "w") as stream:
        screen = Screen(stream)
        screen.live(strange)
        with SharedScreen(screen, lambda: f"1 of 4 {strange}") as shared:
            shared.of_run("c", f"run {strange}").live(strange)
            shared.of_run("c", f"run {strange}").say(strange, strange)
        screen.say("the end")
    data = b""
    while not data.endswith(b"the end\r\n"):
        data += os.read(reader, 1 << 20)
    os.close(reader)
    shown = data.decode()
    assert "\\x1b[2J\\r\\n::error::a\\x9b\\u202e" in shown
    assert "\x1b[2J" not in shown and "\x9b" not in shown and "\u202e" not in shown
    assert set(re.findall(r"\x1b\[[0-9;?]*[A-Za-z]", shown)) <= {"\x1b[K", "\x1b[2K", "\x1b[1A", "\x1b[?25l", "\x1b[?25h"}


def test_a_terminal_that_was_closed_does_not_end_the_runs() -> None:
    reader, writer = pty.openpty()
    stream = os.fdopen(writer, "w")
    with SharedScreen(Screen(stream), lambda: "1 of 4 runs finished") as shared:
        os.close(reader)
        shared.of_run("c", "run 1 of 4").live("replay: 3/9 submitted")
        shared.of_run("c", "run 1 of 4").tell("ok: 9 jobs")
    with suppress(OSError):
        stream.close()
