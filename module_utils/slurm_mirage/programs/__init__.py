"""Programs that run as processes of their own on a host: python3 -m slurm_mirage.programs.NAME."""
