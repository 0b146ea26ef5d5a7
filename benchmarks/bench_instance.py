"""An instance of its own for the benchmarks: built and removed by make, started and stopped by hand.

Needs root. Whatever happens, the instance is torn down.
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
DIRECTORY = Path("/var/lib/slurm-mirage", NAME)
USER = f"slurm-{NAME}"
PATIENCE, PATIENCE_NODE = 300.0, 0.05  # seconds to wait for nodes or jobs, and so many more for each node
SHARE, LONGEST = 10, 2.0  # a question is asked again after so many times the time that its answer took, or so many seconds:
# it shall not be what is measured
STEP_PATIENCE = 600.0  # seconds after which a job is given up


@dataclass(frozen=True)
class Made:
    """What a run of make took: seconds, tasks that changed something, and the host's lowest MemAvailable meanwhile."""

    seconds: float
    changed: int
    lowest_mib: float


def make(target: str, **knobs: object) -> Made:
    """Run make on the benchmark's instance. Its output is added to results/bench/make.log.

    Raises Skipped when the host is too small for NODES, RuntimeError with make's last line when it fails otherwise.
    """
    words = [f"{name}={value}" for name, value in {"CLUSTER": NAME, **knobs}.items()]
    # Knobs of the environment, and of a make that runs this program, are not meant for this one.
    clean = {key: value for key, value in os.environ.items() if not key.startswith("MAKE") and key not in ("MFLAGS", *BY_NAME)}
    RESULTS.mkdir(parents=True, exist_ok=True)
    with (RESULTS / "make.log").open("a+") as log:
        beginning = log.seek(0, os.SEEK_END)
        progress, lowest = Progress(" ".join(["make", target, *words])), available_mib()
        began = time.monotonic()
        process = subprocess.Popen(
            ["make", target, *words], cwd=REPOSITORY, env=clean, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
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
    last = next((line for line in reversed(lines) if line.startswith(("ok:", "failed:", "wrong use:"))), "make said nothing")
    if last.startswith("wrong use: NODES"):
        raise Skipped(last.removeprefix("wrong use: "))
    if process.returncode:
        raise RuntimeError(last)
    changed = last.partition("changed=")[2].partition(",")[0].partition(";")[0]
    return Made(round(seconds, 2), int(changed), round(lowest, 1))


@contextmanager
def reserved() -> Iterator[None]:
    """The right to build the instance; whatever is there at the end is torn down."""
    if DIRECTORY.exists():
        raise SystemExit(f"wrong use: there is an instance {NAME} already; make teardown CLUSTER={NAME} removes it")
    try:
        yield
    finally:
        make("teardown")


@contextmanager
def built(nodes: int, steps: str = "no") -> Iterator[None]:
    """The instance, built and running; torn down at the end. `steps` is the knob STEPS: with `no` slurmd have slim files."""
    with reserved():
        make("cluster", NODES=nodes, STEPS=steps)
        wait_for_nodes(nodes)
        yield


def as_user(*command: str) -> list[str]:
    """The command, run as the instance's user."""
    return ["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups", *command]


def environment() -> dict[str, str]:
    """What Slurm's commands, and processes that belong to the instance, need."""
    return {**os.environ, "SLURM_CONF": str(DIRECTORY / "etc/slurm.conf"), processes.INSTANCE_VARIABLE: str(DIRECTORY)}


def output(*command: str) -> str:
    """What one of Slurm's commands prints; empty when it fails."""
    return subprocess.run(command, env=environment(), capture_output=True, text=True, check=False).stdout.strip()


def node_states() -> str:
    """Nodes by state on one line, as `3600 idle`; a state with a star does not respond (sinfo(1))."""
    return ", ".join(output("sinfo", "--noheader", "--format", "%D %T").splitlines())


def wait_for_nodes(nodes: int) -> None:
    """Wait until slurmctld says that all nodes are idle."""
    seen = ""

    def all_idle() -> bool:
        nonlocal seen
        seen = node_states()
        return seen == f"{nodes} idle"

    wait_for(all_idle, "nodes", PATIENCE + PATIENCE_NODE * nodes, lambda: seen)


def wait_for(
    condition: Callable[[], bool], what: str, patience: float = PATIENCE, how_far: Callable[[], str] = lambda: "waiting"
) -> None:
    """Wait until `condition` holds; looks ten times a second, less often when looking takes long."""
    progress = Progress(what)
    while True:
        asked = time.monotonic()
        if condition():
            return
        now = time.monotonic()
        if now > progress.began + patience:
            raise TimeoutError(f"{what}: not after {patience:.0f} s ({how_far()})")
        progress.tell(how_far())
        time.sleep(min(LONGEST, max(0.1, SHARE * (now - asked))))


def queue(*options: str) -> list[str]:
    """Jobs in the queue, `STATE` each; `options` choose among them (squeue(1))."""
    return output("squeue", "--noheader", "--format=%T", *options).splitlines()


def wait_for_empty_queue() -> None:
    """Wait until no job is left."""
    left = 0

    def is_empty() -> bool:
        nonlocal left
        left = len(queue())
        return left == 0

    wait_for(is_empty, "jobs end", how_far=lambda: f"{left} left")


def wait_for_job(name: str, patience: float) -> str:
    """Wait until the job of this name has ended; its state, or what it was after `patience` seconds."""
    state = "not there"

    def has_ended() -> bool:
        nonlocal state
        state = next(iter(queue("--states=all", f"--name={name}")), state)
        return state in ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY")

    with suppress(TimeoutError):
        wait_for(has_ended, name, patience, lambda: state)
    return state


def job_name(width: int) -> str:
    """A name that no other job of the instance has."""
    return f"bench-{width}-nodes-{time.time_ns()}"


def batch_job(width: int) -> Figures:
    """Run a batch job over so many nodes: seconds from its submission to its end, and how it ended."""
    name = job_name(width)
    script = ["-N", str(width), "--exclusive", "--time=30", "--output=/dev/null", f"--job-name={name}", "--wrap=exit 0"]
    began = time.monotonic()
    subprocess.run(as_user("sbatch", "--quiet", *script), cwd=DIRECTORY, env=environment(), check=True)
    state = wait_for_job(name, STEP_PATIENCE)
    return {"nodes": width, "seconds": round(time.monotonic() - began, 2), "state": state}


def completion_log() -> CompletionLog:
    """The completion log from now on."""
    path = DIRECTORY / "log/jobcomp.log"
    return CompletionLog(path, path.stat().st_size if path.exists() else 0)


def stop() -> None:
    """End all that runs of the instance, the farm first (it would start its daemons again)."""
    state = json.loads((DIRECTORY / "run/farm.json").read_text()) if (DIRECTORY / "run/farm.json").exists() else None
    if state:
        processes.end([state["pid"]], 30)
    processes.end(processes.of_instance(str(DIRECTORY)), 10)
    # Without its saved state slurmctld believes in no node until it has registered.
    for path in (DIRECTORY / "state").iterdir():
        if path.is_file():
            path.unlink()


def members(*names: str) -> list[int]:
    """Ids of the instance's processes, of all or of those whose command has one of these names."""
    pids = sorted(processes.of_instance(str(DIRECTORY)))
    return [pid for pid in pids if not names or _command_name(pid) in names]


def _command_name(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""
