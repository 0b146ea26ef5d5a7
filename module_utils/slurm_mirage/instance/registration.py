"""Nodes as they register with a controller that was started."""

from __future__ import annotations

import time
from contextlib import suppress

from ..base.errors import WrongUse
from ..rm.api import Commands, Registered, ResourceManagerError

ASKED_AFTER = 10.0
"""Real seconds without a change after which nodes that have not registered are asked again."""


class Registration:
    """Looks at the nodes again and again, and has those asked again that do not register.

    Messages of a controller to many nodes time out on a busy host, and on the event clock Slurm asks again after 20,000 s.
    """

    def __init__(self, manager: Commands) -> None:
        self._manager = manager
        self._ready = -1
        self._since = time.monotonic()

    def look(self) -> Registered:
        """The nodes now. Raises ResourceManagerError and WrongUse."""
        nodes, now = self._manager.registered(), time.monotonic()
        if nodes.all_ready or nodes.ready != self._ready:
            self._ready, self._since = nodes.ready, now
        elif now - self._since >= ASKED_AFTER:
            self._since = now
            with suppress(ResourceManagerError, WrongUse):
                self._manager.ask_nodes()
        return nodes
