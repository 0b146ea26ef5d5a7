"""Filler jobs, which take the nodes that the workload leaves idle (docs/filler.md)."""

PLACE = 2
