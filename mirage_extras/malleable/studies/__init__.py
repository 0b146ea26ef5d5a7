"""Malleable jobs against fixed ones, as published (study.md)."""

STUDIES = {
    "malleable": ("mirage_extras.malleable.studies.study", "study_malleable"),
    "malleable-share": ("mirage_extras.malleable.studies.study", "study_malleable_share"),
}
"""Module and function of each study."""
