"""Which settings of slurm.conf are tried next by a search, and what its trials tell. Nothing here runs a cluster."""
