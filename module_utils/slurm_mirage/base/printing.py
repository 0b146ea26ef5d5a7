"""Prints text on terminals and in logs. A stranger may have written any part of it, in a slurm.conf, a log, an archive, an answer.

What prints lines uses `one_line`: `say` here, `base.log_file`, `terminal.screen` and `terminal.console`.
Markdown is made by `mirage.text.markdown`. Files of data (JSON, CSV, SWF) hold all text letter by letter.
"""

from __future__ import annotations

import re
from typing import TextIO

LONGEST = 4000
"""Characters of a printed line, at most."""
_UNSEEN = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
"""Fillers and selectors of variants, which no one sees, though `str.isprintable` takes them for printable."""
_COMMAND = re.compile(r"^(?= *::.*::)|(?<=#)(?=#\w*\[)")
"""Where a backslash breaks a command to the system of continuous integration that reads the log: `::error::words` at the beginning
of a line, `##[error]words` or `##vso[task.setvariable]` anywhere in it."""
_MARK = " ... ({:,} characters more)"
_ROOM = len(_MARK.format(10**9))


def one_line(text: str, most: int | None = LONGEST) -> str:
    """The text as one line of printable characters, which commands no program that reads it.

    Escaped as in Python (`\\x1b`, `\\n`, `\\u202e`): control characters, characters that no one sees or that turn the direction of
    writing, and surrogates without a partner. A backslash breaks commands in logs. All else stays as it is, also backslashes and
    escapes, so a line may be given again.

    most: characters of the result; the last ones say how many are left out. None for all
    """
    if not text.isprintable():
        text = "".join(each if each.isprintable() else _escape(each) for each in text)
    text = _COMMAND.sub(r"\\", _UNSEEN.sub(lambda found: _escape(found[0]), text))
    if most is None or len(text) <= most:
        return text
    kept = max(most - _ROOM, 0)
    return f"{text[:kept]}{_MARK.format(len(text) - kept)}"


def log_text(text: str) -> str:
    """Text of several lines for a log, such as the output of a program: each line as `one_line` has it, at any length."""
    return "\n".join(one_line(line, None) for line in text.replace("\r\n", "\n").split("\n"))


def say(*lines: str, file: TextIO | None = None) -> None:
    """Print each text as one line, to standard output or another file."""
    print(*map(one_line, lines), sep="\n", file=file, flush=True)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()
