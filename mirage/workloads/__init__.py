"""Workloads: selection from logs, workload models, characterisation, and preparation of the jobs to submit."""
