"""Links and files that a process of the instance's user plants."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from .lane import DONE, Ended, Lane, Snapshot, expect, holds_secret, says, until
from .table import Wrong, fault

SECRET = "root-only-7f3a91c2"
FOUND = "symbolic link|is a link|symlink"

# Plants symbolic links until it is killed, at most for a quarter of an hour: [path, target, whether an existing file is replaced].
_PLANTER = """
import json, os, sys, time
wanted = json.load(sys.stdin)
end = time.monotonic() + 900
while time.monotonic() < end:
    for path, target, replaces in wanted:
        try:
            if os.path.islink(path) or (os.path.lexists(path) and not replaces):
                continue
            if os.path.lexists(path):
                os.unlink(path)
            os.symlink(target, path)
        except OSError:
            pass
    time.sleep(0.002)
"""
# Writes files: [path, content in hexadecimal or null for a FIFO].
_WRITER = """
import json, os, sys
for path, content in json.loads(sys.argv[1]):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.lexists(path):
        os.unlink(path)
    if content is None:
        os.mkfifo(path)
    else:
        open(path, "wb").write(bytes.fromhex(content))
"""


def _victims(lane: Lane) -> tuple[Path, Snapshot]:
    """Files and a folder of root outside the instance, and what they look like."""
    folder = lane.scratch / "victims"
    (folder / "folder").mkdir(parents=True)
    (folder / "folder/file").write_text("root's\n")
    (folder / "secret").write_text(f"{SECRET}\n" * 3)
    (folder / "secret").chmod(0o600)
    (folder / "log").write_text("a log of root\n")
    return folder, Snapshot(folder)


def _plant(lane: Lane, wanted: Sequence[tuple[Path, Path, bool]]) -> None:
    lane.as_user(_PLANTER, text=json.dumps([[str(path), str(target), replaces] for path, target, replaces in wanted]))


def _judge(lane: Lane, ended: Ended, snapshot: Snapshot) -> None:
    snapshot.unchanged()
    shown = holds_secret([lane.results()], SECRET)
    if shown or SECRET in ended.output:
        raise Wrong(f"a file of root that only root may read is in results/RUN/{', '.join(shown) or '(output)'}")


@fault(
    "link-runs-folder",
    "the user plants runs/RUN as a link to a folder of root, after the preflight",
    "the folder keeps its owner; one line says that a link was found",
    quick=True,
)
def link_runs_folder(lane: Lane) -> None:
    lane.build()
    folder, snapshot = _victims(lane)
    command = lane.start_experiment()
    until(lambda: (lane.results() / "experiment.json").exists() or not command.is_running, "results/RUN")
    _plant(lane, [(lane.folder(), folder / "folder", False)])
    ended = lane.ended(command)
    _judge(lane, ended, snapshot)
    expect(ended, ("failed", "wrong use"), FOUND)


@fault(
    "link-replay-log",
    "the user plants runs/RUN/replay.log as a link to a file of root",
    "the file is unchanged; one line says that a link was found",
)
def link_replay_log(lane: Lane) -> None:
    lane.build()
    folder, snapshot = _victims(lane)
    _plant(lane, [(lane.folder() / "replay.log", folder / "log", True)])
    ended = lane.ended(lane.start_experiment())
    _judge(lane, ended, snapshot)
    says(ended, FOUND)


@fault(
    "link-records",
    "the user replaces records in runs/RUN by links to a file that only root may read",
    "the file is not read; one line says that a link was found",
)
def link_records(lane: Lane) -> None:
    lane.build()
    folder, snapshot = _victims(lane)
    command = lane.start_experiment()
    until(lambda: lane.progress().get("phase") == "draining", "submission of all jobs")
    _plant(lane, [(lane.folder() / name, folder / "secret", True) for name in ("sdiag.csv", "samples.csv")])
    ended = lane.ended(command)
    _judge(lane, ended, snapshot)
    says(ended, FOUND)


@fault(
    "link-plan",
    "the user plants links at plan.csv and run.json in runs/RUN",
    "the files of root are unchanged; one line names the file",
)
def link_plan(lane: Lane) -> None:
    lane.build()
    folder, snapshot = _victims(lane)
    _plant(lane, [(lane.folder() / "plan.csv", folder / "log", True), (lane.folder() / "run.json", folder / "log", True)])
    ended = lane.ended(lane.start_experiment())
    _judge(lane, ended, snapshot)
    says(ended, rf"{FOUND}|(run\.json|plan\.csv): ")


@fault(
    "link-accounting-record",
    "ACCOUNTING=yes: the user plants sacct.txt and the names of its temporary files as links",
    "the file of root is unchanged",
)
def link_accounting_record(lane: Lane) -> None:
    expect(lane.make("cluster", NODES=lane.nodes, CPUS=4, ACCOUNTING="yes"), ("ok",))
    folder, snapshot = _victims(lane)
    command = lane.start_experiment(ACCOUNTING="yes")
    lane.until_submitted(command)
    last = int(Path("/proc/sys/kernel/ns_last_pid").read_text())
    names = ["sacct.txt", *(f".sacct.txt.{pid}" for pid in range(last, last + 3000))]
    _plant(lane, [(lane.folder() / name, folder / "log", True) for name in names])
    ended = lane.ended(command)
    _judge(lane, ended, snapshot)
    expect(ended, (*DONE, "failed"), "" if ended.word in DONE else FOUND)


def _write(lane: Lane, files: Sequence[tuple[Path, bytes | None]]) -> None:
    """Write files as the instance's user; None: a FIFO."""
    wanted = [[str(path), None if content is None else content.hex()] for path, content in files]
    if lane.as_user(_WRITER, json.dumps(wanted)).wait(30) != 0:
        raise Wrong("the instance's user could not write the files")


def _all_commands(lane: Lane) -> None:
    """No command may be stopped by what the user wrote: status, an experiment and, at the end of each fault, teardown."""
    expect(lane.make("status"), ("ok",))
    expect(lane.experiment(), DONE)
    lane.complete()


def _ghost(lane: Lane, content: bytes | None) -> None:
    lane.build()
    _write(lane, [(lane.directory / "runs/ghost/replay.lock", content)])
    _all_commands(lane)


@fault("lock-of-init", "the user writes the process id of PID 1 into runs/ghost/replay.lock", "status and experiment end `ok`")
def lock_of_init(lane: Lane) -> None:
    started = Path("/proc/1/stat").read_text().rpartition(")")[2].split()[19]
    _ghost(lane, f"1 {started}\n".encode())


@fault("lock-of-words", "the user writes `abc def` into runs/ghost/replay.lock", "status and experiment end `ok`")
def lock_of_words(lane: Lane) -> None:
    _ghost(lane, b"abc def\n")


@fault("lock-of-bytes", "the user writes bytes that are not UTF-8 into runs/ghost/replay.lock", "status and experiment end `ok`")
def lock_of_bytes(lane: Lane) -> None:
    _ghost(lane, bytes(range(128, 256)))


@fault("lock-is-fifo", "the user makes runs/ghost/replay.lock a FIFO", "status and experiment end `ok`")
def lock_is_fifo(lane: Lane) -> None:
    _ghost(lane, None)


@fault("farm-state-garbage", "the user writes garbage into run/farm.json", "status, experiment and teardown end `ok`")
def farm_state_garbage(lane: Lane) -> None:
    lane.build()
    _write(lane, [(lane.directory / "run/farm.json", b'{"pid": 1, "phase\xff')])
    _all_commands(lane)


@fault("farm-state-empty", "run/farm.json truncated after SIGKILL to the farm", "status, experiment and teardown end `ok`")
def farm_state_empty(lane: Lane) -> None:
    lane.build()
    os.kill(lane.farm_pid(), signal.SIGKILL)
    _write(lane, [(lane.directory / "run/farm.json", b"")])
    expect(lane.make("status"), ("ok", "failed"))
    expect(lane.experiment(), DONE)
    lane.complete()


@fault(
    "farm-state-forged",
    "the user writes PID 1 as the farm into run/farm.json, after SIGKILL to the farm",
    "the process is not signalled; `make teardown` ends `ok`",
)
def farm_state_forged(lane: Lane) -> None:
    lane.build()
    victim = lane.stack.enter_context(_sleeper())
    os.kill(lane.farm_pid(), signal.SIGKILL)
    state = json.loads((lane.directory / "run/farm.json").read_text())
    started = int(Path(f"/proc/{victim.pid}/stat").read_text().rpartition(")")[2].split()[19])
    _write(lane, [(lane.directory / "run/farm.json", json.dumps({**state, "pid": victim.pid, "start_time": started}).encode())])
    expect(lane.make("teardown"), ("ok",))
    if victim.poll() is not None:
        raise Wrong("make teardown ended a process that does not belong to the instance")


@contextmanager
def _sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process of root that sleeps."""
    process = subprocess.Popen(["sleep", "600"])
    try:
        yield process
    finally:
        process.kill()
        process.wait()
