"""Gain and cost of filler jobs, as published (study.md)."""

STUDIES = {"filler": ("mirage_extras.filler.studies.study", "study_filler")}
"""Module and function of each study."""
