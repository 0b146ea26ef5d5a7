"""Measures the generation of a log of millions of jobs, and compares `make metrics` on it with evalys (utilisation only).

    make bench PART=metrics

The log comes from the model raijin, with random waits, in SWF. Each run is a new process, timed with the start of Python, in the
order A B B A, so that other load on the machine affects both programs. evalys needs an older pandas, so it gets its own virtual
environment in .cache.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Sequence
from pathlib import Path

from benchmarks.figures import Benchmark, Check, Figures, Skipped, markdown

ROOT = Path(__file__).parents[1]
EVALYS = ROOT / ".cache/evalys"
EVALYS_PACKAGES = ("evalys==4.0.7", "pandas==2.3.3", "numpy==2.4.6")
# Jobs between April and November of 2016 on NCI's Raijin (3,592 nodes of 16 cores) according to the thesis.
RAIJIN = {"JOBS": "4417018", "NODES": "3592", "CPUS": "16"}
# Waits (column 3 of SWF): 0 for half of the jobs, exponential with a mean of one hour for the others.
ADD_WAITS = """
import sys
import numpy as np
from mirage.traces import swf
frame, header, _, _ = swf.read_swf(sys.argv[1])
rng = np.random.default_rng(1)
waits = np.where(rng.random(frame.height) < 0.5, 0.0, np.floor(rng.exponential(3600.0, frame.height)))
swf.write_swf(frame.with_columns(wait=waits), header, sys.argv[2])
"""
USE_EVALYS = """
import sys, warnings
warnings.simplefilter("ignore")
from evalys.workload import Workload
log = Workload.from_csv(sys.argv[1])
log.utilisation
print(len(log.df))
"""


def measure(jobs: int = int(RAIJIN["JOBS"]), rounds: int = 2) -> Figures:
    """Return the log's bytes, the seconds and MiB of its generation, and the seconds, peak MiB and jobs read of each program."""
    evalys = _evalys()
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as directory:
        folder = Path(directory)
        plain, log, result = folder / "plain.swf", folder / "log.swf", folder / "metrics.json"
        generated = _timed([sys.executable, "-m", "mirage", "workload"], {**RAIJIN, "JOBS": str(jobs), "OUT": str(plain)})
        subprocess.run([sys.executable, "-c", ADD_WAITS, str(plain), str(log)], check=True)
        plain.unlink()
        ours: tuple[list[str], dict[str, str]] = (
            [sys.executable, "-m", "mirage", "metrics"],
            {"TRACE": str(log), "OUT": str(result)},
        )
        theirs: tuple[list[str], dict[str, str]] = ([str(evalys), "-c", USE_EVALYS, str(log)], {})
        runs: dict[str, list[Figures]] = {"mirage": [], "evalys": []}
        for turn in range(rounds):
            order = ("mirage", "evalys") if turn % 2 == 0 else ("evalys", "mirage")
            for name in order:
                runs[name].append(_timed(*(ours if name == "mirage" else theirs)))
        counted = json.loads(result.read_text())
        return {
            "jobs": jobs,
            "bytes": log.stat().st_size,
            "generation": {name: generated[name] for name in ("seconds", "mib")},
            "mirage": {**_best(runs["mirage"]), "jobs": counted["jobs"]["submitted"], "nulls": counted["null_reasons"]},
            "evalys": {**_best(runs["evalys"]), "jobs": int(runs["evalys"][0]["output"].split()[-1])},
        }


def _evalys() -> Path:
    """Return the Python of evalys's virtual environment, which is created if it is missing. Raises Skipped if pip fails."""
    python = EVALYS / "bin/python"
    done = EVALYS / "installed"
    if not done.exists():
        venv.create(EVALYS, with_pip=True, clear=True)
        command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *EVALYS_PACKAGES]
        if subprocess.run(command, check=False).returncode:
            raise Skipped(f"needs {EVALYS_PACKAGES[0]}, which pip could not install")
        done.touch()
    return python


def _timed(command: Sequence[str], knobs: dict[str, str]) -> Figures:
    """Run a program. Returns its real seconds, processor seconds, peak memory in MiB and output. Raises CalledProcessError."""
    environment = {**os.environ, **knobs, "MIRAGE_GIVEN": " ".join(knobs)}
    with tempfile.TemporaryFile("w+") as output:
        began = time.monotonic()
        child = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output)
        _, status, used = os.wait4(child.pid, 0)
        took = time.monotonic() - began
        child.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read()
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, command, text)
    return {"seconds": took, "cpu": used.ru_utime + used.ru_stime, "mib": used.ru_maxrss / 1024, "output": text}


def _best(runs: Sequence[Figures]) -> Figures:
    """Return the minimum times (other load on the machine can only make a run longer) and the maximum peak memory."""
    return {
        "seconds": min(run["seconds"] for run in runs),
        "cpu": min(run["cpu"] for run in runs),
        "mib": max(run["mib"] for run in runs),
        "runs": [run["seconds"] for run in runs],
    }


def report(figures: Figures) -> str:
    """Return a table of both programs."""
    size = figures["bytes"] / 1e6
    generation = figures["generation"]
    head = (
        f"{figures['jobs']:,} jobs, {size:.0f} MB of SWF; generated in {generation['seconds']:.1f} s, {generation['mib']:.0f} MiB\n"
    )
    rows = [
        (what, figures[name]["jobs"], figures[name]["seconds"], figures[name]["cpu"], figures[name]["mib"])
        for name, what in (("mirage", "make metrics: all metrics"), ("evalys", "evalys: reading and utilisation"))
    ]
    return head + "\n" + markdown(("program", "jobs read", "s", "s of processor time", "peak MiB"), rows)


def checks(figures: Figures) -> list[Check]:
    """Check the bounds, which hold for the full size on two cores."""
    ours = figures["mirage"]
    return [
        Check("generating the log, s", figures["generation"]["seconds"], 60),
        Check("make metrics, s", ours["seconds"], 12),
        Check("make metrics, peak MiB", ours["mib"], 3072),
        Check("make metrics / evalys, time", ours["seconds"] / figures["evalys"]["seconds"], 1),
        Check("jobs read / jobs written", ours["jobs"] / figures["jobs"], 1, at_least=True),
    ]


BENCHMARK = Benchmark("log_metrics", "all metrics of a log of millions of jobs, compared with evalys", measure, report, checks)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
