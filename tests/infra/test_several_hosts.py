"""The running cluster on several hosts: each host runs its nodes, and all of them are one cluster."""

from __future__ import annotations

import re
import socket
from itertools import chain

import pytest
from running import until
from several import Hosts

pytestmark = pytest.mark.cluster


def test_every_node_is_idle(hosts: Hosts) -> None:
    line = hosts.cluster.run("sinfo --noheader --format '%P %D %c %T %N'")
    assert line == f"batch* {hosts.cluster.nodes} {hosts.cluster.cpus} idle n[1-{hosts.cluster.nodes}]"


def test_the_farm_is_a_service_of_each_host(hosts: Hosts) -> None:
    for name, host in hosts.on.items():
        unit = host.service(hosts.unit)
        assert (name, unit.is_running, unit.is_enabled) == (name, True, True)


def test_services_of_the_packages_are_disabled(hosts: Hosts) -> None:
    for name, host in hosts.on.items():
        for service in ("slurmctld", "slurmd", "munge"):
            unit = host.service(service)
            assert (name, service, unit.is_running, unit.is_enabled) == (name, service, False, False)


def test_each_compute_host_runs_its_range_of_nodes_only(hosts: Hosts) -> None:
    blocks = {name: hosts.nodes(name) for name in hosts.compute}
    assert sorted(chain.from_iterable(blocks.values())) == list(range(1, hosts.cluster.nodes + 1))
    sizes = [len(block) for block in blocks.values()]
    assert max(sizes) - min(sizes) <= 1
    for name, block in blocks.items():
        assert block == list(range(block[0], block[-1] + 1))
        assert (name, hosts.slurmd(name)) == (name, len(block))


def test_slurmctld_runs_on_the_head_only(hosts: Hosts) -> None:
    assert [name for name in hosts.on if hosts.daemons(name).get("slurmctld", {}).get("up")] == [hosts.head]


def test_a_second_slurmctld_runs_on_the_first_compute_host_that_is_not_the_head(hosts: Hosts) -> None:
    """Needs mirage_controllers=2."""
    at = [name for name in hosts.on if hosts.daemons(name).get("slurmctld2")]
    if not at:
        pytest.skip("skipped: the cluster has one slurmctld")
    assert at == [name for name in hosts.compute if name != hosts.head][:1]
    lines = hosts.cluster.run("scontrol ping").splitlines()
    names = (f"primary) at slurmctld-{hosts.cluster.name}", f"backup) at slurmctld2-{hosts.cluster.name}")
    assert lines == [f"Slurmctld({name} is UP" for name in names]


def test_all_daemons_are_ready(hosts: Hosts) -> None:
    for name in hosts.on:
        for kind, count in hosts.daemons(name).items():
            assert (name, kind, count["up"], count["ready"]) == (name, kind, count["wanted"], count["wanted"])


def test_all_hosts_have_the_same_secret_key(hosts: Hosts) -> None:
    keys = [host.file(f"{hosts.cluster.directory}/etc/munge.key") for host in hosts.on.values()]
    assert {(key.mode, key.user) for key in keys} == {(0o600, hosts.cluster.user)}
    assert len({key.sha256sum for key in keys}) == 1


def test_daemons_listen_on_the_address_of_their_host_only(hosts: Hosts) -> None:
    for name, host in hosts.on.items():
        lines = host.check_output("ss --listening --tcp --udp --numeric --no-header --extended").splitlines()
        mark = f"uid:{host.user(hosts.cluster.user).uid} "
        assert {line.split()[4].rpartition(":")[0] for line in lines if mark in line} == {hosts.addresses[name]}


def test_other_users_of_the_hosts_cannot_use_the_cluster(hosts: Hosts) -> None:
    """They do not reach munged, so they have no credential."""
    command = f"SLURM_CONF={hosts.cluster.directory}/etc/slurm.conf setpriv --reuid nobody --regid nogroup --clear-groups squeue"
    for host in hosts.on.values():
        result = host.run(f"cd / && {command}")
        assert result.rc != 0 and "Permission denied" in result.stderr


def test_only_the_hosts_of_the_cluster_reach_its_ports(hosts: Hosts) -> None:
    """Needs mirage_firewall. This machine is not one of these hosts, and reaches their SSH port through the same network."""
    unit, comment = f"slurm-firewall-{hosts.cluster.name}.service", rf"'Slurm Mirage, instances? (.*, )?{hosts.cluster.name}[,']"
    units = {name: host.service(unit) for name, host in hosts.on.items() if host.service(unit).exists}
    rules = {name for name, host in hosts.on.items() if re.search(comment, host.run("ufw show added").stdout)}
    if not units and not rules:
        pytest.skip("skipped: the cluster has no firewall")
    assert set(units) | rules == set(hosts.on)
    assert {name for name, one in units.items() if not (one.is_running and one.is_enabled)} == set()
    nodes = hosts.cluster.run("scontrol --oneliner show nodes")
    places = [(address, int(port)) for address, port in re.findall(r" NodeAddr=(\S+) .*? Port=(\d+) ", nodes)]
    control = re.search(r"^SlurmctldPort += (\d+)", hosts.cluster.run("scontrol show config"), re.MULTILINE)
    assert control is not None and len(places) == hosts.cluster.nodes
    for address, port in [*places, (hosts.addresses[hosts.head], int(control[1]))]:
        connect = f"import socket; socket.create_connection(('{address}', {port}), 30).close()"
        assert [host.run("python3 -c %s", connect).rc for host in hosts.on.values()] == [0] * len(hosts.on)
        # The answer of the nftables table, and of ufw with the policy reject.
        with pytest.raises(OSError, match=r"No route to host|Connection refused"):
            socket.create_connection((address, port), 30)


def test_a_job_runs_on_all_hosts_at_the_same_time(hosts: Hosts) -> None:
    """A step with one task on a node of each host reads that host's file."""
    output = f"{hosts.cluster.directory}/log/steps.out"
    chosen = ",".join(f"n{hosts.nodes(name)[0]}" for name in hosts.compute)
    options = (f"--nodes={len(hosts.compute)}", f"--nodelist={chosen}", "--output", output)
    job = hosts.submit(*options, command="srun --label cat /etc/hostname")
    until(lambda: hosts.cluster.job(job)["JobState"] not in ("PENDING", "RUNNING", "COMPLETING"))
    assert hosts.cluster.job(job)["JobState"] == "COMPLETED"
    # A job's output is written on the host of its first node, where its script runs.
    lines = hosts.on[hosts.compute[0]].check_output(f"cat {output}").splitlines()
    names = [hosts.on[name].check_output("cat /etc/hostname") for name in hosts.compute]
    assert sorted(lines) == [f"{rank}: {name}" for rank, name in enumerate(names)]
