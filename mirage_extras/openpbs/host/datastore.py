"""The database in which the server of OpenPBS keeps its jobs, nodes and queues: the instance's own PostgreSQL.

A user who can change a job there can run it as root. So it runs as another account than the instance's user, who runs the jobs, and
authenticates the server by a password that only root can read. It listens in the network namespace of the instance only.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import addresses
from .daemons import DATABASE

NEW = "pbs/datastore.new"
"""The data of a database that is being created, in the instance's directory."""
USER = "postgres"
"""The database's only user, and the account that the database server runs as: that of the distribution's package."""
NAME = "pbs_datastore"
"""Name of the database, as the server knows it."""
SCHEMA = "libexec/pbs_db_schema.sql"
"""The statements that create its tables, below the prefix of OpenPBS."""
SETTINGS: Mapping[str, Any] = {
    "listen_addresses": addresses.HEAD_ADDRESS,
    "port": addresses.DATABASE_PORT,
    # In its own folder, which only its account and root can enter.
    "unix_socket_directories": ".",
    "password_encryption": "scram-sha-256",
    "max_connections": 20,
    "shared_buffers": "32MB",
    "dynamic_shared_memory_type": "mmap",
    # A commit is with the kernel: a killed server has lost nothing, a host that crashed may have lost its data. An fsync for each
    # message of a run would disturb what is measured.
    "fsync": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": 0,
    "max_parallel_workers": 0,
    "jit": "off",
    # Its other processes do nothing by themselves: on an event clock each of their wake-ups would be a step of time, and their work
    # would come at another point of each run. Rows that were changed make room for others without a vacuum (HOT).
    "autovacuum": "off",
    "bgwriter_delay": "10s",
    "bgwriter_lru_maxpages": 0,
    "wal_writer_delay": "10s",
    "checkpoint_timeout": "1d",
    "max_wal_size": "4GB",
    "max_logical_replication_workers": 0,
    "log_min_messages": "warning",
    "log_line_prefix": "%m [%p] ",
    "log_timezone": "UTC",
    "timezone": "UTC",
    "datestyle": "iso, mdy",
    "lc_messages": "C",
}


def is_created(directory: Path) -> bool:
    """Return whether the instance in `directory` has a complete database."""
    return (directory / DATABASE).is_dir()


def postgresql_conf() -> str:
    """etc/postgresql.conf, the server's settings. Root writes it, so it is not in the folder of the server's account."""
    lines = (f"{name} = {value}" if isinstance(value, int) else f"{name} = '{value}'" for name, value in SETTINGS.items())
    return "# Written by Slurm Mirage (module openpbs_config).\n" + "".join(line + "\n" for line in lines)


def pg_hba_conf() -> str:
    """Allowed connections: those of the database server's account by its socket, and in the instance's network those with the
    password."""
    address, mask = addresses.NETWORK
    return f"local all {USER} peer\nhost {NAME} {USER} {address} {mask} scram-sha-256\n"


def initdb(programs: str, data: Path) -> list[str]:
    """The command that creates empty data in the folder `data`. `programs`: PostgreSQL's folder."""
    return [
        f"{programs}/initdb",
        f"--pgdata={data}",
        f"--username={USER}",
        "--encoding=SQL_ASCII",
        "--locale=C",
        "--auth=reject",
        "--no-sync",
    ]


def is_ready(programs: str, data: Path) -> list[str]:
    """A command that succeeds when the server that runs in the folder `data` takes statements. It accepts connections before."""
    return [f"{programs}/pg_isready", "--quiet", f"--host={data}", f"--port={addresses.DATABASE_PORT}"]


def psql(programs: str, data: Path, database: str, *arguments: str) -> list[str]:
    """A command of psql(1), for the database server's account, on a database of the server that runs in the folder `data`."""
    where = [f"--host={data}", f"--port={addresses.DATABASE_PORT}", f"--username={USER}", f"--dbname={database}"]
    return [f"{programs}/psql", "--no-psqlrc", "--quiet", *where, *arguments]
