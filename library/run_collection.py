#!/usr/bin/python
"""Ansible module: joins the records of a run, computes its metrics and checks its validity."""

from __future__ import annotations

DOCUMENTATION = r"""
module: run_collection
short_description: Collect a run's records into jobs.csv, schedule.swf and metrics.json
description:
  - Joins the replay's journal, Slurm's job completion log and sigsleep's log into one row per job, in trace time.
  - Computes the metrics of the schedule, and checks whether the emulation has distorted it.
  - Runs on the control machine, to which the records have been copied. Needs polars.
extends_documentation_fragment: [shared]
options:
  run_dir:
    description:
      - Folder of the run on the control machine. It contains C(workload.csv), C(plan.csv), C(run.json), C(journal.jsonl),
        C(jobcomp.log), C(sigsleep.log), or an archive C(.records/HOST.tar.gz) of each host (these are unpacked and joined).
        Optional files are C(suspended.jsonl), C(samples.csv), C(shares.csv), C(reasons.csv), C(sdiag.csv), C(result.json),
        C(progress.json), C(scontrol.txt) and C(clock_offsets.json).
      - C(jobs.csv), C(suspensions.csv), C(schedule.swf) and C(metrics.json) are written there, and C(executions.csv) if jobs were
        requeued.
    type: path
    required: true
  processors:
    description: Processors of the emulated machine.
    type: int
    required: true
  nodes:
    description: Nodes of the emulated machine.
    type: int
    required: true
  tau:
    description: Lower bound, in seconds, of the run time in the bounded slowdown.
    type: float
    default: 10
  warmup_cut:
    description:
      - What is cut off the beginning of the schedule before it is measured, in seconds of trace time or per cent (5%).
    type: str
    default: "0"
  cooldown_cut:
    description: The same at its end.
    type: str
    default: "0"
  thresholds:
    description: Bounds of a valid run by name, which replace the defaults (docs/validity.md).
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Collect the results of a run
  run_collection:
    run_dir: results/first
    processors: 5760
    nodes: 360
    thresholds:
      submit_lag_share: 0.02
  delegate_to: localhost
"""

RETURN = r"""
metrics:
  description: Content of metrics.json; its member C(validity) is the result of the validity checks.
  returned: always
  type: dict
disagreements:
  description: Number of contradictions between sigsleep's and Slurm's records, by kind.
  returned: always
  type: dict
"""

from pathlib import Path

from ansible.module_utils.module_main import AnsibleModule, Result, module_main

# The module runs on the control machine only, by the Python of .venv, which has both packages installed.
try:
    from mirage.records.archives import unpack
    from mirage.records.run_folder import RunFolder
    from mirage.verdict.run_results import results
    from slurm_mirage.base.errors import WrongUse
    from slurm_mirage.base.files import differs, write_atomically
except ImportError as error:
    MISSING = str(error)
else:
    MISSING = ""


@module_main(DOCUMENTATION)
def main(module: AnsibleModule) -> Result:
    if MISSING:
        raise RuntimeError(f"the control machine lacks a package ({MISSING}); make installs it into .venv")
    folder = Path(module.params["run_dir"])
    if not module.check_mode:
        unpack(folder)
    try:
        given = {name: module.params[name] for name in ("processors", "nodes", "tau", "thresholds")}
        collected = results(RunFolder(folder), **given, cuts=(module.params["warmup_cut"], module.params["cooldown_cut"]))
    except WrongUse as error:  # that of the package in .venv, which `module_main` does not know
        raise RuntimeError(error.module_message()) from error
    outdated = [name for name, content in collected.files.items() if differs(folder / name, content)]
    if not module.check_mode:
        for name in outdated:
            write_atomically(folder / name, collected.files[name])
    return {"changed": bool(outdated), "metrics": collected.metrics, "disagreements": collected.disagreements}


if __name__ == "__main__":
    main()
