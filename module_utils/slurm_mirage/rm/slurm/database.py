"""What the database of an instance reads: etc/mariadb.cnf for the server, etc/slurmdbd.conf for slurmdbd, its client.

The server is the instance's own: its data, socket and log are in the instance's directory, it opens no port, and it authenticates
a user by the account of the client's process (unix_socket), without a password.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...base import line_text
from ...base.errors import WrongUse
from . import job_users
from .clock_settings import followed
from .conf import HEADER, render_settings
from .daemons import database_socket, munge_socket
from .setting_names import Release, release_of

MESSAGE_TIMEOUT, TCP_TIMEOUT = 60, 2
"""Seconds, as in slurm.conf."""
ONE_ADDRESS: Release = (20, 11)
"""First release in which slurmdbd.conf has CommunicationParameters; before, slurmdbd listens on all addresses
(slurmdbd/read_config.c)."""
OLDEST: Release = (20, 2)
"""Before, slurmctld does not register a new cluster, and up to 16.05.10 slurmdbd takes what it reads from today's MariaDB, whose
library leaves errno set, for an error (database/mysql_common.c)."""
DEFAULTS: Mapping[str, str | int] = {
    # The server accepts no connections over the network, and looks up no host names.
    "skip_networking": 1,
    "skip_name_resolve": 1,
    "default_time_zone": "+00:00",
    # slurmdbd has one connection for each client; the other limits are small, because slurmdbd needs no more.
    "max_connections": 100,
    "thread_cache_size": 8,
    "table_open_cache": 400,
    "query_cache_size": 0,
    "key_buffer_size": "1M",
    "aria_pagecache_buffer_size": "1M",
    "performance_schema": 0,
    "max_allowed_packet": "64M",
    # What slurmdbd recommends: a rollup may hold rows for long.
    "innodb_lock_wait_timeout": 900,
    "innodb_log_file_size": "64M",
    # A commit is with the kernel: a killed server has lost nothing, a host that crashed its last second. An fsync for each message
    # of a run would disturb what is measured.
    "innodb_flush_log_at_trx_commit": 2,
    "innodb_flush_method": "fsync",
}
_PLAIN = re.compile(r"[A-Za-z0-9_./:+-]+")
"""A value that needs no quotes."""


def check_release(version: str) -> None:
    """Raise WrongUse for a release (empty: not known) whose slurmdbd cannot work."""
    if version and release_of(version) < OLDEST:
        raise WrongUse(
            f"with Slurm {version} slurmctld does not register a new cluster with slurmdbd; take 20.02 or later, or do without "
            "accounting (ACCOUNTING=no)",
            parameter="accounting, config",
        )


def _option(name: str, value: str) -> str:
    """A line of MariaDB's option file: in quotes a # is no comment, and a backslash is written twice (mysys/my_default.c). Raises
    WrongUse for a value that is not one line."""
    escaped = re.sub(r'[\\"]', r"\\\g<0>", line_text.check(f"mariadb.cnf: {name}", value))
    return f"{name} = {value}\n" if _PLAIN.fullmatch(value) else f'{name} = "{escaped}"\n'


@dataclass(frozen=True)
class Database:
    """The database of the instance in `directory`, whose daemons run as `user`. `buffer` is InnoDB's buffer pool in MiB.

    slurmdbd sees the host name `hostname`, which resolves to `address`, and listens there on `port`.
    """

    directory: Path
    user: str
    address: str
    hostname: str
    port: int
    buffer: int

    def mariadb_cnf(self) -> str:
        """The server's option file."""
        run = self.directory / "run"
        options = {
            "datadir": self.directory / "database",
            "socket": database_socket(self.directory),
            "pid_file": run / "mariadbd.pid",
            "log_error": self.directory / "log/mariadbd.log",
            "tmpdir": run,
            "innodb_buffer_pool_size": f"{self.buffer}M",
            **DEFAULTS,
        }
        return HEADER + "[mariadbd]\n" + "".join(_option(name, str(value)) for name, value in options.items())

    def slurmdbd_conf(self, speed: float, version: str) -> str:
        """slurmdbd's file, for a release (empty: not known), and a clock of that speed, which its time-outs follow as those of
        slurm.conf do."""
        settings: dict[str, Any] = {
            "AuthType": "auth/munge",
            "AuthInfo": f"socket={munge_socket(self.directory)}",
            **self._tokens(),
            "CommunicationParameters": "NoInAddrAny",
            "DbdHost": self.hostname,
            "DbdAddr": self.address,
            "DbdPort": self.port,
            "SlurmUser": self.user,
            "StorageType": "accounting_storage/mysql",
            # By the socket that MYSQL_UNIX_PORT names, as the user that slurmdbd runs as.
            "StorageHost": "localhost",
            "StorageUser": self.user,
            "StorageLoc": "slurm_acct_db",
            "LogFile": self.directory / "log/slurmdbd.log",
            "PidFile": self.directory / "run/slurmdbd.pid",
            "DebugLevel": "info",
            "MessageTimeout": followed("MessageTimeout", MESSAGE_TIMEOUT, speed),
            "TCPTimeout": followed("TCPTimeout", TCP_TIMEOUT, speed),
        }
        if version and release_of(version) < ONE_ADDRESS:
            del settings["CommunicationParameters"]
        return HEADER + render_settings(settings, "slurmdbd.conf")

    def _tokens(self) -> dict[str, str]:
        """The settings for tokens, in an instance that has a key for them."""
        key = self.directory / job_users.TOKEN_KEY
        return {"AuthAltTypes": "auth/jwt", "AuthAltParameters": f"jwt_key={key}"} if key.exists() else {}
