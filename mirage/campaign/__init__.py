"""Campaigns: comparisons and sweeps, whose runs go on one after another or side by side."""
