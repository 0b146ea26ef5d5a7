"""A file of JSON objects, one on a line, that is only ever appended to, each line by one write: a journal that survives a kill."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from . import strict_json
from .strict_json import OBJECT, NotStrict


class JsonLines:
    """The file of an open descriptor, which has to be open for reading and appending."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            os.write(descriptor, b"\n")  # the last line was torn, by a full disk or the end of the host

    def append(self, entry: Mapping[str, Any]) -> None:
        """Append an object. Raises OSError, as on a full disk, with nothing added."""
        line = (json.dumps(entry) + "\n").encode()
        size = os.fstat(self._descriptor).st_size
        if os.write(self._descriptor, line) != len(line):
            os.ftruncate(self._descriptor, size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def entries(self) -> Iterator[Mapping[str, Any]]:
        """The objects so far. A line that is not a JSON object, such as a torn one, is left out."""
        with os.fdopen(os.dup(self._descriptor), "rb") as file:
            file.seek(0)
            for line in file:
                with suppress(NotStrict):
                    yield strict_json.parse(line, OBJECT)

    def clear(self) -> None:
        """Remove all objects."""
        os.ftruncate(self._descriptor, 0)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)
