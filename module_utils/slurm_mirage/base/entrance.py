"""How commands of a resource manager enter the network of an instance; `farm.network` implements it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Callable


@dataclass(frozen=True)
class Entrance:
    """Arguments that are put before a command and enter namespaces, and the open descriptors that they need."""

    words: Sequence[str] = ()
    descriptors: Sequence[int] = ()


Enter = Callable[[], "AbstractContextManager[Entrance]"]
"""Returns the entrance for one command. It is called for each command, because the farm may have been restarted."""


def here() -> AbstractContextManager[Entrance]:
    """The entrance for a command that runs in its caller's namespaces: an empty one."""
    return nullcontext(Entrance())
