"""Thresholds below which a job counts as started immediately, in trace seconds.

They do not grow with SPEED or SHRINK: a metric whose meaning depends on how a run was made cannot be compared. A run that resolves
too little for the threshold says so (inconclusive_metrics of its verdict).
"""

OF_RUNS = 60.0
"""Of an emulated run: a wait that a user hardly notices, and that is long against what a run resolves."""
OF_LOGS = 1.0
"""Of a recorded log, which has whole seconds: a job that started in the second of its submission."""
