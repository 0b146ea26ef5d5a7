"""Readers and writers of recorded logs: SWF, sacct and CSV."""
