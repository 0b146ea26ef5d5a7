"""Runs a malleable MPI program in a job's batch script, and starts it again with another number of processes at each resize.

    python3 dmr_run.py PROGRAM [ARGUMENT...]

The program runs under mpirun, one process on each node of the job. It gets DMR_STATE, a new folder in memory (/dev/shm), in which
it leaves two files before a resize: `state`, its data, in a form of its own, and `resize`, the line

    expand|shrink NODES NAMES STILL_SINCE CHECKED

with commas between the names, and instants in seconds since the epoch. Then it ends with exit code 0. The next processes find
`state`, and DMR_STILL_SINCE and DMR_CHECKED in the environment. A program that leaves no `resize` has ended: dmr_run.py ends with
its exit code. Its own exit codes: 1, the program could not be started again; 2, wrong use.

From the environment: SLURM_JOB_ID and what else Slurm sets in a batch script, DMR_BROKER (dmr.h). Python 3.9, standard library.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dmr import Broker

MEMORY = Path("/dev/shm")


def nodes_of_job(job: str) -> tuple[str, ...]:
    """Ask Slurm for the names of the job's nodes. Raises CalledProcessError and OSError."""
    words = ["squeue", "--noheader", f"--jobs={job}", "--format=%N"]
    folded = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    words = ["scontrol", "show", "hostnames", folded]
    return tuple(subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout.split())


def variables(names: tuple[str, ...]) -> dict[str, str]:
    """Return what Slurm's variables are on these nodes: in the environment of a batch script they stay those of the job's start."""
    count, joined = str(len(names)), ",".join(names)
    return {
        "DMR_NODES": count,
        "SLURM_JOB_NUM_NODES": count,
        "SLURM_NNODES": count,
        "SLURM_JOB_NODELIST": joined,
        "SLURM_NODELIST": joined,
        "SLURM_TASKS_PER_NODE": f"1(x{count})",
    }


def released(broker: Broker, to: int, job: str) -> tuple[str, ...]:
    """Tell the broker that nothing runs on the other nodes. Returns the nodes of the job if they are others now."""
    done = broker.ready(to)
    if done.action == "shrink":
        return done.names
    print(f"dmr_run: no shrink to {to} nodes: {done.reason}", file=sys.stderr, flush=True)
    # Without an answer only Slurm knows.
    return nodes_of_job(job) if done.lost else ()


def run(command: list[str], folder: Path, environment: dict[str, str]) -> int:
    """Run the program to its end; returns its exit code."""
    count = environment["SLURM_JOB_NUM_NODES"]
    environment |= {"DMR_STATE": str(folder), "DMR_NODES": count, "SLURM_TASKS_PER_NODE": f"1(x{count})"}
    resize = folder / "resize"
    while True:
        words = ["mpirun", "-np", environment["DMR_NODES"], *command]
        code = subprocess.run(words, env=environment, stdin=subprocess.DEVNULL, check=False).returncode
        if code or not resize.exists():
            return code if code >= 0 else 128 - code
        action, to, names, still_since, checked = resize.read_text().split()
        resize.unlink()
        asked = time.time()
        nodes = tuple(names.split(","))
        if action == "shrink":
            nodes = released(Broker(environment), int(to), environment["SLURM_JOB_ID"])
        if nodes:
            print(f"dmr_run: {action} from {environment['DMR_NODES']} to {len(nodes)} nodes: {','.join(nodes)}", flush=True)
            environment |= variables(nodes)
        waited = time.time() - asked  # for the broker, which is no cost of the program
        environment |= {"DMR_STILL_SINCE": f"{float(still_since) + waited:.6f}", "DMR_CHECKED": checked}


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print("dmr_run: wrong use: usage: dmr_run.py PROGRAM [ARGUMENT...]", file=sys.stderr)
        return 2
    missing = [name for name in ("SLURM_JOB_ID", "SLURM_JOB_NUM_NODES") if not os.environ.get(name)]
    if missing:
        print(f"dmr_run: wrong use: {missing[0]} is not set: call it in the batch script of a job", file=sys.stderr)
        return 2
    folder = Path(tempfile.mkdtemp(prefix=f"dmr-{os.environ['SLURM_JOB_ID']}-", dir=MEMORY))
    try:
        return run(sys.argv[1:], folder, dict(os.environ))
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        print(f"dmr_run: failed: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
