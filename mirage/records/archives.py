"""Unpacks the archives of records that were fetched from the hosts of a run's cluster."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import tarfile
import zlib
from pathlib import Path, PurePath
from typing import Any

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import write_atomically, write_json
from slurm_mirage.collection.archive import COMPLAINTS_FILE

FOLDER = ".records"
"""Folder with the archives, in that of a run: HOST.tar.gz, from each host."""
JOB_RECORDS = "sigsleep.log"


def unpack(folder: Path) -> None:
    """Write the files of all archives into the folder of the run, and remove the archives.

    The jobs' own records of all hosts become one file: after an incomplete record at the end of a part, a reader finds the next
    one. So do the daemons' errors. Each other file is in the archive of one host only. Raises WrongUse for a damaged archive.
    """
    logs: list[bytes] = []
    complaints: dict[str, Any] = {}
    archives = sorted((folder / FOLDER).glob("*.tar.gz"))
    for archive in archives:
        for name, content in _files(archive):
            if name == JOB_RECORDS:
                logs.append(content)
            elif name == COMPLAINTS_FILE:
                _merge(complaints, json.loads(content))
            else:
                write_atomically(folder / name, content)
    if logs:
        write_atomically(folder / JOB_RECORDS, b"".join(logs))
    if complaints:
        write_json(folder / COMPLAINTS_FILE, complaints)
    if archives:
        shutil.rmtree(folder / FOLDER)


def _files(archive: Path) -> list[tuple[str, bytes]]:
    """Names and contents of the archive's files. Only plain files with names without a folder are read."""
    try:
        with tarfile.open(fileobj=io.BytesIO(gzip.decompress(archive.read_bytes()))) as tar:
            entries = [entry for entry in tar if entry.isfile() and PurePath(entry.name).name == entry.name]
            streams = [(entry.name, tar.extractfile(entry)) for entry in entries]
            return [(name, stream.read()) for name, stream in streams if stream is not None]
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise WrongUse(f"{archive}: cannot be read ({error}); run the same command again") from error


def _merge(complaints: dict[str, Any], more: dict[str, Any]) -> None:
    """Add the errors of a host, which are by kind of information and host; `head` is the name of the head."""
    for key, value in more.items():
        if isinstance(value, dict):
            complaints.setdefault(key, {}).update(value)
        else:
            complaints[key] = value
