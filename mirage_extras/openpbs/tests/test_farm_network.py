"""The farm of an instance with a network of its own, whose daemons run as root: real processes in real namespaces."""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
from pathlib import Path

import pytest
from test_farm import USER, Bed, bed, until
from test_farm_event_clock import COORDINATOR

from slurm_mirage.base import processes
from slurm_mirage.clock import clock_page
from slurm_mirage.extras.openpbs import addresses
from slurm_mirage.extras.openpbs.daemons import NETWORK
from slurm_mirage.farm import network
from slurm_mirage.farm.network import entrance
from slurm_mirage.rm.api import Unavailable

__all__ = ["bed"]

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="skipped: needs root for a network namespace")
LISTENER = """
import os, socket
listener = socket.create_server(("0.0.0.0", int(os.environ["PORT"])))
status = open("/proc/self/status").read()
while True:
    connection, (peer, port) = listener.accept()
    with connection:
        connection.sendall(f"{os.getuid()} {socket.gethostname()} {peer} {port}\\n{status}".encode())
"""
ALLOWED = 0x10004EF
"""chown, dac_override, dac_read_search, fowner, kill, setgid, setuid, net_bind_service, sys_resource, as in /proc/PID/status."""


def specify(bed: Bed, nodes: int = 2) -> None:
    (bed.directory / "listener.py").write_text(LISTENER)
    names = [(f"n{i}", i) for i in range(1, nodes + 1)]
    first = addresses.node_ports(0)[0]
    common = {"digest": "1", "ready_file": ""}
    program = ["/usr/bin/python3", str(bed.directory / "listener.py")]
    server = {**common, "kind": "pbs_server", "name": "pbs_server", "command": program, "ready_port": 15001}
    server["environment"] = {"PORT": "15001"}
    node = {**common, "kind": "pbs_mom", "name": "n{i}", "first": 1, "count": nodes, "ready_port": first}
    # All nodes have one command line: the variable alone tells them apart.
    by_port = {"environment": {"PORT": f"{first // 10}{{i}}"}, "command": program, "ready_port_step": 1}
    spec = {"user": USER, "hostname": addresses.HEAD, "parallel": 2, "environment": {}, "clock": {"speed": 1.0, "library": ""}}
    spec |= {"identity": "1", "addresses": addresses.host_names(names), "network": NETWORK}
    database = {**server, "kind": "postgres", "name": "postgres", "ready_port": 15007, "environment": {"PORT": "15007"}}
    spec |= {"daemons": [{**database, "account": "nobody"}, {**server, "account": "root"}, {**node, **by_port, "account": "root"}]}
    (bed.directory / "etc/farm.json").write_text(json.dumps(spec))


def specify_event_clock(bed: Bed) -> None:
    specify(bed)
    (bed.directory / "coordinator.py").write_text(COORDINATOR)
    specification = json.loads((bed.directory / "etc/farm.json").read_text())
    words = ["/usr/bin/python3", str(bed.directory / "coordinator.py"), str(bed.directory / "state/clock")]
    clock = {"kind": "clock", "name": "clock", "command": words, "digest": "1", "ready_file": str(bed.directory / clock_page.FILE)}
    specification |= {"clock": {"speed": "event", "library": ""}, "daemons": [clock, *specification["daemons"]]}
    (bed.directory / "etc/farm.json").write_text(json.dumps(specification))


def is_up(bed: Bed, nodes: int = 2) -> bool:
    state = bed.state()
    return state["phase"] == "running" and state["daemons"]["pbs_mom"] == {"wanted": nodes, "up": nodes, "ready": nodes}


def answer(bed: Bed, host: str, port: int) -> list[str]:
    """What the daemon at this address answers, asked from inside the network by a command of the instance's user."""
    ask = f"import os, socket\nassert os.getuid() != 0\nprint(socket.create_connection(({host!r}, {port})).makefile().read())"
    return inside(bed, ask).splitlines()


def inside(bed: Bed, program: str, as_root: bool = False) -> str:
    """Run a Python program in the instance's network, as the instance's user or as root; returns its output."""
    with entrance(bed.directory, as_root=as_root) as way:
        words = [*way.words, "/usr/bin/python3", "-c", program]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120, pass_fds=way.descriptors)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_daemons_run_as_root_with_few_capabilities_in_a_network_of_their_own(bed: Bed) -> None:
    specify(bed)
    bed.start()
    until(lambda: is_up(bed))
    first, *status = answer(bed, "n2", 15001)
    assert first.split()[:3] == ["0", addresses.HEAD, addresses.HEAD_ADDRESS], "n2 is a name of the instance's own network"
    low, high = addresses.EPHEMERAL_PORTS
    assert low <= int(first.split()[3]) <= high
    words = dict(line.split(":\t") for line in status if ":\t" in line)
    own = dict(line.split(":\t") for line in Path("/proc/self/status").read_text().splitlines())
    assert {int(words[name], 16) for name in ("CapPrm", "CapEff", "CapBnd")} == {ALLOWED & int(own["CapBnd"], 16)}
    nodes = [pid for pid in processes.of_instance(str(bed.directory)) if processes.environment(pid).get("PORT", "15001") != "15001"]
    assert {Path(f"/proc/{pid}/personality").read_text() for pid in nodes} == {"00040000\n"}, "fixed addresses, which ksmd needs"
    assert f":{15001:04X} " not in Path("/proc/net/tcp").read_text(), "the host's own network has no such port"


def test_all_daemons_use_the_event_clock_and_its_page(bed: Bed) -> None:
    """Also the database server, as another account, which has the instance's group for it. The coordinator knows of the network."""
    specify_event_clock(bed)
    bed.start()
    until(lambda: is_up(bed))
    found = processes.of_instance(str(bed.directory))
    listeners = {pid: processes.environment(pid) for pid in found if "listener.py" in " ".join(processes.command_line(pid))}
    assert len(listeners) == 4 and all("SLURM_MIRAGE_CLOCK" in variables for variables in listeners.values())
    page = (bed.directory / clock_page.FILE).stat()
    assert page.st_mode & 0o777 == 0o660 and page.st_gid == pwd.getpwnam(USER).pw_gid
    groups = {}
    for pid, variables in listeners.items():
        lines = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
        groups[variables["PORT"]] = lines["Groups"].split()
    assert groups.pop("15007") == [str(page.st_gid)] and set(map(tuple, groups.values())) == {()}
    (coordinator,) = (pid for pid in found if "coordinator.py" in " ".join(processes.command_line(pid)))
    assert "network=" in processes.command_line(coordinator)[-1] or "BPF" in str(bed.state()["refused"])


def test_daemons_of_root_are_adopted_and_ended(bed: Bed) -> None:
    specify(bed)
    bed.start()
    until(lambda: is_up(bed))
    before = {pid for pid in processes.of_instance(str(bed.directory)) if "listener.py" in " ".join(processes.command_line(pid))}
    assert len(before) == 4
    bed.farm.kill()
    bed.farm.wait()
    bed.start()
    until(lambda: is_up(bed))
    assert before <= processes.of_instance(str(bed.directory)).keys(), "no daemon was restarted"
    victim = min(before)
    os.kill(victim, signal.SIGKILL)
    until(lambda: bed.state()["restarts"] == 1 and is_up(bed))
    bed.farm.terminate()
    assert bed.farm.wait(120) == 0
    assert processes.of_instance(str(bed.directory)) == {}


def test_the_user_can_take_no_port_or_name_of_a_daemon(bed: Bed) -> None:
    specify(bed)
    bed.start()
    until(lambda: is_up(bed))
    first, *status = answer(bed, "n1", 15007)
    assert first.split()[0] == str(pwd.getpwnam("nobody").pw_uid)
    words = dict(line.split(":\t") for line in status if ":\t" in line)
    assert {int(words[name], 16) for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")} == {1 << 10}, "CAP_NET_BIND_SERVICE"
    program = (
        "import socket\n"
        "for port in (2000, 15001, 15008, 17001, 39999):\n"
        "    try:\n        socket.create_server(('10.77.200.1', port))\n"
        "    except PermissionError:\n        continue\n"
        "    raise SystemExit(f'{port} is free')\n"
        "socket.create_server(('10.77.200.1', 40001))\n"
        "try:\n    open('/etc/hosts', 'a')\nexcept PermissionError:\n    print('refused')\n"
    )
    assert inside(bed, program) == "refused\n"
    assert "pbs-head" in inside(bed, "print(open('/etc/hosts').read())")
    assert (bed.directory / "etc/hosts").stat().st_uid == 0


def test_ports_are_kept_for_commands(bed: Bed) -> None:
    """Daemons ask for a port below 1024 on all addresses, commands on the head's."""
    specify(bed)
    bed.start()
    until(lambda: is_up(bed))
    program = (
        "import socket\n"
        "def free(address, port):\n"
        "    try:\n        socket.socket().bind((address, port))\n    except OSError:\n        return False\n    return True\n"
        "print(*(free('', port) for port in (1003, 1004, 1023)), *(free('10.77.0.1', port) for port in (1004, 1023)))\n"
    )
    assert inside(bed, program, as_root=True) == "True False False True True\n"


def test_a_farm_adopts_no_process_of_the_user_for_a_daemon_of_root(bed: Bed) -> None:
    specify(bed)
    bed.start()
    until(lambda: is_up(bed))
    listeners = (pid for pid in processes.of_instance(str(bed.directory)) if processes.environment(pid).get("PORT") == "15001")
    (server,) = listeners
    marks, command = processes.environment(server), processes.command_line(server)
    bed.farm.kill()
    bed.farm.wait()
    os.kill(server, signal.SIGKILL)
    until(lambda: processes.start_time(server) is None)
    drop = ["setpriv", "--reuid", USER, "--clear-groups", "--", *command]
    with subprocess.Popen(drop, env={**marks, "PORT": "50001"}) as impostor:
        until(lambda: processes.command_line(impostor.pid) == command)
        bed.start()
        until(lambda: is_up(bed))
        assert impostor.wait(120) != 0, "it was ended"
    assert answer(bed, "n1", 15001)[0].split()[0] == "0"


@pytest.mark.parametrize("has_user_namespace", [True, False])
def test_root_enters_no_namespaces_but_the_farm_s(bed: Bed, monkeypatch: pytest.MonkeyPatch, has_user_namespace: bool) -> None:
    """Neither those that the instance's user has made, nor those of a container that runs as a user with the same number."""
    specify(bed)
    bed.start()
    until(lambda: is_up(bed))
    with entrance(bed.directory) as way:
        assert way.words
    monkeypatch.setattr(network, "PATIENCE", 0.1)
    state = bed.state()
    marks = {processes.INSTANCE_VARIABLE: str(bed.directory), "PATH": "/usr/bin:/bin"}
    drop = ["setpriv", "--reuid", USER, "--clear-groups", "--"]
    unshare = ["unshare", "--net", "--mount", "--uts"]
    drop = [*drop, *unshare, "--user", "sleep", "600"] if has_user_namespace else [*unshare, *drop, "sleep", "600"]
    with subprocess.Popen(drop, env=marks) as impostor:
        until(lambda: processes.command_line(impostor.pid)[:1] == ["sleep"])
        state |= {"pid": impostor.pid, "start_time": processes.start_time(impostor.pid)}
        bed.farm.send_signal(signal.SIGSTOP)  # it would write its state again
        (bed.directory / "run/farm.json").write_text(json.dumps(state))
        with pytest.raises(Unavailable, match="is not the farm's"), entrance(bed.directory):
            pass
        bed.farm.send_signal(signal.SIGCONT)
        impostor.kill()


def test_a_host_without_network_namespaces_is_told_which_capability_lacks(bed: Bed) -> None:
    specify(bed)
    bed.farm = None
    command = ["setpriv", "--bounding-set=-net_admin", "--", "/usr/bin/python3", "-m", "slurm_mirage.programs.farm", "run"]
    environment = {"PYTHONPATH": str(Path(__file__).parents[3] / "module_utils"), "PATH": "/usr/bin:/bin"}
    ended = subprocess.run([*command, str(bed.directory)], env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert "OpenPBS needs CAP_SYS_ADMIN and CAP_NET_ADMIN" in ended.stderr.splitlines()[-1]
