"""`plane.py start RUN ENVIRONMENT` and `plane.py stop RUN`: starts and stops an OpenStack control plane on this machine.

RUN is a new folder for all files of the control plane, including admin.yaml (the clouds.yaml of the administrator). ENVIRONMENT is
the virtual environment with the services. `stop` ends the processes recorded in RUN, by id and start time, and removes RUN.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import openstack
import yaml
from configuration import ADDRESS, DATABASES, HOSTS, REGION, SERVICES, Plane, write

from slurm_mirage.base import processes

HERE = Path(__file__).parent
# Time limit of the start in seconds; the start takes 50 s on two idle cores.
PATIENCE = 600
TYPES = {"placement": "placement", "glance": "image", "neutron": "network", "nova": "compute"}
MODULES = {
    "keystone": "keystone.wsgi.api",
    "placement": "placement.wsgi.api",
    "glance": "glance.wsgi.api",
    "neutron": "neutron.wsgi.api",
    "nova": "nova_process",
}


def free_ports() -> dict[str, int]:
    """Return a free port for each service. All ports are held until all are chosen, so that they differ."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in SERVICES]
        for one in sockets:
            one.bind((ADDRESS, 0))
        return dict(zip(SERVICES, (one.getsockname()[1] for one in sockets), strict=True))


def environment(plane: Plane) -> dict[str, str]:
    """Return the environment of the services, with the paths of their configuration."""
    own = {f"OS_{service.upper()}_CONFIG_DIR": str(plane.file(service).parent) for service in SERVICES}
    own |= {"OS_NEUTRON_CONFIG_FILES": "neutron.conf", "PYTHONPATH": str(HERE), "PYTHONWARNINGS": "ignore"}
    return {name: value for name, value in os.environ.items() if not name.startswith("OS_")} | own


def run(plane: Plane, program: str, *words: str) -> None:
    """Run a program of the virtual environment. Its output is appended to log/setup.log. Raises CalledProcessError."""
    # Called through Python, because the interpreter's path in its first line is outdated: the environment was renamed.
    folder = plane.environment / "bin"
    command = [str(folder / "python"), *([] if program == "python" else [str(folder / program)]), *words]
    with (plane.run / "log/setup.log").open("a") as log:
        subprocess.run(command, env=environment(plane), stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True)


def setup(plane: Plane) -> dict[str, list[list[str]]]:
    """Return, for each service, the ordered commands that create its tables, and for keystone the administrator."""
    of = {service: ["--config-file", str(plane.file(service))] for service in SERVICES}
    owner = ["--keystone-user", str(os.getuid()), "--keystone-group", str(os.getgid())]
    urls = [word for kind in ("public", "internal", "admin") for word in (f"--bootstrap-{kind}-url", plane.url("keystone"))]
    names = [word for what in ("username", "project-name", "role-name") for word in (f"--bootstrap-{what}", "admin")]
    password = ["--bootstrap-password", plane.password, "--bootstrap-region-id", REGION]
    keystone, nova = ["keystone-manage", *of["keystone"]], ["nova-manage", *of["nova"]]
    return {
        "keystone": [
            [*keystone, "db_sync"],
            [*keystone, "fernet_setup", *owner],
            [*keystone, "credential_setup", *owner],
            [*keystone, "bootstrap", *names, *password, *urls],
        ],
        "glance": [["glance-manage", *of["glance"], "db_sync"]],
        "placement": [["placement-manage", *of["placement"], "db", "sync"]],
        "neutron": [["python", str(HERE / "neutron_tables.py"), str(plane.file("neutron"))]],
        "nova": [
            [*nova, "api_db", "sync"],
            [*nova, "cell_v2", "map_cell0", "--database_connection", plane.database("nova_cell0")],
            [*nova, "cell_v2", "create_cell", "--name", "cell1"],
            [*nova, "db", "sync"],
        ],
    }


def make_databases(plane: Plane) -> None:
    """Create the databases of all services in parallel."""

    def make(commands: list[list[str]]) -> None:
        for words in commands:
            run(plane, *words)

    with ThreadPoolExecutor() as pool:
        list(pool.map(make, setup(plane).values()))
    for name in DATABASES:
        # With a write-ahead log, readers do not wait for the writer.
        with sqlite3.connect(plane.run / "db" / f"{name}.db") as database:
            database.execute("pragma journal_mode=wal")


def serve(plane: Plane, service: str) -> None:
    """Start a service, which first writes its process id and start time."""
    record = plane.run / "processes" / service
    words = [str(record), str(plane.ports[service]), MODULES[service]]
    with (plane.run / "log" / f"{service}.out").open("w") as log:
        subprocess.Popen(
            [str(plane.environment / "bin/python"), str(HERE / "serve.py"), *words],
            env=environment(plane),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def wait_for(plane: Plane, service: str) -> None:
    """Wait until the service's port is open. Raises SystemExit with its last output after its end or the time limit."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection((ADDRESS, plane.ports[service])):
            return
        record = plane.run / "processes" / service
        words = record.read_text().split() if record.exists() else []
        if len(words) == 2 and not processes.is_alive(int(words[0]), int(words[1])):
            break
        time.sleep(0.2)
    said = (plane.run / "log" / f"{service}.out").read_text().strip().splitlines()
    raise SystemExit(f"{service} does not answer: {said[-1] if said else 'it printed nothing'}")


def make_catalogue(plane: Plane) -> None:
    """Create the services' users and endpoints, which nova needs when it starts."""
    identity = openstack.connect(cloud="admin").identity
    project = identity.create_project(name="service", domain_id="default")
    roles = [identity.find_role("admin"), identity.find_role("service") or identity.create_role(name="service")]
    for name, kind in TYPES.items():
        user = identity.create_user(name=name, password=plane.password, domain_id="default")
        for role in roles:
            identity.assign_project_role_to_user(project, user, role)
        service = identity.create_service(name=name, type=kind)
        for interface in ("public", "internal", "admin"):
            identity.create_endpoint(service_id=service.id, interface=interface, url=plane.url(name), region_id=REGION)


def write_clouds(plane: Plane) -> None:
    """Write admin.yaml and use it in this process. prepare.yml also uses it."""
    names = {"username": "admin", "project_name": "admin", "user_domain_id": "default", "project_domain_id": "default"}
    auth = {"auth_url": plane.url("keystone"), "password": plane.password, **names}
    file = plane.run / "admin.yaml"
    file.touch(mode=0o600)
    file.write_text(yaml.safe_dump({"clouds": {"admin": {"auth": auth, "region_name": REGION}}}))
    os.environ["OS_CLIENT_CONFIG_FILE"] = str(file)


def start(folder: Path, services: Path) -> None:
    """Start the control plane in the new folder `folder`."""
    folder.mkdir(mode=0o700, parents=True)
    plane = Plane(folder, services, free_ports(), secrets.token_urlsafe(16))
    write(plane)
    write_clouds(plane)
    make_databases(plane)
    first = [service for service in SERVICES if service != "nova"]
    for service in first:
        serve(plane, service)
    wait_for(plane, "keystone")
    make_catalogue(plane)
    for service in first:
        wait_for(plane, service)
    serve(plane, "nova")
    wait_for(plane, "nova")
    hosts = {hypervisor.name for hypervisor in openstack.connect(cloud="admin").compute.hypervisors()}
    if hosts != set(HOSTS):
        raise SystemExit(f"nova has the hosts {', '.join(sorted(hosts))} instead of {', '.join(HOSTS)}")


def stop(folder: Path) -> None:
    """End the processes recorded in `folder`, and remove the folder."""
    records = [record.read_text().split() for record in folder.glob("processes/*")]
    alive = {(int(words[0]), int(words[1])) for words in records if len(words) == 2}
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + 10
        for pid, _ in (one for one in alive if processes.is_alive(*one)):
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        while alive and time.monotonic() < deadline:
            alive = {one for one in alive if processes.is_alive(*one)}
            time.sleep(0.1)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    command, *folders = sys.argv[1:]
    {"start": start, "stop": stop}[command](*map(Path, folders))
