"""Finds the aspects: the packages in `mirage_extras`, each of which adds something to the core that it can do without.

An aspect has a module for each part of the core to which it adds: `knobs`, `experiment`, `simulate`, `records`, `metrics`,
`figures`, `verdict`, `page`, `configuration`, `studies`, `benchmarks`. What such a module may have is written where the core uses
it. The core names no aspect, so that a folder of `mirage_extras` may be removed. Its part on hosts: slurm_mirage.extras.
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
def modules(module: str) -> tuple[ModuleType, ...]:
    """The modules of this name of all aspects that have one. Their packages' `PLACE` is their order in tables and pages."""
    if find_spec(PACKAGE) is None:
        return ()
    found = pkgutil.iter_modules(import_module(PACKAGE).__path__)
    packages = [import_module(f"{PACKAGE}.{one.name}") for one in found if one.ispkg]
    names = [f"{package.__name__}.{module}" for package in sorted(packages, key=lambda package: package.PLACE)]
    return tuple(import_module(name) for name in names if find_spec(name) is not None)


def offers(module: str, name: str) -> tuple[Any, ...]:
    """The members `name` of these modules of the aspects, in order; a module without the member is left out."""
    return tuple(getattr(one, name) for one in modules(module) if hasattr(one, name))


def listed(module: str, name: str) -> tuple[Any, ...]:
    """The items of these members, which are sequences."""
    return tuple(item for items in offers(module, name) for item in items)


def merged(module: str, name: str, *arguments: Any) -> dict[str, Any]:
    """The mappings that these members, which are functions, return for the arguments, as one."""
    return {key: value for function in offers(module, name) for key, value in function(*arguments).items()}
