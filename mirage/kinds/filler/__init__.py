"""Filler jobs, which run on nodes that the workload leaves idle."""
