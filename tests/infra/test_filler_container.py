"""A real program as a filler job of a cluster on several hosts: preempted, saved by CRIU, and restored on the other host.

Needs the role filler_container on the compute hosts, the folder SHARED on all hosts, preemption by partition (PreemptMode=REQUEUE,
RequeueExit=99, preempt_send_user_signal) and a short delay of requeued jobs (cred_expire).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from running import until
from several import Hosts

pytestmark = pytest.mark.cluster
SHARED = "/srv/shared/fillers"
GRACE, MEMORY, MOVES = 20, 64, 3
PATIENCE = 60.0


class Fillers:
    """The fillers' partition and programs."""

    def __init__(self, hosts: Hosts) -> None:
        self.hosts = hosts
        self.programs = f"{hosts.cluster.directory}/filler_container"
        self.head = hosts.on[hosts.head]

    def as_user(self, host: str, command: str) -> Any:
        user = self.hosts.cluster.user
        return self.hosts.on[host].run(f"cd / && setpriv --reuid {user} --regid {user} --clear-groups {command}")

    def chain(self, rounds: int, result: str) -> str:
        return f"{self.programs}/chain --memory {MEMORY} --rounds {rounds} --result {result}"

    def submit(self, name: str, rounds: int, *words: str) -> str:
        """Submit a filler that ends with SHARED/NAME.result; returns its id."""
        run = f"python3 {self.programs}/filler_container.py run --folder {SHARED}/{name} --patience 0 {' '.join(words)} --"
        options = ("--partition=filler", "--requeue", "--nodes=1", "--ntasks=1", f"--signal=B:USR1@{GRACE}", "--open-mode=append")
        output = f"--output={SHARED}/{name}.out"
        return self.hosts.submit(*options, output, command=f"exec {run} {self.chain(rounds, f'{SHARED}/{name}.result')}")

    def events(self, name: str, event: str) -> list[dict[str, Any]]:
        found = self.head.run(f"cat {SHARED}/{name}/journal.jsonl")
        return [entry for line in found.stdout.splitlines() if (entry := json.loads(line))["event"] == event]

    def host_of(self, node: str) -> str:
        return next(name for name in self.hosts.compute if int(node[1:]) in self.hosts.nodes(name))

    def state(self, job: str) -> str:
        return self.hosts.cluster.job(job)["JobState"]

    def take_nodes(self, host: str) -> str:
        """Submit a job of the workload that needs all nodes of a host; returns its id."""
        nodes = ",".join(f"n{number}" for number in self.hosts.nodes(host))
        count = len(self.hosts.nodes(host))
        return self.hosts.submit(f"--nodes={count} --nodelist={nodes} --exclusive --output=/dev/null", command="sleep 300")

    def move(self, name: str, place: str) -> str:
        """Let a job of the workload take the host of a filler; returns the host to which the filler moves."""
        before = len(self.events(name, "restored"))
        main = self.take_nodes(place)
        until(lambda: len(self.events(name, "restored")) > before and self.state(main) == "RUNNING", PATIENCE)
        self.hosts.cluster.run(f"scancel {main}")
        until(lambda: self.state(main) == "CANCELLED", PATIENCE)
        return self.host_of(self.events(name, "restored")[-1]["node"])


@pytest.fixture
def fillers(hosts: Hosts) -> Iterator[Fillers]:
    words = f"PriorityTier=0 PreemptMode=REQUEUE GraceTime={GRACE} MaxTime=INFINITE"
    hosts.cluster.run(f"scontrol create PartitionName=filler Nodes=n[1-{hosts.cluster.nodes}] {words}")
    user = hosts.cluster.user
    hosts.on[hosts.head].check_output(f"rm -rf {SHARED} && install -d -o {user} -g {user} {SHARED}")
    yield Fillers(hosts)
    hosts.cluster.run(f"scancel --full --user={user}")
    until(lambda: hosts.cluster.run("squeue --noheader") == "", PATIENCE)
    hosts.cluster.run("scontrol delete PartitionName=filler")
    hosts.on[hosts.head].check_output(f"rm -rf {SHARED}")


def rounds_for(fillers: Fillers, seconds: float) -> int:
    """Return for how many rounds the program computes for about so many seconds of processor time."""
    trial = fillers.chain(50, "/dev/shm/trial")
    text = fillers.as_user(fillers.hosts.compute[0], f"bash -c 'TIMEFORMAT=%U; time {trial}'").stderr
    return int(50 * seconds / max(0.1, float(re.search(r"([\d.]+)\s*$", text)[1])))


def expected(fillers: Fillers, rounds: int) -> str:
    host = fillers.hosts.compute[0]
    done = fillers.as_user(host, fillers.chain(rounds, "/dev/shm/alone"))
    assert done.rc == 0, done.stderr
    return str(fillers.hosts.on[host].check_output("cat /dev/shm/alone"))


def test_a_program_that_criu_saves_moves_between_two_hosts_and_has_the_result_that_it_has_alone(fillers: Fillers) -> None:
    hosts = fillers.hosts
    for host in hosts.compute:
        check = fillers.as_user(host, f"python3 {fillers.programs}/filler_container.py check")
        if check.rc != 0:
            pytest.skip(f"skipped: {host}: {check.stdout or check.stderr}")
    rounds = rounds_for(fillers, 12)
    job = fillers.submit("moved", rounds, "--interval 2")
    until(lambda: len(fillers.events("moved", "started")) == 1, PATIENCE)
    place = fillers.host_of(fillers.events("moved", "started")[0]["node"])
    places = [place]
    for _ in range(MOVES):
        place = fillers.move("moved", place)
        places.append(place)
    until(lambda: fillers.state(job) == "COMPLETED", 2 * PATIENCE)
    assert all(before != after for before, after in pairwise(places))
    assert [entry["cause"] for entry in fillers.events("moved", "saved")].count("request") == MOVES
    assert [entry["reason"] for entry in fillers.events("moved", "not_saved")] == []
    assert hosts.on[hosts.head].check_output(f"cat {SHARED}/moved.result") == expected(fillers, rounds)
    costs = fillers.as_user(hosts.compute[0], f"python3 {fillers.programs}/filler_measure.py journal {SHARED}/moved")
    print(costs.stdout)
    assert "FILLER_JOBS=" in costs.stdout


def test_a_program_saves_itself_where_criu_cannot(fillers: Fillers) -> None:
    """CRIU is missing, as the job sees it. The program goes on elsewhere from its own save."""
    hosts = fillers.hosts
    rounds = rounds_for(fillers, 6)
    own = f'--own-saves "--state {SHARED}/alone.state --interval 2" --criu {fillers.programs}/none'
    job = fillers.submit("alone", rounds, own)
    until(lambda: len(fillers.events("alone", "started")) == 1, PATIENCE)
    place = fillers.host_of(fillers.events("alone", "started")[0]["node"])
    until(lambda: hosts.on[hosts.head].file(f"{SHARED}/alone.state").exists, PATIENCE)
    main = fillers.take_nodes(place)
    until(lambda: len(fillers.events("alone", "started")) == 2, PATIENCE)
    hosts.cluster.run(f"scancel {main}")
    until(lambda: fillers.state(job) == "COMPLETED", PATIENCE)
    assert fillers.host_of(fillers.events("alone", "started")[1]["node"]) != place
    assert [entry["code"] for entry in fillers.events("alone", "ended")] == [99, 0]
    assert hosts.on[hosts.head].check_output(f"cat {SHARED}/alone.result") == expected(fillers, rounds)
    output = hosts.on[hosts.head].check_output(f"cat {SHARED}/alone.out")
    assert output.count("CRIU cannot save processes on this node") == 1 and "the program saves itself" in output
