"""A run on a machine with new nodes, with a schedule that is worked by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import simulated_runs

from mirage.metrics.jobs_frame import JOBS_SCHEMA, WAITS_SCHEMA
from mirage.records.run_folder import RunFolder
from slurm_mirage.jobs.plan import PlanRow, write_plan
from slurm_mirage.rm.slurm.layout import parse_layout

CONF = """NodeName=n[1-2] CPUs=4 NodeAddr=127.0.0.1
NodeName=n3 CPUs=4
NodeName=g1 CPUs=4 Gres=gpu:a100:2 Feature=fast
PartitionName=a Nodes=n[1-3]
PartitionName=g Nodes=g1
"""
CLASSES = [
    {"prefix": "n", "first": 1, "count": 2, "cpus": 4, "extra": {"Weight": "1"}},
    {"prefix": "n", "first": 3, "count": 1, "cpus": 4, "extra": {"Weight": "5"}},
    {"prefix": "g", "first": 1, "count": 1, "cpus": 4, "extra": {"Gres": "gpu:a100:2"}},
]
# Submission, start, end, processors, partition, nodes, request.
JOBS = (
    (0, 0, 60, 4, "a", "n1", ""),
    (0, 0, 100, 2, "a", "n2", ""),
    (10, 60, 100, 4, "a", "n3", ""),
    (20, 80, 130, 1, "g", "g1", "gres=gpu:a100:1"),
    (100, 100, 110, 1, "a", "n1", ""),
)
WAITS = ((3, 10.0, 60.0, "QOS limit", "QOSMaxJobsPerUserLimit"), (4, 20.0, 80.0, "resources", ""))


def a_run(
    folder: Path, jobs: tuple[tuple[Any, ...], ...] = JOBS, waits: tuple[tuple[Any, ...], ...] = WAITS, conf: str = CONF
) -> RunFolder:
    """Writes a run with these jobs, numbered from 1 on. conf: slurm.conf, of nodes with 4 processors"""
    layout = parse_layout(conf)
    assert layout is not None
    nodes = len(layout.nodes)
    rows = {
        "id": range(1, len(jobs) + 1),
        **{name: [job[place] for job in jobs] for place, name in enumerate(("submit", "start", "end", "processors", "partition"))},
        "runtime": [job[2] - job[1] for job in jobs],
    }
    frame = pl.DataFrame({**dict.fromkeys(JOBS_SCHEMA), **rows, "suspended": 0.0, "state": "COMPLETED", "nodes": 1})
    frame = frame.select(pl.col(name).cast(kind) for name, kind in JOBS_SCHEMA.items())
    classes = json.dumps(CLASSES) if conf == CONF else ""
    simulated_runs.write(folder, frame, nodes, 4, CLASSES=classes)
    (folder / "slurm.conf").write_text(conf)
    lines = [f"JobId={k} Name={folder.name}.{k} JobState=COMPLETED NodeList={job[5]} NodeCnt=1" for k, job in enumerate(jobs, 1)]
    (folder / "jobcomp.log").write_text("\n".join(lines) + "\n")
    pl.DataFrame(waits, schema=WAITS_SCHEMA, orient="row").write_csv(folder / "waits.csv")
    plan = [
        PlanRow(
            k - 1, k, float(job[0]), job[3], None, float(job[2] - job[1]), 5, None, job[4], f"r.{k}", "", "", None, request=job[6]
        )
        for k, job in enumerate(jobs, 1)
    ]
    write_plan(folder / "plan.csv", plan)
    return RunFolder(folder)
