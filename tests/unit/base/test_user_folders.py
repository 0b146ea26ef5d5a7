"""Files in folders of an instance's user: what that user may have put there is neither followed nor waited for."""

from __future__ import annotations

import os
import pwd
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from slurm_mirage.base import user_folders
from slurm_mirage.base.errors import WrongUse

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users")


@pytest.fixture
def instance(tmp_path: Path) -> Path:
    """An instance's directory with runs/first, beside a folder `outside` with a file `secret`."""
    directory = tmp_path / "instance"
    (directory / "runs/first").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text("{}")
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        for folder in ("runs", "runs/first"):
            os.chown(directory / folder, nobody.pw_uid, nobody.pw_gid)
    return directory


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def link(path: Path, target: Path) -> None:
    path.symlink_to(target)


def socket_at(path: Path, _: Path) -> None:
    here = Path.cwd()
    with socket.socket(socket.AF_UNIX) as server:
        os.chdir(path.parent)  # the path of a socket has at most 107 characters
        try:
            server.bind(path.name)
        finally:
            os.chdir(here)


PLANTED: dict[str, Callable[[Path, Path], object]] = {
    "is a symbolic link": link,
    "is a FIFO": lambda path, _: os.mkfifo(path),
    "is a socket": socket_at,
    "is a folder": lambda path, _: path.mkdir(),
}

USES: dict[str, Callable[[Path, str], object]] = {
    "read": lambda root, path: user_folders.read_bytes(root, path, 100),
    "read_json": user_folders.read_json,
    "append": lambda root, path: os.close(user_folders.open_file(root, path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("found", PLANTED)
def test_what_is_no_regular_file_is_refused(instance: Path, found: str, use: str) -> None:
    PLANTED[found](instance / "runs/first/file", instance.parent / "outside/secret")
    with pytest.raises(WrongUse, match=f"runs/first/file: {found}; remove it"):
        USES[use](instance, "runs/first/file")


@needs_root
@pytest.mark.parametrize("use", USES)
def test_a_device_is_refused(instance: Path, use: str) -> None:
    try:
        os.mknod(instance / "runs/first/file", 0o666 | stat.S_IFCHR, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("this container refuses devices")
    with pytest.raises(WrongUse, match="file: is a device"):
        USES[use](instance, "runs/first/file")


@pytest.mark.parametrize("component", ["runs", "runs/first"])
@pytest.mark.parametrize(
    "use",
    [
        *USES.values(),
        lambda root, path: user_folders.write_atomically(root, path, "text"),
        user_folders.make_folder,
        user_folders.remove,
        user_folders.status,
    ],
)
def test_a_link_in_the_place_of_a_folder_is_refused(instance: Path, component: str, use: Callable[[Path, str], object]) -> None:
    outside = instance.parent / "outside"
    (outside / "first").mkdir()
    (outside / "file").write_text("")
    (outside / "first/file").write_text("")
    (instance / component).rename(instance / "moved")
    (instance / component).symlink_to(outside)
    before = contents(outside)
    with pytest.raises(WrongUse, match=f"{component}: is a symbolic link"):
        use(instance, "runs/first/file")
    assert contents(outside) == before


def contents(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Mode, owner and content of all that is in a folder."""
    paths = [folder, *folder.rglob("*")]
    return {str(path): (path.lstat().st_mode, path.lstat().st_uid, path.read_bytes() if path.is_file() else b"") for path in paths}


def test_a_folder_is_not_made_through_a_link(instance: Path) -> None:
    link(instance / "runs/second", instance.parent / "outside")
    before = contents(instance.parent / "outside")
    with pytest.raises(WrongUse, match="runs/second: is a symbolic link"):
        user_folders.make_folder(instance, "runs/second", 0o700, (os.geteuid(), os.getegid()))
    assert contents(instance.parent / "outside") == before


def test_an_atomic_write_replaces_a_link(instance: Path) -> None:
    secret = instance.parent / "outside/secret"
    link(instance / "runs/first/file", secret)
    user_folders.write_atomically(instance, "runs/first/file", "text", 0o600)
    assert secret.read_text() == "{}"
    assert not (instance / "runs/first/file").is_symlink()
    assert (instance / "runs/first/file").read_text() == "text"
    assert names(instance / "runs/first") == ["file"]


def test_an_atomic_write_over_a_folder_leaves_nothing(instance: Path) -> None:
    (instance / "runs/first/file").mkdir()
    with pytest.raises(IsADirectoryError, match="runs/first/file"):
        user_folders.write_atomically(instance, "runs/first/file", "text")
    assert names(instance / "runs/first") == ["file"]


def test_a_large_file_is_refused(instance: Path) -> None:
    path = instance / "runs/first/file"
    path.write_bytes(b"12345")
    assert user_folders.read_bytes(instance, "runs/first/file", 5) == b"12345"
    os.truncate(path, 1 << 40)  # takes no space
    with pytest.raises(WrongUse, match="file: is larger than 5 bytes"):
        user_folders.read_bytes(instance, "runs/first/file", 5)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"garbage", "is not JSON"),
        (b"", "is not JSON"),
        (b"[" * 100_000, "has more than 32 nested objects and lists"),
        (b"[]", "it may be an object"),
        (b"1" * 10_000, "has the number 1*, which is too large"),
    ],
)
def test_garbage_is_refused_in_one_line(instance: Path, content: bytes, reason: str) -> None:
    (instance / "runs/first/file").write_bytes(content)
    with pytest.raises(WrongUse, match=f"runs/first/file: {reason}"):
        user_folders.read_json(instance, "runs/first/file")


def test_what_is_not_there(instance: Path) -> None:
    assert user_folders.read_json(instance, "runs/second/file") is None
    assert user_folders.status(instance, "runs/second/file") is None
    assert user_folders.entries(instance, "runs/second") == []
    assert not user_folders.remove(instance, "runs/second/file")
    with pytest.raises(FileNotFoundError, match="runs/first/file"):
        user_folders.read_bytes(instance, "runs/first/file", 5)


@pytest.mark.parametrize("path", ["../secret", "runs/../../secret", "/etc/passwd"])
def test_a_path_out_of_the_folder_is_refused(instance: Path, path: str) -> None:
    with pytest.raises(WrongUse, match="not a path below"):
        user_folders.read_bytes(instance, path, 100)


def test_a_name_of_several_lines_gives_one_line(instance: Path) -> None:
    name = "two\nlines\udcff"
    (instance / "runs/first" / name).mkdir()
    with pytest.raises(WrongUse) as raised:
        user_folders.read_bytes(instance, f"runs/first/{name}", 100)
    assert r"runs/first/two\nlines\udcff: is a folder" in str(raised.value)


def test_a_created_file_has_its_mode_and_is_not_created_twice(instance: Path) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    for text in (b"one\n", b"two\n"):
        with os.fdopen(user_folders.open_file(instance, "runs/first/file", flags, 0o600), "wb") as stream:
            stream.write(text)
    path = instance / "runs/first/file"
    assert path.read_text() == "one\ntwo\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        user_folders.open_file(instance, "runs/first/file", flags | os.O_EXCL)


@needs_root
def test_files_of_other_users_are_refused(instance: Path) -> None:
    secret, path = instance.parent / "outside/secret", instance / "runs/first/file"
    os.link(secret, path)
    for use in USES.values():
        with pytest.raises(WrongUse, match="file: is a hard link to a file of another user"):
            use(instance, "runs/first/file")
    secret.unlink()
    assert user_folders.read_bytes(instance, "runs/first/file", 2) == b"{}"
    path.chmod(0o600)
    with pytest.raises(WrongUse, match="file: belongs to another user, and the instance's user may not read it"):
        user_folders.read_bytes(instance, "runs/first/file", 2)
    os.chown(path, 12345, 12345)
    for use in USES.values():
        with pytest.raises(WrongUse, match=r"file: belongs to another user \(uid 12345\)"):
            use(instance, "runs/first/file")
    os.chown(instance / "runs/first", 12345, 12345)
    with pytest.raises(WrongUse, match=r"first: belongs to another user \(uid 12345\)"):
        user_folders.write_atomically(instance, "runs/first/other", "")


@needs_root
def test_root_gives_what_it_makes_to_the_user(instance: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    owner = (nobody.pw_uid, nobody.pw_gid)
    assert user_folders.make_folder(instance, "runs/second", 0o750, owner)
    assert not user_folders.make_folder(instance, "runs/second", 0o750, owner)
    user_folders.write_atomically(instance, "runs/second/one", "", 0o640, owner)
    os.close(user_folders.open_file(instance, "runs/second/two", os.O_WRONLY | os.O_CREAT, 0o640, owner))
    for name in ("", "one", "two"):
        status = (instance / "runs/second" / name).stat()
        assert (status.st_uid, status.st_gid) == owner
        assert stat.S_IMODE(status.st_mode) == (0o640 if name else 0o750)


def test_a_tree_is_removed_and_links_are_not_followed(instance: Path) -> None:
    outside = instance.parent / "outside"
    before = contents(outside)
    top = instance / "runs/first"
    (top / "a/b/c").mkdir(parents=True)
    (top / "a/b/c/file").write_text("")
    (top / "a/b").chmod(0o500)
    (top / "a/folder").symlink_to(outside)
    (top / "file").symlink_to(outside / "secret")
    os.mkfifo(top / "a/fifo")
    assert user_folders.remove(instance, "runs/first")
    assert names(instance / "runs") == []
    link(instance / "runs/first", outside)
    assert user_folders.remove(instance, "runs/first")
    assert names(instance / "runs") == []
    assert contents(outside) == before


def test_a_tree_of_any_depth_is_removed(instance: Path) -> None:
    folder = os.open(instance / "runs/first", os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("deeper", dir_fd=folder)
        inner = os.open("deeper", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    assert user_folders.remove(instance, "runs")
    assert names(instance) == []


@pytest.fixture
def swapped(instance: Path) -> Iterator[Path]:
    """The folder runs/first and a link to the folder outside take turns."""
    ended = threading.Event()
    runs, outside = instance / "runs", instance.parent / "outside"

    def swap() -> None:
        while not ended.is_set():
            with suppress(OSError):
                (runs / "first").rename(runs / "kept")
                (runs / "first").symlink_to(outside)
                ended.wait(0.0005)
                (runs / "first").unlink()
                (runs / "kept").rename(runs / "first")
                ended.wait(0.0005)

    thread = threading.Thread(target=swap)
    thread.start()
    yield instance
    ended.set()
    thread.join()


def test_a_swapped_folder_is_never_followed(swapped: Path) -> None:
    outside = swapped.parent / "outside"
    before = contents(outside)
    done = refused = 0
    while min(done, refused) < 100:
        try:
            user_folders.write_atomically(swapped, "runs/first/file", "text")
            done += 1
            user_folders.make_folder(swapped, "runs/first/folder", 0o700)
            user_folders.read_bytes(swapped, "runs/first/file", 100)
            user_folders.remove(swapped, "runs/first/folder")
        except (WrongUse, FileNotFoundError):
            refused += 1
        with suppress(WrongUse, FileNotFoundError):
            user_folders.read_bytes(swapped, "runs/first/secret", 100)
            pytest.fail("a file outside was read")
    assert contents(outside) == before


@needs_root
def test_a_folder_on_a_file_system_of_roots_belongs_to_the_owner_of_run(instance: Path) -> None:
    (instance / "run").mkdir()
    os.chown(instance / "run", 65534, 65534)
    (instance / "log").mkdir(mode=0o777)
    path = instance / "log/file"
    path.write_text("text")
    path.chmod(0o600)
    os.chown(path, 65534, 65534)
    assert user_folders.read_text(instance, "log/file", 10) == "text"
    os.chown(path, 12345, 12345)
    with pytest.raises(WrongUse, match="belongs to another user"):
        user_folders.read_text(instance, "log/file", 10)
