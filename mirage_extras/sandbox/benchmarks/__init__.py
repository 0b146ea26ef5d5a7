"""How long the REST API of a sandbox takes."""

PARTS = {"rest": "mirage_extras.sandbox.benchmarks.rest"}
"""Modules by their names in `make bench PART=NAME`."""
