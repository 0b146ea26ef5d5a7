"""Creates the database of an OpenPBS instance, and in it what a new server has.

    python3 -m slurm_mirage.extras.openpbs.programs.datastore DIRECTORY USER PREFIX POSTGRESQL

USER: the instance's user; PREFIX: where OpenPBS is installed; POSTGRESQL: folder of PostgreSQL's programs.

It is started as root in a PID namespace of its own, so that nothing is left when it is killed. It takes a network of its own with
the addresses of the instance, starts the database server there, creates the tables, lets pbs_server create its objects, and ends
both. The data has another name until it is complete. So the program may be killed at any moment, and the next one starts over.

Exit code: 0 when the database is complete; 1 with a line on standard error when it is not.
"""

from __future__ import annotations

import os
import pwd
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ....base import user_folders
from ....base.errors import WrongUse
from ....base.files import locked_folder
from ....base.printing import say
from ....farm import isolation
from ....farm.hosts_file import HostsFile
from .. import addresses, datastore
from ..daemons import DATABASE, NETWORK, NO_COMMANDS, database_server

TIMEOUT = 120.0  # seconds that a server may take to start or to end


class Failed(Exception):
    """A step that failed. The message says which, and why."""


def main(arguments: list[str]) -> int:
    """Entry point; see the module's docstring."""
    if len(arguments) != 4:
        say(*(__doc__ or "").splitlines(), file=sys.stderr)
        return 2
    directory, user, prefix, programs = Path(arguments[0]), *arguments[1:]
    try:
        with locked_folder(directory / "pbs"):
            if not datastore.is_created(directory):
                create(directory, user, prefix, programs)
    except (Failed, OSError, WrongUse) as error:
        say(" ".join(str(error).split()), file=sys.stderr)
        return 1
    return 0


def create(directory: Path, user: str, prefix: str, programs: str) -> None:
    """Create the database. Raises Failed, OSError, WrongUse."""
    take_network(directory, user)
    account = pwd.getpwnam(datastore.USER)
    owner = account.pw_uid, account.pw_gid
    as_account: dict[str, Any] = {"user": owner[0], "group": owner[1], "extra_groups": []}
    environment = {
        **os.environ,
        "PATH": f"{directory / NO_COMMANDS}:/usr/sbin:/usr/bin:/sbin:/bin",
        "PGSQL_BIN": programs,
        "PBS_CONF_FILE": str(directory / "etc/pbs.conf"),
    }
    data = directory / datastore.NEW
    user_folders.remove(directory, datastore.NEW)
    user_folders.make_folder(directory, datastore.NEW, 0o700, owner)
    run(datastore.initdb(programs, data), **as_account)
    user_folders.write_atomically(data.parent, f"{data.name}/pg_hba.conf", datastore.pg_hba_conf(), 0o600, owner)
    is_ready = datastore.is_ready(programs, data)
    with running(database_server(directory, f"{programs}/postgres", data), lambda: succeeds(is_ready, **as_account), **as_account):
        password = secrets.token_hex(16)
        statements = f"alter role {datastore.USER} password '{password}';\ncreate database {datastore.NAME};\n"
        run(datastore.psql(programs, data, "postgres"), statements, **as_account)
        # It asks twice, and encrypts the password in the file that the server reads.
        run([f"{prefix}/sbin/pbs_ds_password.bin"], f"{password}\n{password}\n", env=environment)
        # Its first statement removes tables that are not there, which is an error.
        run(datastore.psql(programs, data, datastore.NAME, "--file", f"{prefix}/{datastore.SCHEMA}"), **as_account)
        run(datastore.psql(programs, data, datastore.NAME, "--command", "select pbs_schema_version from pbs.info"), **as_account)
        server = [f"{prefix}/sbin/pbs_server.bin", "-N", "-t", "create"]
        with running(server, lambda: accepts(addresses.SERVER_PORT), env=environment):
            run([f"{prefix}/bin/qmgr", "-c", "list server server_state"], env=environment)
    data.rename(directory / DATABASE)


def take_network(directory: Path, user: str) -> None:
    """Take the addresses and names of the instance, as its farm does."""
    hosts = HostsFile(directory, is_roots=True)
    isolation.take_network(NETWORK["address"], NETWORK["mask"], tuple(NETWORK["ports"]))
    isolation.take_hostname(addresses.HEAD)
    hosts.mount(addresses.host_names([]), user)


def run(command: list[str], text: str = "", **options: Any) -> None:
    """Run a command to its end, with `text` as its input. Raises Failed with its last line if it fails."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=TIMEOUT, cwd="/", **options)
    if done.returncode != 0:
        raise Failed(f"{Path(command[0]).name}: {last_line(done.stderr or done.stdout) or f'exit code {done.returncode}'}")


def last_line(text: str) -> str:
    """The last line of a text that is not empty."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


@contextmanager
def running(command: list[str], is_ready: Callable[[], bool], **options: Any) -> Iterator[None]:
    """Run a server for the duration of the context, from when it is ready. Raises Failed."""
    program = Path(command[0]).name
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd="/", **options)
    assert process.stdin is not None and process.stdout is not None
    with process:
        with suppress(BrokenPipeError):  # it has ended already, which is reported below
            process.stdin.write(b"y\n")  # pbs_server asks whether it may create its objects
            process.stdin.close()
        try:
            deadline = time.monotonic() + TIMEOUT
            while not is_ready():
                if process.poll() is not None:
                    raise Failed(f"{program}: {last_line(process.stdout.read().decode(errors='replace')) or 'it ended at once'}")
                if time.monotonic() > deadline:
                    raise Failed(f"{program}: it does not answer after {TIMEOUT:.0f} s")
                time.sleep(0.05)
            yield
            process.terminate()
            process.wait(TIMEOUT)
        except BaseException:
            process.kill()
            raise


def succeeds(command: list[str], **options: Any) -> bool:
    """Return whether a command ends with exit code 0."""
    return subprocess.run(command, capture_output=True, timeout=TIMEOUT, cwd="/", check=False, **options).returncode == 0


def accepts(port: int) -> bool:
    """Return whether a server accepts connections on this port of the head's address."""
    try:
        socket.create_connection((addresses.HEAD_ADDRESS, port), timeout=1.0).close()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
