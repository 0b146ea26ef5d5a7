"""The last messages of a daemon that has ended, from its logs, and what to do about some of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from ..base.printing import one_line

LONGEST = 400  # characters of the last words
READ = 8000  # bytes that are read at the end of a log
NO_WORDS = "no error in its log"
BY_SIGNAL = "ended by signal"

# Slurm: `slurmctld: fatal: text`, or `[time] fatal: text` in its log. munged: `munged: Error: text`. mariadbd: `time [ERROR] text`.
_FATAL = re.compile(r"(?:^|\s)((?:fatal|Emergency|Alert|Critical): .*|\[ERROR\] .*)")
_ERROR = re.compile(r"(?:^|\s)((?:error|Error): .*)")
_ADVICE = (
    (
        re.compile(r"keyfile|subkey", re.IGNORECASE),
        "remove {directory}/etc/munge.key and run `make cluster`, which makes a new key",
    ),
    (
        re.compile(r"(job|node|part|trigger|resv|assoc|fed)\w* state|start with '-i'|state save file", re.IGNORECASE),
        "move the files of StateSaveLocation (see {directory}/etc/slurm.conf) away (the jobs are lost), or run `make teardown`",
    ),
    (
        re.compile(r"no space left|disk quota exceeded", re.IGNORECASE),
        "free some space below {directory}",
    ),
    (
        re.compile(r"option has been removed|process configuration file|unrecognized key|parse error|invalid .*=", re.IGNORECASE),
        "{directory}/etc/slurm.conf has a setting that this release refuses: take it out of CONFIG or SLURM_CONF",
    ),
)


def last_words(logs: Iterable[tuple[Path, int]]) -> str:
    """Return the message that most likely says why a daemon ended: the last fatal one, after the errors directly before it; without
    a fatal one, the last error; NO_WORDS without either.

    `logs` are its files, each with the number of bytes that it had when the daemon was started. The first file with a message
    counts.
    """
    for path, start in logs:
        with suppress(OSError):
            if words := _words(_end_of(path, start).splitlines()):
                return one_line(words, LONGEST)
    return NO_WORDS


def advice(message: str, directory: Path) -> str:
    """What the user can do after a daemon of the instance in `directory` has ended with `message`, to be appended to a sentence.

    Empty if that is not known, as after a signal: the last error in the log may have another cause.
    """
    if message.startswith(BY_SIGNAL):
        return ""
    return next((f"; {text.format(directory=directory)}" for pattern, text in _ADVICE if pattern.search(message)), "")


def _end_of(path: Path, start: int) -> str:
    with path.open("rb") as stream:
        size = stream.seek(0, 2)
        # A file that is shorter than it was has been begun anew.
        stream.seek(max(start if start <= size else 0, size - READ))
        return stream.read(READ).decode(errors="replace")


def _words(lines: list[str]) -> str:
    for number in range(len(lines) - 1, -1, -1):
        if fatal := _FATAL.search(lines[number]):
            before: list[str] = []
            while number > 0 and len(before) < 2 and (error := _ERROR.search(lines[number - 1])):
                before.insert(0, error[1].strip())
                number -= 1
            return "; ".join([*before, fatal[1].strip()])
    return next((error[1].strip() for line in reversed(lines) if (error := _ERROR.search(line))), "")
