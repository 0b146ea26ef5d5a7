"""Takes root's rights from a target that needs no cluster, before it reads anything.

Called by root, the process becomes the user nobody. It keeps one capability, to read files whatever their mode, and Landlock
limits it to the files that its knobs name, results/, the program and what is installed. It writes nothing itself: a second process,
which keeps root's rights and reads no input, replaces the files that the target writes.

User id 0 without capabilities would not do: it owns root's files, so that it can change their modes, and servers on sockets
take it for root. If root may not take another user id, as in some containers, nothing is changed.
"""

from __future__ import annotations

import ctypes
import json
import os
import pwd
import struct
import sys
import tempfile
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from mirage import RESULTS, ROOT
from mirage.aspects import listed
from mirage.commands import terminal_input
from mirage.commands.landlock import Rules
from mirage.commands.logs import LOGS
from mirage.commands.writing_process import Client, Places, start
from mirage.knobs import run_file
from mirage.knobs.table import TABLE
from mirage.records import file_names
from mirage.reports import folder
from mirage.site.own_parser import NOBODY
from mirage.text import output_file
from slurm_mirage.base.errors import WrongUse

WRITTEN = ("OUT", "ARCHIVE")
"""Knobs that name what a target writes."""
OTHERS = {
    "report": ((RESULTS, "report.html"), (RESULTS, file_names.RECORDED_FILE)),
    "check": ((RESULTS, file_names.RECORDED_FILE),),
    "why": ((RESULTS, "why-*.csv"), (ROOT / "configs", "why-*.yml")),
    "workload-report": ((RESULTS / "workloads", "*"),),
    "figure-load": ((RESULTS, "figure-load"),),
    "example-site": ((RESULTS, "example-site.tar"),),
}
"""What else a target writes: names, and the folders that they are below. Each may write its error into LOGS."""
BESIDE_JOBS = (
    *(file_names.EXPERIMENT_FILE, file_names.SUSPENSIONS_FILE, file_names.ALLOCATIONS_FILE, file_names.EXECUTIONS_FILE),
    file_names.AVAILABILITY_FILE,
    *listed("figures", "FILES"),
)
"""Files that are read beside the jobs.csv of a run."""
KEPT = Path(sys.prefix, "of-nobody")
"""Folder of the user nobody in the virtual environment. What is in it is run by processes without root's rights only."""
# What programs read of the system: not all of /etc, and nothing of /home, /root, /run, /tmp and /var.
_SYSTEM = (
    *("/usr", "/bin", "/lib", "/lib64", "/opt", "/etc/fonts", "/etc/gitconfig", "/etc/group", "/etc/ld.so.cache", "/etc/localtime"),
    *("/etc/nsswitch.conf", "/etc/passwd", "/etc/terminfo", "/dev/null", "/dev/random", "/dev/urandom", "/dev/zero"),
    *("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/sys/vm", "/sys/devices/system", "/sys/fs/cgroup"),
)
_LONGEST_ANSWER = 16 * run_file.LARGEST  # a byte of the file is at most six in JSON
_CAPABILITIES = struct.pack("=Ii", 0x20080522, 0)  # of the calling thread
_CHOWN, _DAC_OVERRIDE, _DAC_READ_SEARCH, _SETGID, _SETUID = 0, 1, 2, 6, 7
_BECOMING = (_CHOWN, _SETGID, _SETUID)
_SET_DUMPABLE, _SET_KEEPCAPS, _SET_NO_NEW_PRIVS, _CAP_AMBIENT, _CAP_AMBIENT_RAISE = 4, 8, 38, 47, 2
_libc = ctypes.CDLL(None, use_errno=True)


def give_up_root(target: str, environ: MutableMapping[str, str]) -> None:
    """Let this process go on without root's rights. environ: the knobs, by name; those of RUN_FILE are added

    A process with threads cannot do this, because Landlock and capabilities are those of a thread. Raises WrongUse for a RUN_FILE
    that cannot be used.
    """
    assert len(os.listdir("/proc/self/task")) == 1  # noqa: PTH208
    account = pwd.getpwnam(NOBODY)
    if not _can_become(account):
        return
    run_file.apply(environ, target, lambda path, given: _read_apart(path, given, account))
    own = _own_folder(account)
    written = [Path(environ[name]).absolute() for name in WRITTEN if environ.get(name)]
    others = ((LOGS, "error.log"), *OTHERS.get(target, ()))  # relative in a wheel, and the process that writes works in /
    places = Places(tuple(written), tuple((folder.absolute(), name) for folder, name in others))
    output_file.use(Client(start(places, None if own == KEPT else own)))
    rules = Rules()
    rules.read([*_SYSTEM, *_installed(), RESULTS, *_named(environ), *(path / folder.MARK for path in written)])
    rules.list(written)
    rules.write([own, "/dev/null"])
    _become(account)
    rules.enforce()
    terminal_input.forbid()
    _use(own)


def _read_apart(path: str, given: Callable[[str], bool], account: pwd.struct_passwd) -> dict[str, str]:
    """`run_file.read` in a process without root's rights, which can read this file and what is installed: the files that its knobs
    name are not known before."""
    reader, writer = os.pipe()
    if not (child := os.fork()):
        try:
            os.close(reader)
            rules = Rules()
            rules.read([*_SYSTEM, *_installed(), path])
            _become(account)
            rules.enforce()
            terminal_input.forbid()
            answer: dict[str, Any] = {}
            try:
                answer["texts"] = run_file.read(path, given)
            except WrongUse as error:
                answer["wrong"] = [error.message, error.parameter]
            with os.fdopen(writer, "w") as pipe:
                json.dump(answer, pipe)
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = json.loads(pipe.read(_LONGEST_ANSWER) or "{}")
    os.waitpid(child, 0)
    if "texts" in answer:
        return {str(name): str(text) for name, text in answer["texts"].items()}
    raise WrongUse(*answer.get("wrong", (f"{path}: cannot be read", "run_file")))


def _installed() -> list[Path]:
    """The program and the packages that it imports. The first entry of sys.path may be the current folder."""
    return [Path(path) for path in (str(ROOT), sys.prefix, sys.base_prefix, *sys.path[1:]) if path]


def _named(environ: Mapping[str, str]) -> list[Path]:
    """The files that knobs name, and the tables of a run beside its jobs.csv."""
    words = {word for knob in TABLE for word in (environ.get(knob.name, ""), *environ.get(knob.name, "").split()) if word}
    trace = environ.get("TRACE")
    files = [Path(word) for word in words if "\0" not in word and Path(word).is_file()]
    return [*files, *(Path(trace).parent / name for name in BESIDE_JOBS if trace)]


# ---- the rights of this process ----


def _can_become(account: pwd.struct_passwd) -> bool:
    """Whether this process may take another user id. Root of a container without that right has few rights to give up."""
    maps = {Path("/proc/self/uid_map"): account.pw_uid, Path("/proc/self/gid_map"): account.pw_gid}
    has_ids = all(
        any(int(first) <= number < int(first) + int(count) for first, _, count in map(str.split, path.read_text().splitlines()))
        for path, number in maps.items()
    )
    return has_ids and all(_permitted() >> capability & 1 for capability in _BECOMING)


def _permitted() -> int:
    """The capabilities that this process may use, as bits. All that matter here are among the first 32."""
    words = ctypes.create_string_buffer(24)
    _libc.capget(_CAPABILITIES, words)
    return int(struct.unpack("=6I", words.raw)[1])


def _own_folder(account: pwd.struct_passwd) -> Path:
    """A folder of the account, for compiled modules and temporary files: KEPT, or a temporary one without a virtual environment."""
    path = KEPT
    with suppress(OSError):
        if sys.prefix != sys.base_prefix:
            path.mkdir(mode=0o700, exist_ok=True)
    if not path.is_dir():
        path = Path(tempfile.mkdtemp(prefix="slurm-mirage-"))
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    os.fchown(descriptor, account.pw_uid, account.pw_gid)
    os.close(descriptor)
    return path


def _use(own: Path) -> None:
    """Use the folder for compiled modules and loops, and for temporary files."""
    if sys.pycache_prefix is not None:
        sys.pycache_prefix = str(own / "pycache")
    for name in ("numba", "tmp"):
        (own / name).mkdir(exist_ok=True)
    os.environ["NUMBA_CACHE_DIR"] = str(own / "numba")
    os.environ["TMPDIR"] = tempfile.tempdir = str(own / "tmp")


def _become(account: pwd.struct_passwd) -> None:
    """Become the account, with the right to read all files only."""
    _libc.prctl(_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setgroups([])
    os.setresgid(account.pw_gid, account.pw_gid, account.pw_gid)
    os.setresuid(account.pw_uid, account.pw_uid, account.pw_uid)
    # Containers often have the second one only, which also allows writing; Landlock does not.
    kept = next((one for one in (_DAC_READ_SEARCH, _DAC_OVERRIDE) if _permitted() >> one & 1), None)
    mask = 0 if kept is None else 1 << kept
    if _libc.capset(_CAPABILITIES, struct.pack("=6I", mask, mask, mask, 0, 0, 0)):
        raise OSError(ctypes.get_errno(), "capset")
    if kept is not None:  # for git
        _libc.prctl(_CAP_AMBIENT, _CAP_AMBIENT_RAISE, kept, 0, 0)
    _libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _libc.prctl(_SET_DUMPABLE, 1, 0, 0, 0)  # otherwise /proc/self belongs to root
