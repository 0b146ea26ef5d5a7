"""Every use of files in the folders of an instance's user by code that may run as root.

The folders state, spool, log, run, runs, home and database of an instance belong to its unprivileged user, who also runs the jobs.
That user can replace any file there by a symbolic or hard link, a FIFO or a socket, swap a folder with a link at any moment, and
write anything into a file. So a path in these folders is never given to the kernel as a whole. Each function takes the folder that
root owns (`root`, the instance's directory) and the path below it (`relative`), and opens one component after the other, relative
to the descriptor of its parent, without following links:

- A component that is not what is expected is refused with `Refused`: one line that names the path and what was found.
- Folders and files must belong to root, to the caller, or to the user, who is the owner of the first folder below `root`
  (of the folder `run`, if that one is root's).
- A file must be regular. A file of root must have one hard link, and is only read if everybody may read it.
- Reading is bounded: a larger file is refused.
- Temporary files have random names and are created with O_EXCL.

A file that does not exist raises FileNotFoundError. The functions work without privileges as well.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import Any, Union

from . import strict_json
from .errors import WrongUse
from .printing import one_line
from .strict_json import OBJECT, NotStrict, Shape

SMALL = 1 << 20
"""Limit in bytes for the state of a farm, the progress of a replay, a lock or a clock: files of some hundred bytes."""

PathBelow = Union[str, PurePath]  # Python 3.9 evaluates this

_BLOCK, _MOST_IN_HOLES = 512, 1 << 20  # bytes: the unit of st_blocks, and what holes may have that a crash of the host left
_ATTEMPTS = 100  # to open a file that the user creates and removes meanwhile
_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
    stat.S_IFREG: "a file",
}


class Refused(WrongUse):
    """An entry in a folder of the instance's user is not what is expected there. The message names the path and what was found.

    No parameter is wrong, and a run may have begun: the message of an Ansible module does not begin with `wrong use:`.
    """

    def module_message(self) -> str:
        """The message of an Ansible module."""
        return str(self)


def is_sparse(descriptor: int) -> bool:
    """Return whether an open file has fewer blocks than its size needs, because of holes: it costs its owner less than a reader."""
    status = os.fstat(descriptor)
    if status.st_blocks * _BLOCK >= status.st_size:
        return False
    # A file system that compresses has fewer blocks, too.
    place = holes = 0
    while place < status.st_size and holes <= _MOST_IN_HOLES:
        hole = place
        try:
            hole = os.lseek(descriptor, place, os.SEEK_HOLE)
            place = os.lseek(descriptor, hole, os.SEEK_DATA)
        except OSError:  # no data follow
            place = status.st_size
        holes += place - hole
    os.lseek(descriptor, 0, os.SEEK_SET)
    return holes > _MOST_IN_HOLES


class Folder:
    """An open folder in an instance. Its methods use entries of this folder by name, and never follow a link.

    path: its path, for messages; descriptor: an open descriptor; owners: ids of the users that may own what is in it;
    user: id of the user that it belongs to
    """

    def __init__(self, path: Path, descriptor: int, owners: frozenset[int], user: int) -> None:
        self.path, self.descriptor, self.owners, self.user = path, descriptor, owners, user

    def shown(self, name: str) -> str:
        """Return the path of an entry for a message of one line, whatever characters the user gave it."""
        return one_line(str(self.path / name))

    def status(self, name: str) -> os.stat_result | None:
        """Return the status of an entry (lstat(2)); None when there is none."""
        try:
            return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def is_file(self, name: str) -> bool:
        """Return whether an entry is a regular file."""
        status = self.status(name)
        return status is not None and stat.S_ISREG(status.st_mode)

    def names(self) -> list[str]:
        """Return the names of the entries, sorted."""
        with os.scandir(self.descriptor) as entries:
            return sorted(entry.name for entry in entries)

    def open(self, name: str, flags: int = os.O_RDONLY, mode: int = 0o644, owner: tuple[int, int] | None = None) -> int:
        """Open a regular file; returns the descriptor.

        flags: of open(2); with O_CREAT a missing file is created with `mode` and, if given, for `owner`, (uid, gid). An existing
        file keeps its mode and its owner, and with O_EXCL it raises FileExistsError.
        """
        if not flags & os.O_CREAT:
            return self._open_existing(name, flags)
        for _ in range(_ATTEMPTS):
            try:
                return self._create(name, flags, mode, owner)
            except FileExistsError:
                if flags & os.O_EXCL:
                    raise
            with suppress(FileNotFoundError):
                return self._open_existing(name, flags & ~os.O_CREAT)
        raise Refused(f"{self.shown(name)}: is created and removed again and again")

    def _create(self, name: str, flags: int, mode: int, owner: tuple[int, int] | None) -> int:
        flags |= os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        descriptor = os.open(name, flags, 0o600, dir_fd=self.descriptor)
        try:
            if owner is not None and owner != (os.geteuid(), os.getegid()):
                os.fchown(descriptor, *owner)
            os.fchmod(descriptor, mode)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _open_existing(self, name: str, flags: int) -> int:
        """Open the name with O_PATH, which neither waits for a FIFO nor opens a device, check it, then open exactly this file."""
        located = self._locate(name, os.O_PATH)
        try:
            status = os.fstat(located)
            self._check(name, status, stat.S_IFREG)
            if status.st_uid != self.user and status.st_uid != (os.geteuid() or self.user):
                self._check_foreign(name, status, flags)
            return os.open(f"/proc/self/fd/{located}", flags | os.O_CLOEXEC | os.O_NONBLOCK)
        except BlockingIOError as error:
            raise Refused(f"{self.shown(name)}: is leased by another process") from error
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path / name)) from error
        finally:
            os.close(located)

    def _check_foreign(self, name: str, status: os.stat_result, flags: int) -> None:
        """Refuse a file of root that the user may have linked here."""
        if status.st_nlink > 1:
            raise Refused(f"{self.shown(name)}: is a hard link to a file of another user")
        if not flags & os.O_WRONLY and not status.st_mode & stat.S_IROTH:
            raise Refused(f"{self.shown(name)}: belongs to another user, and the instance's user may not read it")

    def enter(self, name: str) -> Folder:
        """Open a folder in this folder. The caller closes it."""
        descriptor = self._locate(name, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self._check(name, os.fstat(descriptor), stat.S_IFDIR)
        except BaseException:
            os.close(descriptor)
            raise
        return Folder(self.path / name, descriptor, self.owners, self.user)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.descriptor)

    def _locate(self, name: str, flags: int) -> int:
        try:
            return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.descriptor)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise self._refusal(name, self.status(name)) from error
            raise OSError(error.errno, error.strerror, str(self.path / name)) from error

    def _check(self, name: str, status: os.stat_result, kind: int) -> None:
        if stat.S_IFMT(status.st_mode) != kind:
            raise self._refusal(name, status)
        if status.st_uid not in self.owners:
            raise Refused(f"{self.shown(name)}: belongs to another user (uid {status.st_uid})")

    def _refusal(self, name: str, status: os.stat_result | None) -> Refused:
        kind = "replaced meanwhile" if status is None else _KINDS.get(stat.S_IFMT(status.st_mode), "of an unknown kind")
        return Refused(f"{self.shown(name)}: is {kind}; remove it")

    def read_bytes(self, name: str, limit: int) -> bytes:
        """Return the content of a regular file of at most `limit` bytes."""
        descriptor = self.open(name)
        with os.fdopen(descriptor, "rb") as stream:
            content = stream.read(limit + 1) if os.fstat(descriptor).st_size <= limit else None
        if content is None or len(content) > limit:
            raise Refused(f"{self.shown(name)}: is larger than {limit} bytes")
        return content

    def read_text(self, name: str, limit: int) -> str:
        """Return the content of a file of UTF-8 text of at most `limit` bytes."""
        try:
            return self.read_bytes(name, limit).decode()
        except UnicodeDecodeError as error:
            raise Refused(f"{self.shown(name)}: is not UTF-8 text") from error

    def read_json(self, name: str, shape: Shape = OBJECT, limit: int = SMALL) -> dict[str, Any] | None:
        """Return the JSON object (`strict_json`) in a file of at most `limit` bytes; None when the file does not exist."""
        try:
            content: dict[str, Any] = strict_json.parse(self.read_bytes(name, limit), shape)
        except FileNotFoundError:
            return None
        except NotStrict as error:
            raise Refused(f"{self.shown(name)}: {error}") from error
        return content

    def write_atomically(self, name: str, content: str | bytes, mode: int = 0o644, owner: tuple[int, int] | None = None) -> None:
        """Replace an entry by a file with `content`, atomically. `owner` is (uid, gid); the default is the caller's.

        A link or another special file of this name is replaced, not followed; a folder raises IsADirectoryError.
        """
        temporary = f".{name}.{secrets.token_hex(8)}"
        data = content.encode() if isinstance(content, str) else content
        try:
            with os.fdopen(self.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode, owner), "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            os.rename(temporary, name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
        except BaseException as error:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=self.descriptor)
            if isinstance(error, OSError):
                raise OSError(error.errno, error.strerror, str(self.path / name)) from error
            raise

    def make_folder(self, name: str, mode: int = 0o755, owner: tuple[int, int] | None = None) -> bool:
        """Create a folder with this mode and owner, or give an existing one the mode and the owner. Returns whether it changed."""
        is_new = False
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=self.descriptor)
            is_new = True
        made = self.enter(name)
        try:
            status = os.fstat(made.descriptor)
            changes = stat.S_IMODE(status.st_mode) != mode
            if owner is not None and (status.st_uid, status.st_gid) != owner:
                os.fchown(made.descriptor, *owner)
                changes = True
            if changes:
                os.fchmod(made.descriptor, mode)
            return is_new or changes
        finally:
            made.close()

    def remove(self, name: str) -> bool:
        """Remove an entry; a folder with everything in it, without following links. Returns whether there was one.

        Folders may be nested to any depth: what is in a folder is moved up before it is removed.
        """
        if not self._unlink(name):
            return self.status(name) is not None and self._remove_folder(name)
        return True

    def _unlink(self, name: str) -> bool:
        """Remove an entry that is not a folder. Returns False when it is a folder, or when there is none."""
        try:
            os.unlink(name, dir_fd=self.descriptor)
        except FileNotFoundError:
            return False
        except (IsADirectoryError, PermissionError) as error:
            status = self.status(name)
            if status is not None and not stat.S_ISDIR(status.st_mode):
                raise OSError(error.errno, error.strerror, str(self.path / name)) from error
            return False
        return True

    def _remove_folder(self, name: str) -> bool:
        doomed = self._take_over(name)
        try:
            while names := doomed.names():
                for entry in names:
                    if not doomed._unlink(entry) and not doomed._remove_empty(entry):
                        doomed._dissolve(entry)
        finally:
            doomed.close()
        if not self._remove_empty(name):
            raise Refused(f"{self.shown(name)}: another process replaces it while it is removed")
        return True

    def _remove_empty(self, name: str) -> bool:
        """Remove an empty folder. Returns False when it is not empty; True when it is gone."""
        try:
            os.rmdir(name, dir_fd=self.descriptor)
        except FileNotFoundError:
            return True
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return False
            raise OSError(error.errno, error.strerror, str(self.path / name)) from error
        return True

    def _dissolve(self, name: str) -> None:
        """Empty a folder in this one. Folders in it are moved to this folder, to be removed later; that bounds the depth."""
        inner = self._take_over(name)
        try:
            for entry in inner.names():
                if not inner._unlink(entry):
                    inner._take_over(entry).close()
                    target = f".{secrets.token_hex(8)}"
                    os.rename(entry, target, src_dir_fd=inner.descriptor, dst_dir_fd=self.descriptor)
        finally:
            inner.close()

    def _take_over(self, name: str) -> Folder:
        """Open a folder of any owner that is to be removed, and let only the caller change it: so that its removal ends."""
        folder = Folder(self.path / name, self._locate(name, os.O_RDONLY | os.O_DIRECTORY), self.owners, self.user)
        try:
            if os.geteuid() == 0:
                os.fchown(folder.descriptor, 0, 0)
            os.fchmod(folder.descriptor, 0o700)
        except BaseException:
            folder.close()
            raise
        return folder


@contextmanager
def open_folder(root: Path, relative: PathBelow = "") -> Iterator[Folder]:
    """Open the folder `relative` below `root` for the duration of the context. `root` itself is trusted, with links in its path."""
    names = _names(relative)
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        user = _user(descriptor, names[0]) if names else os.fstat(descriptor).st_uid
        folder = Folder(root, descriptor, frozenset((0, os.geteuid(), user)), user)
        for name in names:
            inner = folder.enter(name)
            os.close(descriptor)
            folder, descriptor = inner, inner.descriptor
        yield folder
    finally:
        os.close(descriptor)


def _user(root: int, top: str) -> int:
    """Id of the user to whom the folder `top` in the open folder `root` belongs.

    If that is root, because a file system of its own is mounted there, it is the owner of the folder `run`.
    """
    for name in (top, "run"):
        with suppress(FileNotFoundError):
            status = os.stat(name, dir_fd=root, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode) and status.st_uid != 0:
                return status.st_uid
    return os.fstat(root).st_uid


def _names(relative: PathBelow) -> tuple[str, ...]:
    names = PurePath(relative).parts
    if any(name in ("..", "/") or "\0" in name for name in names):
        raise Refused(f"{str(relative)!r}: is not a path below an instance's folder")
    return names


@contextmanager
def _parent(root: Path, relative: PathBelow) -> Iterator[tuple[Folder, str]]:
    *folders, name = _names(relative)
    with open_folder(root, PurePath(*folders)) as folder:
        yield folder, name


def open_file(
    root: Path, relative: PathBelow, flags: int = os.O_RDONLY, mode: int = 0o644, owner: tuple[int, int] | None = None
) -> int:
    """Open a regular file; returns the descriptor. See `Folder.open`."""
    with _parent(root, relative) as (folder, name):
        return folder.open(name, flags, mode, owner)


def read_bytes(root: Path, relative: PathBelow, limit: int) -> bytes:
    """Return the content of a regular file of at most `limit` bytes."""
    with _parent(root, relative) as (folder, name):
        return folder.read_bytes(name, limit)


def read_text(root: Path, relative: PathBelow, limit: int) -> str:
    """Return the content of a file of UTF-8 text of at most `limit` bytes."""
    with _parent(root, relative) as (folder, name):
        return folder.read_text(name, limit)


def read_json(root: Path, relative: PathBelow, shape: Shape = OBJECT, limit: int = SMALL) -> dict[str, Any] | None:
    """Return the JSON object (`strict_json`) in a file of at most `limit` bytes; None when the file, or a folder of its path, does
    not exist."""
    try:
        with _parent(root, relative) as (folder, name):
            return folder.read_json(name, shape, limit)
    except FileNotFoundError:
        return None


def write_atomically(
    root: Path, relative: PathBelow, content: str | bytes, mode: int = 0o644, owner: tuple[int, int] | None = None
) -> None:
    """Replace a file by `content`, atomically. See `Folder.write_atomically`."""
    with _parent(root, relative) as (folder, name):
        folder.write_atomically(name, content, mode, owner)


def make_folder(root: Path, relative: PathBelow, mode: int = 0o755, owner: tuple[int, int] | None = None) -> bool:
    """Create a folder, or give an existing one this mode and owner. Returns whether anything changed."""
    with _parent(root, relative) as (folder, name):
        return folder.make_folder(name, mode, owner)


def remove(root: Path, relative: PathBelow) -> bool:
    """Remove a file, or a folder with everything in it, without following links. Returns whether there was one."""
    try:
        with _parent(root, relative) as (folder, name):
            return folder.remove(name)
    except FileNotFoundError:
        return False


def entries(root: Path, relative: PathBelow) -> list[str]:
    """Return the names of the entries of a folder, sorted; none when it does not exist."""
    try:
        with open_folder(root, relative) as folder:
            return folder.names()
    except FileNotFoundError:
        return []


def status(root: Path, relative: PathBelow) -> os.stat_result | None:
    """Return the status of an entry (lstat(2)); None when it, or a folder of its path, does not exist."""
    try:
        with _parent(root, relative) as (folder, name):
            return folder.status(name)
    except FileNotFoundError:
        return None
