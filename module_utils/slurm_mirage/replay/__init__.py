"""The replay of a workload: submission, monitoring, recovery and the journal."""
