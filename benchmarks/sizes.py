"""Measures clusters of increasing size: start-up time, memory per idle node, a wide job, and the CPU time of an idle cluster.

    python -m benchmarks.sizes [NODES ...] [--idle=SECONDS]

Each cluster is built by `make cluster`, measured, built again without a change, and removed. Memory is the decrease of the host's
MemAvailable from before `make cluster` until MERGE_SECONDS after all nodes are idle, including slurmctld, munged and the farm. A
size for which this machine is too small, or that fails, is reported and left out.
"""

from __future__ import annotations

import subprocess
import sys
import time

from benchmarks import bench_instance as bench
from benchmarks import host
from benchmarks.cluster_start import MERGE_SECONDS
from benchmarks.figures import Benchmark, Check, Figures, Skipped, markdown
from slurm_mirage.base.printing import say

SIZES = (360, 3600, 16384)
WIDE = 1000  # number of nodes of the wide job
# slurmctld logs every 300 s which nodes have not responded (controller.c, no_resp_msg_interval). The first message names the nodes
# whose slurmd had not started when slurmctld first contacted them.
FIRST_REPORT = 310.0
LOOK_EVERY = 60.0  # seconds between two queries of the nodes' states: a query costs slurmctld as much as a minute of idling
NODE_BOUND, GROWTH_BOUND = host.NODE_MIB, 1.4  # MiB per idle node, and the ratio of the largest cluster's to that of the one before
MAKE_BOUND, AGAIN_BOUND = 90.0, 20.0  # seconds of both `make cluster`, for SIZES[1]
IDLE_BOUND = 360.0  # seconds until all nodes are idle, for SIZES[2]
CPU_BOUND = 15.0  # CPU time of an idle cluster, in per cent of one core


def measure(*sizes: int, idle: int = 600) -> Figures:
    """Return {"sizes": [figures of each size (see _of_size), or {"nodes", "left_out": reason}]}."""
    return {"sizes": [_measured_or_left_out(nodes, idle) for nodes in sizes or SIZES]}


def _measured_or_left_out(nodes: int, idle: int) -> Figures:
    say(f"  {nodes} nodes")
    try:
        return _of_size(nodes, idle)
    except (Skipped, RuntimeError, TimeoutError, subprocess.SubprocessError) as why:
        say(f"  {nodes} nodes: left out: {why}")
        return {"nodes": nodes, "left_out": str(why)}


def _of_size(nodes: int, idle: int) -> Figures:
    before = host.settled_mib()
    host.require(nodes)
    with bench.reserved():
        began, cpu = time.monotonic(), host.cpu_seconds()
        made = bench.make("cluster", NODES=nodes, STEPS="no")
        bench.wait_for_nodes(nodes)
        figures: Figures = {
            "nodes": nodes,
            "make_seconds": made.seconds,
            "idle_after_seconds": round(time.monotonic() - began, 2),
            "cpu_seconds": round(host.cpu_seconds() - cpu, 2),
            "memory_mib": round(before - host.available_mib(), 1),
            "lowest_available_mib": made.lowest_mib,
        }
        host.pause(MERGE_SECONDS, "pages are merged")
        figures["memory_merged_mib"] = round(before - host.available_mib(), 1)
        host.pause(max(0.0, began + FIRST_REPORT - time.monotonic()), "slurmctld logs the nodes that did not respond at the start")
        figures["silent_before"] = _silent(0)
        figures["job"] = bench.batch_job(min(WIDE, nodes))
        bench.wait_for_nodes(nodes)
        figures["idle"] = _idle(idle)
        again = bench.make("cluster", NODES=nodes, STEPS="no")
        figures |= {"again_seconds": again.seconds, "again_changed": again.changed}
    return figures


def _idle(seconds: int) -> Figures:
    """Measure the idle cluster for some seconds.

    In the result, `silent` counts slurmctld's messages about nodes that do not respond, `silent_looks` holds the outputs of sinfo
    with such a node. CPU time is in per cent of one core: of the instance's processes and ksmd, and of the whole host.
    """
    log = bench.DIRECTORY / "log/slurmctld.log"
    beginning = log.stat().st_size
    pids = bench.members()
    before, ksmd, whole, began = host.account(pids), host.ksmd_seconds(), host.cpu_seconds(), time.monotonic()
    looks = []
    while (left := began + seconds - time.monotonic()) > 0:
        host.pause(min(LOOK_EVERY, left), f"idle, {left:.0f} s to go")
        looks.append(bench.node_states())
    took, whole, ksmd = time.monotonic() - began, host.cpu_seconds() - whole, host.ksmd_seconds() - ksmd
    by_command = {**host.spent(before, host.account(pids)), "ksmd": round(ksmd, 2)}
    return {
        "seconds": round(took, 1),
        "cpu_seconds": by_command,
        "cpu_percent": 100 * sum(by_command.values()) / took,
        "host_percent": 100 * whole / took,
        "silent": _silent(beginning),
        "silent_looks": [states for states in looks if "*" in states],
    }


def _silent(beginning: int) -> Figures:
    """Count the messages about nodes that do not respond, and these nodes, in slurmctld's log from the byte `beginning` on."""
    with (bench.DIRECTORY / "log/slurmctld.log").open(errors="replace") as log:
        log.seek(beginning)
        lines = [line for line in log if "not responding" in line]
    named = ",".join(line.partition("Nodes ")[2].split(" ")[0] for line in lines if "Nodes " in line)
    nodes = len(bench.output("scontrol", "show", "hostnames", named).splitlines()) if named else 0
    return {"complaints": len(lines), "nodes": nodes}


def report(figures: Figures) -> str:
    """Return a table with a column for each size."""
    sizes = [one for one in figures["sizes"] if "left_out" not in one]
    left_out = [f"{one['nodes']} nodes left out: {one['left_out']}" for one in figures["sizes"] if "left_out" in one]
    if not sizes:
        return "\n".join(left_out)
    rows = [
        ["`make cluster`, s", *(one["make_seconds"] for one in sizes)],
        ["`make cluster` again, s", *(one["again_seconds"] for one in sizes)],
        ["to all nodes idle, s", *(one["idle_after_seconds"] for one in sizes)],
        ["CPU time of the host until then, s", *(one["cpu_seconds"] for one in sizes)],
        ["lowest MemAvailable until then, GiB", *(one["lowest_available_mib"] / 1024 for one in sizes)],
        ["memory immediately, MiB a node", *(one["memory_mib"] / one["nodes"] for one in sizes)],
        [f"memory {MERGE_SECONDS:.0f} s later, MiB a node", *(one["memory_merged_mib"] / one["nodes"] for one in sizes)],
        ["batch job, nodes", *(one["job"]["nodes"] for one in sizes)],
        ["batch job, s to its end", *(one["job"]["seconds"] for one in sizes)],
        ["idle, s", *(one["idle"]["seconds"] for one in sizes)],
        ["messages about nodes not responding, before that", *(one["silent_before"]["complaints"] for one in sizes)],
        ["messages about nodes not responding, while idle", *(one["idle"]["silent"]["complaints"] for one in sizes)],
        ["idle: CPU of its processes and ksmd, % of a core", *(one["idle"]["cpu_percent"] for one in sizes)],
        *([f"of that {name}, %", *(_share(one["idle"], name) for one in sizes)] for name in _commands(sizes)),
        ["idle: CPU of the host, % of a core", *(one["idle"]["host_percent"] for one in sizes)],
    ]
    return "\n".join([*left_out, "", markdown(("nodes", *(str(one["nodes"]) for one in sizes)), rows)])


def _commands(sizes: list[Figures]) -> list[str]:
    return sorted({name for one in sizes for name in one["idle"]["cpu_seconds"]})


def _share(idle: Figures, name: str) -> float:
    return 100 * float(idle["cpu_seconds"].get(name, 0.0)) / float(idle["seconds"])


def checks(figures: Figures) -> list[Check]:
    """Check the bounds of each size; those of `make cluster` apply up to SIZES[1]."""
    sizes = [one for one in figures["sizes"] if "left_out" not in one]
    result = [Check("sizes that were left out", len(figures["sizes"]) - len(sizes), 0)]
    for one in sizes:
        result += _checks_of(one, f"{one['nodes']} nodes: ")
    if len(sizes) > 1:
        before, last = sizes[-2:]
        growth = (last["memory_merged_mib"] / last["nodes"]) / (before["memory_merged_mib"] / before["nodes"])
        result.append(Check(f"memory a node, {last['nodes']} / {before['nodes']} nodes", growth, GROWTH_BOUND))
    return result


def _checks_of(one: Figures, what: str) -> list[Check]:
    silent = one["idle"]["silent"]["complaints"] + len(one["idle"]["silent_looks"])
    result = [
        Check(f"{what}memory, MiB an idle node", one["memory_merged_mib"] / one["nodes"], NODE_BOUND),
        Check(f"{what}all idle, s", one["idle_after_seconds"], IDLE_BOUND),
        Check(f"{what}`make cluster` again, changed", one["again_changed"], 0),
        Check(f"{what}jobs over {one['job']['nodes']} nodes that did not complete", one["job"]["state"] != "COMPLETED", 0),
        Check(f"{what}reports of silent nodes in {one['idle']['seconds']:.0f} s", silent, 0),
        Check(f"{what}idle, CPU of its processes and ksmd, % of a core", one["idle"]["cpu_percent"], CPU_BOUND),
    ]
    if one["nodes"] <= SIZES[1]:
        result.append(Check(f"{what}`make cluster`, s", one["make_seconds"], MAKE_BOUND))
        result.append(Check(f"{what}`make cluster` again, s", one["again_seconds"], AGAIN_BOUND))
    return result


BENCHMARK = Benchmark("scale_sizes", "clusters of growing size: start, memory, a wide job, idling", measure, report, checks)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
