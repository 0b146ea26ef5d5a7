"""How long resizes take."""

PARTS = {"resize": "mirage_extras.malleable.benchmarks.resize"}
"""Modules by their names in `make bench PART=NAME`."""
