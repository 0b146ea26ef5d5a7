"""Linux's Landlock, by system calls: from then on the calling thread and its children use only the files of some rules.

https://docs.kernel.org/userspace-api/landlock.html. Landlock does not restrict chmod(2), chown(2) and connect(2) to a socket in the
file system; the user id of the process has to.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable
from pathlib import Path

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on all architectures
_VERSION = 1  # LANDLOCK_CREATE_RULESET_VERSION
_BELOW = 1  # LANDLOCK_RULE_PATH_BENEATH
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
# Bits of rights to files, by the version of the interface that has them: REFER came with 2, TRUNCATE with 3, IOCTL_DEV with 5.
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 5: 16}
_TCP, _TCP_SINCE = 0b11, 4  # bind and connect
_SCOPES, _SCOPES_SINCE = 0b11, 6  # abstract sockets and signals
_OF_FOLDERS = ~(_EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE)

_libc = ctypes.CDLL(None, use_errno=True)


def _call(number: int, *arguments: object) -> int:
    result = int(_libc.syscall(number, *arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def version() -> int:
    """Version of the kernel's interface; 0 without Landlock."""
    try:
        return _call(_CREATE_RULESET, None, 0, _VERSION)
    except OSError:
        return 0


class Rules:
    """The rules of a process. Without Landlock they do nothing."""

    def __init__(self) -> None:
        self._version = version()
        if not self._version:
            return
        rights = max(bits for since, bits in _FILE_RIGHTS.items() if since <= self._version)
        self._handled = (1 << rights) - 1
        tcp = _TCP if self._version >= _TCP_SINCE else 0
        scopes = _SCOPES if self._version >= _SCOPES_SINCE else 0
        # Earlier versions know a shorter structure, and accept a longer one whose rest is zero.
        attributes = struct.pack("=QQQ", self._handled, tcp, scopes)
        self._ruleset = _call(_CREATE_RULESET, attributes, len(attributes), 0)

    def read(self, paths: Iterable[Path | str]) -> None:
        """Allow reading and running these files, and those below these folders."""
        for path in paths:
            self._allow(path, _EXECUTE | _READ_FILE | _READ_DIR)

    def list(self, paths: Iterable[Path | str]) -> None:
        """Allow reading the names in these folders, and in those below them."""
        for path in paths:
            self._allow(path, _READ_DIR)

    def write(self, paths: Iterable[Path | str]) -> None:
        """Allow everything with these files, and below these folders."""
        for path in paths:
            self._allow(path, -1)

    def _allow(self, path: Path | str, rights: int) -> None:
        """Add a rule for a file or a folder. One that does not exist, or that cannot be reached, gets none."""
        if not self._version:
            return
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            return
        try:
            rights &= self._handled if os.path.isdir(descriptor) else self._handled & ~_OF_FOLDERS  # noqa: PTH112
            if rights:  # names in a file: nothing
                _call(_ADD_RULE, self._ruleset, _BELOW, struct.pack("=Qi", rights, descriptor), 0)
        finally:
            os.close(descriptor)

    def enforce(self) -> None:
        """Restrict the calling thread to the rules for ever. It must not be able to gain rights (PR_SET_NO_NEW_PRIVS)."""
        if self._version:
            _call(_RESTRICT_SELF, self._ruleset, 0)
            os.close(self._ruleset)
