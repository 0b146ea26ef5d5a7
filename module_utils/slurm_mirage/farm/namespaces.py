"""Whose namespaces root may enter."""

from __future__ import annotations

from pathlib import Path


def may_enter(pid: int, name: str) -> bool:
    """Return whether process `pid` is in another namespace of the kind `name` (net, mnt, uts) that root may enter.

    Root's own user namespace has to be that of the process, too. A user of the host cannot have made a namespace there, which takes
    a capability, but anything in a user namespace of his own.
    """
    try:
        return _is_shared(pid, "user") and not _is_shared(pid, name)
    except OSError:
        return False


def _is_shared(pid: int, name: str) -> bool:
    """Return whether process `pid` is in this process's namespace of this kind."""
    return Path(f"/proc/self/ns/{name}").samefile(f"/proc/{pid}/ns/{name}")
