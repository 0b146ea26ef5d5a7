"""The resource manager of an instance, for tools on its host: Ansible modules and the screens of make."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ..farm.network import entrance, has_network
from ..rm.api import Commands
from ..rm.managers import manager_of
from ..rm.registry import tools
from .instance import commands_of


def manager_at(
    directory: Path, programs: Path | str | None = None, query_timeout: float | None = None, become: Sequence[str] = ()
) -> Commands:
    """The resource manager of the instance in `directory`. Raises WrongUse.

    programs: folder of its commands, by default that of the release that the farm runs
    query_timeout: real seconds after which a query ends, by default the manager's own
    become: words before each command, such as sudo
    """
    further: dict[str, Any] = {} if query_timeout is None else {"query_timeout": query_timeout}
    if has_network(directory):
        further["enter"] = partial(entrance, directory)
    return tools(manager_of(directory)).of_instance(directory, programs or commands_of(directory), become=become, **further)
