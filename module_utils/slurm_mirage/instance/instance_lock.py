"""The lock of an instance: one order (an experiment, a sweep or a comparison) works with an instance at a time.

The lock is the file ROOT/.NAME.lock on the head, beside the instance's directory and outside all folders of its user. It is root's,
and it is there before the instance is. It names the holder and the processes on the head that stand for it (`anchors`: id and start
time). The lock is held

* as long as one of these processes lives: the program behind make and ansible-playbook on the head itself, and from another machine
  the sshd of its connection;
* from another machine also for GRACE seconds after the holder's last call, because Ansible closes a connection that it does not
  use;
* as long as a replay runs in the instance, whoever holds the lock. The run of that replay may take it.

So whether it is held follows from existing processes: the file of a killed holder need not be removed. A reboot of the head ends
all of it. Each access is under flock(2) of the file.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import pwd
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ..base import processes, strict_json
from ..base.errors import WrongUse
from ..base.files import write_atomically
from ..base.strict_json import COUNT, INSTANT, TEXT, Each, NotStrict, Number, Object, Row
from .instance import active_run

GRACE = 600.0
"""Seconds without a connection after which a holder on another machine counts as dead: in that time the other hosts of a cluster
may build Slurm, while Ansible calls nothing on the head."""
_MOST_BYTES = 65536
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


_HOLDER = Object({**dict.fromkeys(("order", "who", "place", "machine"), TEXT), "pid": COUNT, "started": COUNT})
_CONTENT = Object(
    {"holder": _HOLDER, "run": TEXT, "since": INSTANT, "boot": TEXT, "anchors": Each(Row((COUNT, COUNT))), "seen": Number()}
)


class Busy(WrongUse):
    """Another order works with the instance."""


@dataclass(frozen=True)
class Holder:
    """The holder of the lock.

    order: name of the experiment, sweep or comparison, as in results/
    who, place: user@host, and the folder of the clone
    machine: identifies the machine, its boot and its PID namespace
    pid, started: the process that gave the order, by id and start time, in that namespace
    """

    order: str
    who: str
    place: str
    machine: str
    pid: int
    started: int

    @classmethod
    def of_process(cls, pid: int, order: str, place: str) -> Holder:
        """Process `pid` of this machine, of the calling user."""
        return cls(order, f"{_user()}@{platform.node()}", place, this_machine(), pid, processes.start_time(pid) or 0)

    @classmethod
    def of_caller(cls, order: str, callers: Callers) -> Holder:
        """The caller of an Ansible module that does not say who it is."""
        if callers.playbook is not None:
            return cls.of_process(callers.playbook, order, "")
        pid = callers.anchors[0] if callers.anchors else 0
        return cls(order, "ansible-playbook on another machine", "", "another machine", pid, processes.start_time(pid) or 0)

    @property
    def is_here(self) -> bool:
        """Whether its process is one of this machine."""
        return self.machine == this_machine()


@dataclass(frozen=True)
class Content:
    """The content of the lock file.

    run: name of the order's present run on the head
    since: real seconds since the epoch at which the order took the lock
    boot: boot id of the head
    anchors: processes on the head that stand for the holder, by id and start time
    seen: seconds since the head's boot at the holder's last call
    """

    holder: Holder
    run: str
    since: float
    boot: str
    anchors: tuple[tuple[int, int], ...]
    seen: float

    @classmethod
    def read(cls, text: bytes) -> Content | None:
        """The content in `text`; None for anything else, such as the file that a full disk left empty."""
        try:
            content = strict_json.parse(text, _CONTENT)
            return cls(
                Holder(**{name: content["holder"][name] for name in _HOLDER.members}),
                str(content["run"]),
                float(content["since"]),
                str(content["boot"]),
                tuple((int(pid), int(started)) for pid, started in content["anchors"]),
                float(content["seen"]),
            )
        except NotStrict:
            return None

    def is_of(self, holder: Holder) -> bool:
        """Whether the lock is the holder's own."""
        return (self.holder.machine, self.holder.pid, self.holder.started) == (holder.machine, holder.pid, holder.started)

    def is_inherited(self, holder: Holder) -> bool:
        """Whether `holder` gives the same order from the same clone on another machine. There the order's folder in results/ is
        locked, so its earlier process has ended."""
        same = (self.holder.order, self.holder.who, self.holder.place) == (holder.order, holder.who, holder.place)
        return same and not self.holder.is_here and not holder.is_here

    def alive(self) -> tuple[tuple[int, int], ...]:
        """The anchors that are still alive."""
        if self.boot != _boot():
            return ()
        return tuple(anchor for anchor in self.anchors if processes.is_alive(*anchor))

    def is_held(self) -> bool:
        """Whether the holder is alive, as far as the head can know."""
        if self.alive():
            return True
        return self.boot == _boot() and not self.holder.is_here and _since_boot() - self.seen < GRACE


@dataclass(frozen=True)
class Work:
    """The work that goes on in an instance. run: name of the run on the head. content: its holder; None if that is not known."""

    run: str
    content: Content | None

    @property
    def order(self) -> str:
        """Name of the order, or of the run if the order is not known."""
        return self.content.holder.order if self.content else self.run

    @property
    def by_whom(self) -> str:
        """`(started 12:03 by root@host in /path)`; empty if it is not known."""
        if self.content is None:
            return ""
        began, now = time.localtime(self.content.since), time.localtime()
        day = "%H:%M" if began[:3] == now[:3] else "%Y-%m-%d %H:%M"
        where = f" in {self.content.holder.place}" if self.content.holder.place else ""
        return f"(started {time.strftime(day, began)} by {self.content.holder.who}{where})"


def busy(directory: Path, work: Work) -> Busy:
    """The refusal of a run because of what goes on in the instance in `directory`."""
    words = " ".join(["run", work.order, "goes on in it", *([work.by_whom] if work.by_whom else [])])
    return Busy(f"{words}; wait for its end (BUSY=wait), take another CLUSTER, or make teardown", "cluster", directory.name)


def work_in(directory: Path) -> Work | None:
    """What goes on in the instance in `directory`: a replay, or the work of the lock's holder. None if nothing does.

    A caller who may not read the lock file sees replays only.
    """
    content = None
    with suppress(FileNotFoundError, PermissionError), _locked(directory, create=False) as descriptor:
        content = _read(descriptor)
    if content is not None and content.is_held():
        return Work(content.run, content)
    replayed = active_run(directory)
    return None if replayed is None else _replay(replayed, content)


def take(directory: Path, holder: Holder, run: str, own: Collection[str] = (), anchors: Collection[int] = ()) -> None:
    """Take the lock of the instance in `directory` for `run`, or renew it. Raises Busy if another order has it.

    own: names on the head of further runs of the order, whose replay may run now
    anchors: ids of processes on this machine that stand for the holder, in addition to its own if that is on this machine
    """
    own_process = [(holder.pid, holder.started)] if holder.is_here else []
    stand_in = [(pid, started) for pid in anchors if (started := processes.start_time(pid)) is not None]
    with _locked(directory, create=True) as descriptor:
        content = _read(descriptor)
        kept = content if content is not None and (content.is_of(holder) or content.is_inherited(holder)) else None
        if kept is None and content is not None and content.is_held():
            raise busy(directory, Work(content.run, content))
        replayed = active_run(directory)
        if replayed is not None and replayed not in {run, *own}:
            raise busy(directory, _replay(replayed, content))
        living = kept.alive() if kept is not None and kept.is_of(holder) else ()
        since = time.time() if kept is None else kept.since
        everyone = tuple(dict.fromkeys([*living, *own_process, *stand_in]))
        _write(directory, Content(holder, run, since, _boot(), everyone, _since_boot()))


def release(directory: Path, holder: Holder) -> None:
    """Give up the holder's lock, if it has it. A replay that goes on still holds it; then the file keeps who started that."""
    with suppress(FileNotFoundError), _locked(directory, create=False) as descriptor:
        content = _read(descriptor)
        if content is None or not (content.is_of(holder) or content.is_inherited(holder)):
            return
        if active_run(directory) is None:
            _remove(directory)
        else:
            _write(directory, replace(content, anchors=(), seen=_since_boot() - GRACE))


def remove(directory: Path) -> bool:
    """Remove the lock of the instance in `directory`, whoever holds it; returns whether there was one."""
    with suppress(FileNotFoundError), _locked(directory, create=False):
        _remove(directory)
        return True
    return False


def exists(directory: Path) -> bool:
    """Whether there is a lock file."""
    return _path(directory).exists()


def this_machine() -> str:
    """The boot id and the PID namespace of the calling process: process ids mean the same where both are the same."""
    return f"{_boot()} {Path('/proc/self/ns/pid').stat().st_ino}"


@dataclass(frozen=True)
class Callers:
    """Processes above an Ansible module that stand for its caller.

    anchors: the ansible-playbook on this machine, else the sshd of the connection, else none
    playbook: the ansible-playbook, if it is on this machine
    """

    anchors: tuple[int, ...]
    playbook: int | None

    @classmethod
    def of_this_process(cls) -> Callers:
        """Those of the calling process."""
        above = processes.ancestors(os.getpid())
        commands = {pid: processes.command_line(pid) for pid in above}
        playbooks = [pid for pid in above if any(Path(word).name == "ansible-playbook" for word in commands[pid][:2])]
        if playbooks:
            return cls((playbooks[-1],), playbooks[-1])
        connections = [pid for pid in above if Path("".join(commands[pid][:1]).split(":")[0]).name.startswith("sshd")]
        return cls(tuple(connections[:1]), None)


# ---- the file ----


def _replay(run: str, content: Content | None) -> Work:
    """The replay of `run`; the lock's content says who started it, if it is about that run."""
    return Work(run, content if content is not None and content.run == run else None)


def _path(directory: Path) -> Path:
    return directory.parent / f".{directory.name}.lock"


@contextmanager
def _locked(directory: Path, create: bool) -> Iterator[int]:
    """Open the lock file of the instance in `directory` under flock(2); yields the descriptor. Raises FileNotFoundError."""
    path = _path(directory)
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT if create else 0)
    while True:
        if create:
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        try:
            descriptor = os.open(path, flags, 0o600)
        except FileNotFoundError:
            if create:  # the folder was removed in between
                continue
            raise
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_current(path, descriptor):
                yield descriptor
                return
        finally:
            os.close(descriptor)


def _is_current(path: Path, descriptor: int) -> bool:
    """Whether the open file is still the one at `path`: another process may have removed it before this one got its lock."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    return False


def _read(descriptor: int) -> Content | None:
    return Content.read(os.pread(descriptor, _MOST_BYTES, 0))


def _write(directory: Path, content: Content) -> None:
    """Replace the file, as the last step under its lock: a process that waits for the lock then finds another file, and starts
    over."""
    write_atomically(_path(directory), json.dumps(asdict(content)) + "\n", 0o600)


def _remove(directory: Path) -> None:
    _path(directory).unlink()
    with suppress(OSError):  # it contains instances
        directory.parent.rmdir()


def _boot() -> str:
    return _BOOT_ID.read_text().strip()


def _since_boot() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _user() -> str:
    with suppress(KeyError):
        return pwd.getpwuid(os.geteuid()).pw_name
    return str(os.geteuid())


def holder_of(given: Mapping[str, Any]) -> Holder:
    """The holder in a mapping of its fields. Raises WrongUse."""
    try:
        return Holder(**{**given, "pid": int(given["pid"]), "started": int(given["started"])})
    except (KeyError, TypeError, ValueError) as error:
        raise WrongUse(f"holder: is not the holder of a lock ({error})") from error


def apply(params: Mapping[str, Any], check_mode: bool) -> bool:
    """Bring the lock into the state that the parameters of slurm_instance_lock say; returns whether a lock was removed.

    Raises WrongUse.
    """
    directory = Path(params["directory"])
    if params["state"] == "absent":
        return exists(directory) if check_mode else remove(directory)
    if check_mode:
        return False
    callers = Callers.of_this_process()
    holder = holder_of(params["holder"]) if params["holder"] else Holder.of_caller(params["run"], callers)
    if params["state"] == "released":
        release(directory, holder)
    else:
        take(directory, holder, params["run"], anchors=callers.anchors)
    return False
