"""OpenPBS instead of Slurm (RM=openpbs; README.md)."""

PLACE = 3
