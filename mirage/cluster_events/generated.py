"""Events that are generated: failures of nodes (FAILURES) and maintenance windows (MAINTENANCE).

Failures of a node are an alternating renewal process: it runs for a time that has a Weibull distribution with mean `mtbf` and shape
`shape`, then it is repaired for a time that has an exponential distribution with mean `repair`. A shape below 1 stands for failures
that come in groups, as logs of large systems have them (Schroeder and Gibson, "A large-scale study of failures in high-performance
computing systems", DSN 2006: 0.7 to 0.8); 1 is the exponential distribution. At the start of the run all nodes run, and have done
so for a time of the process's steady state: the time to the first failure has its equilibrium distribution.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from mirage.cluster_events.checks import BACK, World
from mirage.cluster_events.planned import FAILURES, MAINTENANCE, PlannedEvent, as_argument, number_word
from mirage.text import durations
from slurm_mirage.base import hostlist
from slurm_mirage.jobs import cluster_events as actions

if TYPE_CHECKING:
    import numpy as np

FAILURES_FORM = (
    "mtbf=30d repair=4h shape=0.7: for each node, the mean time to a failure, the mean repair, and the shape (1 if left out)"
)
MAINTENANCE_FORM = "weekly tue 08:00 6h all, daily 02:00 30min n[1-4], or once 3d 6h all; at the end also announced=7d"
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
ANNOUNCED = 7 * 86400.0
"""Seconds before its begin at which a window is reserved, unless said otherwise."""
RESERVATION = "maintenance-"
"""Begin of the names of the reservations of windows."""
DIGITS = 3
"""Instants are in whole milliseconds."""
_WEEK = 7 * 86400.0


@dataclass(frozen=True)
class Failures:
    """Failures of nodes; times in trace seconds."""

    mtbf: float
    repair: float
    shape: float = 1.0

    @classmethod
    def parse(cls, text: str) -> Failures:
        """Of a text like FAILURES_FORM. Raises ValueError."""
        words = dict(word.partition("=")[::2] for word in text.lower().split())
        if not {"mtbf", "repair"} <= words.keys() <= {"mtbf", "repair", "shape"}:
            raise ValueError(text)
        made = cls(durations.seconds(words["mtbf"]), durations.seconds(words["repair"]), float(words.get("shape", "1")))
        if made.mtbf <= 0 or made.repair <= 0 or not 0.2 <= made.shape <= 10:
            raise ValueError(text)
        return made

    def of_node(self, generator: np.random.Generator, until: float) -> Iterator[tuple[float, float]]:
        """Failures of one node before `until`, each with its end."""
        scale = self.mtbf / math.gamma(1 + 1 / self.shape)
        # The equilibrium distribution: a uniform part of a time to failure that is drawn in proportion to its length. That of a
        # Weibull variable is scale * G**(1/shape), where G has a gamma distribution with shape 1 + 1/shape.
        length = scale * generator.gamma(1 + 1 / self.shape) ** (1 / self.shape)
        instant = generator.random() * length
        while instant < until:
            end = instant + generator.exponential(self.repair)
            yield instant, end
            instant = end + scale * generator.weibull(self.shape)

    def events(
        self, nodes: Sequence[str], until: float, seed: int, replica: int, others: Sequence[PlannedEvent] = ()
    ) -> list[PlannedEvent]:
        """The failures of all nodes before `until`, in no order. Those of a node do not depend on which others there are.

        others: events of the user's; a failure is left out while one of them has the node fail or not respond
        """
        import numpy as np  # calls without failures save the time

        made, absent = [], absences(others)
        for number, node in enumerate(nodes):
            generator = np.random.default_rng([seed, replica, number, 4])
            for begin, end in self.of_node(generator, until):
                instant, back = round(begin, DIGITS), round(max(end, begin + 0.001), DIGITS)
                if any(instant <= until_other and since <= back for since, until_other in absent.get(node, ())):
                    continue
                made += [
                    PlannedEvent(instant, actions.FAIL, node, "", FAILURES),
                    PlannedEvent(back, actions.RETURN, node, "", FAILURES),
                ]
        return made


def absences(events: Iterable[PlannedEvent]) -> dict[str, list[tuple[float, float]]]:
    """When nodes fail or do not respond by events in the order of their instants: begins and ends by node."""
    begun: dict[str, float] = {}
    found: dict[str, list[tuple[float, float]]] = {}
    for event in events:
        if event.action in BACK:
            begun |= dict.fromkeys(hostlist.expand(event.target), event.instant)
        elif event.action in BACK.values():
            for node in hostlist.expand(event.target):
                found.setdefault(node, []).append((begun.pop(node), event.instant))
    return found


@dataclass(frozen=True)
class Maintenance:
    """Maintenance windows; times in trace seconds."""

    period: float | None
    """Between two windows; None: there is one."""
    first: float
    """Begin of the only window after the start of the run; otherwise within the week (from Monday) or the day."""
    length: float
    nodes: str
    """A host list, or ALL."""
    announced: float = ANNOUNCED

    @classmethod
    def parse(cls, text: str) -> Maintenance:
        """Of a text like MAINTENANCE_FORM. Raises ValueError."""
        words = text.split()
        announced = ANNOUNCED
        if words and words[-1].lower().startswith("announced="):
            announced = durations.seconds(words.pop().partition("=")[2])
        kind = words.pop(0).lower() if words else ""
        day = 0
        if kind == "weekly" and words:
            day = DAYS.index(words.pop(0).lower()[:3])
        if kind not in ("weekly", "daily", "once") or len(words) != 3:
            raise ValueError(text)
        begin, length, nodes = durations.seconds(words[0]), durations.seconds(words[1]), words[2]
        if kind != "once" and (not re.fullmatch(r"\d{1,2}:\d\d", words[0], re.ASCII) or begin >= 86400):
            raise ValueError(text)
        period = {"weekly": _WEEK, "daily": 86400.0}.get(kind)
        if length < 60 or (period is not None and length >= period):
            raise ValueError(text)
        return cls(period, begin + 86400 * day, length, "ALL" if nodes.lower() == "all" else nodes, announced)

    def windows(self, until: float, calendar: datetime | None) -> list[float]:
        """Begins of the windows before `until`, in trace seconds after the start of the run.

        calendar: local date and time of the start of the run; None: it is a Monday, 00:00
        """
        if self.period is None:
            return [self.first] if self.first < until else []
        start = calendar or datetime(2024, 1, 1)
        midnight = start.replace(hour=0, minute=0, second=0, microsecond=0)
        monday = midnight - timedelta(days=start.weekday())
        since = (start - (monday if self.period == _WEEK else midnight)).total_seconds()
        begin = (self.first - since) % self.period
        return [begin + self.period * number for number in range(max(0, math.ceil((until - begin) / self.period)))]

    def events(self, world: World, until: float, calendar: datetime | None) -> list[PlannedEvent]:
        """The reservations of all windows. Raises ValueError for a node that is not there."""
        names = "ALL" if self.nodes == "ALL" else hostlist.compress(world.expand(self.nodes))
        return [
            PlannedEvent(
                max(0.0, begin - self.announced),
                actions.RESERVE,
                f"{RESERVATION}{number}",
                as_argument(
                    {
                        "StartTime": number_word(begin),
                        "Duration": number_word(self.length),
                        "Nodes": names,
                        "Flags": "MAINT,IGNORE_JOBS",
                        "Users": "root",
                    }
                ),
                MAINTENANCE,
            )
            for number, begin in enumerate(self.windows(until, calendar), start=1)
        ]
