"""What the verdict on a run needs of a resource manager beside its records of jobs: names, what its scheduler does by itself, the
machine as its configuration describes it, and the complaints of its daemons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

OTHER_COMPLAINT = "other error"
"""Kind of the daemons' errors of no known kind: they are counted, and not judged."""
CONNECTION_RENEWED = "connection renewed, without cost"
"""Kind of the ends of connections that a daemon opens again by itself. What follows from one, such as a refused job or a node
that is down, has complaints or figures of its own: they are counted, and not judged."""
NODE_DOWN = "node down"
"""Kind of the controller's messages that it takes a node out of service: one of them is too many."""
START_FORGOTTEN = "start forgotten"
"""Kind of the controller's messages that a node runs a job which waits: the controller had started it, and ended before it saved
that. The node ends this execution, which is in no record."""
NOT_JUDGED = frozenset({OTHER_COMPLAINT, CONNECTION_RENEWED, NODE_DOWN})


class WaitWord(str, Enum):
    """What the manager says of a waiting job, in neutral words."""

    UNKNOWN = ""
    """Nothing, or nothing that is known."""
    UNTESTED = "untested"
    """The scheduler has not looked at it."""
    AHEAD = "ahead"
    """Other jobs are before it."""
    NO_ROOM = "no room"
    """It is the next one, and nodes or processors are missing."""
    DEPENDENCY = "dependency"
    BEGIN = "begin"
    HELD = "held"
    ARRAY = "array limit"
    USER = "user limit"
    ACCOUNT = "account limit"
    QOS = "QOS limit"
    PARTITION = "partition limit"
    LICENCE = "licence"
    RESERVATION = "reservation"
    NODES = "nodes down"


@dataclass(frozen=True)
class Names:
    """What the manager, its daemons and its record are called in messages."""

    manager: str
    controller: str
    node_daemon: str
    record: str
    """The lasting record of ended jobs, and what it says of a job's nodes, in words of the manager."""
    hosts: str
    cycle: str = "scheduling cycle"
    """The cycle whose length the diagnostics have (BACKFILL_DIAGNOSTICS)."""
    diagnostics: str = "its diagnostics"
    """Source of the diagnostics."""
    return_nodes: str = ""
    """The command that returns drained nodes to service, and the one that names them."""
    cycle_pause: str = ""
    """Setting of the time after which a cycle pauses and lets the controller accept submissions; "" if there is none."""


@dataclass(frozen=True)
class Scheduling:
    """What the manager does by itself in a run, by the configuration in force. Seconds are those of the cluster's time."""

    version: str | None = None
    """Release of the manager; None: not known."""
    backfills: bool = False
    """Whether a waiting job may start before one that came earlier."""
    by_submission: bool = False
    """Whether it is known that jobs wait in order of submission."""
    has_cycles: bool = False
    """Whether the lengths of its scheduling cycles have to be known."""
    start_delay: float = 0.0
    """Seconds by which it may delay a start that is possible."""
    longest_hold: float = 0.0
    """Seconds for which one of its cycles may prevent all starts and ends of jobs."""
    bounds: Mapping[str, float] = field(default_factory=dict)
    """Bounds of a valid run (mirage/verdict/thresholds.py) that follow from its settings, by name."""


@dataclass(frozen=True)
class Node:
    """A node: processors, MiB of memory for jobs (None: memory is not managed), types of GPUs with their numbers ("": no type),
    features, and processors that jobs cannot have."""

    processors: int
    memory: int | None = None
    gpus: tuple[tuple[str, int], ...] = ()
    features: frozenset[str] = frozenset()
    set_aside: int = 0

    def usable(self, memory: int) -> int:
        """Processors that jobs of `memory` MiB per processor can use while the node is idle."""
        processors = self.processors - self.set_aside
        if memory == 0 or self.memory is None:
            return processors
        return min(processors, self.memory // memory)


@dataclass(frozen=True)
class Layout:
    """The nodes, and the partitions that have only some of them or limits of their own."""

    nodes: Mapping[str, Node]
    partitions: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Names of the nodes of each partition."""
    limited: frozenset[str] = frozenset()
    """Partitions with a QOS or with a limit of processors, which hold for their jobs."""
    enforces_limits: bool = False
    """Whether limits of accounts and of QOS hold."""

    @property
    def gpus(self) -> dict[str, int]:
        """GPUs of all nodes by type."""
        found: dict[str, int] = {}
        for node in self.nodes.values():
            for kind, count in node.gpus:
                found[kind] = found.get(kind, 0) + count
        return found

    @classmethod
    def of_equal(cls, processors: int, nodes: int) -> Layout:
        """A machine of equal nodes; its partitions are not known."""
        return cls({f"n{number}": Node(max(1, processors // max(1, nodes))) for number in range(1, nodes + 1)})


@dataclass(frozen=True)
class Span:
    """A time span: its beginning in real and in virtual seconds since the epoch, its end in virtual seconds, None for none."""

    real: float
    virtual: float
    until: float | None = None


@dataclass(frozen=True)
class Complaint:
    """A line of a daemon's log, and its kind."""

    kind: str
    log: str
    """The file's name."""
    line: str
