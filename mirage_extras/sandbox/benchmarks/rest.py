"""Times requests to a sandbox of 1,000 nodes by 1 to 50 clients at a time, and then 50 clients for ten minutes.

    python -m mirage_extras.sandbox.benchmarks.rest [NODES] [--jobs=5000] [--minutes=10]

Each client has a connection of its own and asks again as soon as it has an answer. The answers are counted against what squeue and
sinfo say before and after. The clock is the real one, and the sandbox has its work.
"""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from statistics import quantiles
from typing import Any

from benchmarks import bench_instance as bench
from benchmarks import host
from benchmarks.figures import Benchmark, Check, Figures, markdown
from mirage_extras.sandbox.benchmarks.client import Refused, RestClient, client_of
from slurm_mirage.base import processes

CLIENTS = (1, 5, 10, 20, 50)
RESOURCES = {"ping": "slurm", "diag": "slurm", "nodes": "slurm", "jobs": "slurm"}
USER = "anna"
SECONDS = 20.0
"""Of each measurement of one resource with so many clients."""
DAEMONS = ("slurmctld", "slurmrestd", "slurmdbd", "mariadbd")
_EMPTY = re.compile(rb'"errors"\s*:\s*\[\s*\]')
"""In an answer: no errors. To read all of it as JSON would take longer than the answer."""
_LOG_LINE = re.compile(r"(?:error|fatal): (.*)")


def measure(nodes: int = 1000, jobs: int = 5000, minutes: float = 10.0) -> Figures:
    """Return {"nodes", "jobs", "seconds" (until the sandbox answers), "latency": [{"resource", "clients", "n", "median", "p95",
    "rate", "errors", "bytes"}], "long": {"clients", "minutes", "n", "median", "p95", "errors", "restarts", "complaints",
    "memory_mib"}}; latencies in s."""
    host.require(nodes)
    with bench.reserved():
        began = time.monotonic()
        bench.make("sandbox", NODES=nodes, JOBS=jobs, RUN=f"bench-rest-{int(time.time())}")
        seconds = time.monotonic() - began
        one = client_of(bench.NAME, USER)
        bench.wait_for(lambda: len(bench.queue("--states=running")) > nodes // 4, "jobs run", 600.0)
        counts(one, nodes)
        latency = [
            {"resource": name, "clients": number, **asked(one, [(name, part)], number, SECONDS)}
            for name, part in RESOURCES.items()
            for number in CLIENTS
        ]
        logs = {path: path.stat().st_size for path in (bench.DIRECTORY / "log").glob("slurm*.log")}
        restarts = _restarts()
        long = asked(one, list(RESOURCES.items()), CLIENTS[-1], 60 * minutes)
        long |= {"clients": CLIENTS[-1], "minutes": minutes, "restarts": _restarts() - restarts, "complaints": _complaints(logs)}
        long["memory_mib"] = {name: _memory(name) for name in DAEMONS}
        counts(one, nodes)
    return {"nodes": nodes, "jobs": jobs, "seconds": round(seconds, 1), "latency": latency, "long": long}


def counts(client: RestClient, nodes: int) -> None:
    """Check that the API has all nodes, and as many jobs as squeue. Raises RuntimeError."""
    if (found := len(client.get("nodes")["nodes"])) != nodes:
        raise RuntimeError(f"the API has {found} of {nodes} nodes")
    before = len(bench.queue("--states=all", "--array"))
    found = len(client.get("jobs")["jobs"])
    after = len(bench.queue("--states=all", "--array"))
    if not min(before, after) <= found <= max(before, after):
        raise RuntimeError(f"the API has {found} jobs, and squeue had {before} before and {after} after it")


def asked(like: RestClient, resources: list[tuple[str, str]], clients: int, seconds: float) -> Figures:
    """Ask by so many clients at a time for so many seconds, each for the resources in turn."""
    end, lock = time.monotonic() + seconds, threading.Lock()
    lengths: list[float] = []
    errors: Counter[str] = Counter()
    size = 0

    def ask(first: int) -> None:
        nonlocal size
        own, turn = like.another(), first
        while time.monotonic() < end:
            name, part = resources[turn % len(resources)]
            turn += 1
            began = time.monotonic()
            try:
                answer = own.raw("GET", own.path(name, part))
                error = "" if _EMPTY.search(answer) else f"{name}: errors in the answer"
            except (Refused, OSError, http.client.HTTPException) as problem:
                answer, error = b"", f"{name}: {type(problem).__name__} {str(problem)[:100]}"
            took = time.monotonic() - began
            with lock:
                size = max(size, len(answer))
                if error:
                    errors[error] += 1
                else:
                    lengths.append(took)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    parts = quantiles(lengths, n=20) if len(lengths) > 1 else [0.0] * 19
    return {
        "n": len(lengths), "median": parts[9], "p95": parts[18], "rate": len(lengths) / seconds,
        "errors": sum(errors.values()), "error": next(iter(errors), ""), "bytes": size,
    }  # fmt: skip


def _restarts() -> int:
    return int(json.loads((bench.DIRECTORY / "run/farm.json").read_text())["restarts"])


def _complaints(sizes: dict[Path, int]) -> dict[str, int]:
    """How often each error is in the logs of the daemons from these sizes on, without numbers."""
    found: Counter[str] = Counter()
    for path, size in sizes.items():
        with path.open(errors="replace") as log:
            log.seek(size)
            found.update(re.sub(r"\d+", "N", match[1])[:100] for line in log if (match := _LOG_LINE.search(line)))
    return dict(found.most_common(10))


def _memory(name: str) -> float:
    """Resident memory of a daemon in MiB."""
    pids = [pid for pid in processes.of_instance(str(bench.DIRECTORY)) if processes.command_line(pid)[:1]]
    own = [pid for pid in pids if Path(processes.command_line(pid)[0]).name == name]
    words = ["ps", "-o", "rss=", "-p", ",".join(map(str, own))]
    return round(sum(map(int, subprocess.run(words, capture_output=True, text=True).stdout.split())) / 1024, 1)


def report(figures: Figures) -> str:
    """Return the table of latencies, and the long measurement in one line."""
    by_resource: dict[str, dict[int, Any]] = {}
    for one in figures["latency"]:
        by_resource.setdefault(one["resource"], {})[one["clients"]] = one
    rows = [
        [name, f"{max(one['bytes'] for one in of.values()) / 1e3:.0f}", *(_cell(of[number]) for number in CLIENTS)]
        for name, of in by_resource.items()
    ]
    long = figures["long"]
    said = (
        f"{figures['nodes']} nodes after {figures['seconds']:.0f} s; {long['clients']} clients for {long['minutes']:g} min: "
        f"{long['n']} answers, median {long['median']:.3f} s, p95 {long['p95']:.3f} s, {long['errors']} errors {long['error']}, "
        f"{long['restarts']} restarts, complaints {long['complaints'] or 'none'}, memory in MiB {long['memory_mib']}"
    )
    return markdown(("resource", "kB", *(f"{number} clients: median, p95 (s)" for number in CLIENTS)), rows) + "\n" + said


def _cell(one: Figures) -> str:
    errors = f", {one['errors']} errors" if one["errors"] else ""
    return f"{one['median']:.3f}, {one['p95']:.3f}{errors}"


def checks(figures: Figures) -> list[Check]:
    """The sandbox is there within three minutes, and no request and no daemon failed."""
    return [
        Check("seconds until the sandbox answers", figures["seconds"], 180.0),
        Check("errors of 50 clients", figures["long"]["errors"], 0),
        Check("restarted daemons", figures["long"]["restarts"], 0),
    ]


BENCHMARK = Benchmark("rest", "time of requests to a sandbox by the number of clients, PACE=1", measure, report, checks)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
