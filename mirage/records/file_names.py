"""Names of the files in the folder of a run, a sweep or a comparison. Those of the manager's records are in `rm.api.Records`,
those of an aspect in its package (`mirage.aspects`).
"""

from __future__ import annotations

# ---- written before and after a run ----

EXPERIMENT_FILE = "experiment.json"
KNOBS_FILE = "knobs.yml"
"""A RUN_FILE for the same run."""
STATUS_FILE = "status.json"
CALIBRATION_FILE = "calibration.json"
ANSIBLE_LOG_FILE = "ansible.log"
WORKLOAD_FILE = "workload.csv"
WORKLOAD_SWF_FILE = "workload.swf"
PLAN_FILE = "plan.csv"
EVENTS_FILE = "events.csv"
COMPARISON_FILE = "comparison.json"
SWEEP_FILE = "sweep.csv"
SEARCH_FILE = "search.json"
PREDICTION_FILE = "predict.json"
STARTS_FILE = "starts.csv"
"""When the jobs of a prediction start."""
GATE_FILE = "gate.md"
RELEASES_FILE = "releases.json"
UPGRADE_FILE = "upgrade.md"

# ---- collected from the hosts ----

RUN_FILE = "run.json"
JOURNAL_FILE = "journal.jsonl"
DETAILS_FILE = "suspended.jsonl"
QUEUE_FILE = "queue.json"
SIGSLEEP_FILE = "sigsleep.log"
SAMPLES_FILE = "samples.csv"
SHARES_FILE = "shares.csv"
"""Exists if jobs had priorities by the shares of their accounts."""
REASONS_FILE = "reasons.csv"
PROMISES_FILE = "promises.csv"
RESULT_FILE = "result.json"
PROGRESS_FILE = "progress.json"
OFFSETS_FILE = "clock_offsets.json"
COMPLAINTS_FILE = "complaints.json"

# ---- computed ----

METRICS_FILE = "metrics.json"
JOBS_FILE = "jobs.csv"
SUSPENSIONS_FILE = "suspensions.csv"
WAITS_FILE = "waits.csv"
SCHEDULE_FILE = "schedule.swf"
ESTIMATES_FILE = "start_estimates.csv"
"""Exists if Slurm planned starts of waiting jobs."""
SACCT_FILE = "sacct.txt"
EXECUTIONS_FILE = "executions.csv"
AVAILABILITY_FILE = "availability.csv"
"""Exists if a job had more than one execution."""
ALLOCATIONS_FILE = "allocations.csv"
"""Exists if jobs could change their size."""
RECORDED_FILE = "recorded.csv"
"""What the log records of the run's jobs (docs/results.md)."""
