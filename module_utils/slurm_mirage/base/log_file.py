"""The log of a program, in which each message is one line: a host or a user may have written parts of it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from .printing import log_text, one_line


def begin_log(path: Path) -> None:
    """Write what this program logs to a file, unless it is written elsewhere already."""
    handler = logging.FileHandler(path, delay=True)
    handler.setFormatter(_Lines("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.INFO)


class _Lines(logging.Formatter):
    """Writes each message as one line, and a stack trace below it."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return one_line(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:
        return log_text(super().formatException(ei))
