"""What the extras run on hosts: each package here is a link to the folder `host` of an extra in mirage_extras.

An extra has a module for each part of the core to which it adds: `configuration`, `daemons`, `kinds`, `plan`, `records`, `replay`,
`run_json`. What such a module may have is written where the core uses it. The folder of an extra may be removed. The core imports
a package of it inside of `if_there`, or finds its modules by `offers`.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ..base.errors import WrongUse

if TYPE_CHECKING:
    # The extras that there may be. Ansible ships what statements import, and what is not at the top level may be absent.
    from . import filler, malleable, sandbox  # noqa: F401


@contextmanager
def if_there() -> Iterator[None]:
    """Leave out the rest of the block if it imports from an extra that is not there."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").rpartition(".")[0] != __name__:
            raise


@cache
def _offers(module: str, name: str) -> dict[str, Any]:
    """The member `name` of the module of each extra that has it, by the extra's name."""
    found = {}
    for extra in [each.name for each in pkgutil.iter_modules(__path__) if each.ispkg]:
        path = f"{__name__}.{extra}.{module}"
        if find_spec(path) is not None and hasattr(one := import_module(path), name):
            found[extra] = getattr(one, name)
    return found


def offers(module: str, name: str) -> tuple[Any, ...]:
    """The members `name` of these modules of the extras."""
    return tuple(_offers(module, name).values())


def listed(module: str, name: str) -> tuple[Any, ...]:
    """The items of these members, which are sequences."""
    return tuple(item for items in offers(module, name) for item in items)


def merged(module: str, name: str) -> dict[str, Any]:
    """The entries of these members, which are mappings."""
    return {key: value for entries in offers(module, name) for key, value in entries.items()}


def wanted(module: str, name: str, settings: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """These members, and the settings of their extras, of those extras that a cluster has.

    settings: of these extras, by name. Raises WrongUse for an extra that is not there.
    """
    there = {each.name for each in pkgutil.iter_modules(__path__)}
    if absent := sorted(set(settings) - there):
        raise WrongUse(f"there is no folder {absent[0]} in mirage_extras")
    return [(member, settings[extra]) for extra, member in _offers(module, name).items() if extra in settings]
