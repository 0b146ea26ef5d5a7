"""Jobs of a real cluster belong to users of a log: limits for each of them hold, and fair share orders them.

Needs a running instance on this host with CONFIG=multifactor, SPEED=20 and no other jobs. Fair share is computed every five
minutes of the cluster's time. Called as root:

    SLURM_MIRAGE_INSTANCE=/var/lib/slurm-mirage/mirage pytest -m cluster tests/cluster/test_job_users.py
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from slurm_mirage.base import processes
from slurm_mirage.base.files import read_json
from slurm_mirage.base.processes import INSTANCE_VARIABLE
from slurm_mirage.instance.instance import commands_of
from slurm_mirage.rm.api import JobState, QueuedJob, Submission
from slurm_mirage.rm.slurm.account_commands import AccountCommands
from slurm_mirage.rm.slurm.accounting import Wanted, account_of
from slurm_mirage.rm.slurm.commands import Slurm
from slurm_mirage.rm.slurm.job_users import FIRST_ID, environment, name_of

pytestmark = pytest.mark.cluster

PATIENCE = 120.0
TWO = "two-of-each"


@dataclass
class Bed:
    """A running instance, and three users without usage: the numbers of a test are nobody else's. Run times are the cluster's."""

    directory: Path
    programs: Path
    slurm: Slurm
    accounts: AccountCommands
    users: tuple[int, int, int]
    processors: int

    def submit(self, user: int, seconds: int, processors: int = 1, qos: str = "") -> int:
        name = f"users.{user}.{time.time_ns()}"
        job = Submission(name, f"exec sleep {seconds}", processors, None, 60, "", str(self.directory), account_of(user), qos)
        return self.slurm.submit(Submission(**{**vars(job), "owner": name_of(user)})).job_id

    def limit(self, user: int) -> None:
        """Let the user have one running job at most."""
        self.slurm.change("user", name_of(user), "MaxJobs=1")
        deadline = time.monotonic() + PATIENCE
        command = [f"{self.programs}/scontrol", "show", "assoc_mgr", f"users={name_of(user)}", "flags=assoc"]
        variables = {"SLURM_CONF": f"{self.directory}/etc/slurm.conf", **environment(self.directory)}
        as_user = processes.as_user(self.directory)
        while (
            "MaxJobs=1(" not in subprocess.run(command, env=variables, capture_output=True, text=True, check=True, **as_user).stdout
        ):
            assert time.monotonic() < deadline
            time.sleep(0.2)

    def job(self, job_id: int) -> QueuedJob:
        return next(job for job in self.slurm.queue(ended=True) if job.job_id == job_id)

    def wait(self, job_id: int, state: JobState, reason: str = "") -> QueuedJob:
        deadline = time.monotonic() + PATIENCE
        while (job := self.job(job_id)).state is not state or reason not in job.reason:
            assert time.monotonic() < deadline, job
            time.sleep(0.2)
        return job


@pytest.fixture
def bed() -> Iterator[Bed]:
    directory = Path(os.environ.get(INSTANCE_VARIABLE, "/nonexistent"))
    if os.geteuid() != 0 or not (directory / "lib/job_users.so").exists():
        pytest.skip(f"skipped: {INSTANCE_VARIABLE} names no running instance with accounting, or the caller is not root")
    programs, settings = commands_of(directory), read_json(directory / "instance.json")
    slurm = Slurm.of_instance(directory, programs)
    if "priority/multifactor" not in slurm.configuration():
        pytest.skip("skipped: the instance has no fair share (CONFIG=multifactor)")
    accounts = AccountCommands(directory, str(programs), PATIENCE)
    first = 10**6 + int(time.time()) % 10**8
    users = (first, first + 1, first + 2)
    cluster = next(line.split("=")[1] for line in (directory / "etc/slurm.conf").read_text().splitlines() if "ClusterName=" in line)
    pairs = [(name_of(user), account_of(user)) for user in users]
    accounts.ensure(Wanted(cluster, settings["user"], [], {}, {TWO: {"MaxJobsPerUser": "2"}}, pairs))
    yield Bed(directory, programs, slurm, accounts, users, slurm.nodes().processors)
    slurm.cancel([job.job_id for job in slurm.queue()])


def test_a_limit_for_each_user_holds_the_jobs_of_that_user_only(bed: Bed) -> None:
    one, other, _ = bed.users
    jobs = [bed.submit(one, 2000, qos=TWO) for _ in range(3)]
    of_other = bed.submit(other, 2000, qos=TWO)
    assert "QOSMaxJobsPerUser" in bed.wait(jobs[2], JobState.PENDING, "QOSMaxJobsPerUser").reason
    for job in (*jobs[:2], of_other):
        bed.wait(job, JobState.RUNNING)
    bed.limit(other)
    second = bed.submit(other, 2000)
    bed.wait(second, JobState.PENDING, "AssocMaxJobsLimit")

    owners = {job["job_id"]: job["user"] for job in bed.slurm.queue_owners()}
    assert [owners[job] for job in (*jobs, of_other)] == [name_of(one)] * 3 + [name_of(other)]
    users = set().union(*map(processes.users_of, processes.of_instance(str(bed.directory))))
    assert users == {processes.instance_user(str(bed.directory))}, "no process runs as a user of the log"
    bed.slurm.cancel([jobs[0]])
    bed.wait(jobs[2], JobState.RUNNING)
    record = bed.accounts.record(0)
    heading, *lines = (line.split("|") for line in record.splitlines())
    by_job = {line[heading.index("JobIDRaw")]: line[heading.index("User")] for line in lines}
    assert by_job[str(of_other)] == f"u{other}" and FIRST_ID + other < 2**31


def test_fair_share_orders_the_jobs_of_two_users(bed: Bed) -> None:
    """The one who has used the machine waits for the other, who submitted later."""
    one, other, third = bed.users
    used = bed.submit(one, 600, bed.processors)
    bed.wait(used, JobState.RUNNING)
    blocking = bed.submit(third, 600, bed.processors)
    bed.wait(blocking, JobState.RUNNING)
    first = bed.submit(one, 5, bed.processors)
    second = bed.submit(other, 5, bed.processors)
    started = bed.wait(first, JobState.ENDED).start, bed.wait(second, JobState.ENDED).start
    assert started[0] is not None and started[1] is not None and started[1] < started[0]
