"""Finds the aspects: the packages in `mirage_extras`, each of which adds something to the core that it can do without.

An aspect has a module for each room of the core to which it adds, with the name of that room: `knobs`, `experiment`, `simulate`,
`records`, `metrics`, `figures`, `verdict`, `page`. What such a module may have is written where the room uses it. The core names no
aspect, so that a folder of `mirage_extras` may be removed.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

PACKAGE = "mirage_extras"


@cache
def modules(room: str) -> tuple[ModuleType, ...]:
    """The modules `room` of all aspects that have one. Their packages' `PLACE` is their order in tables and pages."""
    if find_spec(PACKAGE) is None:
        return ()
    found = pkgutil.iter_modules(import_module(PACKAGE).__path__)
    packages = [import_module(f"{PACKAGE}.{one.name}") for one in found if one.ispkg]
    names = [f"{package.__name__}.{room}" for package in sorted(packages, key=lambda package: package.PLACE)]
    return tuple(import_module(name) for name in names if find_spec(name) is not None)


def offers(room: str, name: str) -> tuple[Any, ...]:
    """What the aspects have under this name in their modules `room`, in order; aspects without it are left out."""
    return tuple(getattr(module, name) for module in modules(room) if hasattr(module, name))
