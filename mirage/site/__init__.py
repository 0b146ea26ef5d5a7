"""A site's own slurm.conf: its settings, nodes and partitions, and what of it took effect."""
