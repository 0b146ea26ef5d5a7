"""Clusters of growing size: start, memory of an idle node, a wide job, and what an idle cluster costs.

    python -m benchmarks.sizes [NODES ...] [--idle=SECONDS]

Each size is built from nothing by `make cluster`, looked at, made again without a change, and removed. Memory is the loss of
the host's MemAvailable from before `make cluster` until MERGE_SECONDS after all nodes are idle, so slurmctld, munged and the farm
are part of it. A size that this machine has no room for, or at which something fails, is told and left out.
"""

from __future__ import annotations

import subprocess
import sys
import time

from benchmarks import bench_instance as bench
from benchmarks import host
from benchmarks.cluster_start import MERGE_SECONDS
from benchmarks.figures import Benchmark, Check, Figures, Skipped, markdown

SIZES = (360, 3600, 16384)
WIDE = 1000  # nodes of the wide job
# slurmctld says every 300 s which nodes have not answered (controller.c, no_resp_msg_interval): the first time, of those whose
# slurmd were not there yet when it first asked.
FIRST_REPORT = 310.0
LOOK_EVERY = 60.0  # seconds between two looks at the nodes' states: one costs slurmctld as much as a minute of silence
NODE_BOUND, GROWTH_BOUND = host.NODE_MIB, 1.4  # MiB of an idle node, and of the largest cluster against the one before
MAKE_BOUND, AGAIN_BOUND = 90.0, 20.0  # seconds, for SIZES[1]
IDLE_BOUND = 360.0  # seconds until all nodes are idle, for SIZES[2]
CPU_BOUND = 15.0  # per cent of one core, of an idle cluster


def measure(*sizes: int, idle: int = 600) -> Figures:
    """{"sizes": [figures of each (see _of_size), or {"nodes", "left_out": why}]}."""
    return {"sizes": [_told(nodes, idle) for nodes in sizes or SIZES]}


def _told(nodes: int, idle: int) -> Figures:
    print(f"  {nodes} nodes", flush=True)
    try:
        return _of_size(nodes, idle)
    except (Skipped, RuntimeError, TimeoutError, subprocess.SubprocessError) as why:
        print(f"  {nodes} nodes: left out: {why}", flush=True)
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
        host.pause(max(0.0, began + FIRST_REPORT - time.monotonic()), "slurmctld has told of the start")
        figures["silent_before"] = _silent(0)
        figures["job"] = bench.batch_job(min(WIDE, nodes))
        bench.wait_for_nodes(nodes)
        figures["idle"] = _idle(idle)
        again = bench.make("cluster", NODES=nodes, STEPS="no")
        figures |= {"again_seconds": again.seconds, "again_changed": again.changed}
    return figures


def _idle(seconds: int) -> Figures:
    """What the cluster does when there is nothing to do.

    `silent` are slurmctld's complaints of nodes that do not respond, `silent_looks` the looks at sinfo that saw one. CPU is a share
    of one core in per cent: of the instance's processes and ksmd, and of the host as a whole.
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
    """What slurmctld's log says from there on of nodes that do not respond: how many complaints, of how many nodes in all."""
    with (bench.DIRECTORY / "log/slurmctld.log").open(errors="replace") as log:
        log.seek(beginning)
        lines = [line for line in log if "not responding" in line]
    named = ",".join(line.partition("Nodes ")[2].split(" ")[0] for line in lines if "Nodes " in line)
    nodes = len(bench.output("scontrol", "show", "hostnames", named).splitlines()) if named else 0
    return {"complaints": len(lines), "nodes": nodes}


def report(figures: Figures) -> str:
    """A column for each size."""
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
        ["memory at once, MiB a node", *(one["memory_mib"] / one["nodes"] for one in sizes)],
        [f"memory {MERGE_SECONDS:.0f} s later, MiB a node", *(one["memory_merged_mib"] / one["nodes"] for one in sizes)],
        ["batch job, nodes", *(one["job"]["nodes"] for one in sizes)],
        ["batch job, s to its end", *(one["job"]["seconds"] for one in sizes)],
        ["idle, s", *(one["idle"]["seconds"] for one in sizes)],
        ["complaints of silent nodes before that", *(one["silent_before"]["complaints"] for one in sizes)],
        ["complaints of silent nodes while idle", *(one["idle"]["silent"]["complaints"] for one in sizes)],
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
    """The bounds of each size; those of `make cluster` are meant for SIZES[1] and less."""
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
