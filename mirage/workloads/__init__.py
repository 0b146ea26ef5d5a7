"""Workloads: selection from logs, models, characterisation, and what is submitted."""
