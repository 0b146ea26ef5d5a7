"""What the extras run on hosts: each package here is a link to the folder `host` of an extra in mirage_extras.

An extra's folder may be removed. So the core imports a package of it inside of `if_there`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def if_there() -> Iterator[None]:
    """Leave out the rest of the block if it imports from an extra that is not there."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").rpartition(".")[0] != __name__:
            raise
