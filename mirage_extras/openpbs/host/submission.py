"""The words of qsub for a job."""

from __future__ import annotations

import re
import shlex
import time

from ...jobs.request import NO_REQUEST
from ...rm.api import Refused, Submission
from .addresses import HEAD

_DEPENDENCY = re.compile(r"(?:after(?:any|ok|notok)?(?::\d+)+)(?:,after(?:any|ok|notok)?(?::\d+)+)*$")


def submit_arguments(job: Submission, start: float | None = None) -> list[str]:
    """The words after `qsub`. start: seconds since the epoch before which the job may not start. Raises Refused.

    With /dev/null nothing is copied back after the job. OpenPBS starts a job in its user's home directory.
    """
    if job.owner:
        raise Refused(f"qsub: all jobs belong to the instance's user, none to {job.owner}")
    if job.qos:
        raise Refused(f"qsub: OpenPBS has no QOS ({job.qos})")
    if job.request != NO_REQUEST:
        raise Refused(f"qsub: OpenPBS does not get {job.request.words}")
    chunks, each, place = job.processors, 1, "free"
    if job.nodes:
        chunks, each, place = job.nodes, max(1, job.processors // job.nodes), "scatter:excl"
    memory = f":mem={job.memory * each}mb" if job.memory else ""
    size = ["-l", f"select={chunks}:ncpus={each}{memory}", "-l", f"place={place}"]
    words = ["-f", "-N", job.name, *size, "-l", f"walltime={job.limit_minutes * 60}", "-o", "/dev/null", "-e", "/dev/null"]
    words += ["-q", job.partition] if job.partition else []
    words += ["-A", job.account] if job.account else []
    words += ["-W", f"depend={depend(job.dependency)}"] if job.dependency else []
    words += ["-a", time.strftime("%Y%m%d%H%M.%S", time.gmtime(start))] if start is not None else []
    return [*words, "--", "/bin/sh", "-c", f"cd {shlex.quote(job.directory)} && {job.command}"]


def depend(dependency: str) -> str:
    """A dependency such as afterany:12:14,after:15 with the full ids of jobs. Raises Refused for what OpenPBS has no word for."""
    if not _DEPENDENCY.match(dependency):
        raise Refused(f"qsub: OpenPBS has no such dependency: {dependency}")
    return re.sub(r":(\d+)", rf":\1.{HEAD}", dependency)


def full_id(job_id: int) -> str:
    """The id of a job as OpenPBS writes it."""
    return f"{job_id}.{HEAD}"
