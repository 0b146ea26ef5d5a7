"""Jobs of others in the cluster of a run."""

from __future__ import annotations

import re

from .lane import DONE, Lane, expect
from .table import Wrong, fault

NOBODY = 65534
JOB = ("--parsable", "--output=/dev/null", "--chdir=/", "--wrap=exec sleep 5")


@fault(
    "job-of-another-user",
    "`sbatch` by nobody during the replay",
    "it is refused; a run of few jobs may be invalid by the connection that was cut",
)
def job_of_another_user(lane: Lane) -> None:
    command = lane.start_experiment()
    lane.until_submitted(command)
    submitted = lane.slurm("sbatch", *JOB, uid=NOBODY)
    ended = lane.ended(command)
    lane.lines.append(f"sbatch by nobody: {lane.general((submitted.stderr or submitted.stdout).strip())}")
    if submitted.returncode == 0:
        raise Wrong(f"the job of nobody was accepted: {submitted.stdout.strip()}")
    if ended.word not in DONE:
        expect(ended, ("invalid",), r"^slurmctld and slurmd complained 1 time, over [0-9.]+ .*: connection cut: 1\b")
    lane.complete()
    if lane.slurm("squeue", "--noheader", "--format=%A %u").stdout.strip():
        raise Wrong("a job of nobody is left in the queue after the run")


@fault(
    "job-of-the-user",
    "`sbatch` of a job of their own by the instance's user during the replay",
    "`invalid:` names the job that the run did not submit",
)
def job_of_the_user(lane: Lane) -> None:
    command = lane.start_experiment()
    lane.until_submitted(command)
    submitted = lane.slurm("sbatch", "--job-name=stranger", *JOB)
    if submitted.returncode != 0 or not re.fullmatch(r"\d+", submitted.stdout.strip()):
        raise Wrong(f"sbatch by the instance's user: {submitted.stderr.strip()}")
    expect(lane.ended(command), ("invalid",), rf"stranger|\b{submitted.stdout.strip()}\b")
    lane.complete()
