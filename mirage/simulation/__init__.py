"""Simulated schedulers, without Slurm."""
