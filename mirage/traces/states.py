"""Slurm's job states as sacct prints them, grouped by their meaning; docs/formats.md has the table of their effects on metrics."""

from __future__ import annotations

LOST = ("PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "LAUNCH_FAILED", "RECONFIG_FAIL")
"""Final states in which the system ended the execution, so that its work is lost. The user did not cause them; a failure, a
cancellation or an end at the time limit may be the user's."""

ENDED_WAITING = ("CANCELLED", "DEADLINE")
"""Final states that a job may reach while it waits."""

WAITING = ("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT")
"""States of jobs that wait, also after executions. A line with REQUEUED is an execution of such a job; after the last one the job
waits."""

LIVE = (
    *(state for state in WAITING if state != "REQUEUED"),
    *("RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "EXPEDITING", "SIGNALING", "STAGE_OUT", "STOPPED", "POWER_UP_NODE"),
)
"""States of jobs that have not ended. sacct --truncate prints an end for them too: the end of the requested time."""

RESIZING = "RESIZING"
"""State of a line for the part of an execution before a change of the job's size."""

REVOKED = "REVOKED"
"""State of a line for the sibling of a job that started on another cluster of the federation, where its record is."""

FLAGS = (
    "COMPLETING", "STAGE_OUT", "CONFIGURING", "EXPEDITING", RESIZING, "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT",
    "STOPPED", REVOKED, "RESV_DEL_HOLD", "SIGNALING",
)  # fmt: skip
"""States that Slurm has as flags beside a base state. sacct prints the first of this order (job_state_string)."""

SWF_STATUS = {
    "COMPLETED": 1,
    "CANCELLED": 5,
    **dict.fromkeys(["FAILED", "TIMEOUT", "OUT_OF_MEMORY", "DEADLINE", "REQUEUED", *LOST], 0),
}
"""Status of SWF by final state. SWF knows completed (1), failed (0) and cancelled (5) only."""

KNOWN = (*SWF_STATUS, *LIVE, RESIZING)
