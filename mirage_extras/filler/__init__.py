"""Filler jobs, which take the nodes that the workload leaves idle (mirage_extras/filler/README.md)."""

PLACE = 2
