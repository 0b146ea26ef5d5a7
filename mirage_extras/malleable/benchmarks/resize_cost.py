"""Measures what a resize costs the malleable applications (files/dmr), on a running instance with a broker, at SPEED=1.

    .venv/bin/python -m mirage_extras.malleable.benchmarks.resize_cost /var/lib/slurm-mirage/NAME [REPETITIONS]

Needs eight nodes in which nothing else runs, OpenMPI, and root. Each application asks for one number of nodes after the other. The
cost of a resize is what it tells the broker: from the broker's answer until it goes on with the other processes. Every result is
compared with that of the program alone, and the sizes of the broker's journal with those that were asked for. Prints the tables of
files/dmr/README.md, and the words cost=CONSTANT:PER_PROCESS for emulated jobs, fitted by least squares.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.figures import markdown
from slurm_mirage.base.printing import say
from slurm_mirage.base.processes import INSTANCE_VARIABLE
from slurm_mirage.instance.instance import commands_of

SOURCE = Path(__file__).parents[1] / "files/dmr"
PROGRAMS = ("cg", "jacobi", "nbody")
MEASURED = (("cg", 512, 60), ("jacobi", 512, 60), ("nbody", 512, 60), ("cg", 4096, 2))
"""Program, rows, and iterations from one request to the next. 512 rows of cg are 6 MB of data, 4,096 are 400 MB."""
SEQUENCE = (2, 4, 8, 4, 2, 1, 8, 1, 4, 1, 2)
"""Nodes one after the other, from the job's start on."""
PATIENCE = 600.0  # seconds until a job is given up
ALONE = {
    "PATH": "/usr/bin:/bin",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}


@dataclass(frozen=True)
class Resize:
    """One change of size: nodes, cost in seconds, and the broker's time from the question to the end of the action."""

    before: int
    after: int
    cost: float
    broker: float


class Instance:
    """A running instance; commands run as its user."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        owner = (directory / "run").stat()
        self._owner = {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []}
        self.folder = directory / "home" / "dmr"

    def install(self) -> None:
        """Build the applications in the home of the instance's user."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        subprocess.run(["make", "-s", "-C", str(SOURCE), f"OUT={self.folder}", "all"], check=True)
        for module in SOURCE.glob("*.py"):
            shutil.copy(module, self.folder)

    def run(self, program: str, *words: str, text: str = "") -> str:
        """Run a command of Slurm; returns its output. Raises CalledProcessError."""
        answer: subprocess.CompletedProcess[str] = subprocess.run(  # type: ignore[call-overload]
            [str(commands_of(self.directory) / program), *words],
            env={
                # The job's mpirun calls the release's srun.
                "PATH": f"{commands_of(self.directory)}:/usr/bin:/bin",
                "SLURM_CONF": f"{self.directory}/etc/slurm.conf",
                INSTANCE_VARIABLE: str(self.directory),
            },
            cwd=self.directory / "home",
            input=text,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            **self._owner,
        )
        return answer.stdout.strip()

    def submit(self, nodes: int, program: str, *arguments: str) -> int:
        """Submit an application under dmr_run.py, on whole nodes; returns the job id."""
        lines = [
            "#!/bin/sh",
            f"export DMR_BROKER={self.directory}/run/private/broker.socket",
            # More processes than processors.
            "export OMPI_MCA_mpi_yield_when_idle=1",
            f"exec python3 {self.folder}/dmr_run.py {self.folder}/{program} {' '.join(arguments)}",
        ]
        options = ("--parsable", "--exclusive", "--time=60", f"--nodes={nodes}", "--output=%j.out", "--job-name=application")
        return int(self.run("sbatch", *options, text="\n".join(lines) + "\n"))

    def nodes(self, job: int) -> int:
        """Return how many nodes a job has; 0 if it does not run."""
        shown = self.run("squeue", "--noheader", "--states=RUNNING", "--format=%i %D").splitlines()
        return next((int(line.split()[1]) for line in shown if line.split()[0] == str(job)), 0)

    def output(self, job: int) -> str:
        """Wait for a job's end; returns its output. Raises TimeoutError."""
        give_up = time.monotonic() + PATIENCE
        while self.run("squeue", "--noheader", "--states=PENDING,RUNNING,COMPLETING", "--format=%i").split().count(str(job)):
            if time.monotonic() > give_up:
                raise TimeoutError(f"job {job} does not end")
            time.sleep(0.5)
        return (self.directory / "home" / f"{job}.out").read_text()

    def journal(self, job: int) -> list[dict[str, Any]]:
        """Return what the broker noted about a job."""
        lines = (self.directory / "log/resizes.jsonl").read_text().splitlines()
        return [entry for entry in map(json.loads, lines) if entry.get("job") == job]


def alone(folder: Path, program: str, *arguments: str) -> str:
    """Run an application in one process; returns its result."""
    words = ["mpirun", "-np", "1", str(folder / program), *arguments]
    return subprocess.run(words, env=ALONE, stdout=subprocess.PIPE, text=True, check=True).stdout


def arguments_of(rows: int, iterations: int) -> tuple[list[str], list[str]]:
    """Return the arguments of the computation, and those that ask for all sizes, with so many iterations from one to the next."""
    first, *others = SEQUENCE
    requests = [f"--request={iterations * number}:{nodes}" for number, nodes in enumerate(others, start=1)]
    computation = [f"--rows={rows}", f"--iterations={iterations * len(SEQUENCE)}"]
    return computation, [f"--minimum={first}", f"--maximum={first}", *requests]


def measured(instance: Instance, program: str, arguments: list[str], expected: str) -> list[Resize]:
    """Run an application through all sizes. Raises RuntimeError where it did not do what it was to do."""
    job = instance.submit(SEQUENCE[0], program, *arguments)
    output = instance.output(job)
    if not output.endswith(expected):
        raise RuntimeError(f"{program}: another result than alone, or none: {output[-2000:]}")
    journal = instance.journal(job)
    actions = [entry for entry in journal if entry.get("kind") in ("expand", "shrink") and entry.get("outcome") == "done"]
    costs = [float(cost) for cost in re.findall(r"resumed with \d+ processes after ([0-9.]+) s", output)]
    pairs = [(entry["from"], entry["to"]) for entry in actions]
    if pairs != list(zip(SEQUENCE, SEQUENCE[1:])) or len(costs) != len(pairs):
        raise RuntimeError(f"{program}: sizes {pairs}: {output[-2000:]}")
    return [
        Resize(before, after, cost, float(entry["done"]) - float(entry["asked"]))
        for (before, after), entry, cost in zip(pairs, actions, costs)
    ]


def fitted(resizes: list[Resize]) -> tuple[float, float, float]:
    """Fit cost = constant + per_process x |after - before|, none below 0; returns both, and the standard deviation of the rest."""
    moved = np.array([abs(resize.after - resize.before) for resize in resizes], dtype=float)
    cost = np.array([resize.cost for resize in resizes])
    matrix = np.column_stack([np.ones_like(moved), moved])
    solution = np.linalg.lstsq(matrix, cost, rcond=None)[0]
    if solution[1] < 0:
        solution = np.array([cost.mean(), 0.0])
    return float(solution[0]), float(solution[1]), float(np.std(cost - matrix @ solution, ddof=2))


def table(resizes: list[Resize]) -> str:
    """The costs by sizes, as a table."""
    rows: list[list[object]] = []
    for pair in sorted({(resize.before, resize.after) for resize in resizes}):
        chosen = [resize for resize in resizes if (resize.before, resize.after) == pair]
        costs = [resize.cost for resize in chosen]
        broker = statistics.mean(resize.broker for resize in chosen)
        deviation = statistics.stdev(costs) if len(costs) > 1 else None
        rows.append([f"{pair[0]} to {pair[1]}", len(costs), statistics.mean(costs), deviation, max(costs), broker])
    return markdown(["nodes", "number", "mean s", "deviation s", "longest s", "broker s"], rows)


def main() -> int:
    """Measure; returns the exit code."""
    if len(sys.argv) not in (2, 3) or os.geteuid():
        say("usage, as root: python -m mirage_extras.malleable.benchmarks.resize_cost INSTANCE [REPETITIONS]", file=sys.stderr)
        return 2
    instance = Instance(Path(sys.argv[1]))
    instance.install()
    for program, rows, iterations in MEASURED:
        computation, requests = arguments_of(rows, iterations)
        expected = alone(instance.folder, program, *computation)
        resizes: list[Resize] = []
        for _ in range(int(sys.argv[2]) if len(sys.argv) == 3 else 5):
            resizes += measured(instance, program, computation + requests, expected)
        constant, per_process, rest = fitted(resizes)
        say("", f"{program}, {rows} rows: {expected}", *table(resizes).splitlines(), "")
        say(f"cost={constant:.3f}:{per_process:.4f} (deviation of the rest {rest:.3f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
