"""Users of a sandbox with real daemons: whose processes their jobs are, what they cannot reach, and which tokens are taken.

Two nodes, without the farm. The cluster's clock is real and ten days ahead of the host's.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from mirage_extras.sandbox.benchmarks.client import Refused, RestClient
from slurm_mirage.base.processes import NAMED_USERS
from slurm_mirage.clock import instance_clock
from slurm_mirage.clock.clock import Clock
from slurm_mirage.extras.sandbox import configuration, users
from slurm_mirage.extras.sandbox.daemons import INSIDE, USER_NAMESPACE
from slurm_mirage.extras.sandbox.instance import pausing
from slurm_mirage.farm import isolation
from slurm_mirage.rm.slurm.conf import render_settings

FILES = Path(__file__).parents[3] / "files"
ACCOUNT = "games"
GROUP = NAMED_USERS.start + 12345
AHEAD = 864_000
PATIENCE = 120.0
PROGRAMS = ("munged", "slurmctld", "slurmd", "slurmrestd")
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="only root makes a user namespace"),
    pytest.mark.skipif(not all(shutil.which(name, path=PATH) for name in PROGRAMS), reason="Slurm's daemons are missing"),
]


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Small:
    """A cluster of two nodes in a folder that users can enter."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.account = directory, pwd.getpwnam(ACCOUNT)
        self.ports = _free_ports(4)
        self.processes: list[subprocess.Popen[bytes]] = []
        own = (self.account.pw_uid, self.account.pw_gid)
        for name in ("etc", "lib", "users", "transfer", "munge", "run", "runs", "state", "log", "spool"):
            (directory / name).mkdir()
            if name not in ("etc", "lib", "users", "transfer"):
                os.chown(directory / name, *own)
        os.chown(directory / "munge", own[0], GROUP)
        for name, mode in (("munge", 0o710), ("state", 0o700), ("", 0o755)):
            (directory / name).chmod(mode)
        for name in ("munge.key", "jwt_hs256.key"):
            path = directory / "etc" / name
            path.write_bytes(secrets.token_bytes(32))
            path.chmod(0o600)
            os.chown(path, *own)
        for name in ("job_users", "virtual_clock"):
            subprocess.run(["make", "-sC", str(FILES / name), f"OUT={directory}/lib"], check=True)
        now = time.time_ns()
        for place in ("state/clock", "users/.clock"):
            Clock(now, now + AHEAD * 10**9, 1.0).write(directory / place)
        (directory / "etc/slurm.conf").write_text(self._conf())
        self.users = {name: users.ensure(directory, name) for name in ("anna", "bert")}

    def _conf(self) -> str:
        here, host = self.directory, socket.gethostname()
        settings: Mapping[str, Any] = {
            "ClusterName": "small", "SlurmctldHost": f"{host}(127.0.0.1)", "SlurmctldPort": self.ports[0], "SlurmUser": ACCOUNT,
            "StateSaveLocation": here / "state", "SlurmdSpoolDir": here / "spool/%n",
            "SlurmctldPidFile": here / "run/slurmctld.pid", "SlurmdPidFile": here / "run/%n.pid",
            "SlurmctldLogFile": here / "log/slurmctld.log",
            "SlurmdLogFile": here / "log/%n.log", "SlurmdParameters": "config_overrides", "ProctrackType": "proctrack/linuxproc",
            "TaskPlugin": "task/none", "MpiDefault": "none", "MailProg": "/bin/true", "SelectType": "select/cons_tres",
            "SelectTypeParameters": "CR_CPU", "PropagateResourceLimits": "NONE", "DisableRootJobs": "YES",
        }  # fmt: skip
        wanted, _ = configuration.completed({"directory": str(here)}, settings, [], "22.05.8")
        lines = render_settings({name: value for name, value in wanted.items() if not name.startswith("Accounting")})
        nodes = "".join(f"NodeName=n{i} NodeHostname={host} NodeAddr=127.0.0.1 Port={self.ports[i]} CPUs=2\n" for i in (1, 2))
        return f"{lines}{nodes}PartitionName=batch Nodes=ALL Default=YES State=UP\n"

    def environment(self, clock: str = "state/clock") -> dict[str, str]:
        here = self.directory
        preload = f"{here}/lib/virtual_clock.so:{here}/lib/job_users.so"
        return {
            "PATH": PATH, "TZ": "UTC", "SLURM_CONF": f"{here}/etc/slurm.conf", "LD_PRELOAD": preload,
            instance_clock.VARIABLE: str(here / clock),
        }  # fmt: skip

    def start(self) -> None:
        here, run = self.directory, self.directory / "run"
        files = [f"--key-file={here}/etc/munge.key", f"--pid-file={run}/munged.pid", f"--log-file={here}/log/munged.log"]
        socket_file = here / "munge/munge.socket"
        self._start(["munged", "--foreground", "--force", f"--socket={socket_file}", f"--seed-file={run}/seed", *files], {})
        until(socket_file.exists, "munged")
        self._start(["slurmctld", "-D"], self.environment())
        namespace = isolation.make_user_namespace(ACCOUNT, USER_NAMESPACE["first"], USER_NAMESPACE["count"])
        inside = {**self.environment(), INSIDE: str(self.account.pw_uid)}
        for node in ("n1", "n2"):
            self._start(["slurmd", "-D", "-N", node, "-f", f"{here}/etc/slurm.conf"], inside, namespace)
        rest = ["slurmrestd", "-s", "v0.0.38", "-a", "rest_auth/jwt", f"127.0.0.1:{self.ports[3]}"]
        without_clock = {"SLURM_CONF": f"{here}/etc/slurm.conf", "LD_PRELOAD": f"{here}/lib/job_users.so", "SLURM_JWT": "daemon"}
        self._start(rest, without_clock, namespace, users.REST)
        until(lambda: self.run("sinfo -h -o %t").split() == ["idle"], "the nodes register")

    def _start(self, words: list[str], environment: Mapping[str, str], namespace: int | None = None, user: int = 0) -> None:
        own = {"user": self.account.pw_uid, "group": self.account.pw_gid, "extra_groups": []}
        if namespace is not None:
            change = [f"--setuid={user}", f"--setgid={user}"] if user else ["--preserve-credentials"]
            words = ["nsenter", f"--user=/proc/self/fd/{namespace}", *change, "--", "setpriv", "--no-new-privs", "--", *words]
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        given = {"PATH": PATH, **environment}
        fds = () if namespace is None else (namespace,)
        self.processes.append(subprocess.Popen(words, env=given, pass_fds=fds, **own, **streams))  # type: ignore[call-overload]

    def run(self, script: str, user: str = "") -> str:
        """The output of bash's script, run by a user, or by the instance's."""
        number, group = (self.users[user], GROUP) if user else (self.account.pw_uid, self.account.pw_gid)
        home = self.directory / "users" / user if user else Path("/")
        environment = {**self.environment("users/.clock" if user else "state/clock"), "HOME": str(home), "USER": user or ACCOUNT}
        own: dict[str, Any] = {"user": number, "group": group, "extra_groups": [], "cwd": home, "env": environment}
        result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=PATIENCE, check=False, **own)
        return result.stdout + result.stderr

    def job(self, script: str, user: str, options: str = "") -> str:
        """What a job of the user printed."""
        mark = secrets.token_hex(8)
        self.run(f"sbatch -o {mark} {options} --wrap '{script}; echo {mark}'", user)
        path = self.directory / "users" / user / mark
        until(lambda: path.exists() and mark in path.read_text(), "the job ends")
        return path.read_text().replace(f"{mark}\n", "")

    def client(self, user: str, token: str) -> RestClient:
        return RestClient(f"http://127.0.0.1:{self.ports[3]}", user, token, 38)

    def token(self, user: str, lifespan: int) -> str:
        """A token as a client makes it who has the key."""

        def part(content: bytes) -> str:
            return base64.urlsafe_b64encode(content).rstrip(b"=").decode()

        head = {"alg": "HS256", "typ": "JWT"}
        body = {"exp": int(time.time()) + lifespan, "iat": int(time.time()), "sun": user}
        text = ".".join(part(json.dumps(one).encode()) for one in (head, body))
        key = (self.directory / "etc/jwt_hs256.key").read_bytes()
        return f"{text}.{part(hmac.new(key, text.encode(), hashlib.sha256).digest())}"

    def end_jobs(self) -> None:
        """Cancel all jobs, and wait until their slurmstepd have ended: these would go on after slurmd."""
        self.run("scancel --user=anna; scancel --user=bert")
        until(lambda: not self.run("squeue --noheader"), "all jobs end")

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


@pytest.fixture(scope="module")
def small() -> Iterator[Small]:
    directory = Path(tempfile.mkdtemp(prefix="sandbox-test-", dir="/var/tmp"))
    cluster = None
    try:
        cluster = Small(directory)
        try:
            cluster.start()
        except PermissionError as error:
            pytest.skip(f"this host allows no user namespace: {error}")
        yield cluster
        cluster.end_jobs()
    finally:
        if cluster is not None:
            cluster.stop()
        shutil.rmtree(directory)


def test_a_job_is_a_process_of_its_user_without_rights(small: Small) -> None:
    output = small.job('id -u; id -g; grep -E "NoNewPrivs|CapEff" /proc/self/status', "anna").split()
    number = small.users["anna"]
    assert output == [str(number), str(GROUP), "CapEff:", "0" * 16, "NoNewPrivs:", "1"]
    assert small.run("srun -N2 -n2 id -u", "anna").split().count(str(number)) == 2


def test_jobs_of_the_instance_and_of_a_log_are_processes_of_its_user(small: Small) -> None:
    for options in ("", "--uid=u12"):
        job = small.run(f"cd /tmp; sbatch --parsable -o /dev/null {options} --wrap 'sleep 1000'").strip()
        until(lambda job=job: _owners(job), "the job runs")
        assert _owners(job) == {small.account.pw_uid}
        small.run(f"scancel {job}")


def _owners(job: str) -> set[int]:
    """Users, as the host sees them, of the programs of a job."""
    mark = f"SLURM_JOB_ID={job}\0".encode()
    processes = [path for path in Path("/proc").glob("[0-9]*") if _content(path / "cmdline") == b"sleep\x001000\x00"]
    return {path.stat().st_uid for path in processes if mark in _content(path / "environ")}


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_neither_a_shell_nor_a_job_reaches_what_is_slurms(small: Small) -> None:
    here = small.directory
    attempts = (
        *(f"cat {here}/etc/{name}" for name in ("munge.key", "jwt_hs256.key")),
        *(f"ls {here}/{name}" for name in ("state", "munge", "users/bert")),
        f"echo x > {here}/state/x",
        f"ln -s {here}/etc/munge.key {here}/run/x",
        "kill $(pgrep -o slurmctld)",
        "kill $(pgrep -o slurmd)",
        "cat /proc/$(pgrep -o slurmd)/environ",
        "nsenter --user=/proc/$(pgrep -o slurmd)/ns/user id",
        f"setpriv --reuid={small.account.pw_uid} id",
    )
    script = "; ".join(f"({attempt}) > /dev/null 2>&1 && echo {number}" for number, attempt in enumerate(attempts))
    assert small.run(f"{script}; echo end", "anna") == "end\n"
    assert small.job(f"{script}; true".replace("'", '"'), "anna") == ""


def test_a_user_of_another_sandbox_gets_no_credential(small: Small) -> None:
    socket_file, answers = small.directory / "munge/munge.socket", []
    for user, group in ((small.users["anna"], GROUP), (max(small.users.values()) + 1, GROUP + 1)):
        own: dict[str, Any] = {"user": user, "group": group, "extra_groups": [], "cwd": "/"}
        words = ["munge", "--no-input", f"--socket={socket_file}"]
        answers.append(subprocess.run(words, capture_output=True, timeout=PATIENCE, check=False, **own).stdout[:6])
    assert answers == [b"MUNGE:", b""]


@pytest.mark.parametrize("name", ["state/planted", "users/bert/planted", "etc/planted"])
def test_slurm_writes_for_a_user_only_where_the_user_can(small: Small, name: str) -> None:
    path = small.directory / name
    job = small.run(f"sbatch --parsable -o {path} --wrap 'echo x'", "anna").strip()
    small.run(f"echo x > f; salloc -N1 sbcast f {path}", "anna")
    until(lambda: small.run(f"squeue -h -t R,CG,PD -j {job}").strip() == "" or "Invalid" in small.run(f"squeue -h -j {job}"), "end")
    assert not path.exists()


@pytest.mark.parametrize(
    "command",
    [
        "sbatch --uid=0 --wrap id",
        "sbatch --uid=u12 --wrap id",
        "scontrol shutdown",
        "scontrol update NodeName=n1 State=DOWN Reason=x",
        "scontrol token username=root",
        "scontrol token username=bert",
    ],
)
def test_a_user_is_no_administrator(small: Small, command: str) -> None:
    assert small.run(f"{command} > /dev/null 2>&1 && echo done", "anna") == ""


def test_a_user_does_not_end_jobs_of_others(small: Small) -> None:
    job = small.run("sbatch --parsable -o /dev/null --wrap 'sleep 1000'", "bert").strip()
    small.run(f"scancel {job}", "anna")
    with pytest.raises(Refused):
        small.client("anna", small.token("anna", 600)).cancel(int(job))
    assert small.run(f"squeue -h -j {job} -t R,PD -o %u").strip() == "bert"
    small.run(f"scancel {job}", "bert")


def test_tokens_live_by_the_hosts_clock(small: Small) -> None:
    own = small.run("scontrol token lifespan=600", "anna").strip().partition("=")[2]
    body = own.split(".")[1]
    content = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    assert (content["sun"], abs(content["exp"] - time.time() - 600) < PATIENCE) == ("anna", True)
    for token in (own, small.token("anna", 600)):
        assert len(small.client("anna", token).get("nodes")["nodes"]) == 2
    forged = f"{own[:-4]}{'AAAA' if own[-4:] != 'AAAA' else 'BBBB'}"
    for user, token in (("anna", small.token("anna", -10)), ("anna", forged), ("bert", own), ("anna", "")):
        with pytest.raises(Refused):
            small.client(user, token).get("jobs")


def test_a_job_of_the_api_belongs_to_the_tokens_user(small: Small) -> None:
    client = small.client("anna", small.token("anna", 600))
    folder = small.directory / "users/anna"
    job = client.submit("#!/bin/sh\nid -u > from_rest\n", str(folder), 5, {"PATH": "/usr/bin:/bin"})
    assert {one["job_id"]: one["user_name"] for one in client.get("jobs")["jobs"]}[job] == "anna"
    until(lambda: (folder / "from_rest").exists() and (folder / "from_rest").read_text(), "the job ends")
    assert int((folder / "from_rest").read_text()) in NAMED_USERS


def test_a_pause_suspends_what_runs_and_what_waits_does_not_start(small: Small) -> None:
    def states() -> dict[str, str]:
        return dict(line.split() for line in small.run("squeue -h -o '%A %t'").splitlines())

    def bring(state: str) -> dict[str, Any]:
        return pausing.apply({"directory": str(small.directory), "user": ACCOUNT, "state": state}, False)

    assert bring("resumed") == {"changed": False, "jobs": 0}
    running = [small.run("sbatch --parsable -n2 -o /dev/null --wrap 'sleep 1000'", user).strip() for user in ("anna", "bert")]
    until(lambda: all(states().get(job) == "R" for job in running), "both run")
    waiting = small.run("sbatch --parsable -n1 -o /dev/null --wrap 'sleep 1000'", "anna").strip()
    for changed in (True, False):  # a call that was killed is repeated
        assert bring("paused") == {"changed": changed, "jobs": 2, "notes": ["jobs suspended: 2"]}
    assert states() == {**dict.fromkeys(running, "S"), waiting: "PD"}
    late = small.run("sbatch --parsable -n1 -o /dev/null --wrap 'sleep 1000'", "bert").strip()
    assert states()[late] == "PD"
    small.run(f"scancel {running[1]}", "bert")
    until(lambda: running[1] not in states(), "a suspended job is cancelled")
    assert states() == {running[0]: "S", waiting: "PD", late: "PD"}
    assert bring("resumed") == {"changed": True, "jobs": 1, "notes": ["jobs resumed: 1"]}
    assert not (small.directory / pausing.RECORD).exists()
    until(lambda: set(states().values()) == {"R"}, "all run")
    small.run("scancel -u anna; scancel -u bert")
