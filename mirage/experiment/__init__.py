"""The course of one run: preparation, checks, calibration, playbooks and endings."""
