"""Unpacks the archives of records that were fetched from the hosts of a run's cluster."""

from __future__ import annotations

import gzip
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path, PurePath
from typing import IO, Any, BinaryIO

from mirage.records.file_names import COMPLAINTS_FILE, SIGSLEEP_FILE
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import replacing, write_json
from slurm_mirage.base.strict_json import LONGEST, OBJECT, NotStrict, parse
from slurm_mirage.rm.slurm.freed_processors import FREED_FILE

FOLDER = ".records"
"""Folder with the archives, in that of a run: HOST.tar.gz, from each host."""
_UNPACKED = ".records.unpacked"


def unpack(folder: Path) -> None:
    """Write the files of all archives into the folder of the run, and remove the archives.

    The jobs' own records of all hosts become one file, and so do the instants at which processors were free: after an incomplete
    record at the end of a part, a reader finds the next one. So do the daemons' errors. Each other file is in the archive of one
    host only. The archives go in one step, so that after a kill either all of them are unpacked again or none. Raises WrongUse for
    a damaged archive.
    """
    shutil.rmtree(folder / _UNPACKED, ignore_errors=True)
    archives = sorted((folder / FOLDER).glob("*.tar.gz"))
    complaints: dict[str, Any] = {}
    with ExitStack() as stack:
        joined: dict[str, BinaryIO] = {}
        for archive in archives:
            for name, content in _files(archive):
                if name in (SIGSLEEP_FILE, FREED_FILE):
                    if name not in joined:
                        joined[name] = stack.enter_context(replacing(folder / name))
                    shutil.copyfileobj(content, joined[name])
                elif name == COMPLAINTS_FILE:
                    _merge(complaints, _complaints(archive, content.read(LONGEST)))
                else:
                    with replacing(folder / name) as stream:
                        shutil.copyfileobj(content, stream)
    if complaints:
        write_json(folder / COMPLAINTS_FILE, complaints)
    if archives:
        (folder / FOLDER).rename(folder / _UNPACKED)
        shutil.rmtree(folder / _UNPACKED)


def _files(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Names and contents of the archive's files. Only plain files with names without a folder are read."""
    try:
        with gzip.open(archive) as whole:  # its checksum is at its end
            while whole.read(1 << 20):
                pass
        with tarfile.open(archive, "r:gz") as tar:
            for entry in tar:
                if entry.isfile() and PurePath(entry.name).name == entry.name:
                    stream = tar.extractfile(entry)
                    assert stream is not None
                    yield entry.name, stream
    except (tarfile.TarError, zlib.error, EOFError, gzip.BadGzipFile) as error:
        raise WrongUse(f"{archive}: cannot be read ({error}); run the same command again") from error


def _complaints(archive: Path, content: bytes) -> dict[str, Any]:
    try:
        complaints: dict[str, Any] = parse(content, OBJECT)
    except NotStrict as error:
        raise WrongUse(f"{archive}: its {COMPLAINTS_FILE} {error}") from error
    return complaints


def _merge(complaints: dict[str, Any], more: dict[str, Any]) -> None:
    """Add the errors of a host, which are by kind of information and host; `head` is the name of the head."""
    for key, value in more.items():
        if isinstance(value, dict):
            complaints.setdefault(key, {}).update(value)
        else:
            complaints[key] = value
