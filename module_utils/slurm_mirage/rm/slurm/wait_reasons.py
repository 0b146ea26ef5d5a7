"""The reasons for which Slurm says that a job waits, in neutral words.

The words are those of job_reason_string (slurm_protocol_defs.c; since 24.05 job_state_reason.c) of all releases, and the sentences
that slurmctld puts in their place (state_desc).
"""

from __future__ import annotations

import re

from ..evidence import WaitWord

_WORDS = {
    "None": WaitWord.UNTESTED,
    "Priority": WaitWord.AHEAD,
    "Resources": WaitWord.NO_ROOM,
    "Dependency": WaitWord.DEPENDENCY,
    "DependencyNeverSatisfied": WaitWord.DEPENDENCY,
    "BeginTime": WaitWord.BEGIN,
    "JobHeldAdmin": WaitWord.HELD,
    "JobHeldUser": WaitWord.HELD,
    "JobHoldMaxRequeue": WaitWord.HELD,
    "launch failed requeued held": WaitWord.HELD,
    "JobArrayTaskLimit": WaitWord.ARRAY,
    "Licenses": WaitWord.LICENCE,
    "Reservation": WaitWord.RESERVATION,
    "ReservationDeleted": WaitWord.RESERVATION,
    "ReservationInvalid": WaitWord.RESERVATION,
    "ReqNodeNotAvail May be reserved for other job": WaitWord.RESERVATION,
    "ReqNodeNotAvail Reserved for maintenance": WaitWord.RESERVATION,
    "NodeDown": WaitWord.NODES,
    "PartitionDown": WaitWord.PARTITION,
    "PartitionInactive": WaitWord.PARTITION,
    "AccountNotAllowed": WaitWord.ACCOUNT,
    "AccountingPolicy": WaitWord.ACCOUNT,
    "MaxMemPerLimit": WaitWord.PARTITION,
}
_FORMS = (
    # The nodes that a job needs may be busy, reserved, or out of service: the state of the machine says which.
    (r"Nodes required for job are DOWN", WaitWord.NO_ROOM),
    (r"ReqNodeNotAvail", WaitWord.NODES),
    (r"QOS.*PerUser|Max.*PerUser", WaitWord.USER),
    (r"QOS.*PerAccount|Max.*PerAccount", WaitWord.ACCOUNT),
    (r"QOS|Job is at or exceeds QOS", WaitWord.QOS),
    (r"Assoc|Job is at or exceeds association", WaitWord.ACCOUNT),
    (r"Partition", WaitWord.PARTITION),
)
"""Beginnings of others, the first one that fits."""


def wait_word(reason: str) -> WaitWord:
    """The neutral word for a reason, without commas and what follows a colon."""
    if (word := _WORDS.get(reason)) is not None:
        return word
    return next((word for form, word in _FORMS if re.match(form, reason)), WaitWord.UNKNOWN)
