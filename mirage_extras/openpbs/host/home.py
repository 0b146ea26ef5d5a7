"""The PBS_HOME folders of OpenPBS's daemons, with the owners and modes that they insist on (Liblog/chk_file_sec.c).

All of them belong to root, below the instance's folder `pbs`, in which nobody else may change anything. So no link of another user
is met on the way to them; what is in the folders that everybody may write to (spool, undelivered), or that jobs own (in tmp), is
never touched here.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...base import user_folders
from ...base.files import differs, write_atomically
from .conf import TEMPORARY, mom_config
from .daemons import DATABASE_SETTINGS, NO_COMMANDS, NODE_HOMES, SERVER_HOME
from .datastore import USER, postgresql_conf

SHARED = 0o1777
SERVER_FOLDERS: Mapping[str, int] = {
    "server_logs": 0o755,
    "spool": SHARED,
    "server_priv": 0o750,
    "server_priv/accounting": 0o755,
    "server_priv/jobs": 0o750,
    "server_priv/users": 0o750,
    # Without the hooks that OpenPBS brings along: they would be copied to every node.
    "server_priv/hooks": 0o750,
    "server_priv/hooks/tmp": 0o750,
    "sched_logs": 0o755,
    "sched_priv": 0o750,
    "comm_logs": 0o755,
}
NODE_FOLDERS: Mapping[str, int] = {
    "aux": 0o755,
    "checkpoint": 0o700,
    "mom_logs": 0o755,
    "mom_priv": 0o751,
    "mom_priv/jobs": 0o751,
    "mom_priv/hooks": 0o750,
    "mom_priv/hooks/tmp": 0o750,
    "spool": SHARED,
    "undelivered": SHARED,
    # pbs_mom alone makes the jobs' folders here, and gives them to their users.
    TEMPORARY: 0o755,
}


def _stubs(directory: Path) -> dict[Path, str]:
    """Programs that stand for others when pbs_server calls them (Libdb/pgsql/db_common.c, pbs_dataservice_control).

    The farm runs the database server. pbs_server nevertheless starts, asks and stops it by `su - USER -c "pg_ctl ..."`, and changes
    a unit of systemd when it has started it. pbs_ds_password reads a password from a terminal only, by stty.
    """
    stopped = shlex.quote(str(directory / SERVER_HOME / "datastore/stopped"))
    start, status, stop = (
        f'*" start "*) rm -f {stopped} ;;',
        f'*" status "*) [ ! -e {stopped} ] ;;',
        f'*" stop "*) : > {stopped} ;;',
    )
    su = "\n".join(
        (
            "#!/bin/sh",
            "# The database server runs on its own; this only answers pbs_server.",
            'case "$*" in',
            start,
            status,
            stop,
            "esac",
        )
    )
    folder = directory / NO_COMMANDS
    return {folder / "su": su + "\n", folder / "systemctl": "#!/bin/sh\nexit 0\n", folder / "stty": "#!/bin/sh\nexit 0\n"}


@dataclass
class Homes:
    """Folders with their modes, and files with their contents and modes, which root owns."""

    folders: dict[Path, int] = field(default_factory=dict)
    files: dict[Path, tuple[str, int]] = field(default_factory=dict)

    def add_server(self, directory: Path, prefix: Path, sched_config: str) -> None:
        """The folders and files of server, scheduler and communication daemon."""
        home = directory / SERVER_HOME
        self.folders |= dict.fromkeys((directory / "pbs", home, directory / "pbs/records"), 0o755)
        self.folders |= {home / name: mode for name, mode in SERVER_FOLDERS.items()}
        # pbs_ds_monitor has a lock there.
        self.folders[home / "datastore"] = 0o700
        self.folders[directory / NO_COMMANDS] = 0o755
        self.files |= {path: (text, 0o755) for path, text in _stubs(directory).items()}
        self.files[home / "server_priv/db_user"] = USER, 0o600
        self.files[directory / DATABASE_SETTINGS] = postgresql_conf(), 0o644
        self.files[home / "sched_priv/sched_config"] = sched_config, 0o644
        for name in ("holidays", "dedicated", "resource_group"):
            shipped = prefix / "etc" / f"pbs_{name}"
            content = shipped.read_text() if shipped.exists() else ""
            # The shipped file has holidays of past years and prime time on weekdays. With an empty one all time is prime time.
            text = "" if name == "holidays" else content
            self.files[home / "sched_priv" / ("dedicated_time" if name == "dedicated" else name)] = text, 0o644

    def add_node(self, directory: Path, name: str, speed: float) -> None:
        """The folders and files of the pbs_mom of the node `name`."""
        home = directory / NODE_HOMES / name
        self.folders |= dict.fromkeys((home.parent, home), 0o755)
        self.folders |= {home / folder: mode for folder, mode in NODE_FOLDERS.items()}
        self.files[home / "mom_priv/config"] = mom_config(home, speed), 0o644

    def outdated(self) -> list[Path]:
        """Paths of the folders and files that are missing or different."""
        folders = [path for path, mode in self.folders.items() if not _is_as_wanted(path, mode, stat.S_IFDIR)]
        files = self.files.items()
        return folders + [
            path for path, (text, mode) in files if not _is_as_wanted(path, mode, stat.S_IFREG) or differs(path, text)
        ]

    def make(self, paths: Iterable[Path]) -> None:
        """Create or change those of the folders and files that are in `paths`, parents first."""
        for path in paths:
            if path in self.folders:
                path.mkdir(exist_ok=True)
                os.chown(path, os.geteuid(), os.getegid(), follow_symlinks=False)
                path.chmod(self.folders[path])
            else:
                write_atomically(path, *self.files[path], durable=False)


def _is_as_wanted(path: Path, mode: int, kind: int) -> bool:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return False
    own = status.st_uid == os.geteuid() and status.st_gid == os.getegid()
    return own and status.st_mode == kind | mode


def surplus_nodes(directory: Path, names: Iterable[str]) -> list[Path]:
    """PBS_HOME of each node that is there and not one of `names`."""
    wanted = set(names)
    return sorted(path for path in _entries(directory / NODE_HOMES) if path.name not in wanted)


def jobs_of(home: Path) -> list[str]:
    """Ids of the jobs that run on a node, from its PBS_HOME."""
    return sorted(path.stem for path in _entries(home / "mom_priv/jobs") if path.suffix == ".JB")


def remove_node(directory: Path, name: str) -> None:
    """Remove the PBS_HOME of a node. Follows no link, although everybody may write in some of its folders."""
    user_folders.remove(directory, f"{NODE_HOMES}/{name}")


def _entries(folder: Path) -> Iterator[Path]:
    return folder.iterdir() if folder.is_dir() else iter(())
