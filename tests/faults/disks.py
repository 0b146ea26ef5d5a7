"""Full and read-only disks."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from mirage import RESULTS

from .lane import DONE, Lane, checked, expect, until
from .table import Wrong, fault

FULL = r"full|no space"
SIZE = "8m"
FILLER = "filler"


def _mount(lane: Lane, name: str) -> Path:
    """Build the cluster, stop its daemons, and put a small file system over one of its folders, with the folder's content."""
    lane.build()
    os.kill(lane.farm_pid(), 15)
    until(lambda: not lane.pids("slurmctld", "slurmd", "munged"), "end of the daemons")
    folder, copy = lane.directory / name, lane.scratch / "content"
    shutil.copytree(folder, copy, symlinks=True)
    account = lane.account()
    mode = oct(folder.stat().st_mode & 0o7777)[2:]
    checked(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode={mode},uid={account.pw_uid},gid={account.pw_gid}", "faults", str(folder)]
    )
    # The daemons may still use it.
    lane.stack.callback(lambda: checked(["umount", "--lazy", str(folder)]))
    checked(["cp", "-a", f"{copy}/.", str(folder)])
    checked(["chown", "-R", f"{account.pw_uid}:{account.pw_gid}", str(folder)])
    return folder


def _fill(folder: Path) -> None:
    """Leave no free block in the file system of `folder`."""
    with (folder / FILLER).open("wb", buffering=0) as filler:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while True:
                    filler.write(bytes(size))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise


def _full_in_run(lane: Lane, name: str) -> None:
    """Run an experiment whose folder `name` in the instance becomes full before the first job ends; then with room again."""
    folder = _mount(lane, name)
    command = lane.start_experiment()
    lane.until_submitted(command, 2)
    _fill(folder)
    ended = lane.ended(command)
    (folder / FILLER).unlink()
    expect(ended, ("failed", "invalid"), FULL)
    lane.goes_on()


@fault(
    "runs-full",
    "the disk of runs/ full during the replay",
    "the reason names the full disk; with room again the same command finishes",
)
def runs_full(lane: Lane) -> None:
    _full_in_run(lane, "runs")


@fault(
    "log-full",
    "the disk of log/ full during the replay",
    "the reason names the full disk; with room again the same command finishes",
)
def log_full(lane: Lane) -> None:
    _full_in_run(lane, "log")


@fault(
    "state-full",
    "the disk of state/ full during the replay",
    "the reason names the full disk; with room again the same command finishes",
)
def state_full(lane: Lane) -> None:
    _full_in_run(lane, "state")


def _in_namespace(script: str) -> list[str]:
    """A prefix that runs a command in a mount namespace of its own after `script`: nothing else on the host sees its mounts."""
    return ["unshare", "--mount", "--propagation", "private", "sh", "-ec", f'{script}; exec "$@"', "sh"]


@fault(
    "results-full",
    "60 KiB for results/ (in a mount namespace)",
    "`failed:` or `wrong use:` names the full disk; with room the same command finishes",
)
def results_full(lane: Lane) -> None:
    lane.build()
    RESULTS.mkdir(exist_ok=True)
    command = lane.start_experiment(prefix=_in_namespace(f"mount -t tmpfs -o size=60k faults '{RESULTS}'"))
    ended = lane.ended(command)
    expect(ended, ("failed", "wrong use"), FULL)
    # The results went with the namespace: what is left on the head belongs to a run without results.
    lane.make("teardown")
    expect(lane.experiment(label="the same command"), DONE)
    lane.complete()


@fault(
    "results-read-only",
    "results/RUN read-only for the command that goes on (in a mount namespace)",
    "`failed:` or `wrong use:` says so; the same command finishes",
)
def results_read_only(lane: Lane) -> None:
    command = lane.start_experiment()
    lane.until_submitted(command)
    command.interrupt()
    expect(lane.ended(command), ("failed",), "interrupted")
    folder = lane.results()
    script = f"mount --bind '{folder}' '{folder}'; mount -o remount,bind,ro '{folder}'"
    again = lane.ended(lane.start_experiment(prefix=_in_namespace(script)), label="make experiment, read-only")
    expect(again, ("failed", "wrong use"), r"read-only|cannot (be )?writ")
    lane.goes_on()


@fault(
    "instance-full",
    "no room for the folder of a new instance (in a mount namespace)",
    "`failed:` names the full disk; `make teardown` removes all",
)
def instance_full(lane: Lane) -> None:
    if lane.directory.parent.exists() and any(lane.directory.parent.iterdir()):
        script = "mount -t tmpfs -o size=32k faults /var/lib/slurm-mirage"
    else:
        script = "mkdir -p /var/lib/slurm-mirage; mount -t tmpfs -o size=32k faults /var/lib/slurm-mirage"
    ended = lane.ended(lane.start("cluster", _in_namespace(script), NODES=lane.nodes, CPUS=4))
    if ended.word == "ok":
        raise Wrong("a cluster was built within 32 KiB")
    expect(ended, ("failed", "wrong use"), FULL)
