"""Start-up time and memory of the emulated nodes: the farm against a bare loop of `slurmd -N`, in one run.

    PYTHONPATH=module_utils python -m benchmarks.cluster_start [NODES]

Both start munged, slurmctld and all slurmd with the same slim files, and are measured to the moment at which slurmctld says
that every node is idle, on a host that does nothing else. The loop has what a shell script would have: no address layout in
common, no merged memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from benchmarks import bench_instance as bench

MERGE_SECONDS = 60.0  # after which the memory is measured again: ksmd needs several passes


def measure(nodes: int = 360) -> dict[str, object]:
    """Figures of both (see bench_instance.Cost), the same for a node, and the farm's as a share of the loop's."""
    with bench.built(nodes):
        farm = _cost(nodes, _start_farm)
        loop = _cost(nodes, _start_loop)
    figures = {"farm": asdict(farm), "loop": asdict(loop)}
    ratio = {key: figures["farm"][key] / figures["loop"][key] for key in figures["farm"]}
    per_node = {kind: {key: value / nodes for key, value in cost.items()} for kind, cost in figures.items()}
    return {"nodes": nodes, **figures, "per_node": per_node, "ratio": ratio}


def _cost(nodes: int, start: Callable[[], None]) -> bench.Cost:
    bench.stop()
    # Without its saved state slurmctld believes in no node until it has registered.
    for path in (bench.DIRECTORY / "state").iterdir():
        path.unlink()
    before, cpu_before, began = bench.settled_mib(), bench.cpu_seconds(), time.monotonic()
    start()
    bench.wait_for_nodes(nodes)
    seconds, cpu, memory = time.monotonic() - began, bench.cpu_seconds() - cpu_before, before - bench.available_mib()
    time.sleep(MERGE_SECONDS)
    merged = before - bench.available_mib()
    bench.stop()
    return bench.Cost(seconds, cpu, memory, merged)


def _start_farm() -> None:
    library = {"PYTHONPATH": str(bench.DIRECTORY / "lib")}
    subprocess.Popen(
        ["/usr/bin/python3", "-m", "slurm_mirage.farm", "run", str(bench.DIRECTORY)],
        env={**bench.environment(), **library},
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )


def _start_loop() -> None:
    """munged, slurmctld and the slurmd, each as the farm's specification has it, one after the other by a shell."""
    spec = json.loads((bench.DIRECTORY / "etc/farm.json").read_text())
    lines = [f"hostname {spec['hostname']}"]
    for daemon in spec["daemons"]:
        command = " ".join(bench.as_user(*daemon["command"])) + " >/dev/null 2>&1 &"
        if "count" in daemon:
            numbers = f"{daemon['first']} {daemon['first'] + daemon['count'] - 1}"
            lines.append(f"for i in $(seq {numbers}); do {command.replace('{i}', '$i')} done")
        else:
            lines += [command, f"until [ -e {daemon['ready_file']} ]; do sleep 0.05; done"]
    for daemon in spec["daemons"]:
        Path(daemon["ready_file"]).unlink(missing_ok=True)
    subprocess.run(["unshare", "--uts", "sh", "-c", "\n".join(lines)], env=bench.environment(), check=True)


def report(figures: dict[str, object]) -> str:
    """A table of `measure`'s figures."""
    rows = [
        ("start to all nodes idle, s", "seconds", 1),
        ("CPU time, ms a node", "cpu_seconds", 1000 / int(str(figures["nodes"]))),
        ("memory, MiB a node", "memory_mib", 1 / int(str(figures["nodes"]))),
        (f"memory after {MERGE_SECONDS:.0f} s, MiB a node", "memory_merged_mib", 1 / int(str(figures["nodes"]))),
    ]
    lines = [f"{figures['nodes']} nodes{'':24} {'farm':>9} {'bare loop':>10} {'ratio':>7}"]
    for title, key, factor in rows:
        farm, loop, ratio = (figures[kind][key] for kind in ("farm", "loop", "ratio"))  # type: ignore[index]
        lines.append(f"{title:<34} {farm * factor:>9.2f} {loop * factor:>10.2f} {ratio:>7.2f}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(report(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 360)))
