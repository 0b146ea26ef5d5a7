"""Metrics of a schedule, given as a frame of jobs."""
