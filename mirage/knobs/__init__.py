"""Knobs: the table, the parsers of values, and the values of a call."""
