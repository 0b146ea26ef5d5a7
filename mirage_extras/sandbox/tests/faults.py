"""A sandbox with real clients: it is killed while it is made, used, paused, and attacked by a user of it."""

from __future__ import annotations

import csv
import json
import secrets
import time
from collections.abc import Callable

from mirage_extras.sandbox.benchmarks.client import Refused, RestClient, client_of, in_shell
from slurm_mirage.base.processes import NAMED_USERS
from tests.faults.lane import CPUS, JOBS, NODES, Lane, expect, until
from tests.faults.table import Wrong, fault

PACE = 20
USER, OTHER = "anna", "bert"
SECRETS = ("etc/munge.key", "etc/jwt_hs256.key", "etc/slurmdbd.conf")
PRIVATE = ("state", "database", "run/private", "run/private/mariadb.socket", "munge", f"users/{OTHER}")
"""Folders, and what is in them, that a user neither lists nor opens."""


@fault(
    "sandbox",
    "SIGKILL while a sandbox is made; then REST clients, jobs of a user who tries to read and write what is Slurm's, a pause",
    "the same command goes on; the API has what jobs.csv has; the user gets nowhere; jobs go on after the pause",
)
def sandbox(lane: Lane) -> None:
    knobs = lane.knobs() | {"PACE": PACE}
    knobs.pop("SPEED", None)
    command = lane.start("sandbox", **knobs)
    until(lambda: (lane.directory / "etc/slurm.conf").exists(), "slurm.conf is written")
    command.kill_group()
    command.end()
    expect(lane.make("sandbox", **knobs), ("ok",), "runs")
    _keeps_secrets(lane)
    _runs_jobs_of(lane)
    client = client_of(lane.cluster, USER)
    _answers(lane, client)
    _takes_valid_tokens_only(lane, client)
    _pauses(lane)
    until(lambda: lane.progress().get("phase") == "finished", "the work ends")
    expect(lane.make("sandbox", **knobs), ("ok",), "has ended")
    with (lane.results() / "jobs.csv").open() as table:
        rows = list(csv.DictReader(table))
    # At a constant pace the replay first submits jobs of its own, RUN.launch, to measure how long a launch takes.
    played = {f"{lane.run()}.{row['id']}" for row in rows}
    known = [job["name"] for job in client.get("jobs", "slurmdb")["jobs"] if job["name"] in played]
    if len(played) != JOBS or sorted(known) != sorted(played):
        raise Wrong(f"jobs.csv has {len(played)} of {JOBS} jobs, and the database's API {len(known)} of them")


def _refused(lane: Lane, script: str, what: str) -> None:
    """Check that the script, run by the user, prints nothing but `no`."""
    if (answer := in_shell(lane.cluster, USER, f"({script}) 2>/dev/null || echo no").strip()) != "no":
        raise Wrong(f"{USER} could {what}: {answer[:200]}")


def _keeps_secrets(lane: Lane) -> None:
    in_shell(lane.cluster, OTHER, "echo mine > own")
    for name in SECRETS:
        if (mode := (lane.directory / name).stat().st_mode & 0o777) != 0o600:
            raise Wrong(f"{name} has mode {mode:o}")
        _refused(lane, f"cat {lane.directory / name}", f"read {name}")
    for name in PRIVATE:
        _refused(lane, f"ls {lane.directory / name}/", f"list {name}")
        _refused(lane, f"echo x > {lane.directory / name}/x", f"write into {name}")
    _refused(lane, "sudo -n true || su -c true", "become root")
    _refused(lane, "scontrol shutdown || scontrol update PartitionName=batch State=DOWN", "change the cluster")
    _refused(lane, "sbatch --uid=0 --wrap=id || sbatch --uid=u1 --wrap=id", "submit a job of another user")
    _refused(lane, "scontrol token username=root", "get a token of root")


def _runs_jobs_of(lane: Lane) -> None:
    """The user's jobs are processes of the user, take as long as they ask for, and cannot write where the user cannot."""
    state = lane.directory / "state/planted"
    mark = secrets.token_hex(8)
    script = f"id -u; cat {lane.directory}/etc/jwt_hs256.key; ls {lane.directory}/state; sleep {10 * PACE}; echo {mark}"
    submit = f"sbatch --parsable --output={state} --wrap='echo planted'; sbatch --parsable --output=out --wrap='{script}'"
    wait = "until squeue --noheader --format=%t%u | grep -q R$USER; do sleep 1; done"
    answer = in_shell(lane.cluster, USER, f"{submit}; {wait}").split()
    began = time.monotonic()
    output = until(lambda: mark in (said := in_shell(lane.cluster, USER, "cat out")) and said, f"job {answer[1]} ends")
    took = time.monotonic() - began
    if not took > 5:
        raise Wrong(f"a job of {10 * PACE} s on a clock {PACE} times as fast took {took:.1f} s")
    number = output.split()[0]
    if not number.isdecimal() or int(number) not in NAMED_USERS or output.split()[-1] != mark or len(output.splitlines()) > 6:
        raise Wrong(f"the job of {USER} said: {output[:300]}")
    if state.exists():
        raise Wrong(f"a job of {USER} wrote into the state of slurmctld")


def _answers(lane: Lane, client: RestClient) -> None:
    if len(nodes := client.get("nodes")["nodes"]) != NODES or {node["cpus"] for node in nodes} != {CPUS}:
        raise Wrong(f"the API has {len(nodes)} nodes")
    home = lane.directory / "users" / USER
    job = client.submit("#!/bin/sh\nsleep 1000\n", str(home), 30, {"PATH": "/usr/bin:/bin"})
    owners = {one["job_id"]: one["user_name"] for one in client.get("jobs")["jobs"]}
    if owners.get(job) != USER:
        raise Wrong(f"job {job} of the API belongs to {owners.get(job)}")
    client.cancel(job)
    other = next((number for number, owner in owners.items() if owner != USER), None)
    if other is not None:
        _is_denied(lambda: client.cancel(other), "cancel another user's job")


def _takes_valid_tokens_only(lane: Lane, client: RestClient) -> None:
    url, token = in_shell(lane.cluster, USER, 'echo "$REST_URL $REST_TOKEN"').split()
    short = in_shell(lane.cluster, USER, "scontrol token lifespan=5").strip().partition("=")[2]
    RestClient(url, USER, short, client.version).get("ping")
    RestClient(url, USER, short, client.version).get("jobs")
    time.sleep(7)
    _is_denied(lambda: RestClient(url, USER, short, client.version).get("jobs"), "use a token that has expired")
    _is_denied(lambda: RestClient(url, USER, token[:-2] + "xx", client.version).get("jobs"), "use a forged token")
    _is_denied(lambda: RestClient(url, OTHER, token, client.version).get("jobs"), "use a token for another user")
    RestClient(url, USER, token, client.version).get("jobs")


def _is_denied(action: Callable[[], object], what: str) -> None:
    try:
        answer = action()
    except Refused:
        return
    raise Wrong(f"a client could {what}: {json.dumps(answer)[:200]}")


def _pauses(lane: Lane) -> None:
    script = f"sbatch --output=paused --wrap='sleep {2 * PACE}; echo done'; while ! squeue -h -t R | grep -q .; do sleep 1; done"
    in_shell(lane.cluster, USER, script)
    expect(lane.make("pause", CLUSTER=lane.cluster), ("ok",), "is paused")
    running = lane.slurm("squeue", "--noheader", "--states=running,completing").stdout.split()
    if running:
        raise Wrong(f"jobs run while the sandbox is paused: {running}")
    submitted = lane.progress().get("submitted", 0)
    time.sleep(3)
    if lane.progress().get("submitted", 0) != submitted:
        raise Wrong("the replay went on while the sandbox was paused")
    expect(lane.make("resume", CLUSTER=lane.cluster), ("ok",), "goes on")
    until(lambda: "done" in in_shell(lane.cluster, USER, "cat paused"), "the job goes on after the pause")
