"""Simulated schedulers, without Slurm, and the export of schedules in Batsim's format."""
