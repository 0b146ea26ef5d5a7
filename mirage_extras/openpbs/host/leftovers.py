"""Removes the files that OpenPBS's commands create outside of an instance's directory."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

TEMPORARY = Path("/var/tmp")  # compiled into OpenPBS (Libutil/misc_utils.c, create_query_file)


def remove(user: int, folder: Path = TEMPORARY) -> None:
    """Remove what OpenPBS's commands leave for the account with this number. Entries of other accounts stay.

    qstat leaves a file; qsub, which goes on in the background for some time, a socket.
    """
    for path in (folder / f".pbs_last_query_{user}", *folder.glob(f"pbs_*_{user}_*")):
        with suppress(FileNotFoundError, IsADirectoryError, PermissionError):
            if path.lstat().st_uid == user:
                path.unlink()
