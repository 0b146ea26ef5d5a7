"""Programs that run as separate processes on a host: python3 -m slurm_mirage.programs.NAME."""
