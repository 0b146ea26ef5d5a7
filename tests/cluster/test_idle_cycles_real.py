"""Idle backfill cycles and seconds that are left out (files/virtual_clock/idle_cycles.c, idle_seconds.c) change no schedule:
workloads and configurations, each with and without them.

Needs root, and builds a cluster of its own name; 20 to 30 minutes, so it is skipped without IDLE_CYCLES:

    IDLE_CYCLES=yes pytest -m cluster tests/cluster/test_idle_cycles_real.py

Without them: with bf_min_prio_reserve=1, which changes nothing else, as all priorities are higher, no cycle is taken for idle.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif("IDLE_CYCLES" not in os.environ, reason="skipped: IDLE_CYCLES=yes plays eleven workloads twice"),
]

ROOT = Path(__file__).parents[2]
CLUSTER = "idle-cycles"
HEAD = """\
ClusterName=idle
SlurmctldHost=head
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
"""
NODES = "NodeName=n[1-{nodes}] CPUs={cpus}\nPartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n"
SHARES = """\
PriorityType=priority/multifactor
PriorityWeightFairshare=100000
PriorityWeightAge=10000
PriorityMaxAge=0-6
PriorityDecayHalfLife=1-0
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageEnforce=associations,limits,qos
"""
AGE = "PriorityType=priority/multifactor\nPriorityWeightAge=1000\nPriorityWeightJobSize=1000\nPriorityMaxAge=0-2\n"
LUBLIN = "MODEL=lublin JOBS=150"
EVENTS = """\
1h,drain,n[1-3],disks
2h,set,partition batch,MaxTime=2-00:00:00
3h,hold,20,
4h,resume,n[1-3],
5h,reserve,upgrade,start=8h duration=2h nodes=ALL flags=MAINT
6h,release-job,20,
7h,cancel,30,
13h,set,node n5,Weight=9
9h,release,upgrade,
"""
PAIRS = {
    "plain": (8, 4, "", f"{LUBLIN} LOAD=1.2"),
    "short window": (16, 4, "SchedulerParameters=bf_window=60\n", f"{LUBLIN} LOAD=1.5 SEED=2"),
    "long window": (16, 4, "SchedulerParameters=bf_window=10080,bf_resolution=600\n", f"{LUBLIN} SEED=3"),
    "limits that are reached": (16, 4, "OverTimeLimit=5\n", f"{LUBLIN} LOAD=1.2 SEED=4 OVERRUN=kill"),
    "few jobs a user": (16, 4, "SchedulerParameters=bf_max_job_user=2,bf_continue\n", f"{LUBLIN} LOAD=1.5 SEED=5 ACCOUNTING=yes"),
    "few jobs a cycle": (16, 4, "SchedulerParameters=bf_max_job_test=3,bf_interval=10\n", f"{LUBLIN} LOAD=1.5 SEED=6"),
    "ages": (16, 4, AGE, f"{LUBLIN} LOAD=1.5 SEED=7"),
    "shares": (16, 4, SHARES, f"{LUBLIN} LOAD=1.3 SEED=8"),
    "young jobs without reservations": (
        16, 4, f"{AGE}SchedulerParameters=bf_min_age_reserve=3600\n", f"{LUBLIN} LOAD=1.5 SEED=9",
    ),
    "events": (16, 4, "", f"{LUBLIN} LOAD=1.5 SEED=10"),
    "whole nodes of a model with many short jobs": (20, 8, "", "MODEL=raijin JOBS=200 LOAD=2"),
}  # fmt: skip


def play(conf: Path, run: str, words: str) -> Path:
    """Play a workload; returns the run's folder, whatever the verdict."""
    command = ["make", "experiment", f"CLUSTER={CLUSTER}", f"SLURM_CONF={conf}", f"RUN={run}", *words.split()]
    environment = {name: value for name, value in os.environ.items() if not name.isupper() or name in ("PATH", "HOME", "LANG")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    folder = ROOT / "results" / run
    assert (folder / "metrics.json").is_file(), done.stdout[-2000:] + done.stderr[-2000:]
    return folder


def left_out(folder: Path) -> int:
    return int(json.loads((folder / "metrics.json").read_text())["validity"]["event_clock"]["idle_cycles"])


@pytest.mark.parametrize("name", PAIRS)
def test_the_schedule_is_the_same(tmp_path: Path, name: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("skipped: only root can build a cluster")
    nodes, cpus, settings, words = PAIRS[name]
    found = []
    given = re.search(r"^SchedulerParameters=(.*)\n", settings, re.MULTILINE)
    parameters = [given[1]] if given else []
    others = settings.replace(given[0], "") if given else settings
    if name == "events":
        (tmp_path / "events.csv").write_text("instant,action,target,argument\n" + EVENTS)
        words += f" EVENTS={tmp_path / 'events.csv'}"
    for which, more in (("without", ["bf_min_prio_reserve=1"]), ("with", ["bf_interval=30"] if not given else [])):
        conf = tmp_path / f"{which}.conf"
        line = f"SchedulerParameters={','.join(parameters + more)}\n"
        conf.write_text(HEAD + others + line + NODES.format(nodes=nodes, cpus=cpus))
        found.append(play(conf, f"idle-{name.replace(' ', '-')}-{which}-{os.getpid()}", words))
    every, few = found
    assert left_out(every) == 0
    assert (few / "jobs.csv").read_bytes() == (every / "jobs.csv").read_bytes()
    if name not in ("young jobs without reservations", "short window"):
        assert left_out(few) > 0


def test_the_cluster_is_removed() -> None:
    subprocess.run(["make", "teardown", f"CLUSTER={CLUSTER}"], cwd=ROOT, capture_output=True, check=True)
