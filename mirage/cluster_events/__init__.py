"""Events of a run: outages, maintenance and changes that a user gives (EVENTS) or that are generated (FAILURES, MAINTENANCE).

The replay plays them (slurm_mirage.jobs.cluster_events).
"""
