"""Collects the records of a run on a host of the cluster, for the control machine."""
