"""The schedules of a running cluster of OpenPBS under its policies, beside those that are known by hand.

Five jobs that are submitted at once tell the policies apart: `tests/data/policies.json` has their quarters of the machine and their
units of time. Job 1 has two quarters until 10; job 2 needs three, so it waits for that under every policy.

First in, first out: jobs 2 and 3 follow one another, to 20 and to 30; jobs 4 and 5 start beside each other at 30.

EASY: only job 2 has a reservation, from 10 to 20, beside which one quarter is free. Job 4 has it from 0 to 25, and job 5 the other
one that is free until 10. Job 3 needs the whole machine and waits for job 4, until 25.

Conservative: job 3 has a reservation too, from 20 to 30. Job 4 would delay it and waits for its end; job 5 starts at 0 as before.

The simulated schedules of these jobs are the same (tests/unit/simulation/test_policies.py).
"""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from running import Cluster

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[3]
SCENARIO = json.loads((ROOT / "tests/data/policies.json").read_text())


class OpenPbs:
    """The commands of the cluster's OpenPBS. `unit`: seconds of its time that one unit of the scenario has."""

    def __init__(self, cluster: Cluster) -> None:
        farm = json.loads(cluster.host.file(f"{cluster.directory}/etc/farm.json").content_string)
        (server,) = (daemon["command"][0] for daemon in farm["daemons"] if daemon["kind"] == "pbs_server")
        self.cluster = cluster
        self.inside = (
            f"nsenter --target={cluster.state()['pid']} --net --mount --uts -- env PBS_CONF_FILE={cluster.directory}/etc/pbs.conf"
        )
        self.bin = str(Path(server).parents[1] / "bin")
        self.speed = float((farm["clock"] or {"speed": 1})["speed"])
        # A real second and a half: what a launch takes is small beside it.
        self.unit = max(10, round(1.5 * self.speed))

    def call(self, command: str, account: str = "root") -> str:
        """Run a command of OpenPBS as an account; returns its output."""
        become = f"setpriv --reuid={account} --regid={account} --clear-groups"
        return str(self.cluster.host.check_output(f"{self.inside} {become} {self.bin}/{command}"))

    def submit(self, nodes: int, units: int) -> int:
        """Submit a job of whole nodes, whose limit is half a unit above its runtime; returns its number."""
        limit = units * self.unit + self.unit // 2
        request = f"-l select={nodes}:ncpus={self.cluster.cpus} -l place=scatter:excl -l walltime={limit}"
        output = "-o /dev/null -e /dev/null -k n -m n"
        return int(self.call(f"qsub {request} {output} -- /bin/sleep {units * self.unit}", self.cluster.user).split(".")[0])

    def starts(self, jobs: list[int]) -> list[int | None]:
        """The start of each job that has ended, in seconds of the cluster's time."""
        record = self.cluster.host.file(f"{self.cluster.directory}/pbs/records/accounting.log").content_string
        # A line of the record: date time;E;ID.server;key=value ... start=SECONDS ...
        found = {int(number): int(start) for number, start in re.findall(r";E;(\d+)\..* start=(\d+)", record)}
        return [found.get(number) for number in jobs]


@pytest.fixture
def openpbs(host: Any) -> OpenPbs:
    cluster = Cluster(host, os.environ.get("CLUSTER", "mirage"), int(os.environ.get("NODES", 360)), int(os.environ.get("CPUS", 16)))
    if not cluster.host.file(f"{cluster.directory}/etc/pbs.conf").exists:
        pytest.skip("skipped: not a cluster of OpenPBS")
    if cluster.nodes % 4:
        pytest.skip(f"skipped: {cluster.nodes} nodes have no quarters")
    return OpenPbs(cluster)


@pytest.mark.parametrize("policy", SCENARIO["starts"])
def test_the_schedule_is_the_one_known_by_hand(openpbs: OpenPbs, policy: str) -> None:
    """Each policy's configuration, whose attributes of the server are set in the running cluster, starts each job at its time."""
    configuration = yaml.safe_load((ROOT / f"configs/pbs-{policy}.yml").read_text())
    assert configuration["settings"] == {"strict_ordering": True}, "the policies differ in the server's attributes only"
    before = openpbs.call("qmgr -c 'print server backfill_depth'").strip().splitlines()[-1]
    for key, value in configuration["server"].items():
        openpbs.call(f"qmgr -c 'set server {key} = {value}'")
    try:
        quarter = openpbs.cluster.nodes // 4
        # The scheduler sees all of them at once.
        openpbs.call("qmgr -c 'set server scheduling = False'")
        jobs = [openpbs.submit(quarters * quarter, units) for quarters, units in SCENARIO["jobs"]]
        openpbs.call("qmgr -c 'set server scheduling = True'")
        deadline = time.monotonic() + 60 + 90 * openpbs.unit / openpbs.speed
        while None in (found := openpbs.starts(jobs)):
            assert time.monotonic() < deadline, f"not all jobs have ended: {found}"
            time.sleep(1)
    finally:
        openpbs.call("qmgr -c 'set server scheduling = True'")
        openpbs.call(f"qmgr -c '{before}'")
    first = min(start for start in found if start is not None)
    # Each launch and each end takes some tenths of a real second, after which the next job starts. The policies differ by 5 units.
    assert [((start or 0) - first) / openpbs.unit for start in found] == pytest.approx(SCENARIO["starts"][policy], abs=2)
