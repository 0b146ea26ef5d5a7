"""Slurm: its commands, configuration, states, logs and releases. No other package knows them."""
