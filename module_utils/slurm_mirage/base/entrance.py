"""How a command enters the network of an instance: what `farm.network` gives to those who run commands of a resource manager."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Callable


@dataclass(frozen=True)
class Entrance:
    """Words before a command that enter namespaces, and the open descriptors that it has to inherit for that."""

    words: Sequence[str] = ()
    descriptors: Sequence[int] = ()


Enter = Callable[[], "AbstractContextManager[Entrance]"]
"""Opens the way in for one command. It is asked anew for each: the farm may have been started again."""


def here() -> AbstractContextManager[Entrance]:
    """The way in for a command that runs where its caller is."""
    return nullcontext(Entrance())
