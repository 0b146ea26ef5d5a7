"""Munge keys."""

from __future__ import annotations

import os
import signal

from slurm_mirage.base.processes import start_time

from .lane import DONE, Lane, expect, until
from .table import Wrong, fault


def _key_is_private(lane: Lane) -> None:
    mode = (lane.directory / "etc/munge.key").stat().st_mode & 0o777
    if mode & 0o077:
        raise Wrong(f"the key has mode {mode:04o}")


def _end_munged(lane: Lane) -> None:
    pid = lane.pid_of("munged")
    os.kill(pid, signal.SIGKILL)
    until(lambda: start_time(pid) is None, "end of munged")


@fault(
    "key-short",
    "a munge key of 3 bytes, and SIGKILL to munged",
    "`make cluster` makes a new key, or the last line names the key",
)
def key_short(lane: Lane) -> None:
    lane.build()
    key = lane.directory / "etc/munge.key"
    key.write_bytes(b"abc")
    _end_munged(lane)
    ended = expect(lane.make("cluster", NODES=lane.nodes, CPUS=4), ("ok", "failed", "wrong use"))
    if ended.word != "ok":
        expect(ended, (ended.word,), r"key.*(short|small|length|bytes|bits)")
        return
    expect(lane.experiment(), DONE)
    lane.complete()


@fault("key-removed", "the munge key removed, and SIGKILL to munged", "`make cluster` makes a new one; `make experiment` ends `ok`")
def key_removed(lane: Lane) -> None:
    lane.build()
    (lane.directory / "etc/munge.key").unlink()
    _end_munged(lane)
    lane.build()
    _key_is_private(lane)
    expect(lane.experiment(), DONE)
    lane.complete()


@fault("key-removed-in-use", "the munge key removed while munged runs", "`make experiment` ends `ok`, with a key")
def key_removed_in_use(lane: Lane) -> None:
    lane.build()
    (lane.directory / "etc/munge.key").unlink()
    expect(lane.experiment(), DONE)
    _key_is_private(lane)
    lane.complete()


@fault(
    "key-readable",
    "the munge key with mode 0644",
    "`wrong use:` says that others may have read it; without the key the same command makes a new one and finishes",
)
def key_readable(lane: Lane) -> None:
    lane.build()
    key = lane.directory / "etc/munge.key"
    key.chmod(0o644)
    expect(lane.experiment(), ("wrong use",), r"munge\.key: mode 0644")
    key.unlink()
    expect(lane.experiment(), DONE)
    _key_is_private(lane)
    lane.complete()
