"""Resource managers: what a replay needs of one (api), its implementations, and which one a run has (registry)."""
