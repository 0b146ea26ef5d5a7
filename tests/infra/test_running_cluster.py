"""The running cluster on one host, from its users' view."""

from __future__ import annotations

import io
import re
import subprocess
from typing import Any

import pytest
from running import Cluster, until

from slurm_mirage.jobs import sigsleep_log

pytestmark = pytest.mark.cluster


def test_every_node_is_registered(cluster: Cluster) -> None:
    line = cluster.run("sinfo --noheader --format '%P %D %c %T %N'")
    assert line == f"batch* {cluster.nodes} {cluster.cpus} idle n[1-{cluster.nodes}]"


def test_all_daemons_of_the_farm_are_ready(cluster: Cluster) -> None:
    state = cluster.state()
    assert state["phase"] == "running"
    assert state["failing"] == {}
    counts = {kind: (c["wanted"], c["up"], c["ready"]) for kind, c in state["daemons"].items()}
    kinds = {"munged": (1, 1, 1), "slurmctld": (1, 1, 1), "slurmd": (cluster.nodes,) * 3}
    clock = cluster.host.file(f"{cluster.directory}/state/clock")
    has_event_clock = clock.exists and clock.content_string.split()[-1] == "event"
    assert counts == (kinds | {"clock": (1, 1, 1)} if has_event_clock else kinds)


def test_the_daemons_are_unprivileged(cluster: Cluster) -> None:
    environment = f"PYTHONPATH={cluster.directory}/lib"
    program = f"from slurm_mirage.base import processes as p; print(*p.of_users([p.instance_user('{cluster.directory}')]))"

    def daemons() -> tuple[int, int]:
        """Numbers of slurmd and of slurmctld. Processes of containers are left out: their users may have the same ids.

        A daemon that starts a program has for a moment children with its own name.
        """
        pids = cluster.host.check_output(f'{environment} python3 -c "{program}"')
        names = cluster.host.run("ps -o comm= -p %s", pids).stdout.splitlines()
        return names.count("slurmd"), names.count("slurmctld")

    until(lambda: daemons() == (cluster.nodes, 1))
    assert not [p for p in cluster.host.process.filter(user="root") if f"{cluster.directory}/etc" in p.args]


def test_secrets_are_not_readable_by_others(cluster: Cluster) -> None:
    key = cluster.host.file(f"{cluster.directory}/etc/munge.key")
    assert (key.mode, key.user) == (0o600, cluster.user)


def as_nobody(cluster: Cluster, command: str) -> str:
    """Run a Slurm command as another user of the host; returns what it says. The test fails if it works."""
    prefix = f"SLURM_CONF={cluster.directory}/etc/slurm.conf setpriv --reuid nobody --regid nogroup --clear-groups"
    result = cluster.host.run(f"cd / && {prefix} timeout 60 {command}")
    assert result.rc not in (0, 124), f"{command}: {result.stdout}"
    return str(result.stderr)


@pytest.mark.parametrize("command", ["sbatch --output=/dev/null --wrap true", "squeue", "sinfo", "scontrol show config", "sdiag"])
def test_other_users_of_the_host_cannot_use_the_cluster(cluster: Cluster, command: str) -> None:
    """They do not reach munged, so they have no credential."""
    assert "Permission denied" in as_nobody(cluster, command)
    assert cluster.run("squeue --noheader") == ""


def test_a_job_of_root_is_refused(cluster: Cluster) -> None:
    """slurmd is not root and could not start it: it would stay in the queue, held."""
    result = cluster.host.run(f"SLURM_CONF={cluster.directory}/etc/slurm.conf sbatch --chdir=/ --output=/dev/null --wrap true")
    assert result.rc != 0
    assert cluster.run("squeue --noheader") == ""


def listening(cluster: Cluster) -> set[str]:
    """Return the addresses on which processes of the instance's user listen."""
    lines = cluster.host.check_output("ss --listening --tcp --udp --numeric --processes --no-header --extended").splitlines()
    uid = cluster.host.user(cluster.user).uid
    sockets = [line for line in lines if f"uid:{uid} " in line]
    return {line.split()[4].rsplit(":", 1)[0] for line in sockets}


def test_daemons_and_jobs_listen_on_loopback_only(cluster: Cluster, host: Any) -> None:
    assert listening(cluster) == {"127.0.0.1"}
    width = cluster.nodes * cluster.cpus
    batch = cluster.run(f"sbatch --parsable -n {width} -o /dev/null --wrap 'exec sleep 20'")
    until(lambda: cluster.job(batch)["JobState"] == "RUNNING")
    assert listening(cluster) == {"127.0.0.1"}
    cluster.run(f"scancel {batch}")
    until(lambda: cluster.job(batch)["JobState"] == "CANCELLED")
    until(lambda: cluster.run("sinfo --noheader --format %T") == "idle")


def test_a_job_is_recorded_by_slurm_and_sigsleep(cluster: Cluster) -> None:
    log = f"{cluster.directory}/runs/infra-{cluster.host.check_output('date +%s%N')}.log"
    slurm_id = cluster.run(f"sbatch --parsable --job-name infra.1 -n 2 -o /dev/null --wrap 'exec {cluster.sigsleep(log, 1.5)}'")
    until(lambda: cluster.job(slurm_id)["JobState"] == "COMPLETED")
    record = next(iter(read(cluster, log)))
    assert (record.id, record.slurm_job_id, record.completed, record.suspensions) == (1, int(slurm_id), True, ())
    assert record.executed_ns >= 1_500_000_000
    completion = cluster.host.file(f"{cluster.directory}/log/jobcomp.log").content_string.splitlines()
    words = dict(re.findall(r"(\w+)=(\S*)", next(line for line in reversed(completion) if f"JobId={slurm_id} " in line)))
    assert (words["JobState"], words["Name"], words["ProcCnt"]) == ("COMPLETED", "infra.1", "2")


def test_a_suspended_job_runs_its_full_time(cluster: Cluster) -> None:
    log = f"{cluster.directory}/runs/infra-{cluster.host.check_output('date +%s%N')}.log"
    slurm_id = cluster.run(f"sbatch --parsable -n 1 -o /dev/null --wrap 'exec {cluster.sigsleep(log, 4)}'")
    until(lambda: cluster.job(slurm_id)["JobState"] == "RUNNING")
    cluster.host.run("sleep 1")
    cluster.run(f"scontrol suspend {slurm_id}")
    cluster.host.run("sleep 5")
    cluster.run(f"scontrol resume {slurm_id}")
    until(lambda: cluster.job(slurm_id)["JobState"] == "COMPLETED")
    record = next(iter(read(cluster, log)))
    assert record.completed
    assert len(record.suspensions) == 1
    suspended = sum(resume - suspend for suspend, resume in record.suspensions) / 1e9
    assert record.executed_ns >= 4_000_000_000
    assert (record.end_ns - record.start_ns) / 1e9 >= 4 + suspended - 0.001
    # slurmctld's times are whole seconds.
    job = cluster.job(slurm_id)
    assert abs(int(job["SecsPreSuspend"]) - 1) <= 2
    assert suspended >= 4


def test_the_hosts_own_host_name_is_unchanged(cluster: Cluster) -> None:
    """The farm's private host name is not visible there."""
    assert cluster.host.check_output("hostname") == subprocess.check_output(["hostname"], text=True).strip()


def read(cluster: Cluster, log: str) -> list[sigsleep_log.Record]:
    """Return the records of a sigsleep log on the host."""
    records, damage = sigsleep_log.read_log(io.BytesIO(cluster.host.file(log).content))
    assert damage == []
    return records
