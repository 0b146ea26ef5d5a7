"""What OpenPBS leaves on a host outside of an instance."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

TEMPORARY = Path("/var/tmp")  # compiled into OpenPBS (Libutil/misc_utils.c, create_query_file)


def remove(user: int, folder: Path = TEMPORARY) -> None:
    """Remove the file that qstat writes for the account with this number, unless the file is another account's."""
    path = folder / f".pbs_last_query_{user}"
    with suppress(FileNotFoundError):
        if path.lstat().st_uid == user:
            path.unlink()
