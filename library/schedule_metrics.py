#!/usr/bin/python
"""Ansible module: the scheduling metrics of a schedule, without any cluster."""

from __future__ import annotations

DOCUMENTATION = r"""
module: schedule_metrics
short_description: Scheduling metrics of a recorded schedule
description:
  - Computes waits, responses, slowdowns, utilisation, loss of capacity and the indices W to W4 of a schedule (docs/metrics.md).
  - The schedule is a log with waits (SWF, or what C(sacct -P) printed, plain or gzip), a run's C(jobs.csv) with the
    C(suspensions.csv) beside it, or the log of sigsleep. The file's content decides which.
  - Needs polars and numpy on the machine where it runs.
options:
  src:
    description: The file with the schedule.
    type: path
    required: true
  processors:
    description:
      - Processors of the machine.
      - Without it the C(MaxProcs) of an SWF header is taken, or the processors of the widest job of a log without one; of a run
        and of sigsleep's log, what the run's C(experiment.json) beside it says. Without that file it must be given.
    type: int
  nodes:
    description:
      - Nodes of the machine, at most O(processors).
      - Without it the C(MaxNodes) of an SWF header or the run's C(experiment.json) is taken, unless O(processors) was given;
        else W3 and W4 are null.
    type: int
  tau:
    description: Smallest run time, in seconds, that the bounded slowdown divides by.
    type: float
    default: 10.0
  w2_reading:
    description: Reading of the index W2, the wait over C(magnitude), 10^floor(log10 t), or over C(log), ln t, t being the run time.
    type: str
    choices: [magnitude, log]
    default: magnitude
  immediate_below:
    description:
      - A job that waited less than so many seconds started at once.
      - Without it 1 s, and for the files of a run what its record and a start resolve (docs/metrics.md).
    type: float
  warmup_cut:
    description:
      - What to cut from the schedule's beginning before it is measured, in seconds (C(3600)) or per cent of the time from its first
        submission to its last end (C(5%)).
      - Metrics over jobs are then of those submitted in the window that is left, metrics over time of that window.
    type: str
    default: '0'
  cooldown_cut:
    description: The same at its end.
    type: str
    default: '0'
  dest:
    description: JSON file to write the metrics to, in one step, if its content would differ.
    type: path
author:
  - The Slurm Mirage developers
attributes:
  check_mode:
    support: full
"""

EXAMPLES = r"""
- name: Metrics of a recorded log
  schedule_metrics:
    src: KTH-SP2-1996.swf.gz
  register: kth

- name: Metrics of a run, with another bound for short jobs, and without its first tenth
  schedule_metrics:
    src: results/first/jobs.csv
    tau: 60
    warmup_cut: 10%
    dest: results/first/metrics-tau60.json
"""

RETURN = r"""
metrics:
  description: metrics.json as docs/metrics.md has it, without the member C(validity) of a run.
  returned: always
  type: dict
  sample:
    jobs: {submitted: 2, completed: 2, failed: 0, cancelled: 0, timeout: 0, lost: 0, other: 0}
    metrics: {wait_mean: 10.5, W3: null}
    null_reasons: {W3: the machine's number of nodes is not known}
    settings: {tau: 10.0, processors: 100, nodes: null}
    excluded: {no start: 1}
    distribution: {nodes: [0, 3], share: [0.25, 0.75]}
    classes: [{size: 2-4, runtime: up to 1 min, size_max: 4, runtime_max: 60, jobs: 2, area_share: 1.0, wait_mean: 10.5}]
format:
  description: What the file is, one of C(swf), C(sacct), C(run) and C(sigsleep).
  returned: always
  type: str
  sample: swf
notes:
  description: Oddities found in the file, with the number of jobs that each concerns.
  returned: always
  type: dict
  sample: {ran_over_requested_time: 475}
table:
  description: The metrics for the terminal, a list of name, value, unit and meaning (or the reason for a null) each.
  returned: always
  type: list
  elements: list
"""

import json
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible.module_utils.slurm_mirage.errors import WrongUse
from ansible.module_utils.slurm_mirage.files import differs, write_atomically


def measure(params: dict[str, Any]) -> dict[str, Any]:
    """The module's result without `changed`. Raises WrongUse for a file or a setting that cannot be used."""
    # Imported late, so that a machine without them gets a message and no traceback.
    from ansible.module_utils.slurm_mirage import metrics, schedule

    recorded = schedule.read_schedule(params["src"])
    processors, nodes = params["processors"], params["nodes"]
    if processors is None and recorded.processors is None:
        raise WrongUse(f"processors: {params['src']} does not say how many the machine has, so they must be given")
    if processors is None:
        processors, nodes = recorded.processors, nodes or recorded.nodes
    found = metrics.compute(
        recorded.jobs,
        processors,
        nodes,
        params["tau"],
        suspensions=recorded.suspensions,
        w2_reading=params["w2_reading"],
        immediate_below=recorded.immediate_below if params["immediate_below"] is None else params["immediate_below"],
        warmup_cut=params["warmup_cut"],
        cooldown_cut=params["cooldown_cut"],
    )
    table = [list(row) for row in metrics.table(found)]
    return {"metrics": found, "format": recorded.format, "notes": recorded.notes, "table": table}


def write(dest: Path, metrics: dict[str, Any], check_mode: bool) -> bool:
    """Writes the metrics unless the file has them already; whether it did, or would have in check mode."""
    content = json.dumps(metrics, indent=1, allow_nan=False) + "\n"
    changed = differs(dest, content)
    if changed and not check_mode:
        write_atomically(dest, content)
    return changed


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "src": {"type": "path", "required": True},
            "processors": {"type": "int"},
            "nodes": {"type": "int"},
            "tau": {"type": "float", "default": 10.0},
            "w2_reading": {"type": "str", "choices": ["magnitude", "log"], "default": "magnitude"},
            "immediate_below": {"type": "float"},
            "warmup_cut": {"type": "str", "default": "0"},
            "cooldown_cut": {"type": "str", "default": "0"},
            "dest": {"type": "path"},
        },
        supports_check_mode=True,
    )
    dest = module.params["dest"]
    try:
        result = measure(module.params)
        changed = dest is not None and write(Path(dest), result["metrics"], module.check_mode)
    except ImportError as error:
        module.fail_json(msg=missing_required_lib(error.name or "polars"))
    except WrongUse as error:
        module.fail_json(msg=f"wrong use: {error}")
    except OSError as error:
        module.fail_json(msg=f"wrong use: dest: {dest} cannot be written ({error.strerror})")
    module.exit_json(changed=changed, **result)


if __name__ == "__main__":
    main()
