"""Builds, starts, stops and removes the instance `bench`, which only the benchmarks use.

Needs root. The instance is removed in any case, also after an error.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures import RESULTS, Figures, Skipped
from benchmarks.host import Progress, available_mib
from mirage.knobs.table import BY_NAME
from slurm_mirage.base import processes
from slurm_mirage.rm.slurm.records import CompletionLog

REPOSITORY = Path(__file__).parents[1]
NAME = "bench"
# Knobs of the instance: its times are those of the host.
IN_REAL_TIME = {"SPEED": 1, "CONFIG": "backfill"}
DIRECTORY = Path("/var/lib/slurm-mirage", NAME)
USER = f"slurm-{NAME}"
PATIENCE, PATIENCE_NODE = 300.0, 0.05  # time limit for nodes or jobs in seconds, and additional seconds per node
# Between two polls: so many times the duration of the last poll, but at most so many seconds. Polling must not affect the
# measurement.
SHARE, LONGEST = 10, 2.0
STEP_PATIENCE = 600.0  # time limit for a job in seconds


@dataclass(frozen=True)
class Made:
    """Result of a run of make: its duration in seconds, the number of changed tasks, and the host's minimum MemAvailable in MiB."""

    seconds: float
    changed: int
    lowest_mib: float


def environment_of_make() -> dict[str, str]:
    """The environment for a make of a benchmark: without knobs of the caller's, and without variables of an outer make."""
    return {key: value for key, value in os.environ.items() if not key.startswith("MAKE") and key not in ("MFLAGS", *BY_NAME)}


def make(target: str, **knobs: object) -> Made:
    """Run make for the instance `bench`. Its output is appended to results/bench/make.log.

    Raises Skipped when the host is too small for NODES, and RuntimeError with make's last line on any other failure.
    """
    built = IN_REAL_TIME if target == "cluster" else {}
    words = [f"{name}={value}" for name, value in {"CLUSTER": NAME, **built, **knobs}.items()]
    RESULTS.mkdir(parents=True, exist_ok=True)
    with (RESULTS / "make.log").open("a+") as log:
        beginning = log.seek(0, os.SEEK_END)
        progress, lowest = Progress(" ".join(["make", target, *words])), available_mib()
        began = time.monotonic()
        process = subprocess.Popen(
            ["make", target, *words],
            cwd=REPOSITORY,
            env=environment_of_make(),
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            while process.poll() is None:
                lowest = min(lowest, available_mib())
                progress.tell(f"{lowest:.0f} MiB available at least")
                with suppress(subprocess.TimeoutExpired):
                    process.wait(0.5)
        except BaseException:
            process.terminate()
            process.wait()
            raise
        seconds = time.monotonic() - began
        log.seek(beginning)
        lines = log.read().splitlines()
    last = next((line for line in reversed(lines) if line.startswith(("ok:", "failed:", "wrong use:"))), "make printed no result")
    if last.startswith("wrong use: NODES"):
        raise Skipped(last.removeprefix("wrong use: "))
    if process.returncode:
        raise RuntimeError(last)
    changed = last.partition("changed=")[2].partition(",")[0].partition(";")[0]
    return Made(round(seconds, 2), int(changed or 0), round(lowest, 1))


@contextmanager
def reserved() -> Iterator[None]:
    """Context in which the instance may be built. Removes the instance at the end. Exits if the instance already exists."""
    if DIRECTORY.exists():
        raise SystemExit(f"wrong use: the instance {NAME} already exists; remove it with `make teardown CLUSTER={NAME}`")
    try:
        yield
    finally:
        make("teardown")


@contextmanager
def built(nodes: int, steps: str = "no") -> Iterator[None]:
    """Context with the running instance; removes it at the end.

    `steps` is the knob STEPS: with `no`, each slurmd reads only its node.
    """
    with reserved():
        make("cluster", NODES=nodes, STEPS=steps)
        wait_for_nodes(nodes)
        yield


def as_user(*command: str) -> list[str]:
    """Return the command that runs `command` as the instance's user."""
    return ["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups", *command]


def environment() -> dict[str, str]:
    """Return the environment of Slurm's commands and of the instance's processes."""
    return {**os.environ, "SLURM_CONF": str(DIRECTORY / "etc/slurm.conf"), processes.INSTANCE_VARIABLE: str(DIRECTORY)}


def output(*command: str) -> str:
    """Return the standard output of a Slurm command; empty when it fails."""
    return subprocess.run(command, env=environment(), capture_output=True, text=True, check=False).stdout.strip()


def node_states() -> str:
    """Return the number of nodes by state, such as `3600 idle`. A star marks nodes that do not respond (sinfo(1))."""
    return ", ".join(output("sinfo", "--noheader", "--format", "%D %T").splitlines())


def wait_for_nodes(nodes: int) -> None:
    """Wait until all nodes are idle in slurmctld."""
    seen = ""

    def all_idle() -> bool:
        nonlocal seen
        seen = node_states()
        return seen == f"{nodes} idle"

    wait_for(all_idle, "nodes", PATIENCE + PATIENCE_NODE * nodes, lambda: seen)


def wait_for(
    condition: Callable[[], bool], what: str, patience: float = PATIENCE, how_far: Callable[[], str] = lambda: "waiting"
) -> None:
    """Wait until `condition` holds, polling every 0.1 s, or less often when a poll takes long.

    Raises TimeoutError after `patience` s.
    """
    progress = Progress(what)
    while True:
        asked = time.monotonic()
        if condition():
            return
        now = time.monotonic()
        if now > progress.began + patience:
            raise TimeoutError(f"{what}: not reached after {patience:.0f} s ({how_far()})")
        progress.tell(how_far())
        time.sleep(min(LONGEST, max(0.1, SHARE * (now - asked))))


def queue(*options: str) -> list[str]:
    """Return the state of each job in the queue; `options` of squeue(1) select jobs."""
    return output("squeue", "--noheader", "--format=%T", *options).splitlines()


def wait_for_empty_queue() -> None:
    """Wait until the queue is empty."""
    left = 0

    def is_empty() -> bool:
        nonlocal left
        left = len(queue())
        return left == 0

    wait_for(is_empty, "jobs end", how_far=lambda: f"{left} left")


def wait_for_job(name: str, patience: float) -> str:
    """Wait at most `patience` seconds until the job of this name has ended. Returns the job's last state."""
    state = "not found"

    def has_ended() -> bool:
        nonlocal state
        state = next(iter(queue("--states=all", f"--name={name}")), state)
        return state in ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY")

    with suppress(TimeoutError):
        wait_for(has_ended, name, patience, lambda: state)
    return state


def job_name(width: int) -> str:
    """Return a job name that is unique in the instance."""
    return f"bench-{width}-nodes-{time.time_ns()}"


def batch_job(width: int) -> Figures:
    """Run a batch job on `width` nodes. Returns the seconds from its submission to its end, and its final state."""
    name = job_name(width)
    script = ["-N", str(width), "--exclusive", "--time=30", "--output=/dev/null", f"--job-name={name}", "--wrap=exit 0"]
    began = time.monotonic()
    subprocess.run(as_user("sbatch", "--quiet", *script), cwd=DIRECTORY, env=environment(), check=True)
    state = wait_for_job(name, STEP_PATIENCE)
    return {"nodes": width, "seconds": round(time.monotonic() - began, 2), "state": state}


def completion_log() -> CompletionLog:
    """Return a reader of the completion log that starts at its current end."""
    path = DIRECTORY / "log/jobcomp.log"
    return CompletionLog(path, path.stat().st_size if path.exists() else 0)


def stop() -> None:
    """End all processes of the instance, the farm first, because it restarts its daemons."""
    state = json.loads((DIRECTORY / "run/farm.json").read_text()) if (DIRECTORY / "run/farm.json").exists() else None
    if state:
        processes.end([state["pid"]], 30)
    processes.end(processes.of_instance(str(DIRECTORY)), 10)
    # Without its saved state, slurmctld uses a node only after its registration.
    for path in (DIRECTORY / "state").iterdir():
        if path.is_file():
            path.unlink()


def members(*names: str) -> list[int]:
    """Return the ids of the instance's processes; with `names`, only of the commands with these names."""
    pids = sorted(processes.of_instance(str(DIRECTORY)))
    return [pid for pid in pids if not names or _command_name(pid) in names]


def _command_name(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""
