"""Files that a user names, to read or to write. Only regular files are opened: a FIFO, a device or a socket may never end."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from mirage.text.output_file import may_write_in
from slurm_mirage.base.errors import WrongUse

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


def kind(path: Path | str) -> str:
    """What `path` is, if it is neither a regular file nor missing: "a FIFO"; otherwise an empty text. Links are followed."""
    try:
        return _KINDS.get(stat.S_IFMT(Path(path).stat().st_mode), "")
    except OSError:
        return ""
    except ValueError:
        return "no path"  # it has a null byte


def writable(path: Path, parameter: str) -> Path:
    """The path. Raises WrongUse unless it is a file, which may be a new one, in a folder in which files can be made."""
    if kind_of_file := kind(path):  # it would be replaced
        raise WrongUse(f"{path}: is {kind_of_file}; it must be a regular file, or a new one", parameter=parameter)
    parent = path.absolute().parent
    if not parent.is_dir() or not may_write_in(parent):
        raise WrongUse(
            f"{path} cannot be written; it may be a file in an existing folder that you may write to", parameter=parameter
        )
    return path


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"


@contextmanager
def open_input(path: Path | str, parameter: str) -> Iterator[BufferedReader]:
    """Open the file `path`, which the parameter `parameter` names, to read its bytes.

    Raises WrongUse if it cannot be opened or read, or is not a regular file. It is looked at before it is opened, because opening a
    device may change it, and again after that; neither opening nor reading waits for another process.
    """
    try:
        if not (kind_of_file := kind(path)):
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                if not (kind_of_file := _KINDS.get(stat.S_IFMT(os.fstat(descriptor).st_mode), "")):
                    yield file
                    return
    except OSError as error:
        raise WrongUse(f"{path}: cannot be read ({error.strerror or error})", parameter=parameter) from error
    raise WrongUse(f"{path}: is {kind_of_file}; it must be a regular file", parameter=parameter)


def read_input(path: Path | str, parameter: str, most: int) -> bytes:
    """The content of a regular file of at most `most` bytes. Raises WrongUse as `open_input` does, and for a larger file.

    Only as many bytes are read as the file had when it was opened. So files of the kernel (/proc), some of which never end, are
    empty, and one that grows is read up to there.
    """
    with open_input(path, parameter) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise WrongUse(f"{path}: is too large; it may have up to {_size(most)}", parameter=parameter)
        return file.read(size)


def read_below(path: Path, folders: Sequence[Path], most: int) -> bytes:
    """The content of a regular file of at most `most` bytes, which another file names, if it is below one of `folders`, which have
    no links in their paths.

    Links are resolved first. Then each component is opened relative to its parent without following links, so that a folder that
    others may write leads nowhere else meanwhile. As in `read_input`, nothing waits, and a file that grows is read up to its size.

    Raises OSError, and ValueError with the reason, which is that the file is outside, not regular, or too large.
    """
    real = Path(os.path.realpath(path))
    folder = next((one for one in folders if real != one and real.is_relative_to(one)), None)
    if folder is None:
        raise ValueError(f"leads out of {folders[0]}")
    located = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in real.relative_to(folder).parts:
            parent, located = located, os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=located)
            os.close(parent)
        mode = stat.S_IFMT(os.fstat(located).st_mode)
        if mode != stat.S_IFREG:
            raise ValueError(f"is {_KINDS.get(mode, 'a link')}; it must be a regular file")
        # Exactly this file.
        descriptor = os.open(f"/proc/self/fd/{located}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            size = os.fstat(descriptor).st_size
            if size > most:
                raise ValueError(f"is too large; it may have up to {_size(most)}")
            return file.read(size)
    finally:
        os.close(located)
