"""Tests that need a test bed: hosts fail and reboot, have a wrong clock, and another host is added.

BED names the bed (molecule/testbed), VARIABLES a file with the variables that its cluster was built with. The last test leaves the
cluster larger than it was.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from running import until
from several import Hosts

pytestmark = [pytest.mark.cluster, pytest.mark.skipif("BED" not in os.environ, reason="BED names no bed, whose hosts may fail")]

ROOT = Path(__file__).resolve().parents[2]


def bed(command: str, *words: str) -> None:
    """Run a command of the test bed."""
    subprocess.run([sys.executable, "-m", "testbed", command, os.environ["BED"], *words], check=True)


def build(pytestconfig: pytest.Config, *options: str) -> subprocess.CompletedProcess[str]:
    """Run make cluster's playbook again with these options of ansible-playbook."""
    inventories = [f"--inventory={path}" for path in (ROOT / "inventories/common", pytestconfig.getoption("ansible_inventory"))]
    variables = f"--extra-vars=@{os.environ['VARIABLES']}"
    command = ["ansible-playbook", *inventories, variables, *options, ROOT / "playbooks/cluster.yml"]
    # Molecule makes Ansible colour its output even if it is not a terminal.
    plain = {**os.environ, "ANSIBLE_FORCE_COLOR": "0", "ANSIBLE_NOCOLOR": "1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=plain)


def refused(result: subprocess.CompletedProcess[str]) -> str:
    """Return the one line with which Ansible refused to make changes."""
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("[ERROR]") and "wrong use: " in line]
    assert result.returncode != 0
    return line


def test_the_firewall_table_survives_a_restart_of_the_nftables_service(hosts: Hosts) -> None:
    """The service flushes the kernel's tables. Needs mirage_firewall=nftables."""
    host, unit, table = (
        hosts.on[hosts.compute[0]],
        f"slurm-firewall-{hosts.cluster.name}.service",
        f"slurm_mirage_{hosts.cluster.name}",
    )
    try:
        left = {}
        for command in ("start", "reload", "restart", "stop", "start again"):
            host.check_output("nft add table inet others")
            host.check_output(f"systemctl {command.split()[0]} nftables")
            lines = host.check_output("nft list tables").splitlines()
            left[command] = [name for name in ("others", table) if f"table inet {name}" in lines]
        assert left == {"start": [table], "reload": [table], "restart": [table], "stop": [], "start again": [table]}
        until(lambda: host.service(unit).is_running)
    finally:
        host.run(f"systemctl stop nftables; systemctl start {unit}")
    assert f"table inet {table}" in host.check_output("nft list tables").splitlines()


@pytest.mark.parametrize("which", ["compute", "head"])
def test_a_rebooted_host_starts_its_farm(hosts: Hosts, which: str) -> None:
    """Jobs on the other hosts are not affected."""
    name = hosts.compute[0] if which == "compute" else hosts.head
    other = next(host for host in hosts.compute if host != name)
    job = hosts.submit(f"--nodelist=n{hosts.nodes(other)[0]}", "--no-requeue", "--output=/dev/null", command="exec sleep 3600")
    until(lambda: hosts.cluster.job(job)["JobState"] == "RUNNING")
    before = hosts.slurmd(name)
    bed("reboot", name)
    until(lambda: hosts.on[name].service(hosts.unit).is_running and hosts.slurmd(name) == before)
    until(lambda: hosts.answers() and set(hosts.states().values()) <= {"idle", "mixed"}, 60)
    assert (hosts.cluster.job(job)["JobState"], hosts.cluster.job(job)["Restarts"]) == ("RUNNING", "0")
    hosts.cluster.run(f"scancel {job}")
    until(hosts.all_idle)


def test_jobs_of_a_host_without_power_are_requeued_on_others(hosts: Hosts) -> None:
    """Needs a short SlurmdTimeout. The job may run on any node, and gets the first one, which is on the first host."""
    lost, other = hosts.compute[0], hosts.compute[1]
    lost_nodes = {f"n{number}" for number in hosts.nodes(lost)}
    job = hosts.submit("--requeue", "--nodes=1", "--exclusive", "--output=/dev/null", command="exec sleep 3600")
    until(lambda: hosts.cluster.job(job)["JobState"] == "RUNNING")
    assert hosts.cluster.job(job)["NodeList"] in lost_nodes
    bed("kill", lost)
    until(lambda: {name for name, state in hosts.states().items() if state.startswith("down")} == lost_nodes, 90)
    until(lambda: hosts.cluster.job(job)["JobState"] == "PENDING")
    # slurmctld delays a requeued job by two minutes by default.
    hosts.cluster.run(f"scontrol update JobId={job} StartTime=now")
    until(lambda: hosts.cluster.job(job)["JobState"] == "RUNNING")
    assert hosts.cluster.job(job)["NodeList"] in {f"n{number}" for number in hosts.nodes(other)}
    assert hosts.cluster.job(job)["Restarts"] == "1"
    bed("boot", lost)
    until(lambda: {hosts.states()[name] for name in lost_nodes} == {"idle"}, 60)
    hosts.cluster.run(f"scancel {job}")
    until(hosts.all_idle)


def test_a_wrong_clock_is_refused(hosts: Hosts, pytestconfig: pytest.Config, tmp_path: Path) -> None:
    """All machines of a bed share the kernel's clock, so a preloaded library shifts the clock for Ansible on one host."""
    late = hosts.compute[-1]
    library = f"{hosts.cluster.directory}/lib/virtual_clock.so"
    script = f'#!/bin/sh\nLD_PRELOAD={library} SLURM_MIRAGE_CLOCK=/usr/local/late.clock exec /usr/bin/python3 "$@"\n'
    # The anchor on both clocks, and the speed of the virtual clock.
    for path, content in (("/usr/local/late.clock", "mirage-clock 1 1000000000 500000000 1\n"), ("/usr/local/late", script)):
        hosts.write(late, path, content)
    inventory = tmp_path / "hosts"
    inventory.write_text(f"{late} ansible_python_interpreter=/usr/local/late\n")
    result = build(pytestconfig, f"--inventory={inventory}")
    message = refused(result)
    assert late in message and "0.5" in message
    assert hosts.all_idle()


@pytest.mark.parametrize("limit", ["head", "compute"])
def test_a_limit_to_some_hosts_is_refused(hosts: Hosts, pytestconfig: pytest.Config, limit: str) -> None:
    """The hosts would get a slurm.conf that differs from the others'."""
    message = refused(
        build(pytestconfig, f"--limit={limit}", f"--extra-vars={json.dumps({'mirage_nodes': hosts.cluster.nodes + 1})}")
    )
    left_out = hosts.compute if limit == "head" else [hosts.head]
    assert "--limit" in message and all(name in message for name in left_out)
    assert hosts.all_idle()


def test_an_added_host_gets_new_nodes_while_jobs_continue(hosts: Hosts, pytestconfig: pytest.Config) -> None:
    """NODES grows by the number of nodes of one host; jobs on the other hosts continue."""
    before = {name: hosts.nodes(name) for name in hosts.compute}
    more = len(before[hosts.compute[0]])
    options = ("--no-requeue", "--output=/dev/null")
    jobs = [hosts.submit(f"--nodelist=n{block[0]}", *options, command="exec sleep 3600") for block in before.values()]
    until(lambda: all(hosts.cluster.job(job)["JobState"] == "RUNNING" for job in jobs))
    bed("up", "--hosts=further")
    result = build(pytestconfig, f"--extra-vars={json.dumps({'mirage_nodes': hosts.cluster.nodes + more})}")
    assert result.returncode == 0, result.stdout[-2000:]
    inventory = pytestconfig.getoption("ansible_inventory")
    after = Hosts.of(inventory, hosts.cluster.name, hosts.cluster.nodes + more, hosts.cluster.cpus)
    assert all(set(before[name]) <= set(after.nodes(name)) for name in hosts.compute)
    # The new nodes go to the added host, so that all hosts have equal numbers.
    sizes = [len(block) for block in after.blocks().values()]
    assert len(sizes) == len(before) + 1
    assert sum(sizes) == after.cluster.nodes
    assert max(sizes) - min(sizes) <= 1
    states = [after.cluster.job(job) for job in jobs]
    assert [(state["JobState"], state["Restarts"]) for state in states] == [("RUNNING", "0")] * len(jobs)
    after.cluster.run(f"scancel {' '.join(jobs)}")
    until(after.all_idle)
