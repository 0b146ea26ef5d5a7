"""Runs a malleable MPI program in a job's batch script, and starts it again with another number of processes at each resize.

    python3 dmr_run.py PROGRAM [ARGUMENT...]

The program runs under mpirun, one process on each node of the job. It gets DMR_STATE, a new folder in memory (/dev/shm), in which
it leaves two files before a resize: `state`, its data, in a form of its own, and `resize`, the line

    expand|shrink|lost NODES NAMES STILL_SINCE CHECKED

with commas between the names, and instants in seconds since the epoch (lost: a shrink that has happened already). Then it ends with
exit code 0. The next processes find `state`, and DMR_STILL_SINCE and DMR_CHECKED in the environment. A program that leaves no
`resize` has ended: dmr_run.py ends with its exit code. Its own exit codes: 1, the program could not be started again; 2, wrong use.

The program speaks to the broker through this process (DMR_BROKER is a socket of its own): the broker takes back a shrink when the
connection of those who asked ends, and all processes of the program end before the shrink.

From the environment: SLURM_JOB_ID and what else Slurm sets in a batch script, DMR_BROKER (dmr.h). Python 3.9, standard library.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

from dmr import Broker, Connection

MEMORY = Path("/dev/shm")
ASK_AGAIN, ASK_FOR = 5.0, 1800.0
"""Seconds between two questions to a Slurm that does not answer, and after which it is given up."""
MPIRUN_PATIENCE = 10.0  # seconds for the end of mpirun, which ends its processes, at the end of the job
STEP_PATIENCE = 120.0  # seconds for the end of a step; Slurm itself gives its processes 60 s (UnkillableStepTimeout)


def relay(listener: socket.socket, connection: Connection) -> None:
    """Pass the program's requests on to the broker, and its answers back, for ever. A lost broker ends the program's connection."""
    while True:
        client, _ = listener.accept()
        with client, client.makefile("rb") as lines, suppress(OSError):
            for line in lines:
                if line.split()[2:3] == [b"resumed"]:
                    connection.send(line)
                else:
                    client.sendall(connection.ask(line))


def output_of(*words: str) -> str:
    """Return what a command of Slurm prints; one that fails is repeated. Raises CalledProcessError and OSError."""
    give_up = time.monotonic() + ASK_FOR
    while True:
        try:
            return subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        except subprocess.CalledProcessError:
            if time.monotonic() > give_up:
                raise
        time.sleep(ASK_AGAIN)


def nodes_of_job(job: str) -> tuple[str, ...]:
    """Ask Slurm for the names of the job's nodes. Raises CalledProcessError and OSError."""
    folded = output_of("squeue", "--noheader", f"--jobs={job}", "--format=%N")
    return tuple(output_of("scontrol", "show", "hostnames", folded).split())


def steps_have_ended(job: str) -> bool:
    """Wait until Slurm has seen the end of mpirun's step: it comes later than that of mpirun. Returns whether it came.

    A shrink that overtakes it would be a failure of the released nodes to Slurm, which may drain them ("Kill task failed").
    """
    give_up = time.monotonic() + STEP_PATIENCE
    while time.monotonic() < give_up:
        steps = output_of("squeue", "--noheader", "--steps", f"--jobs={job}", "--format=%i").split()
        if all(step.endswith((".batch", ".extern")) for step in steps):
            return True
        time.sleep(0.05)
    return False


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


class EndOfJob:
    """SIGTERM, the end of the job, which ends this program and mpirun. While mpirun is being started it is put off."""

    def __init__(self) -> None:
        self._puts_off = False
        self._number = 0
        signal.signal(signal.SIGTERM, self._end)

    def _end(self, number: int, frame: object) -> None:
        if not self._puts_off:
            sys.exit(128 + number)
        self._number = number

    def run(self, words: list[str], environment: dict[str, str]) -> int:
        """Run mpirun; returns its exit code, negative for a signal. It has ended also when this raises SystemExit."""
        self._puts_off = True
        program = subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL)
        try:
            self._puts_off = False
            if self._number:
                sys.exit(128 + self._number)
            return program.wait()
        except BaseException:
            program.terminate()
            try:
                program.wait(timeout=MPIRUN_PATIENCE)
            except subprocess.TimeoutExpired:
                program.kill()
            raise


def run(command: list[str], folder: Path, environment: dict[str, str], connection: Connection, end_of_job: EndOfJob) -> int:
    """Run the program to its end; returns its exit code."""
    count = environment["SLURM_JOB_NUM_NODES"]
    environment |= {"DMR_STATE": str(folder), "DMR_NODES": count, "SLURM_TASKS_PER_NODE": f"1(x{count})"}
    resize = folder / "resize"
    while True:
        words = ["mpirun", "-np", environment["DMR_NODES"], *command]
        code = end_of_job.run(words, environment)
        if code or not resize.exists():
            return code if code >= 0 else 128 - code
        action, to, names, still_since, checked = resize.read_text().split()
        resize.unlink()
        nodes, job = tuple(names.split(",")), environment["SLURM_JOB_ID"]
        # Without Slurm's launcher mpirun has no step.
        is_free = action != "shrink" or environment.get("OMPI_MCA_plm", "slurm") != "slurm" or steps_have_ended(job)
        asked = time.time()
        if not is_free:
            nodes = ()
            print(f"dmr_run: no shrink to {to} nodes: the step does not end", file=sys.stderr, flush=True)
        elif action == "shrink":
            nodes = released(Broker(environment, connection), int(to), job)
        if nodes and len(nodes) != int(environment["DMR_NODES"]):
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
    end_of_job = EndOfJob()
    environment = dict(os.environ)
    connection = Connection(environment.get("DMR_BROKER", ""))
    folder = Path(tempfile.mkdtemp(prefix=f"dmr-{os.environ['SLURM_JOB_ID']}-", dir=MEMORY))
    try:
        if environment.get("DMR_BROKER"):
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            environment["DMR_BROKER"] = str(folder / "broker.socket")
            listener.bind(environment["DMR_BROKER"])
            listener.listen()
            threading.Thread(target=relay, args=(listener, connection), daemon=True).start()
        return run(sys.argv[1:], folder, environment, connection, end_of_job)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        print(f"dmr_run: failed: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
