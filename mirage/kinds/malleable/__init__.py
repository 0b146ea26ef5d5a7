"""Malleable jobs, which change their size while they run."""
